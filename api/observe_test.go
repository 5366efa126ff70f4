package api

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"queend/broker"
)

func TestEveryAnswerHasTheIDOfItsRequest(t *testing.T) {
	h := serveWithout(t)
	seen := map[string]bool{}
	for _, target := range [][2]string{{"GET", "/health"}, {"GET", "/nowhere"}, {"POST", "/api/v1/push"}, {"GET", "/%zz"}} {
		got := h.do(target[0], "/health", "", "X-Request-Id", "order-7:a")
		if id := got.header.Get("X-Request-Id"); id != "order-7:a" {
			t.Errorf("%v: id %q", target, id)
		}
		got = h.exchange(target[0] + " " + target[1] + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		id := got.header.Get("X-Request-Id")
		if id == "" || seen[id] {
			t.Errorf("%v: id %q", target, id)
		}
		seen[id] = true
	}
	if id := h.exchange("\"garbage\"\r\n\r\n").header.Get("X-Request-Id"); id == "" {
		t.Error("a malformed request has no id")
	}
	for _, bad := range []string{"a b", `a"b`, "a\tb", "é", strings.Repeat("x", maxRequestID+1)} {
		if id := h.do("GET", "/health", "", "X-Request-Id", bad).header.Get("X-Request-Id"); id == bad || id == "" {
			t.Errorf("%q gives %q", bad, id)
		}
	}
	if id := strings.Repeat("x", maxRequestID); h.do("GET", "/health", "", "X-Request-Id", id).header.Get("X-Request-Id") != id {
		t.Error("the longest id is not taken")
	}
}

// A test clock that goes on by a step at every look.
func stepping(step int64) func() int64 {
	var now atomic.Int64
	now.Store(time.Now().UnixMicro())
	return func() int64 { return now.Add(step) }
}

func TestASlowRequestHasALine(t *testing.T) {
	h := serveWithout(t, func(c *Config) {
		c.SlowRequest, c.Now = time.Second, stepping(2*broker.Second)
	})
	h.do("GET", "/status?token=hidden", "", "X-Request-Id", "r1")
	line := h.log.String()
	for _, want := range []string{`msg="slow request"`, "request=r1", "method=GET", "path=/status ", "status=200", "ms=2000", "body=0"} {
		if !strings.Contains(line, want) {
			t.Errorf("no %s in %s", want, line)
		}
	}
	if strings.Contains(line, "hidden") {
		t.Errorf("the query is in the log: %s", line)
	}
}

func TestAFastOrWaitingRequestHasNone(t *testing.T) {
	fast := serveWithout(t, func(c *Config) {
		c.SlowRequest, c.Now = time.Second, stepping(broker.Second/2)
	})
	fast.do("GET", "/status", "")
	off := serveWithout(t, func(c *Config) { c.Now = stepping(broker.Hour) })
	off.do("GET", "/status", "")
	waits := served(t, func(c *Config) {
		c.SlowRequest, c.Now = time.Second, stepping(30*broker.Second)
	})
	waits.push("q", "a") // slow by that clock
	before := waits.log.String()
	waits.do("GET", "/api/v1/pop/queue/q?wait=true&timeout=60000", "")
	if fast.log.String() != "" || off.log.String() != "" || waits.log.String() != before {
		t.Errorf("lines: %s %s %s", fast.log, off.log, waits.log.String()[len(before):])
	}
	hasLine(t, waits.scraped(), `queend_request_seconds_count{operation="push"} 1`)
	for _, line := range waits.scraped() {
		if strings.HasPrefix(line, `queend_request_seconds_count{operation="pop"}`) && !strings.HasSuffix(line, " 0") {
			t.Errorf("a pop that may wait is measured: %s", line)
		}
	}
}

func TestSlowLinesAreFew(t *testing.T) {
	var l lineLimit
	const now = 1000 * broker.Second
	written := 0
	for range 25 {
		if ok, _ := l.take(now); ok {
			written++
		}
	}
	if ok, left := l.take(now + broker.Second); written != linesPerSecond || !ok || left != 15 {
		t.Errorf("%d lines in a second, then %v with %d left out", written, ok, left)
	}
}

func TestRefusalsAreCountedByOperationAndReason(t *testing.T) {
	h := served(t, func(c *Config) { c.MaxBodyBytes = 1000 })
	h.do("POST", "/api/v1/push", "no json")
	h.do("POST", "/api/v1/push", "no json")
	h.do("POST", "/api/v1/push", strings.Repeat("x", 2000))
	h.do("GET", "/api/v1/pop", "")
	h.do("POST", "/api/v1/transaction", "{}")
	h.do("POST", "/api/v1/dlq/x/replay", "")
	h.do("GET", "/api/v1/resources/queues/none", "")
	h.do("GET", "/nowhere", "")
	h.do("POST", "/api/v1/push", `{"items":[]}`)
	lines := h.scraped()
	total := 0
	for _, line := range lines {
		if strings.HasPrefix(line, "queend_refused_total{") {
			total++
		}
	}
	for _, want := range []string{
		`operation="push",reason="bad_body"} 2`, `operation="push",reason="too_large"} 1`, `operation="pop",reason="bad_request"} 1`,
		`operation="transaction",reason="bad_request"} 1`, `operation="dlq",reason="not_found"} 1`, `operation="resources",reason="not_found"} 1`,
		`operation="none",reason="no_such_route"} 1`,
	} {
		hasLine(t, lines, "queend_refused_total{"+want)
	}
	if total != 7 {
		t.Errorf("%d series of refusals", total)
	}
	guarded := guarded(t)
	guarded.do("GET", "/api/v1/dlq", "")
	hasLine(t, guarded.scraped(), `queend_refused_total{operation="dlq",reason="unauthorized"} 1`)
}
