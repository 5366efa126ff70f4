package api

import (
	"errors"

	"github.com/valyala/fasthttp"

	"queend/api/jsonscan"
	"queend/broker"
)

// failedFiles are records of the spool that were set aside, each a file.
type failedFiles struct {
	Count      int64 `json:"count"`
	TotalBytes int64 `json:"totalBytes"`
	TotalMB    two   `json:"totalMB"`
	Failovers  int64 `json:"failoverCount"`
	QoS0       int64 `json:"qos0Count"` // a class of messages that is not known here: always 0
}

// bufferStats is the spool in the answer of GET /system/maintenance.
type bufferStats struct {
	Pending int64       `json:"pendingCount"`
	Failed  int64       `json:"failedCount"`
	Healthy bool        `json:"dbHealthy"`
	Files   failedFiles `json:"failedFiles"`
}

func bufferStatsOf(s *broker.MaintenanceStatus) bufferStats {
	return bufferStats{s.Buffered, s.FailedFiles, s.Healthy, failedFiles{
		Count: s.FailedFiles, TotalBytes: s.FailedBytes, TotalMB: two(float64(s.FailedBytes) / (1 << 20)), Failovers: s.FailedFiles,
	}}
}

// maintenancePage is the answer of GET /api/v1/system/maintenance.
type maintenancePage struct {
	On       bool        `json:"maintenanceMode"`
	Pops     bool        `json:"popMaintenanceMode"`
	Buffered int64       `json:"bufferedMessages"`
	Healthy  bool        `json:"bufferHealthy"`
	Stats    bufferStats `json:"bufferStats"`
}

// maintenance answers GET /api/v1/system/maintenance (docs/rules.md, S10).
func (r *request) maintenance() {
	ctx, cancel := r.within()
	defer cancel()
	s, err := r.broker.MaintenanceStatus(ctx)
	if err != nil {
		r.unmanaged(err, "maintenance")
		return
	}
	r.answer(fasthttp.StatusOK, maintenancePage{s.Maintenance, s.PopMaintenance, s.Buffered, s.Healthy, bufferStatsOf(&s)})
}

// readEnabled reads the body of a switch; ok is false when it has answered
// with a refusal.
func (r *request) readEnabled() (on, ok bool) {
	err := r.readBody(true, func(key string, v jsonscan.Value) (err error) {
		if key == "enabled" {
			on, err = v.Bool()
			ok = err == nil
			if errors.Is(err, jsonscan.ErrNotBool) {
				err = nil
			}
		}
		return err
	})
	switch {
	case err != nil:
		r.badBody(err)
		return false, false
	case !ok:
		r.badRequest("enabled (boolean) is required")
	}
	return on, ok
}

// maintenanceSet is the answer of POST /api/v1/system/maintenance.
type maintenanceSet struct {
	On       bool   `json:"maintenanceMode"`
	Buffered int64  `json:"bufferedMessages"`
	Healthy  bool   `json:"bufferHealthy"`
	Message  string `json:"message"`
}

// setMaintenance answers POST /api/v1/system/maintenance.
func (r *request) setMaintenance() {
	on, ok := r.readEnabled()
	if !ok {
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	s, err := r.broker.SetMaintenance(ctx, on)
	if err != nil {
		r.unmanaged(err, "maintenance")
		return
	}
	message := "Maintenance mode DISABLED. Background processor will drain buffer to DB."
	if on {
		message = "Maintenance mode ENABLED. All PUSHes routing to file buffer."
	}
	r.answer(fasthttp.StatusOK, maintenanceSet{s.Maintenance, s.Buffered, s.Healthy, message})
}

// popMaintenance answers GET /api/v1/system/maintenance/pop.
func (r *request) popMaintenance() {
	ctx, cancel := r.within()
	defer cancel()
	s, err := r.broker.MaintenanceStatus(ctx)
	if err != nil {
		r.unmanaged(err, "maintenance")
		return
	}
	message := "Pop maintenance mode is OFF. Normal operation."
	if s.PopMaintenance {
		message = "Pop maintenance mode is ON. All POP operations return empty arrays."
	}
	r.answerPopMaintenance(s.PopMaintenance, message)
}

// setPopMaintenance answers POST /api/v1/system/maintenance/pop.
func (r *request) setPopMaintenance() {
	on, ok := r.readEnabled()
	if !ok {
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	s, err := r.broker.SetPopMaintenance(ctx, on)
	if err != nil {
		r.unmanaged(err, "maintenance")
		return
	}
	message := "Pop maintenance mode DISABLED. Normal operation resumed."
	if on {
		message = "Pop maintenance mode ENABLED. All POP operations will return empty arrays."
	}
	r.answerPopMaintenance(s.PopMaintenance, message)
}

// popMaintenancePage is the answer of GET and POST …/maintenance/pop.
type popMaintenancePage struct {
	On      bool   `json:"popMaintenanceMode"`
	Message string `json:"message"`
}

func (r *request) answerPopMaintenance(on bool, message string) {
	r.answer(fasthttp.StatusOK, popMaintenancePage{on, message})
}

// sharedStatePage is the answer of GET /api/v1/system/shared-state.
type sharedStatePage struct {
	Enabled bool   `json:"enabled"`
	Reason  string `json:"reason"`
	Pushes  bool   `json:"maintenance_mode"`
	Pops    bool   `json:"pop_maintenance_mode"`
}

// sharedState answers GET /api/v1/system/shared-state: a single node shares
// nothing.
func (r *request) sharedState() {
	ctx, cancel := r.within()
	defer cancel()
	s, err := r.broker.MaintenanceStatus(ctx)
	if err != nil {
		r.unmanaged(err, "shared state")
		return
	}
	r.answer(fasthttp.StatusOK, sharedStatePage{false, "single_node_segments_broker", s.Maintenance, s.PopMaintenance})
}
