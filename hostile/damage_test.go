package hostile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// damagedPlaces returns what /health and /metrics say about damage.
func (n *node) damagedPlaces() (named []string, counted string) {
	n.t.Helper()
	var h struct{ Damaged []string }
	if err := json.Unmarshal(n.must(200, "GET", "/health", "").body, &h); err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(n.must(200, "GET", "/metrics/prometheus", "").body)) {
		if rest, ok := strings.CutPrefix(line, "queend_damage_found "); ok {
			counted = strings.TrimSpace(rest)
		}
	}
	return h.Damaged, counted
}

func TestADamagedSegmentIsServedAroundAndSaidSo(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.push("q", "bad", "needle")
	n.end(syscall.SIGTERM) // with a flush
	segments, err := filepath.Glob(filepath.Join(n.data, "segments", "*.seg"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("segment files: %v, %v", segments, err)
	}
	data, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	data[40] ^= 1 // in the first block
	if err := os.WriteFile(segments[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	n.boot()
	if named, counted := n.damagedPlaces(); len(named) != 0 || counted != "0" {
		t.Errorf("before it is read: %q, %s", named, counted)
	}
	n.push("q", "good", "1")
	if got := n.pop("q", "batch=10&partitions=10").txns(); len(got) != 1 || got[0] != "1" {
		t.Errorf("popped %v", got)
	}
	a := n.do("GET", "/api/v1/pop/queue/q/partition/bad?consumerGroup=other&subscriptionMode=all", "")
	if a.refused(t, 500); strings.Contains(string(a.body), "needle") {
		t.Errorf("the damaged message: %s", a.body)
	}
	if named, counted := n.damagedPlaces(); len(named) != 1 || !strings.HasPrefix(named[0], segments[0]) || counted != "1" {
		t.Errorf("health names %q, metrics count %s", named, counted)
	}
}
