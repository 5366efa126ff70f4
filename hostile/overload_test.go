package hostile

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// flood is pushes from many clients that never slow down.
type flood struct {
	mu       sync.Mutex
	accepted map[string]bool // by transaction id
	refused  int
	bytes    int // of all bodies
}

// push sends bodies of so many bytes until ctx is done, each with an id of its
// own. Every request must be answered, with 201 or a refusal that says when to
// come again.
func (f *flood) push(ctx context.Context, n *node, worker, bytes int) {
	payload := `"` + strings.Repeat("x", bytes) + `"`
	for i := 0; ctx.Err() == nil; i++ {
		txn := fmt.Sprint(worker, "-", i)
		body := `{"items":[` + item("flood", fmt.Sprint("p", worker), txn, payload) + `]}`
		a, err := n.try(context.Background(), "POST", "/api/v1/push", strings.NewReader(body))
		if err != nil {
			n.t.Errorf("a push was not answered: %v", err)
			return
		}
		f.mu.Lock()
		f.bytes += len(body)
		switch {
		case a.status == 201 && strings.Contains(string(a.body), `"queued"`):
			f.accepted[txn] = true
		case a.status == 429 && a.header.Get("Retry-After") != "" && strings.Contains(string(a.body), `"overloaded"`):
			f.refused++
		default:
			n.t.Errorf("push: %d %v %.200s", a.status, a.header, a.body)
		}
		f.mu.Unlock()
	}
}

// F16: with more coming in than the disk takes, memory grew until the end. Ten
// times as much comes in here. What is not stored is refused in so many words,
// consumers are served, and memory stays where it is.
func TestTenTimesWhatTheDiskTakesIsRefusedAndTheRestIsServed(t *testing.T) {
	t.Parallel()
	n := slowDisk(t, 400*time.Millisecond, "QUEEN_ADMIT_MAX_MB=1", "QUEEN_ADMIT_HOLD_MS=100", "QUEEN_TAIL_MB=8")
	var waiting []string
	for i := range 500 {
		waiting = append(waiting, fmt.Sprint("w", i))
	}
	n.push("served", "p", waiting...)
	lasts := time.Duration(scaled(8, 60)) * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), lasts)
	defer cancel()
	f := &flood{accepted: map[string]bool{}}
	var running sync.WaitGroup
	for w := range 40 { // each is refused after 100 ms and comes again
		running.Go(func() { f.push(ctx, n, w, 128<<10) })
	}
	served, slowest := 0, time.Duration(0)
	running.Go(func() {
		for ctx.Err() == nil && served < len(waiting) {
			asked := time.Now()
			p := n.pop("served", "batch=2")
			if len(p.Messages) != 2 {
				t.Errorf("popped %d while %d wait", len(p.Messages), len(waiting)-served)
				return
			}
			n.ack(p)
			served += 2
			slowest = max(slowest, time.Since(asked))
		}
	})
	half := [2]int64{}
	for began := time.Now(); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		now, _ := n.memory()
		i := min(int(2*time.Since(began)/lasts), 1)
		half[i] = max(half[i], now)
	}
	running.Wait()
	const each = 128 << 10
	t.Logf("%d MiB sent, %d MiB stored, %d refused; %d messages consumed, pop and ack took at most %v; memory %d and %d MiB",
		f.bytes/mebi, len(f.accepted)*each/mebi, f.refused, served, slowest, half[0]/mebi, half[1]/mebi)
	if f.bytes < 10*len(f.accepted)*each {
		t.Errorf("%d bytes were sent for %d stored: that is no overload", f.bytes, len(f.accepted)*each)
	}
	if len(f.accepted) == 0 || served == 0 || slowest > 10*time.Second {
		t.Errorf("%d pushes stored, %d messages consumed, the slowest took %v", len(f.accepted), served, slowest)
	}
	if half[1] > half[0]+48*mebi || half[1] > 256*mebi {
		t.Errorf("memory went from %d to %d MiB", half[0]/mebi, half[1]/mebi)
	}
	n.healthy()
	n.kill()
	n.wrap = nil
	n.boot()
	got := n.drain("flood")
	for txn := range f.accepted {
		if got[txn] != 1 {
			t.Errorf("%s was answered 201 and is there %d times", txn, got[txn])
		}
	}
	if len(got) != len(f.accepted) {
		t.Errorf("%d messages are there, %d were answered 201", len(got), len(f.accepted))
	}
	if left := len(n.drain("served")); left != len(waiting)-served {
		t.Errorf("%d messages wait, %d were consumed of %d", left, served, len(waiting))
	}
}
