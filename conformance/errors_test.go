package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestS1_BodyIsJSONWhateverItsType(t *testing.T) {
	e := shared(t)
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "application/octet-stream", "application/json; charset=utf-8"} {
		q := e.queue()
		e.with("Content-Type", kind).post("/api/v1/push", `{"items":[`+item(q, "p", "a", "1")+`]}`).arr(http.StatusCreated)[0].is("status", "queued")
	}
}

func TestS1_UnknownKeysAreIgnored(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.post("/api/v1/push", `{"nope":[1],"items":[{"queue":`+quote(q)+`,"payload":1,"transactionId":"a","x":{"y":null}}]}`).arr(http.StatusCreated)
	b := e.pop(q)
	accepted(e.ackItems("", ackItem("a", b.pid(), b.lease, "completed", `"future":{"a":[]}`))...)
}

func TestS1_NullInAnOptionalFieldIsAbsence(t *testing.T) {
	e := shared(t)
	q := e.queue()
	n := e.post("/api/v1/push", `{"items":[{"queue":`+quote(q)+`,"partition":null,"transactionId":null,"traceId":null,"payload":null}]}`).arr(http.StatusCreated)[0]
	n.is("status", "queued", "transaction_id", n.str("message_id"))
	e.pop(q).is("partition", "Default").at("messages", 0).is("data", nil)
}

func TestS1_UnknownRoutes(t *testing.T) {
	e := shared(t, "S3")
	for _, row := range [][2]string{
		{"GET", "/api/v1/nope"}, {"POST", "/api/v1/nope"}, {"GET", "/api/v2/push"}, {"GET", "/api/"}, {"GET", "/api/v1/push"}, {"POST", "/api/v1/pop"},
		{"PUT", "/api/v1/push"}, {"DELETE", "/api/v1/messages/onlyone"}, {"GET", "/api/v1/messages/onlyone"}, {"POST", "/elsewhere"}, {"DELETE", "/"},
		{"GET", "/api/v1/analytics/postgres-stats"}, {"PATCH", "/api/v1/configure"}, {"POST", "/api/v1/ack/nope"},
	} {
		n := e.do(row[0], row[1], "").obj(http.StatusNotFound)
		n.onlyKeys("error code").is("error", "Not Found", "code", "no_such_route")
	}
}

func TestS1_ContentTypes(t *testing.T) {
	e := shared(t, "S9")
	q := e.queue()
	e.push(q, "p", "a")
	for _, path := range []string{popPath(q), "/health", "/status", "/metrics", "/api/v1/resources/queues", "/api/v1/nope", discPath(), "/api/v1/dlq?queue=x"} {
		e.get(path).json()
	}
	r := e.get("/metrics/prometheus").want(http.StatusOK)
	if got := r.header.Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("Content-Type %q", got)
	}
	if got := r.header.Get("Cache-Control"); got != "no-cache" {
		t.Errorf("Cache-Control %q", got)
	}
}

func TestS1_ErrorBodiesAreAlwaysJSON(t *testing.T) {
	e := shared(t, "F37")
	bodies := []string{
		`{"a":"`, `{"a":"\"`, "{\"a\":\"\n\"}", `{"it's":`, `"`, `\`, `{"queue":"\u00"}`, `{"items":[{"queue":"a\x"}]}`, "\"\n\r\t", `{]`, `{"a":1,}`, `nul`, `tru`, `-`, `01`,
		`{"items":[{"queue":"q","payload":}]}`, `{"items":[{"queue":"q","payload":{"a":'b'}}]}`, "\x00", "{\"a\":\"\x01\"}", `//`, `{"a":NaN}`, `[[[[`, `}}`, `{"items":[{"queue":"q" "payload":1}]}`,
	}
	for _, path := range []string{"/api/v1/push", "/api/v1/ack", "/api/v1/ack/batch", "/api/v1/transaction", "/api/v1/configure"} {
		for _, body := range bodies {
			n := e.post(path, body).obj(http.StatusBadRequest)
			if n.str("error") == "" {
				t.Errorf("%s %q: empty error", path, body)
			}
		}
	}
}

func TestS1_BadBytesAreRefused(t *testing.T) {
	e := shared(t, "F39")
	q := e.queue()
	for _, payload := range []string{"\"\xff\"", "\"\xc3\"", "\"a\xed\xa0\x80b\"", "{\"k\":\"\xe2\x82\"}"} {
		e.post("/api/v1/push", `{"items":[`+item(q, "p", "a", payload)+`]}`).obj(http.StatusBadRequest).hasKeys("error")
	}
	e.notThere(q)
	e.get("/health").want(http.StatusOK)
	e.push(q, "p", "a")
}

func TestS1_BodyOverTheLimit(t *testing.T) {
	_, e := own(t, "QUEEN_MAX_BODY_BYTES=20000")
	q := e.queue()
	body := func(size int) string {
		frame := len(`{"items":[` + item(q, "p", "", `""`) + `]}`)
		return `{"items":[` + item(q, "p", "", `"`+strings.Repeat("x", size-frame)+`"`) + `]}`
	}
	e.post("/api/v1/push", body(20000)).arr(http.StatusCreated)[0].is("status", "queued")
	for _, path := range []string{"/api/v1/push", "/api/v1/configure", "/api/v1/nope"} {
		if e.post(path, body(20001)).obj(http.StatusRequestEntityTooLarge).str("error") == "" {
			t.Error("empty error")
		}
	}
	if n := len(e.pop(q).msgs); n != 1 {
		t.Errorf("%d messages stored, want the one of the allowed size", n)
	}
}

func TestS1_ChunkedBodyIsRead(t *testing.T) {
	e := shared(t)
	q := e.queue()
	body := `{"items":[` + item(q, "p", "a", "1") + `]}`
	raw := rawExchange(e, "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"+
		chunk(body[:10])+chunk(body[10:])+"0\r\n\r\n")
	if !strings.HasPrefix(raw, "HTTP/1.1 201 ") {
		t.Errorf("answer %q", clip(raw))
	}
	e.pop(q).want("a")
}

// chunk frames a piece of a chunked body.
func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

func TestS1_TenantHeaderIsIgnoredByDefault(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.with("x-queen-tenant", "not a uuid").push(q, "p", "a")
	e.pop(q).want("a")
}

func TestS1_Tenancy(t *testing.T) {
	_, e := own(t, "QUEEN_TENANCY_HEADER=true", "QUEEN_KV_TRUSTED_PROXY=true")
	one := e.with("x-queen-tenant", "11111111-1111-4111-8111-111111111111")
	two := e.with("x-queen-tenant", "22222222-2222-4222-8222-222222222222")
	e.with("x-queen-tenant", "nope").post("/api/v1/push", `{"items":[]}`).
		refuses(http.StatusBadRequest, "invalid x-queen-tenant header (must be a UUID)")
	q := e.queue()
	one.push(q, "p", "a")
	two.notThere(q)
	two.push(q, "p", "a")[0].is("offset", 0) // the same names, another queue
	e.notThere(q)
	b := one.pop(q).want("a")
	c := two.pop(q).want("a")
	if b.pid() == c.pid() {
		t.Error("two tenants share a partition")
	}
	refused("partition not owned by tenant", two.ack("", b, "a=completed")...)
	two.leased(b.lease, false)
	one.leased(b.lease, true)
	one.ack("", b, "a=dlq")
	if len(two.dlq(q)) != 0 {
		t.Error("a foreign dead letter is listed")
	}
	two.replay(one.dlq(q)[0].str("id"), "").want(http.StatusNotFound)
	two.get(address(b.pid(), "a")).refuses(http.StatusNotFound, "Message not found")
	for _, n := range two.get("/api/v1/resources/queues").obj(http.StatusOK).list("queues") {
		n.is("name", q)
	}
	// Absent is the tenant with the number one.
	e.push(q, "p", "x")
	e.with("x-queen-tenant", "00000000-0000-0000-0000-000000000001").pop(q).want("x")
}

func TestS1_AnswersAreCompleteUnderPipelining(t *testing.T) {
	e := shared(t)
	raw := rawExchange(e, "GET /status HTTP/1.1\r\nHost: x\r\n\r\nGET /api/v1/nope HTTP/1.1\r\nHost: x\r\n\r\nGET /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if strings.Count(raw, "HTTP/1.1 200 ") != 2 || strings.Count(raw, "HTTP/1.1 404 ") != 1 {
		t.Errorf("answers %q", clip(raw))
	}
}

func TestS1_HeadIsAnswered(t *testing.T) {
	e := shared(t)
	if r := e.do("HEAD", "/health", ""); r.status >= 500 {
		t.Errorf("HEAD /health: %d", r.status)
	}
}

func TestS9_StatusAndHealthTouchNothing(t *testing.T) {
	e := shared(t)
	n := e.get("/status").obj(http.StatusOK).is("status", "ok")
	if n.str("engine") == "" {
		t.Error("engine is empty")
	}
	e.get("/health").obj(http.StatusOK).hasKeys("status database engine version").is("status", "healthy", "database", "connected")
}

func TestS1_DeeplyNestedBodyDoesNotHurt(t *testing.T) {
	e := shared(t, "F39")
	deep := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	r, err := exchange(context.Background(), e, "POST", "/api/v1/push", `{"items":[`+item(e.queue(), "p", "a", deep)+`]}`)
	if err != nil {
		t.Fatal(err)
	}
	if r.status != http.StatusCreated && r.status != http.StatusBadRequest {
		t.Errorf("status %d", r.status)
	}
	if !json.Valid(r.body) {
		t.Errorf("body %q", clip(string(r.body)))
	}
	e.get("/health").want(http.StatusOK)
}
