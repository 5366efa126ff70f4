package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// park sends a long poll on a connection of its own and does not wait.
func (n *node) park(queue, query string) *raw {
	c := n.dial()
	c.send(fmt.Sprintf("GET /api/v1/pop/queue/%s?wait=true&timeout=60000&%s HTTP/1.1\r\nHost: x\r\n\r\n", queue, query))
	return c
}

// answered reports whether something has come for a parked pop.
func (r *raw) answered() bool {
	_ = r.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := r.in.Peek(1)
	_ = r.SetReadDeadline(time.Now().Add(patience))
	return err == nil
}

// F25: idle queues used the processor; one push woke everybody.
func TestParkedPopsIdleAndAPushWakesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	n := start(t)
	const queues, each = 200, 10
	parked := make([]*raw, queues*each)
	for i := range parked {
		parked[i] = n.park(fmt.Sprint("q", i%queues), "")
	}
	until(t, "all are parked", func() bool {
		return n.connections() >= len(parked)
	})
	idleCost(t, n, fmt.Sprint(len(parked), " parked pops"))
	n.push("q7", "p", "wake")
	woken := 0
	until(t, "one of its own is woken", func() bool {
		for i := 7; i < len(parked); i += queues {
			if parked[i].answered() {
				woken++
				if got := parsePop(t, parked[i].answer()).txns(); len(got) != 1 || got[0] != "wake" {
					t.Errorf("woken with %v", got)
				}
			}
		}
		return woken > 0
	})
	for i, c := range parked {
		if c.answered() {
			t.Errorf("pop %d on q%d was answered by a push to q7", i, i%queues)
		}
	}
	n.end(syscall.SIGTERM)
	if code := n.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// connections counts the sockets of the broker.
func (n *node) connections() int { return len(descriptors(n.t, n.pid(), "socket:")) }

func TestHangingUpWhileParkedNeverLosesAMessage(t *testing.T) {
	t.Parallel()
	n := start(t)
	const pushes, pops, partitions = 2000, 500, 200
	var taken sync.Map // leases of answers that arrived
	var inFlight sync.WaitGroup
	var cancelled atomic.Int64
	gate := make(chan struct{}, 24)
	rnd := rand.New(rand.NewPCG(1, 2))
	popper := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	defer popper.CloseIdleConnections()
	pusher := make(chan struct{})
	go func() {
		defer close(pusher)
		for from := 0; from < pushes; from += 5 {
			items := make([]string, 5)
			for i := range items {
				items[i] = item("q", fmt.Sprint("p", (from+i)%partitions), fmt.Sprint(from+i), "1")
			}
			if a := n.do("POST", "/api/v1/push", `{"items":[`+strings.Join(items, ",")+`]}`); a.status != 201 {
				t.Errorf("push: %d", a.status)
			}
		}
	}()
	for range pops {
		after := time.Duration(rnd.IntN(40_000)) * time.Microsecond
		gate <- struct{}{}
		inFlight.Go(func() {
			defer func() { <-gate }()
			ctx, cancel := context.WithTimeout(context.Background(), after)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, "GET", n.url+"/api/v1/pop/queue/q?wait=true&timeout=30000&batch=3&partitions=2&leaseSeconds=2", nil)
			resp, err := popper.Do(req)
			if err != nil {
				cancelled.Add(1)
				return
			}
			defer resp.Body.Close()
			var p popped
			if json.NewDecoder(resp.Body).Decode(&p) != nil {
				cancelled.Add(1)
				return
			}
			taken.Store(p.LeaseID, p)
		})
	}
	inFlight.Wait()
	<-pusher
	if cancelled.Load() == 0 {
		t.Error("no pop was cancelled")
	}
	// What was answered is leased to somebody who never acks: it comes after 2 s.
	seen := map[string]int{}
	until(t, "everything is drained", func() bool {
		for txn, times := range n.drain("q") {
			seen[txn] += times
		}
		return len(seen) >= pushes
	})
	for txn, times := range seen {
		if times != 1 {
			t.Errorf("%s was acked %d times", txn, times)
		}
	}
}

func TestAHungUpPopClaimsNothing(t *testing.T) {
	t.Parallel()
	n := start(t)

	var parked []*raw
	for range 50 {
		parked = append(parked, n.park("q", "leaseSeconds=600"))
	}
	until(t, "the pops have come", func() bool { return n.connections() > len(parked) })
	for _, c := range parked {
		c.Close()
	}
	n.push("q", "p", "kept")
	if got := n.pop("q", "wait=true&timeout=10000").txns(); len(got) != 1 || got[0] != "kept" {
		t.Errorf("popped %v", got)
	}
}

func TestAnAnswerThatCannotBeWrittenIsGivenBack(t *testing.T) {
	t.Parallel()
	n := start(t)
	payload := `"` + strings.Repeat("x", mebi) + `"`
	for i := range 24 {
		n.must(201, "POST", "/api/v1/push", `{"items":[`+item("q", "p", fmt.Sprint(i), payload)+`]}`)
	}
	// 24 MiB do not fit into the buffers of a socket that nobody reads.
	c := n.dial()
	c.send("GET /api/v1/pop/queue/q?batch=24&leaseSeconds=3600 HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := c.in.Peek(1); err != nil {
		t.Fatal(err)
	}
	if a := n.do("GET", "/api/v1/pop/queue/q?batch=1", ""); a.status != 204 {
		t.Fatalf("the messages are not claimed: %d", a.status)
	}
	reset(c)
	until(t, "the messages come back", func() bool {
		a := n.do("GET", "/api/v1/pop/queue/q?batch=24&autoAck=true", "")
		return a.status == 200 && len(parsePop(t, a).Messages) == 24
	})
}

// F9: idle or consumed data stayed on disk for ever; idling wrote.
func TestPinnedPopsOnNamesThatNeverComeLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.push("q", "p", "1")
	round := func(from, to int) {
		atOnce(to-from, func(i int) {
			name := fmt.Sprint(strings.Repeat("x", 380), from+i)
			if a := n.do("GET", "/api/v1/pop/queue/q/partition/"+name+"?wait=true&timeout=1", ""); a.status != 204 {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	round(0, 2000)
	before, _ := n.memory()
	round(2000, 12_000)
	after, _ := n.memory()
	t.Logf("10,000 names took %d KiB", (after-before)>>10)
	if after-before > 24*mebi {
		t.Errorf("10,000 names took %d MiB", (after-before)/mebi)
	}
}
