package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"queend/client"
)

// client is a client of the broker.
func (s *served) client() *client.Client {
	s.Helper()
	c, err := client.New(s.url, "")
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// calls makes a request that must succeed.
func (s *served) calls(path string, body map[string]any) {
	s.Helper()
	if _, err := s.client().Call(s.Context(), http.MethodPost, path, nil, body); err != nil {
		s.Fatal(err)
	}
}

// busy gives a broker two queues in the middle of their work: groups of every
// kind, in different places, dead letters of different histories, an id that
// came again when its window had passed, and a partition with nothing left.
func (s *served) busy() {
	s.Helper()
	s.calls("/api/v1/configure", map[string]any{
		"queue": "work", "namespace": "n", "task": "t", "options": map[string]any{"leaseTime": 77, "retryLimit": 1, "maxDeliveries": 9, "dedupWindowSeconds": 0},
	})
	var in strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&in, "{\"n\": %d}\n", i)
	}
	s.reads(exitOK, in.String(), "push", "-partition", "p", "-id", "t", "-header", "a=b", "work")
	s.says(exitOK, "push", "-partition", "p", "-id", "t", "work", `"t-1 and t-2"`, `"again"`)
	s.says(exitOK, "push", "-partition", "other/ü", "work", `{"x":"<&>"}`, "null")
	s.calls("/api/v1/configure", map[string]any{"queue": "work", "mode": "merge", "options": map[string]any{"dedupWindowSeconds": 3600}})
	s.says(exitOK, "push", "", `"in the queue without a name"`)

	s.says(exitOK, "pop", "-partition", "p", "-group", "audit", "-mode", "all", "-n", "700", "-ack", "work")
	s.says(exitEmpty, "pop", "-group", "new one", "work")
	s.says(exitOK, "push", "-partition", "p", "work", `"for the new one"`)
	s.pops(url.Values{"consumerGroup": {"latest"}, "subscriptionMode": {"all"}, "conflation": {"true"}})
	s.pops(url.Values{"consumerGroup": {"since"}, "subscriptionFrom": {"2020-01-01T00:00:00Z"}})
	for range 2 {
		s.fails("audit", "boom")
	}
	s.fails("second", "odd")
	s.says(exitOK, "pop", "-partition", "p", "-n", "3", "work") // its lease ends with the move
}

func (s *served) pops(q url.Values) {
	s.Helper()
	if _, err := s.client().Call(s.Context(), http.MethodGet, "/api/v1/pop/queue/work", q, nil); err != nil {
		s.Fatal(err)
	}
}

// fails fails what the group gets next from partition p.
func (s *served) fails(group, why string) {
	s.Helper()
	m := s.lines(s.says(exitOK, "pop", "-json", "-partition", "p", "-group", group, "-mode", "all", "work"))[0]
	status := "failed"
	if group == "second" {
		status = "dlq"
	}
	s.calls("/api/v1/ack", map[string]any{
		"transactionId": m["transactionId"], "partitionId": m["partitionId"], "leaseId": m["leaseId"], "consumerGroup": group, "status": status, "error": why,
	})
}

func TestAnImportHasWhatWasExported(t *testing.T) {
	from, to := newServed(t), newServed(t)
	from.busy()
	text := from.says(exitOK, "export")
	from.has(text, `"transactionId":"t-1","payload":"t-1 and t-2"`, `"error":"boom","retryCount":1`, `"error":"odd"`)
	to.has(to.reads(exitOK, text, "import"), "2 queues, 1206 messages queued, 0 known already, 0 failed\n6 groups, 12 cursors, 2 dead letters, 0 known already\n")
	want := stripTimes(from.says(exitOK, "export"))
	if got := stripTimes(to.says(exitOK, "export")); got != want {
		t.Errorf("%s", firstDifference(want, got))
	}
	to.has(to.reads(exitOK, text, "import"), "0 messages queued, 1206 known already, 0 failed\n0 groups, 0 cursors, 0 dead letters, 14 known already\n")
	if got := stripTimes(to.says(exitOK, "export")); got != want {
		t.Errorf("a second import: %s", firstDifference(want, got))
	}
	for _, group := range []string{"__QUEUE_MODE__", "audit", "second", "new one", "since"} {
		got, want := to.lines(to.says(exitOK, "groups", "-json", "-group", group)), from.lines(from.says(exitOK, "groups", "-json", "-group", group))
		if len(got) != 1 || got[0]["lag"] != want[0]["lag"] {
			t.Errorf("%s is at %v, not %v", group, got, want)
		}
	}
	to.has(to.says(exitOK, "pop", "-group", "new one", "-ack", "work"), `"for the new one"`)
	to.has(to.says(exitOK, "pop", "-partition", "p", "work"), "t-1 ")
}

// stripTimes removes what is of each broker its own: when something was
// stored, and when a failure was filed.
func stripTimes(text string) string {
	return regexp.MustCompile(`"(time|enqueuedAt)":"[^"]*"`).ReplaceAllString(text, `"$1":""`)
}

func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return fmt.Sprintf("line %d: want\n%.900s\ngot\n%.900s", i, a[i], strings.Join(b[min(i, len(b)):min(i+1, len(b))], ""))
		}
	}
	return fmt.Sprintf("%d lines more", len(b)-len(a))
}

// contract are the routes that every server of the API has.
var contract = regexp.MustCompile(`^(GET /api/v1/(resources/queues(/[^/]*)?|dlq|consumer-groups(/[^/]*)?)|POST /api/v1/fetch)$`)

func TestAnExportNeedsOnlyWhatEveryServerHas(t *testing.T) {
	from, to := newServed(t), newServed(t)
	from.busy()
	want := stripTimes(from.says(exitOK, "export"))
	behind, err := url.Parse(from.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(behind)
	var mu sync.Mutex
	refused := []string{}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if route := r.Method + " " + r.URL.EscapedPath(); !contract.MatchString(route) {
			mu.Lock()
			refused = append(refused, route)
			mu.Unlock()
			w.WriteHeader(http.StatusNotFound)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()
	text := to.says(exitOK, "export", "-url", front.URL)
	if len(refused) > 0 {
		t.Fatalf("asked for %v", refused)
	}
	to.reads(exitOK, text, "import")
	if got := stripTimes(to.says(exitOK, "export")); got != want {
		t.Errorf("%s", firstDifference(want, got))
	}
}

func TestAnImportIntoAQueueInUsePutsGroupsBehindTheirMessages(t *testing.T) {
	from, to := newServed(t), newServed(t)
	from.says(exitOK, "push", "-partition", "p", "-id", "t", "q", "1", "2", "3")
	from.says(exitOK, "pop", "-partition", "p", "-group", "g", "-mode", "all", "-n", "2", "-ack", "q")
	to.says(exitOK, "push", "-partition", "p", "-id", "mine", "q", "0", "0")
	to.reads(exitOK, from.says(exitOK, "export"), "import")
	if got := to.lines(to.says(exitOK, "pop", "-json", "-group", "g", "q")); len(got) != 1 || got[0]["transactionId"] != "t-3" || got[0]["offset"] != 4.0 {
		t.Errorf("%v", got)
	}
}

func TestSpansSayWhereMessagesAre(t *testing.T) {
	var s spans
	// From 10 on; 13 was not stored, 15 is where 11 is.
	for _, x := range [][2]int64{{10, 0}, {11, 1}, {12, 2}, {14, 3}, {15, 1}, {16, 4}, {17, 9}} {
		s = append(s, span{x[0], x[1], 1}).joined()
	}
	for source, want := range map[int64]int64{9: 0, 10: 0, 11: 1, 13: 3, 14: 3, 15: 4, 16: 4, 17: 5, 18: 10, 99: 10} {
		if got := s.next(source); got != want {
			t.Errorf("next of %d is %d, want %d", source, got, want)
		}
	}
	for source, want := range map[int64]int64{9: -1, 10: 0, 12: 2, 13: -1, 14: 3, 15: -1, 17: 9, 18: -1} {
		got := s.exactly(source)
		if got == nil && want >= 0 || got != nil && *got != want {
			t.Errorf("%d is at %v, want %d", source, got, want)
		}
	}
	if got := spans(nil).next(5); got != 0 {
		t.Errorf("nothing is at %d", got)
	}
}

func TestAnImportStopsAtALineThatIsNone(t *testing.T) {
	s := newServed(t)
	s.has(s.reads(exitFailure, `{"kind":"queue","queue":"q"}`+"\n"+`{"kind":"nonsense"}`, "import"), "1 queues")
	s.has(s.says(exitOK, "queues"), "q ")
}
