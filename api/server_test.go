package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen at once.
const patience = 10 * time.Second

// house is a server on a real socket.
type house struct {
	t      *testing.T
	server *Server
	addr   string
	served chan error
	log    *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func open(t *testing.T, table []route) *house {
	t.Helper()
	h := &house{t: t, served: make(chan error, 1), log: &lockedBuffer{}}
	var err error
	h.server, err = newServer(Config{MaxBodyBytes: 1000, Log: slog.New(slog.NewTextHandler(h.log, nil))}, table)
	if err != nil {
		t.Fatal(err)
	}
	ln := listen(t)
	h.addr = ln.Addr().String()
	go func() { h.served <- h.server.Serve(ln) }()
	t.Cleanup(func() { h.shutdown() })
	return h
}

func (h *house) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return h.server.Shutdown(ctx)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func (h *house) dial() net.Conn {
	h.t.Helper()
	c, err := net.Dial("tcp", h.addr)
	if err != nil {
		h.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	h.t.Cleanup(func() { c.Close() })
	return c
}

type answer struct {
	status int
	header http.Header
	body   string
	close  bool
}

// exchange sends text as it is and reads one answer.
func (h *house) exchange(text string) answer {
	h.t.Helper()
	c := h.dial()
	if _, err := io.WriteString(c, text); err != nil {
		h.t.Fatal(err)
	}
	return readAnswer(h.t, bufio.NewReader(c))
}

func readAnswer(t *testing.T, from *bufio.Reader) answer {
	t.Helper()
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body), resp.Close}
}

func (h *house) get(path string) answer {
	h.t.Helper()
	return h.exchange("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n")
}

func expectError(t *testing.T, got answer, status int, code string) {
	t.Helper()
	var body struct{ Error, Code string }
	if err := json.Unmarshal([]byte(got.body), &body); err != nil {
		t.Errorf("%q is no JSON: %v", got.body, err)
	}
	if got.status != status || body.Code != code || body.Error == "" || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %v %s, want %d and code %s", got.status, got.header, got.body, status, code)
	}
}

// echo answers with the parameters named.
func echo(names ...string) func(*request) {
	return func(r *request) {
		values := []string{r.route.pattern}
		for _, name := range names {
			values = append(values, r.param(name))
		}
		r.json(200, func(dst []byte) []byte {
			text, _ := json.Marshal(values)
			return append(dst, text...)
		})
	}
}

func TestUnknownRoutesAre404InJSON(t *testing.T) {
	h := open(t, []route{{"GET", "/status", levelReadOnly, echo()}})
	for _, text := range []string{"GET /nowhere", "POST /status", "GET /status/", "GET //status", "GET /", "DELETE /api/v1/x?y=1"} {
		got := h.exchange(text + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		expectError(t, got, 404, "no_such_route")
		if got.body != `{"error":"Not Found","code":"no_such_route"}` {
			t.Errorf("%s: %s", text, got.body)
		}
	}
}

func TestNamesInThePathAreData(t *testing.T) {
	h := open(t, []route{
		{"GET", "/api/v1/pop/queue/:queue", levelReadWrite, echo("queue")},
		{"GET", "/api/v1/pop/queue/:queue/partition/:partition", levelReadWrite, echo("queue", "partition")},
	})
	for _, row := range []struct {
		path string
		want []string
	}{
		{"bills.new", []string{"bills.new"}},
		{"a%2Fb", []string{"a/b"}},
		{"a%2fb/partition/c%20d", []string{"a/b", "c d"}},
		{"", []string{""}},
		{"/partition/p", []string{"", "p"}},
		{"a/partition/", []string{"a", ""}},
		{"../partition/.", []string{"..", "."}},
		{"%2e%2e", []string{".."}},
		{"a+b%2B", []string{"a+b+"}},
		{"%2525", []string{"%25"}},
		{"%C3%A9?batch=1", []string{"é"}},
		{"partition/partition/x", []string{"partition", "x"}},
	} {
		got := h.get("/api/v1/pop/queue/" + row.path)
		var values []string
		_ = json.Unmarshal([]byte(got.body), &values)
		if got.status != 200 || fmt.Sprint(values[1:]) != fmt.Sprint(row.want) {
			t.Errorf("%s: %d %s, want %q", row.path, got.status, got.body, row.want)
		}
	}
	for _, path := range []string{"%", "%2", "%zz", "a%00b", "%1f", "%ff", "%c3", "\xff"} {
		expectError(t, h.get("/api/v1/pop/queue/"+path), 400, "bad_request")
	}
}

func TestABodyOverTheLimitIs413InJSON(t *testing.T) {
	h := open(t, []route{{"POST", "/p", levelWriteOnly, func(r *request) { r.noContent() }}})
	big := strings.Repeat("x", 200_000)
	for _, text := range []string{
		"Content-Length: 200000\r\n\r\n" + big,
		"Transfer-Encoding: chunked\r\n\r\n30d40\r\n" + big + "\r\n0\r\n\r\n",
		"Expect: 100-continue\r\nContent-Length: 200000\r\n\r\n",
		"Content-Length: 1001\r\n\r\n" + big[:1001],
	} {
		got := h.exchange("POST /p HTTP/1.1\r\nHost: x\r\n" + text)
		expectError(t, got, 413, "too_large")
		if !got.close {
			t.Error("the connection is kept")
		}
	}
	if got := h.exchange("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + big[:1000]); got.status != 204 {
		t.Errorf("at the limit: %d %s", got.status, got.body)
	}
}

func TestMalformedRequestsAreAnsweredInJSON(t *testing.T) {
	h := open(t, nil)
	expectError(t, h.exchange("GET / HTTP/1.1\r\nHost: x\r\nA: "+strings.Repeat("a", 20_000)+"\r\n\r\n"), 431, "bad_request")
	expectError(t, h.exchange("\"garbage\"\r\n\r\n"), 400, "bad_request")
	expectError(t, h.exchange("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n"), 400, "bad_request")
}

// F13: a node that could not write stayed up and answered nothing.
func TestAPanicIsA500AndLeavesTheServerAlive(t *testing.T) {
	h := open(t, []route{{"GET", "/panic", levelPublic, func(r *request) {
		r.json(200, func(dst []byte) []byte { return append(dst, "half"...) })
		panic("seventeen")
	}}, {"GET", "/fine", levelPublic, func(r *request) { r.noContent() }}})
	got := h.get("/panic")
	if got.status != 500 || got.body != `{"error":"internal error","code":"internal"}` {
		t.Errorf("%d %s", got.status, got.body)
	}
	if h.get("/fine").status != 204 {
		t.Error("the server is not well")
	}
	if log := h.log.String(); !strings.Contains(log, "seventeen") || !strings.Contains(log, "server_test.go") {
		t.Errorf("the log says %q", log)
	}
}

func TestA204HasNeitherBodyNorLength(t *testing.T) {
	h := open(t, []route{{"GET", "/empty", levelPublic, func(r *request) {
		r.json(200, func(dst []byte) []byte { return append(dst, "gone"...) })
		r.noContent("X-Queen-Empty", "timeout")
	}}})
	c := h.dial()
	_, _ = io.WriteString(c, "GET /empty HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	text, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(text), "\r\n\r\n")
	if !strings.HasPrefix(head, "HTTP/1.1 204 ") || body != "" || !strings.Contains(head, "X-Queen-Empty: timeout") {
		t.Errorf("%q", text)
	}
	for _, header := range []string{"content-length", "transfer-encoding", "content-type"} {
		if strings.Contains(strings.ToLower(head), header) {
			t.Errorf("%s in %q", header, head)
		}
	}
}

func TestABodyArrivesAsItIsWhateverItsType(t *testing.T) {
	h := open(t, []route{{"POST", "/p", levelWriteOnly, func(r *request) {
		body := bytes.Clone(r.body())
		r.json(201, func(dst []byte) []byte { return append(dst, body...) })
	}}})
	for _, kind := range []string{"application/json", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", ""} {
		got := h.exchange("POST /p HTTP/1.1\r\nHost: x\r\nContent-Type: " + kind + "\r\nContent-Length: 7\r\n\r\n{\"a\":1}")
		if got.status != 201 || got.body != `{"a":1}` {
			t.Errorf("%s: %d %s", kind, got.status, got.body)
		}
	}
}

func TestHEADNeverClaims(t *testing.T) {
	h := open(t, []route{{"GET", "/health", levelPublic, echo()}, {"GET", "/pop", levelReadWrite, echo()}})
	for path, want := range map[string]string{"/health": "200", "/pop": "404"} {
		c := h.dial()
		_, _ = io.WriteString(c, "HEAD "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		text, _ := io.ReadAll(c)
		if !strings.HasPrefix(string(text), "HTTP/1.1 "+want) {
			t.Errorf("HEAD %s: %q", path, text)
		}
	}
}

// TestServeEndsHoweverEarlyTheShutdownIs: it may come before Serve, or while it
// begins.
func TestServeEndsHoweverEarlyTheShutdownIs(t *testing.T) {
	for i := range 200 {
		s, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		stop := func() {
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if i > 0 {
			go func() { ended <- s.Serve(ln) }()
		}
		for range i % 7 {
			runtime.Gosched()
		}
		stop()
		if i == 0 {
			ended <- s.Serve(ln)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
			c.Close()
			t.Fatal("the port is still open")
		}
	}
}

func TestShutdownLetsParkedRequestsAnswer(t *testing.T) {
	parked := make(chan struct{})
	h := open(t, []route{{"GET", "/park", levelReadWrite, func(r *request) {
		close(parked)
		<-r.stopping()
		r.noContent()
	}}})
	c := h.dial()
	_, _ = io.WriteString(c, "GET /park HTTP/1.1\r\nHost: x\r\n\r\n")
	<-parked
	if err := h.shutdown(); err != nil {
		t.Fatal(err)
	}
	if got := readAnswer(t, bufio.NewReader(c)); got.status != 204 || !got.close {
		t.Errorf("%+v", got)
	}
	if err := <-h.served; err != nil {
		t.Errorf("Serve returned %v", err)
	}
}

func TestAParkedHandlerLearnsThatItsClientHungUp(t *testing.T) {
	parked, left := make(chan bool, 1), make(chan bool, 1)
	h := open(t, []route{{"GET", "/park", levelReadWrite, func(r *request) {
		gone, stop := r.watch()
		defer stop()
		parked <- r.gone()
		<-gone
		left <- r.gone()
	}}})
	c := h.dial()
	_, _ = io.WriteString(c, "GET /park HTTP/1.1\r\nHost: x\r\n\r\n")
	if <-parked {
		t.Error("gone before it hung up")
	}
	c.Close()
	if !<-left {
		t.Error("not gone after it hung up")
	}
}
