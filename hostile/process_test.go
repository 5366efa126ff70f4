package hostile

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestTheSecondProcessOnADirectoryEndsWithCode4(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.push("q", "p", "1")
	second := newNode(t)
	second.data = n.data
	if err := second.spawn(); err != nil {
		t.Fatal(err)
	}
	if code := second.ended(patience); code != 4 {
		t.Errorf("exit code %d, want 4", code)
	}
	if text := second.logText(); !strings.Contains(text, n.data) || !strings.Contains(text, "another process") {
		t.Errorf("its log does not say why:\n%s", text)
	}
	n.push("q", "p", "2")
	n.restart()
	if got := n.drain("q"); len(got) != 2 {
		t.Errorf("drained %v", got)
	}
}

func TestStoppingUnderLoadLosesNothingAnswered(t *testing.T) {
	t.Parallel()
	n := start(t)
	var parked []*raw
	for i := range 200 {
		parked = append(parked, n.park(fmt.Sprint("empty", i%20), ""))
	}
	half := n.dial() // a request that never comes to its end
	half.send("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
	var mu sync.Mutex
	stored := map[string]bool{}
	var pushers sync.WaitGroup
	for w := range 8 {
		pushers.Go(func() {
			for i := 0; ; i++ {
				txn := fmt.Sprint(w, "-", i)
				resp, err := n.client.Post(n.url+"/api/v1/push", "", strings.NewReader(`{"items":[`+item("q", fmt.Sprint("p", w), txn, "1")+`]}`))
				if err != nil {
					return
				}
				resp.Body.Close()
				if resp.StatusCode == http.StatusCreated {
					mu.Lock()
					stored[txn] = true
					mu.Unlock()
				}
			}
		})
	}
	until(t, "pushes are under way and pops parked", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(stored) > 200 && n.connections() > 200
	})
	n.signal(syscall.SIGTERM)
	began := time.Now()
	if code := n.ended(patience); code != 0 {
		t.Errorf("exit code %d", code)
	}
	t.Logf("stopped after %v", time.Since(began))
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stopping took %v", took)
	}
	pushers.Wait()
	for _, c := range parked {
		if a := c.answer(); a.status != 204 {
			t.Errorf("a parked pop got %d %s", a.status, a.body)
		}
	}
	n.boot()
	got := n.drain("q")
	for txn := range stored {
		if got[txn] != 1 {
			t.Errorf("%s was answered 201 and is there %d times", txn, got[txn])
		}
	}
}

// F26: leases followed a clock that jumps; stamps went back.
func TestAStalledProcessEndsLeasesByTheTimeThatPassed(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.push("q", "p", "1", "2")
	p := n.pop("q", "leaseSeconds=1")
	parked := n.park("q", "batch=1")
	until(t, "the pop is parked", func() bool { return n.connections() >= 2 })
	n.signal(syscall.SIGSTOP)
	time.Sleep(1500 * time.Millisecond) // longer than the lease
	n.signal(syscall.SIGCONT)
	again := parsePop(t, parked.answer())
	if len(again.Messages) != 1 || again.Messages[0].Txn != "1" {
		t.Fatalf("after the stall popped %v", again.txns())
	}
	a := n.must(200, "POST", "/api/v1/ack", fmt.Sprintf(`{"transactionId":"1","partitionId":%s,"leaseId":%s}`, quote(p.Messages[0].PartitionID), quote(p.LeaseID)))
	if !strings.Contains(string(a.body), "invalid or expired lease") {
		t.Errorf("an ack under the lease that ended: %s", a.body)
	}
	n.ack(again)
	n.push("q", "p", "3")
	last := ""
	for _, m := range append(p.Messages, n.pop("q", "batch=10").Messages...) {
		if m.CreatedAt < last {
			t.Errorf("message %s was created at %s, after one at %s", m.Txn, m.CreatedAt, last)
		}
		last = m.CreatedAt
	}
}
