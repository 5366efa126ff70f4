package hostile

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestHeaderFloodsAre431InJSON(t *testing.T) {
	t.Parallel()
	n := start(t)
	for name, text := range map[string]string{
		"many headers":   "GET /health HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n", 50_000),
		"one header":     "GET /health HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("b", mebi) + "\r\n\r\n",
		"a long path":    "GET /" + strings.Repeat("a", mebi) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"a long query":   "GET /health?" + strings.Repeat("a=b&", 100_000) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"a header's end": "GET /health HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("\r\n ", 200_000),
	} {
		c := n.dial()
		c.send(text)
		a := c.answer()
		if a.status != 431 && a.status != 400 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		a.refused(t, a.status)
	}
	for _, text := range []string{"\r\n\r\n\r\n\r\n", "GET\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET /health HTTP/9.9\r\nHost: x\r\n\r\n", "GET /health\x00 HTTP/1.1\r\n\r\n", "G\xff /health HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "GET /health HTTP/1.1\r\nHost: x\r\n: x\r\n\r\n"} {
		c := n.dial()
		c.send(text)
		_ = c.Conn.(interface{ CloseWrite() error }).CloseWrite()
		for {
			if _, err := c.in.Discard(1); err != nil {
				break // the answer, if any, is over
			}
		}
		n.healthy()
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := n.dial()
	const rounds = 300
	var b strings.Builder
	for i := range rounds {
		b.WriteString(request("/api/v1/push", []byte(`{"items":[`+item("q", "p", fmt.Sprint(i), "1")+`]}`)))
		b.WriteString("GET /api/v1/pop/queue/q?batch=1&autoAck=true HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	go c.send(b.String())
	for i := range rounds {
		if a := c.answer(); a.status != 201 {
			t.Fatalf("push %d: %d %s", i, a.status, a.body)
		}
		if got := parsePop(t, c.answer()).txns(); len(got) != 1 || got[0] != fmt.Sprint(i) {
			t.Fatalf("pop %d: %v", i, got)
		}
	}
}

func TestThousandsOfIdleConnectionsAreCheap(t *testing.T) {
	t.Parallel()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	count := int(min(5000, limit.Max/2))
	n := start(t)
	n.healthy()
	before, _ := n.memory()
	idle := make([]*raw, count)
	var dialing sync.WaitGroup
	for w := range 8 {
		dialing.Go(func() {
			for i := w; i < count; i += 8 {
				idle[i] = n.dial()
				idle[i].send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
				idle[i].answer()
				idle[i].in = nil
			}
		})
	}
	dialing.Wait()
	after, _ := n.memory()
	each := (after - before) / int64(count)
	t.Logf("%d idle connections cost %d bytes each", count, each)
	if each > 64<<10 {
		t.Errorf("an idle connection costs %d bytes", each)
	}
	for i := range 20 {
		n.push("q", "p", fmt.Sprint(i))
	}
	if got := n.drain("q"); len(got) != 20 {
		t.Errorf("drained %d, want 20", len(got))
	}
	for _, c := range idle {
		c.Close()
	}
	n.healthy()
}

// fewFiles is a limit of open files that thousands of queues do not fit into.
const fewFiles = 256

// F11: every queue held a descriptor; at the limit the broker froze.
func TestRunningOutOfDescriptorsPasses(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.files = fewFiles
	n.boot()
	var open []*raw
	refused := 0
	for range 400 {
		c := n.dial()
		c.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
		open = append(open, c)
	}
	for _, c := range open {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		a := c.answer()
		switch a.status {
		case 200:
		case 503:
			a.refused(t, 503)
			refused++
		default:
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if refused == 0 {
		t.Error("400 connections fit into 256 descriptors")
	}
	for _, c := range open {
		c.Close()
	}
	until(t, "the listener answers again", func() bool {
		resp, err := n.client.Get(n.url + "/health")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == 200
	})
	n.push("q", "p", "after")
}

// F11: every queue held a descriptor; at the limit the broker froze.
func TestThousandsOfQueuesFitIntoFewDescriptors(t *testing.T) {
	t.Parallel()
	n := newNode(t, "QUEEN_SEAL_AGE_S=1", "QUEEN_CHECKPOINT_S=1")
	n.files = fewFiles
	n.boot()
	const queues = 5000
	name := func(i int) string { return fmt.Sprintf("queue-%d", i) }
	for from := 0; from < queues; from += 500 {
		items := make([]string, 500)
		for i := range items {
			items[i] = item(name(from+i), "p", "t", fmt.Sprint(from+i))
		}
		n.must(201, "POST", "/api/v1/push", `{"items":[`+strings.Join(items, ",")+`]}`)
	}
	check := func(from, to int) {
		t.Helper()
		var workers sync.WaitGroup
		for w := range 8 {
			workers.Go(func() {
				for i := from + w; i < to; i += 8 {
					a := n.do("GET", "/api/v1/pop/queue/"+name(i)+"?autoAck=true", "")
					if a.status != 200 || !strings.Contains(string(a.body), fmt.Sprintf(`"data":%d,`, i)) {
						t.Errorf("queue %d: %d %.100s", i, a.status, a.body)
						return
					}
				}
			})
		}
		workers.Wait()
	}
	check(0, queues/2)
	n.restart()
	check(queues/2, queues)
	if a := n.do("GET", "/api/v1/pop/queue/"+name(0), ""); a.status != 204 {
		t.Errorf("an acked message came again: %d %s", a.status, a.body)
	}
}
