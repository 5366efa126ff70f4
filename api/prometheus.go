package api

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
	"github.com/valyala/fasthttp"

	"queend/broker"
)

// seriesCap is how many queues a family shows at most: those that matter most
// to it. A scrape stays small however many queues there are.
const seriesCap = 1000

// clusterScope is the value of the label scope.
const clusterScope = "cluster"

// collector shows the figures of the broker to Prometheus.
type collector struct{ s *Server }

// newRegistry returns a registry of our own with what a process of Go shows.
func newRegistry(s *Server) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{s}, s.observer.refused, s.observer.seconds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Describe names the families.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, f := range families {
		if !f.counted {
			to <- f.desc
		}
	}
}

// Collect reads the broker once.
func (c collector) Collect(to chan<- prometheus.Metric) {
	to <- uptimeSeconds.is(c.s.uptime().Seconds())
	to <- residentBytes.is(float64(residentMemory()))
	b := c.s.broker.Load()
	if b == nil {
		return
	}
	s := b.Stats()
	for _, m := range slices.Concat(processMetrics(&s), clusterMetrics(&s), storeMetrics(&s), queueMetrics(b.QueueStats())) {
		to <- m
	}
}

func processMetrics(s *broker.Stats) []prometheus.Metric {
	c := &s.Counters
	return []prometheus.Metric{
		processPushRequests.is(float64(c.PushRequests)), processPushMessages.is(float64(c.PushMessages)),
		processPopRequests.is(float64(c.PopRequests)), processPopMessages.is(float64(c.PopMessages)),
		processAckRequests.is(float64(c.AckRequests)), processAckMessages.is(float64(c.AckMessages)),
		fillWaits.is(float64(c.FillWaits)), fillMicros.is(float64(c.FillMicros)),
		popWildcard.is(float64(c.PopWildcard)), popTargeted.is(float64(c.PopTargeted)),
	}
}

func clusterMetrics(s *broker.Stats) []prometheus.Metric {
	t := &s.Totals
	return []prometheus.Metric{
		clusterPushRequests.is(float64(t.PushRequests), clusterScope), clusterPushMessages.is(float64(t.PushMessages), clusterScope),
		clusterPopRequests.is(float64(t.PopRequests), clusterScope), clusterPopMessages.is(float64(t.PopMessages), clusterScope),
		clusterAckRequests.is(float64(t.AckRequests), clusterScope), clusterAckMessages.is(float64(t.AckMessages), clusterScope),
		clusterTransactions.is(float64(t.Transactions), clusterScope), clusterDeadLetters.is(float64(t.DeadLetters), clusterScope),
		clusterAcks.is(float64(t.AckMessages-min(t.AckFailed, t.AckMessages)), clusterScope, "success"),
		clusterAcks.is(float64(t.AckFailed), clusterScope, "failed"),
		deadLetterDepth.is(float64(s.DeadLetters), clusterScope),
	}
}

func storeMetrics(s *broker.Stats) []prometheus.Metric {
	l := &s.Log
	perGroup := 0.0
	if l.Groups > 0 {
		perGroup = float64(l.Records) / float64(l.Groups)
	}
	// Pushes, pops and acks share the groups of the log.
	const op = "all"
	return []prometheus.Metric{
		maintenanceOn.is(oneIf(s.Spool.Maintenance)), bufferPending.is(float64(s.Spool.Buffered)),
		bufferFailed.is(float64(s.Spool.FailedFiles)), bufferHealthy.is(oneIf(s.Spool.Healthy)),
		batchesFired.is(float64(l.Groups), op), batchItems.is(float64(l.Records), op), itemsPerBatch.is(perGroup, op),
		storageFull.is(oneIf(s.Health.DiskFull)), admitBytes.is(float64(s.Admission.Taken)),
		admitWaiting.is(float64(s.Admission.Waiting)), admitTotal.is(float64(s.Counters.PushRequests)),
		fsyncSeconds.spread(&l.SyncTimes, l.Syncs, l.SyncTotal.Seconds(), 1e-6), groupRecords.spread(&l.Sizes, l.Groups, float64(l.Records), 1),
		fsyncMax.is(l.SyncMax.Seconds()), logDisk.is(float64(l.DiskBytes)),
		segmentFiles.is(float64(s.Storage.SegmentFiles)), segmentBytes.is(float64(s.Storage.SegmentBytes)),
		segmentDead.is(float64(s.Storage.DeadBytes)), tailBytes.is(float64(s.Storage.TailBytes)),
		identifierBytes.is(float64(s.Storage.FreshBytes), "tail"), identifierBytes.is(float64(s.Storage.IDCacheBytes), "segments"),
		queuesTotal.is(float64(s.Queues)), partitionsTotal.is(float64(s.Partitions)), leasesTotal.is(float64(s.Leases)), groupsTotal.is(float64(s.Groups)), readyTotal.is(float64(s.Ready)),
		waitingTotal.is(float64(s.Parked), "pop"), waitingTotal.is(float64(s.Fetches), "fetch"),
		idCacheHits.is(float64(s.Storage.IDCacheHits)), idCacheMisses.is(float64(s.Storage.IDCacheMiss)),
		checkpointsMade.is(float64(s.Storage.Checkpoints)), checkpointAge.is(seconds(s.Storage.CheckpointAge)),
		bootSeconds.is(seconds(s.BootTime)), damageFound.is(float64(len(s.Health.Damaged))), diskUsed.is(s.Health.DiskUsedPct / 100),
	}
}

// seconds are those of microseconds.
func seconds(micros int64) float64 { return float64(micros) / float64(broker.Second) }

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// queueMetrics shows the queues that matter most to each family.
func queueMetrics(all []broker.QueueStats) []prometheus.Metric {
	all = mergeTenants(all)
	var out []prometheus.Metric
	for _, q := range foremost(all, func(q *broker.QueueStats) int64 { return int64(q.Parked) }) {
		out = append(out, parkedLongPolls.is(float64(q.Parked), q.Name))
	}
	for _, q := range foremost(all, func(q *broker.QueueStats) int64 { return int64(q.DeadLetters) }) {
		out = append(out, deadLetterQueue.is(float64(q.DeadLetters), q.Name))
	}
	active := foremost(all, func(q *broker.QueueStats) int64 {
		if q.Last == nil {
			return 0
		}
		return 1 + q.Last.PushMessages + q.Last.PopMessages
	})
	for _, q := range active {
		out = append(out, trafficMetrics(q)...)
	}
	return out
}

// mergeTenants joins queues of one name: the page shows no tenants.
func mergeTenants(all []broker.QueueStats) []broker.QueueStats {
	merged := all[:0:0]
	for _, q := range all { // in the order of their names
		n := len(merged)
		if n == 0 || merged[n-1].Name != q.Name {
			merged = append(merged, q)
			continue
		}
		m := &merged[n-1]
		m.Parked += q.Parked
		m.DeadLetters += q.DeadLetters
		switch {
		case q.Last == nil:
		case m.Last == nil:
			m.Last, m.Idle = q.Last, q.Idle
		default:
			sum := *m.Last
			sum.Add(&q.Last.Traffic)
			m.Last, m.Idle = &sum, min(m.Idle, q.Idle)
		}
	}
	return merged
}

// foremost returns the queues with the highest weights, at most seriesCap and
// none of weight 0.
func foremost(all []broker.QueueStats, weight func(*broker.QueueStats) int64) []*broker.QueueStats {
	var some []*broker.QueueStats
	for i := range all {
		if weight(&all[i]) > 0 {
			some = append(some, &all[i])
		}
	}
	slices.SortFunc(some, func(x, y *broker.QueueStats) int {
		return cmp.Or(cmp.Compare(weight(y), weight(x)), cmp.Compare(x.Idle, y.Idle), cmp.Compare(x.Name, y.Name))
	})
	return some[:min(len(some), seriesCap)]
}

func trafficMetrics(q *broker.QueueStats) []prometheus.Metric {
	t := &q.Last.Traffic
	out := []prometheus.Metric{
		pushRequestsRate.is(float64(t.PushRequests), q.Name), pushMessagesRate.is(float64(t.PushMessages), q.Name),
		popMessagesRate.is(float64(t.PopMessages), q.Name), popEmptyRate.is(float64(t.PopEmpty), q.Name),
		transactionsRate.is(float64(t.Transactions), q.Name), conflatedRate.is(float64(t.Conflated), q.Name),
		acksRate.is(float64(t.AckSuccess), q.Name, "success"), acksRate.is(float64(t.AckFailed), q.Name, "failed"),
		parkedConsumers.is(float64(q.Parked), q.Name), metricsAge.is(float64(q.Idle)/float64(broker.Second), q.Name),
	}
	if t.LagCount > 0 {
		out = append(out, popLag.is(float64(t.LagTotal)/float64(t.LagCount)/1000, q.Name, "avg"), popLag.is(float64(t.LagMax)/1000, q.Name, "max"))
	}
	return out
}

// uptime is how long the server has been there.
func (s *Server) uptime() time.Duration { return time.Since(s.started) }

// residentMemory is what of the process is in RAM, bytes; 0 when the system
// does not say.
func residentMemory() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// prometheus answers GET /metrics/prometheus.
func (r *request) prometheus() {
	page, err := r.server.scrape()
	if err != nil {
		r.unmanaged(err, "metrics")
		return
	}
	r.ctx.SetStatusCode(fasthttp.StatusOK)
	r.ctx.SetContentType("text/plain; version=0.0.4; charset=utf-8")
	r.setHeader("Cache-Control", "no-cache")
	r.ctx.Response.SetBodyRaw(page)
}

// scrape writes all families; those of ours without a sample have HELP and
// TYPE all the same.
func (s *Server) scrape() ([]byte, error) {
	gathered, err := s.registry.Gather()
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	shown := map[string]bool{}
	for _, f := range gathered {
		shown[f.GetName()] = true
		if _, err := expfmt.MetricFamilyToText(&page, f); err != nil {
			return nil, err
		}
	}
	for _, f := range families {
		if !shown[f.name] {
			fmt.Fprintf(&page, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.typeWord())
		}
	}
	return page.Bytes(), nil
}
