package hostile

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

const mebi = 1 << 20

func TestABodyOverTheLimitIs413InJSON(t *testing.T) {
	t.Parallel()
	n := start(t, fmt.Sprint("QUEEN_MAX_BODY_BYTES=", mebi))
	head := `{"items":[{"queue":"q","payload":"`
	for size, want := range map[int]int{mebi: 201, mebi + 1: 413, 8 * mebi: 413} {
		body := head + strings.Repeat("x", size-len(head)-len(`"}]}`)) + `"}]}`
		for name, reader := range map[string]io.Reader{
			"with Content-Length": strings.NewReader(body), "in chunks": io.MultiReader(strings.NewReader(body)),
		} {
			a, err := n.try(context.Background(), "POST", "/api/v1/push", reader)
			if err != nil || a.status != want {
				t.Errorf("%d bytes %s: %d %v %.100s", size, name, a.status, err, a.body)
			} else if want == 413 {
				a.refused(t, 413)
			}
		}
	}
	// The answer comes without the body.
	c := n.dial()
	c.send(fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", 1<<40))
	c.answer().refused(t, 413)
	c = n.dial()
	c.send("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n")
	c.answer().refused(t, 400)
	n.healthy()
}

func TestExpectIsAnsweredBeforeTheBody(t *testing.T) {
	t.Parallel()
	n := start(t, fmt.Sprint("QUEEN_MAX_BODY_BYTES=", mebi))
	body := `{"items":[{"queue":"q","payload":1}]}`
	c := n.dial()
	c.send(fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body)))
	line, err := c.in.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("%q %v", line, err)
	}
	if line, err = c.in.ReadString('\n'); err != nil || line != "\r\n" {
		t.Fatalf("%q %v", line, err)
	}
	c.send(body)
	if a := c.answer(); a.status != 201 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	c = n.dial()
	c.send(fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", mebi+1))
	c.answer().refused(t, 413)
	n.healthy()
}

func TestChunkedBodiesAreReadWholeOrRefused(t *testing.T) {
	t.Parallel()
	n := start(t)
	chunked := func(chunks ...string) *raw {
		c := n.dial()
		c.send("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Join(chunks, ""))
		return c
	}
	good := `{"items":[{"queue":"q","transactionId":"c","payload":1}]}`
	var single strings.Builder
	for _, b := range []byte(good) {
		fmt.Fprintf(&single, "1\r\n%c\r\n", b)
	}
	if a := chunked(single.String(), "0\r\n\r\n").answer(); a.status != 201 {
		t.Errorf("one byte a chunk: %d %s", a.status, a.body)
	}
	for _, bad := range []string{"zz\r\n", "-1\r\n", "ffffffffffffffffff\r\n", "5\r\n{\"itemsX\r\n", "\r\n\r\n"} {
		a := chunked(bad).answer()
		if a.status != 400 && a.status != 413 && a.status != 431 {
			t.Errorf("chunk %.20q: %d %s", bad, a.status, a.body)
		}
		a.refused(t, a.status)
	}
	// Length and chunks together are a way to smuggle; whatever is read, it is one request.
	c := n.dial()
	c.send("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
	if a := c.answer(); a.status != 400 {
		t.Errorf("length and chunks: %d %s", a.status, a.body)
	}
	n.healthy()
	if got := n.pop("q", "batch=10").Messages; len(got) != 1 {
		t.Errorf("%d messages, want 1", len(got))
	}
}

func TestSlowAndHalfOpenConnectionsHoldUpNobody(t *testing.T) {
	t.Parallel()
	n := start(t)
	var slow []*raw
	for i := range 300 {
		c := n.dial()
		switch i % 3 {
		case 0:
			c.send("POST /api/v1/pu")
		case 1:
			c.send(fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{\"items\":", 64*mebi))
		case 2:
			c.send("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{")
		}
		slow = append(slow, c)
	}
	for i := range 50 {
		n.push("q", "p", fmt.Sprint(i))
		for _, c := range slow[:60] {
			c.send("x")
		}
	}
	if got := n.drain("q"); len(got) != 50 {
		t.Errorf("drained %d, want 50", len(got))
	}
	if _, peak := n.memory(); peak > 600*mebi {
		t.Errorf("300 bodies that never came took %d MiB", peak/mebi)
	}
	for _, c := range slow {
		c.Close()
	}
	n.healthy()
}

func TestLargeBodiesBeyondTheRoomAre429(t *testing.T) {
	t.Parallel()
	n := start(t, "QUEEN_ADMIT_HOLD_MS=300")
	announce := func(expect string) *raw {
		c := n.dial()
		c.send(fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nExpect: %s\r\nContent-Length: %d\r\n\r\n", expect, 64*mebi))
		return c
	}
	var open []*raw
	for range 4 {
		c := announce("100-continue")
		if line, err := c.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
			t.Fatalf("%q %v", line, err)
		}
		open = append(open, c)
	}
	for _, expect := range []string{"100-continue", "nothing"} {
		a := announce(expect).answer()
		a.refused(t, 429)
		if a.header.Get("Retry-After") == "" {
			t.Error("a 429 without Retry-After")
		}
	}
	n.push("q", "p", "small")
	for _, c := range open {
		c.Close()
	}
	body := `{"items":[` + item("q", "p", "large", `"`+strings.Repeat("x", 16*mebi)+`"`) + `]}`
	until(t, "large bodies fit again", func() bool { return n.do("POST", "/api/v1/push", body).status == 201 })
}

func TestManyLargeBodiesAtOnceTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	n := start(t, "QUEEN_ADMIT_HOLD_MS=1000")
	// Each client sends nearly the whole body and stops: only reading it can
	// fill memory.
	part := []byte(strings.Repeat(" ", mebi))
	var senders sync.WaitGroup
	for range 24 {
		c := n.dial()
		senders.Go(func() {
			c.send(fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", 64*mebi))
			for range 63 {
				if _, err := c.Write(part); err != nil {
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { senders.Wait(); close(done) }()
	deadline := time.After(6 * time.Second)
	for i, waiting := 0, true; waiting; i++ {
		n.push("q", "p", fmt.Sprint(i))
		n.ack(n.pop("q", "batch=10"))
		select {
		case <-done:
			waiting = false
		case <-deadline:
			waiting = false
		default:
		}
	}
	if _, peak := n.memory(); peak > 900*mebi {
		t.Errorf("24 bodies of 64 MiB took %d MiB", peak/mebi)
	}
	n.healthy()
}
