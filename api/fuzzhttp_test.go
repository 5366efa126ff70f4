package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/valyala/fasthttp"

	"queend/auth"
	"queend/broker"
	"queend/log"
)

// fuzzHouse is the API with a broker behind it and no socket in front. It is
// built anew now and then, or names that a fuzzer makes up would pile up.
type fuzzHouse struct {
	auth    *Auth
	parent  string
	dir     string
	server  *Server
	broker  *broker.Broker
	log     lockedBuffer
	pid     string // of a partition that has messages
	answers int
}

func newFuzzHouse(f *testing.F, a *Auth) *fuzzHouse {
	h := &fuzzHouse{parent: f.TempDir(), auth: a}
	h.build()
	f.Cleanup(h.tearDown)
	return h
}

// must is for what a fuzzer has no hand in.
func (h *fuzzHouse) must(err error) {
	if err != nil {
		panic(err)
	}
}

func (h *fuzzHouse) build() {
	var err error
	h.dir, err = os.MkdirTemp(h.parent, "")
	h.must(err)
	now := func() int64 { return 1_700_000_000_000_000 }
	h.broker, err = broker.Open(broker.Config{
		Dir: h.dir + "/data", Now: now, Manual: true, Sync: log.SyncNever, DiskHighPct: 100, Log: slog.New(slog.DiscardHandler),
		OnFail: func(err error) { panic(err) },
	})
	h.must(err)
	h.server, err = New(Config{Log: slog.New(slog.NewTextHandler(&h.log, &slog.HandlerOptions{Level: slog.LevelError})), Auth: h.auth, Now: now})
	h.must(err)
	h.server.Attach(h.broker)
	h.furnish()
	// Nobody may park: time stands still here.
	h.broker.StopWaiting()
}

// furnish stores messages, of which one is leased and one dead, and a trace.
func (h *fuzzHouse) furnish() {
	ctx := context.Background()
	items := []broker.PushItem{}
	for _, id := range []string{"a", "b", "c"} {
		items = append(items, broker.PushItem{Queue: "q", Partition: "p", TxnID: []byte(id), Payload: []byte(`{"v":1}`)})
	}
	_, err := h.broker.Push(ctx, broker.DefaultTenant, nil, items)
	h.must(err)
	res, err := h.broker.Pop(ctx, broker.PopRequest{Tenant: broker.DefaultTenant, Queue: "q", Batch: 2, Partitions: 1, Mode: "all", Group: "g"})
	h.must(err)
	h.pid = res.Messages[0].PartitionUUID.String()
	_, err = h.broker.Ack(ctx, broker.DefaultTenant, "g", []broker.AckItem{{
		TxnID: []byte("a"), Partition: h.pid, Lease: res.LeaseID.String(), Signal: broker.DLQ, Error: "e", DelayMS: -1,
	}})
	h.must(err)
}

func (h *fuzzHouse) tearDown() {
	h.must(h.server.Shutdown(context.Background()))
	over, cancel := context.WithCancel(context.Background())
	cancel()
	h.must(h.broker.Close(over))
	if names, err := os.ReadDir(h.dir); err != nil || len(names) != 1 {
		panic(fmt.Sprintf("beside the data directory: %v, %v", names, err))
	}
	h.must(os.RemoveAll(h.dir))
}

// send answers a request as it stands on the wire, nil if it is none. The
// answer has a status that a client can have earned, and its body is JSON.
func (h *fuzzHouse) send(t *testing.T, text string) *fasthttp.Response {
	t.Helper()
	if h.answers++; h.answers%2000 == 0 {
		h.tearDown()
		h.build()
	}
	var req fasthttp.Request
	if err := req.Read(bufio.NewReader(strings.NewReader(text))); err != nil {
		return nil
	}
	var ctx fasthttp.RequestCtx
	ctx.Init(&req, &net.TCPAddr{}, nil)
	h.server.serve(&ctx)
	answer := &ctx.Response
	switch status := answer.StatusCode(); {
	case status == 204 && len(answer.Body()) == 0:
	case status < 200 || status > 499 && status != 503:
		t.Fatalf("%q: %d %s\n%s", text, status, answer.Body(), h.log.String())
	case string(answer.Header.ContentType()) == "application/json" && !json.Valid(answer.Body()):
		t.Fatalf("%q: %d %q is not JSON", text, status, answer.Body())
	}
	return answer
}

// FuzzQuery answers every route that reads parameters with any query string.
func FuzzQuery(f *testing.F) {
	h := newFuzzHouse(f, nil)
	paths := []string{}
	for _, r := range routes() {
		path := r.pattern
		for name, value := range map[string]string{
			":queue": "q", ":partition": "p", ":pid": h.pid, ":txn": "a", ":group": "g", ":leaseId": "l", ":id": h.pid, ":name": "n",
		} {
			path = strings.ReplaceAll(path, name, value)
		}
		if r.pattern != "/internal/backup" {
			paths = append(paths, r.method+" "+path)
		}
	}
	for i := range paths {
		f.Add(uint8(i), "")
		f.Add(uint8(i), "limit=1&offset=1&from=2023-11-14T22:13:20Z&to=1700000000000&queue=q&group=g&namespace=&interval=minute&groupBy=queue")
	}
	for _, query := range []string{
		"batch=5&partitions=2&wait=true&timeout=60000&autoAck=true&leaseSeconds=9&consumerGroup=x&subscriptionMode=all&conflation=true",
		"subscriptionMode=timestamp&subscriptionFrom=2023-11-14T22:13:20.5%2B02:00&commitOnDelivery=1&autopilot=true", "batch=-9223372036854775808",
		"limit=9223372036854775807&offset=9223372036854775807", "from=%ff&to=%00", "a&&=&%=%zz;;", "minLagSeconds=-1&includePartitions=yes&deleteMetadata=no",
	} {
		for i := range 3 {
			f.Add(uint8(i+1), query)
		}
	}
	f.Fuzz(func(t *testing.T, route uint8, query string) {
		if strings.ContainsAny(query, "\r\n #") {
			query = url.QueryEscape(query)
		}
		h.send(t, paths[int(route)%len(paths)]+"?"+query+" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	})
}

// FuzzPath sends any path by any method, with a body that many routes take.
func FuzzPath(f *testing.F) {
	h := newFuzzHouse(f, nil)
	for _, r := range routes() {
		if r.pattern != "/internal/backup" {
			f.Add(r.method, strings.NewReplacer(":queue", "q", ":pid", h.pid, ":txn", "a", ":group", "g", ":partition", "p").Replace(r.pattern))
		}
	}
	for _, path := range []string{
		"", "/", "//", "/../../etc/passwd", "/api/v1/pop/queue/..%2f..%2fx", "/api/v1/pop/queue/a%00b", "/api/v1/pop/queue/%", "/api/v1/pop/queue//partition/",
		"/assets/../../x", "*", "http://y/status", "/api/v1/resources/queues/%E2%82%AC?x#y", "/./api/./v1/../v1/dlq", strings.Repeat("/x", 40), "/api/v1/pop/queue/\xff",
	} {
		f.Add("GET", path)
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		if strings.Contains(path, "internal") && strings.Contains(path, "backup") {
			return // it answers as a stream, to a connection
		}
		h.send(t, method+" "+path+` HTTP/1.1`+"\r\nHost: x\r\nContent-Length: 43\r\n\r\n"+`{"toEnd":true,"enabled":false,"seconds":1  }`[:43])
	})
}

// FuzzAuthorization sends any Authorization header. Where no tokens are asked
// for it changes nothing; where they are, only the token that was issued lets
// anybody in.
func FuzzAuthorization(f *testing.F) {
	claims := jwt.MapClaims{"role": "read-only", "exp": math.MaxInt32}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("a secret that nobody guesses"))
	if err != nil {
		f.Fatal(err)
	}
	tokens, err := auth.New(auth.Config{Secret: "a secret that nobody guesses", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	open, guarded := newFuzzHouse(f, nil), newFuzzHouse(f, &Auth{Tokens: tokens})
	for _, header := range []string{
		"", "Bearer", "Bearer ", "Bearer " + token, token, "bearer\t" + token, "Basic dTpw", "Bearer a.b.c", "Bearer " + token + " " + token, "Bearer \xff\x00",
	} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		if strings.ContainsAny(header, "\r\n") {
			return // then it is another header
		}
		text := "GET /api/v1/dlq HTTP/1.1\r\nHost: x\r\nAuthorization: " + header + "\r\n\r\n"
		if got := open.send(t, text); got != nil && got.StatusCode() != 200 {
			t.Fatalf("without tokens %q is answered %d %s", header, got.StatusCode(), got.Body())
		}
		// The last character of a signature has two bits that say nothing.
		issued := strings.Contains(header, token[:len(token)-1])
		if got := guarded.send(t, text); got != nil && got.StatusCode() != 401 && !issued {
			t.Fatalf("%q is answered %d %s", header, got.StatusCode(), got.Body())
		}
	})
}
