package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"queend/broker"
	"queend/log"
)

// served starts the whole API on a real socket, with a broker on a directory
// of its own.
func served(t *testing.T, change ...func(*Config)) *house {
	t.Helper()
	h := serveWithout(t, change...)
	b, err := broker.Open(broker.Config{
		Dir: t.TempDir(), Now: func() int64 { return time.Now().UnixMicro() }, Sync: log.SyncNever, DiskHighPct: 100,
		OnFail: func(err error) { t.Errorf("the broker failed: %v", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	h.server.Attach(b)
	t.Cleanup(func() {
		h.shutdown()
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// serveWithout starts the API with no broker behind it yet.
func serveWithout(t *testing.T, change ...func(*Config)) *house {
	t.Helper()
	h := &house{t: t, served: make(chan error, 1), log: &lockedBuffer{}}
	c := Config{Log: slog.New(slog.NewTextHandler(h.log, nil)), Version: "1.2.3", Fsync: "always"}
	for _, f := range change {
		f(&c)
	}
	var err error
	if h.server, err = New(c); err != nil {
		t.Fatal(err)
	}
	ln := listen(t)
	h.addr = ln.Addr().String()
	go func() { h.served <- h.server.Serve(ln) }()
	t.Cleanup(func() { h.shutdown() })
	return h
}

// do sends a request and returns the answer; headers are name, value pairs.
func (h *house) do(method, path, body string, headers ...string) answer {
	h.t.Helper()
	req, err := http.NewRequest(method, "http://"+h.addr+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text), resp.Close}
}

// ask is do for an answer that must have the status and be JSON.
func (h *house) ask(status int, method, path, body string) any {
	h.t.Helper()
	got := h.do(method, path, body)
	if got.status != status || got.header.Get("Content-Type") != "application/json" {
		h.t.Fatalf("%s %s: %d %v %s, want %d", method, path, got.status, got.header, got.body, status)
	}
	var value any
	if err := json.Unmarshal([]byte(got.body), &value); err != nil {
		h.t.Fatalf("%s %s: %q: %v", method, path, got.body, err)
	}
	return value
}

// at walks down a JSON value by keys and indexes.
func at(t *testing.T, value any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch key := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			member, ok := object[key]
			if !ok {
				t.Fatalf("%v has no %q", value, key)
			}
			value = member
		case int:
			list, ok := value.([]any)
			if !ok || key >= len(list) {
				t.Fatalf("%v has no element %d", value, key)
			}
			value = list[key]
		}
	}
	return value
}

// keys checks that an object has these keys and no other.
func keys(t *testing.T, value any, want string) {
	t.Helper()
	object, ok := value.(map[string]any)
	if !ok {
		t.Fatalf("%v is no object", value)
	}
	names := []string{}
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	expected := strings.Fields(want)
	slices.Sort(expected)
	if !slices.Equal(names, expected) {
		t.Errorf("keys %v, want %v", names, expected)
	}
}

// is checks members of an object, given as key, value pairs.
func is(t *testing.T, value any, pairs ...any) {
	t.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		got := at(t, value, pairs[i])
		if fmt.Sprint(got) != fmt.Sprint(pairs[i+1]) {
			t.Errorf("%v is %v, want %v", pairs[i], got, pairs[i+1])
		}
	}
}

// push stores messages in partition p of a queue; the payload of each is its
// transaction id.
func (h *house) push(queue string, ids ...string) {
	h.t.Helper()
	items := make([]string, len(ids))
	for i, id := range ids {
		items[i] = fmt.Sprintf(`{"queue":%q,"partition":"p","transactionId":%q,"payload":{"v":%q}}`, queue, id, id)
	}
	h.ask(201, "POST", "/api/v1/push", `{"items":[`+strings.Join(items, ",")+`]}`)
}

// pop takes what a queue has and returns the answer.
func (h *house) pop(queue, params string) any {
	h.t.Helper()
	return h.ask(200, "GET", "/api/v1/pop/queue/"+queue+"?"+params, "")
}

// fail files a dead letter for one message that a pop has brought.
func (h *house) fail(popped any, i int, group, reason string) {
	h.t.Helper()
	m := at(h.t, popped, "messages", i)
	h.ask(200, "POST", "/api/v1/ack", fmt.Sprintf(`{"transactionId":%q,"partitionId":%q,"leaseId":%q,"consumerGroup":%q,"status":"dlq","error":%q}`,
		at(h.t, m, "transactionId"), at(h.t, m, "partitionId"), at(h.t, m, "leaseId"), group, reason))
}
