package api

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"queend/auth"
)

// access is the level of every route, as documented.
const access = `
WO  POST   /api/v1/push
RW  GET    /api/v1/pop/queue/q
RW  GET    /api/v1/pop/queue/q/partition/p
RW  GET    /api/v1/pop
RW  POST   /api/v1/ack
RW  POST   /api/v1/ack/batch
RW  POST   /api/v1/lease/l/extend
RW  DELETE /api/v1/lease/l
RW  POST   /api/v1/transaction
RW  POST   /api/v1/configure
RO  GET    /api/v1/resources/overview
RO  GET    /api/v1/resources/queues
RO  GET    /api/v1/resources/namespaces
RO  GET    /api/v1/resources/tasks
RO  GET    /api/v1/resources/partitions
RO  GET    /api/v1/resources/queues/q
RO  GET    /api/v1/resources/queues/q/depth
ADM DELETE /api/v1/resources/queues/q
RO  GET    /api/v1/messages
RO  GET    /api/v1/messages/p/t
RW  DELETE /api/v1/messages/p/t
RW  POST   /api/v1/messages/p/t/retry
RO  GET    /api/v1/dlq
RW  DELETE /api/v1/dlq
RW  DELETE /api/v1/dlq/d
RW  POST   /api/v1/dlq/replay
RW  POST   /api/v1/dlq/d/replay
RO  GET    /api/v1/consumer-groups
RO  GET    /api/v1/consumer-groups/lagging
RO  GET    /api/v1/consumer-groups/g
RW  POST   /api/v1/consumer-groups/g/subscription
RW  POST   /api/v1/consumer-groups/g/queues/q/seek
RW  POST   /api/v1/consumer-groups/g/queues/q/partitions/p/seek
ADM DELETE /api/v1/consumer-groups/g
ADM DELETE /api/v1/consumer-groups/g/queues/q
RW  POST   /api/v1/traces
RO  GET    /api/v1/traces/names
RO  GET    /api/v1/traces/by-name/n
RO  GET    /api/v1/traces/p/t
RO  GET    /status
RO  GET    /api/v1/status
RO  GET    /api/v1/status/queues
RO  GET    /api/v1/status/queues/q
RO  GET    /api/v1/status/analytics
RO  GET    /api/v1/status/buffers
RO  GET    /api/v1/analytics/queue-lag
RO  GET    /api/v1/analytics/queue-ops
RO  GET    /api/v1/analytics/queue-parked-replicas
RO  GET    /api/v1/analytics/retention
RO  GET    /api/v1/analytics/workload
RO  GET    /api/v1/analytics/partition-liveness
RO  GET    /api/v1/analytics/dlq-signatures
RO  GET    /api/v1/analytics/system-metrics
RO  GET    /api/v1/analytics/worker-metrics
ADM POST   /api/v1/stats/refresh
ADM GET    /api/v1/system/maintenance
ADM POST   /api/v1/system/maintenance
ADM GET    /api/v1/system/maintenance/pop
ADM POST   /api/v1/system/maintenance/pop
ADM GET    /api/v1/system/shared-state
ADM POST   /internal/backup
ADM POST   /internal/import
RO  POST   /api/v1/fetch
RO  POST   /api/v1/fetch/offsets
RO  POST   /api/v1/partitions/changed
PUB GET    /health
PUB GET    /metrics
PUB GET    /metrics/prometheus
PUB GET    /openapi.json
RW  GET    /api/v1/nowhere
RW  PATCH  /elsewhere
ADM GET    /internal/anything
ADM POST   /internal/a/b
PUB GET    /
PUB GET    /assets/app.js
PUB GET    /favicon.ico
`

// mayReach are the levels of each role.
var mayReach = map[string]string{
	"read-only": "PUB RO", "write-only": "PUB WO", "read-write": "PUB RO WO RW", "admin": "PUB RO WO RW ADM", "none": "PUB",
}

func guarded(t *testing.T, skip ...string) *house {
	t.Helper()
	tokens, err := auth.New(auth.Config{Secret: "s3cret", Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return serveWithout(t, func(c *Config) { c.Auth = &Auth{Tokens: tokens, SkipPaths: skip} })
}

func signedToken(t *testing.T, claims jwt.MapClaims) string {
	t.Helper()
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestEveryRouteAsksForItsRole(t *testing.T) {
	h := guarded(t)
	for _, line := range strings.Split(strings.TrimSpace(access), "\n") {
		f := strings.Fields(line)
		level, method, path := f[0], f[1], f[2]
		for role, levels := range mayReach {
			got := h.do(method, path, "{}", "Authorization", "Bearer "+signedToken(t, jwt.MapClaims{"role": role}))
			if refused := got.status == 403; refused == strings.Contains(" "+levels+" ", " "+level+" ") {
				t.Errorf("%s %s as %s: %d %s", method, path, role, got.status, got.body)
			}
			if got.status == 403 && got.body != `{"error":"Insufficient permissions"}` {
				t.Errorf("%s %s: %s", method, path, got.body)
			}
		}
		got := h.do(method, path, "{}")
		if refused := got.status == 401; refused == (level == "PUB") {
			t.Errorf("%s %s without a token: %d %s", method, path, got.status, got.body)
		}
	}
}

func TestEveryRouteIsInTheTableOfLevels(t *testing.T) {
	listed := map[string]bool{}
	rt := newRouter(routes(), newObserver(0))
	for _, line := range strings.Split(strings.TrimSpace(access), "\n") {
		f := strings.Fields(line)
		segments, err := splitPath([]byte(f[2]), nil)
		if err != nil {
			t.Fatal(err)
		}
		if found := rt.find(f[1], segments); found != nil {
			listed[found.method+" "+found.pattern] = true
		}
	}
	for _, r := range routes() {
		if !listed[r.method+" "+r.pattern] {
			t.Errorf("%s %s is not in the table", r.method, r.pattern)
		}
	}
}

func TestSkipPathsNeedNoToken(t *testing.T) {
	h := guarded(t, "/status", "/api/v1/resources/", "/")
	for path, want := range map[string]int{
		"/status": 503, "/status/": 401, "/Status": 401, "/%73tatus": 401, "/status?x=1": 503,
		"/api/v1/resources/queues": 503, "/api/v1/resources": 401, "/api/v1/resources/": 404, "/api/v1/dlq": 401,
		"/api/v1/resources/../dlq": 404, "/api/v1/./resources/queues": 401,
	} {
		got := h.exchange("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n")
		// /status is answered without a broker.
		if strings.HasPrefix(path, "/status") && want == 503 {
			want = 200
		}
		if got.status != want {
			t.Errorf("%s: %d %s, want %d", path, got.status, got.body, want)
		}
	}
}

func TestARefusalSaysWhyAndShowsNoToken(t *testing.T) {
	h := guarded(t)
	expired := signedToken(t, jwt.MapClaims{"role": "admin", "exp": 1000})
	for credential, want := range map[string]string{
		"": "Authentication required", "Bearer nonsense": "Bad token header", "Bearer " + expired: "Token has expired",
		expired[:len(expired)-4] + "AAAA": "Invalid token signature",
	} {
		got := h.do("GET", "/api/v1/dlq", "", "Authorization", credential)
		if got.status != 401 || got.body != `{"error":"`+want+`"}` || got.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%d %v %s, want %q", got.status, got.header, got.body, want)
		}
	}
	if text := h.log.String(); strings.Contains(text, expired) || strings.Contains(text, "nonsense") {
		t.Errorf("the log shows a token: %s", text)
	}
}

func TestAMissingKeyIsOurFault(t *testing.T) {
	tokens, err := auth.New(auth.Config{Algorithm: "auto", PublicKey: "none", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	h := serveWithout(t, func(c *Config) { c.Auth = &Auth{Tokens: tokens} })
	got := h.do("GET", "/api/v1/dlq", "", "Authorization", signedToken(t, jwt.MapClaims{"role": "admin"}))
	if got.status != 500 || got.body != `{"error":"HS secret not configured"}` {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestTheSubjectIsTheProducer(t *testing.T) {
	tokens, err := auth.New(auth.Config{Secret: "s3cret", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	h := served(t, func(c *Config) { c.Auth = &Auth{Tokens: tokens} })
	as := func(claims jwt.MapClaims) string { return signedToken(t, claims) }
	item := `{"items":[{"queue":"q","payload":1,"producerSub":"forged"}]}`
	h.do("POST", "/api/v1/push", item, "Authorization", as(jwt.MapClaims{"role": "write-only", "sub": "ann"}))
	h.do("POST", "/api/v1/push", item, "Authorization", as(jwt.MapClaims{"role": "write-only"}))
	got := h.do("GET", "/api/v1/pop/queue/q", "", "Authorization", as(jwt.MapClaims{"role": "read-write"}))
	for _, want := range []string{`"producerSub":"ann"`, `"producerSub":null`} {
		if strings.Count(got.body, want) != 1 {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
}

func TestWithoutAuthNobodyIsAsked(t *testing.T) {
	h := serveWithout(t)
	if got := h.do("GET", "/api/v1/dlq", ""); got.status != 503 || got.header.Get("Retry-After") != "1" {
		t.Error(fmt.Sprint(got))
	}
}
