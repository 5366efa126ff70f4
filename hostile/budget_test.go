package hostile

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// slowDisk starts a broker whose every sync of the log takes that long.
func slowDisk(t *testing.T, delay time.Duration, env ...string) *node {
	t.Helper()
	n := newNode(t, env...)
	n.wrap = []string{needStrace(t), "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync,fsync", "-e",
		fmt.Sprintf("inject=fdatasync,fsync:delay_enter=%d", delay.Microseconds())}
	n.boot()
	return n
}

// needStrace returns the path of strace, or skips the test.
func needStrace(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err == nil {
		err = exec.Command(path, "-qq", "-o", "/dev/null", "true").Run()
	}
	if err != nil {
		t.Skipf("strace cannot be used here, so this is not tested: %v", err)
	}
	return path
}

func TestAFullWriteBudgetIs429AndPopsAndAcksGoOn(t *testing.T) {
	t.Parallel()
	n := slowDisk(t, 150*time.Millisecond, "QUEEN_ADMIT_MAX_MB=1", "QUEEN_ADMIT_HOLD_MS=300")
	n.push("q", "p", "1", "2", "3")
	body := func(i int) string {
		return `{"items":[` + item("large", fmt.Sprint(i), fmt.Sprint("large", i), `"`+strings.Repeat("x", mebi)+`"`) + `]}`
	}
	var stored, refused atomic.Int64
	var pushers sync.WaitGroup
	for i := range 12 {
		pushers.Go(func() {
			switch a := n.do("POST", "/api/v1/push", body(i)); a.status {
			case 201:
				stored.Add(1)
			case 429:
				refused.Add(1)
				a.refused(t, 429)
				if !strings.Contains(string(a.body), `"overloaded"`) || a.header.Get("Retry-After") == "" {
					t.Errorf("a 429 of %s without Retry-After or code", a.body)
				}
			default:
				t.Errorf("push: %d %.200s", a.status, a.body)
			}
		})
	}
	p := n.pop("q", "batch=10")
	if len(p.Messages) != 3 {
		t.Errorf("popped %d while the budget was full", len(p.Messages))
	}
	n.ack(p)
	pushers.Wait()
	if refused.Load() == 0 || stored.Load() == 0 {
		t.Errorf("%d stored, %d refused", stored.Load(), refused.Load())
	}
	for i := range 12 { // a refused item left no trace
		a := n.must(201, "POST", "/api/v1/push", body(i))
		if strings.Contains(string(a.body), `"queued"`) {
			refused.Add(-1)
		}
	}
	if refused.Load() != 0 {
		t.Errorf("%d more items were stored than were refused", -refused.Load())
	}
}

// F16: memory grew with ids, partitions or a slow disk.
func TestPushesBeyondTheDiskTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	n := slowDisk(t, 50*time.Millisecond, "QUEEN_ADMIT_MAX_MB=16", "QUEEN_ADMIT_HOLD_MS=200", "QUEEN_TAIL_MB=8")
	payload := `"` + strings.Repeat("x", 2*mebi) + `"`
	var pushers sync.WaitGroup
	for w := range 16 {
		pushers.Go(func() {
			for i := range 10 {
				a := n.do("POST", "/api/v1/push", `{"items":[`+item(fmt.Sprint("q", w), "p", fmt.Sprint(i), payload)+`]}`)
				if a.status != 201 && a.status != 429 {
					t.Errorf("push: %d %.200s", a.status, a.body)
				}
			}
		})
	}
	pushers.Wait()
	if _, peak := n.memory(); peak > 300*mebi {
		t.Errorf("320 MiB of pushes took %d MiB", peak/mebi)
	}
	n.healthy()
}
