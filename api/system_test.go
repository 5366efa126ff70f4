package api

import "testing"

func TestMaintenanceIsSwitched(t *testing.T) {
	h := served(t)
	s := h.ask(200, "GET", "/api/v1/system/maintenance", "")
	keys(t, s, "maintenanceMode popMaintenanceMode bufferedMessages bufferHealthy bufferStats")
	is(t, s, "maintenanceMode", false, "popMaintenanceMode", false, "bufferedMessages", 0, "bufferHealthy", true)
	keys(t, at(t, s, "bufferStats"), "pendingCount failedCount dbHealthy failedFiles")
	keys(t, at(t, s, "bufferStats", "failedFiles"), "count totalBytes totalMB failoverCount qos0Count")
	on := h.ask(200, "POST", "/api/v1/system/maintenance", `{"enabled":true}`)
	keys(t, on, "maintenanceMode bufferedMessages bufferHealthy message")
	is(t, on, "maintenanceMode", true, "message", "Maintenance mode ENABLED. All PUSHes routing to file buffer.")
	pushed := h.ask(201, "POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`)
	is(t, at(t, pushed, 0), "status", "buffered")
	is(t, h.ask(200, "GET", "/api/v1/system/maintenance", ""), "maintenanceMode", true, "bufferedMessages", 1)
	is(t, h.ask(200, "GET", "/api/v1/system/shared-state", ""), "enabled", false, "reason", "single_node_segments_broker",
		"maintenance_mode", true, "pop_maintenance_mode", false)
	off := h.ask(200, "POST", "/api/v1/system/maintenance", `{"enabled":false}`)
	is(t, off, "maintenanceMode", false, "message", "Maintenance mode DISABLED. Background processor will drain buffer to DB.")
	h.pop("q", "wait=true&timeout=10000")
}

func TestPopMaintenanceIsSwitched(t *testing.T) {
	h := served(t)
	path := "/api/v1/system/maintenance/pop"
	s := h.ask(200, "GET", path, "")
	keys(t, s, "popMaintenanceMode message")
	is(t, s, "popMaintenanceMode", false, "message", "Pop maintenance mode is OFF. Normal operation.")
	is(t, h.ask(200, "POST", path, `{"enabled":true}`), "popMaintenanceMode", true,
		"message", "Pop maintenance mode ENABLED. All POP operations will return empty arrays.")
	if got := h.do("GET", "/api/v1/pop/queue/q", ""); got.status != 204 || got.header.Get("X-Queen-Empty") != "paused" {
		t.Errorf("%d %v", got.status, got.header)
	}
	is(t, h.ask(200, "GET", path, ""), "popMaintenanceMode", true)
	is(t, h.ask(200, "POST", path, `{"enabled":false}`), "popMaintenanceMode", false)
}

func TestASwitchNeedsABoolean(t *testing.T) {
	h := served(t)
	for _, path := range []string{"/api/v1/system/maintenance", "/api/v1/system/maintenance/pop"} {
		for _, body := range []string{"", "{}", `{"enabled":null}`, `{"enabled":1}`, `{"enabled":"true"}`} {
			is(t, h.ask(400, "POST", path, body), "error", "enabled (boolean) is required")
		}
		h.ask(400, "POST", path, "nope")
	}
}
