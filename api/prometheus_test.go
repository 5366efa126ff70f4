package api

import (
	"fmt"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"queend"
	"queend/broker"
	"queend/log"
)

// scraped returns the lines of the page.
func (h *house) scraped() []string {
	h.t.Helper()
	got := h.do("GET", "/metrics/prometheus", "")
	if got.status != 200 || got.header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" || got.header.Get("Cache-Control") != "no-cache" {
		h.t.Fatalf("%d %v %s", got.status, got.header, got.body)
	}
	return strings.Split(got.body, "\n")
}

func hasLine(t *testing.T, lines []string, want string) {
	t.Helper()
	for _, line := range lines {
		if line == want {
			return
		}
	}
	t.Errorf("no line %s", want)
}

func TestEveryFamilyHasHelpAndType(t *testing.T) {
	for name, h := range map[string]*house{"booting": serveWithout(t), "idle": served(t)} {
		lines := h.scraped()
		for _, f := range families {
			hasLine(t, lines, "# HELP "+f.name+" "+f.help)
			hasLine(t, lines, "# TYPE "+f.name+" "+f.typeWord())
		}
		page := strings.Join(lines, "\n")
		for _, family := range []string{"go_goroutines", "process_open_fds", "queen_uptime_seconds"} {
			if strings.Count(page, "\n"+family+" ") != 1 {
				t.Errorf("%s: no sample of %s", name, family)
			}
		}
	}
}

func TestTheBrokersFiguresAreShown(t *testing.T) {
	h := served(t)
	odd := `q"\` + "é"
	h.ask(201, "POST", "/api/v1/push", `{"items":[{"queue":"q\"\\é","payload":1},{"queue":"q\"\\é","payload":2}]}`)
	h.fail(h.ask(200, "GET", "/api/v1/pop/queue/q%22%5C%C3%A9?batch=1", ""), 0, "", "x")
	lines := h.scraped()
	label := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(odd)
	for _, want := range []string{
		"queen_process_push_requests_total 1", "queen_process_push_messages_total 2", "queen_process_pop_messages_total 1",
		"queen_process_ack_messages_total 1", `queen_cluster_push_messages_total{scope="cluster"} 2`, `queen_cluster_dlq_total{scope="cluster"} 1`,
		`queen_cluster_ack_total{result="failed",scope="cluster"} 1`, `queen_dlq_depth{scope="cluster"} 1`,
		`queen_dlq_depth_by_queue{queue="` + label + `"} 1`, `queen_queue_push_messages_per_minute{queue="` + label + `"} 2`,
		"queend_commit_group_records_sum 4", "queen_raft_log_fsync_seconds_count 0",
		"queend_ready_partitions 1", `queend_waiting_requests{kind="pop"} 0`, "queend_damage_found 0", "queend_consumer_groups 1", "queend_checkpoints_total 0",
		"queend_id_cache_hits_total 0", "queend_id_cache_misses_total 0",
		"queen_maintenance_mode_enabled 0", "queen_file_buffer_db_healthy 1", "queen_pop_wildcard_total 1", "queen_raft_storage_full 0",
	} {
		hasLine(t, lines, want)
	}
}

func TestTheMostImportantQueuesAreShown(t *testing.T) {
	var all []broker.QueueStats
	for i := range seriesCap + 50 {
		all = append(all, broker.QueueStats{Name: fmt.Sprintf("q%05d", i), DeadLetters: i})
	}
	some := foremost(all, func(q *broker.QueueStats) int64 { return int64(q.DeadLetters) })
	if len(some) != seriesCap || some[0].Name != "q01049" || some[seriesCap-1].Name != "q00050" {
		t.Errorf("%d queues, from %s to %s", len(some), some[0].Name, some[len(some)-1].Name)
	}
	if none := foremost(all, func(*broker.QueueStats) int64 { return 0 }); len(none) != 0 {
		t.Errorf("%d queues of no weight", len(none))
	}
}

func TestQueuesOfOneNameAreOneSeries(t *testing.T) {
	at := func(n int64) *broker.TrafficPoint {
		return &broker.TrafficPoint{Traffic: broker.Traffic{PushMessages: n}}
	}
	merged := mergeTenants([]broker.QueueStats{
		{Name: "a", Parked: 1, Last: at(3), Idle: 5}, {Tenant: queend.ID{1}, Name: "a", Parked: 2, DeadLetters: 4, Last: at(4), Idle: 2},
		{Name: "b"}, {Tenant: queend.ID{1}, Name: "b", Last: at(9), Idle: 7},
	})
	if len(merged) != 2 || merged[0].Parked != 3 || merged[0].DeadLetters != 4 || merged[0].Last.PushMessages != 7 || merged[0].Idle != 2 ||
		merged[1].Last.PushMessages != 9 || merged[1].Idle != 7 {
		t.Errorf("%+v", merged)
	}
}

func TestMetricsInJSON(t *testing.T) {
	h := served(t)
	h.push("q", "a", "b")
	page := h.ask(200, "GET", "/metrics", "")
	keys(t, page, "uptime requests messages memory cpu")
	is(t, at(t, page, "requests"), "total", 1)
	is(t, at(t, page, "messages"), "total", 2)
	if rss := at(t, page, "memory", "rss").(float64); rss < 1<<20 {
		t.Errorf("rss %v", rss)
	}
	is(t, at(t, serveWithout(t).ask(200, "GET", "/metrics", ""), "requests"), "total", 0)
}

func TestPowersOfTwoBecomeBuckets(t *testing.T) {
	var counts log.Spread
	counts[0], counts[2], counts[len(counts)-1] = 1, 3, 5
	var m dto.Metric
	if err := groupRecords.spread(&counts, 9, 100, 0.5).Write(&m); err != nil {
		t.Fatal(err)
	}
	b := m.Histogram.Bucket
	if len(b) != len(counts)-1 || b[0].GetUpperBound() != 0.5 || b[0].GetCumulativeCount() != 1 || b[1].GetCumulativeCount() != 1 ||
		b[2].GetUpperBound() != 2 || b[2].GetCumulativeCount() != 4 || m.Histogram.GetSampleCount() != 9 || m.Histogram.GetSampleSum() != 100 {
		t.Errorf("%v", &m)
	}
}
