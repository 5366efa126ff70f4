package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// httpClient keeps connections and changes nothing: no redirects, no
// compression.
var httpClient = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       70 * time.Second,
}

// env is what one test works with: the test and the broker it talks to.
type env struct {
	*testing.T
	base    string
	headers []string // name, value, name, value ...
}

// newEnv binds a test to a broker.
func newEnv(t *testing.T, base string) *env { return &env{T: t, base: base} }

// shared begins a test on the broker that most tests share and lets it run
// beside others. also names further rules the test covers.
func shared(t *testing.T, also ...string) *env {
	t.Helper()
	t.Parallel()
	record(t, also...)
	return newEnv(t, sharedURL)
}

// own begins a test on a broker of its own.
func own(t *testing.T, vars ...string) (*broker, *env) {
	t.Helper()
	t.Parallel()
	record(t)
	b := startBroker(t, vars...)
	return b, newEnv(t, b.url)
}

// with returns the same test sending one more header.
func (e *env) with(name, value string) *env {
	return &env{T: e.T, base: e.base, headers: append(append([]string{}, e.headers...), name, value)}
}

// runTag keeps the names of two runs against one broker apart.
var runTag = fmt.Sprintf("%x", time.Now().UnixMilli()&0xffffff)

// names counts the names given out.
var names atomic.Int64

// name makes a name no other test uses. It holds neither dots nor slashes.
func (e *env) name(kind string) string {
	return fmt.Sprintf("%s-%s-%d", kind, runTag, names.Add(1))
}

// queue makes a queue name of its own for the test.
func (e *env) queue() string { return e.name("q") }

// reply is one complete answer.
type reply struct {
	t      testing.TB
	what   string // the request, for messages
	status int
	header http.Header
	body   []byte
}

// pending is a request on its way.
type pending struct {
	e      *env
	what   string
	begun  time.Time
	cancel context.CancelFunc
	result chan outcomeOf
}

// outcomeOf is what came of a request.
type outcomeOf struct {
	reply reply
	err   error
}

// start sends a request without waiting for its answer. Paths are sent as
// they are.
func (e *env) start(method, path, body string) *pending {
	ctx, cancel := context.WithCancel(context.Background())
	p := &pending{e: e, what: method + " " + path, begun: time.Now(), cancel: cancel, result: make(chan outcomeOf, 1)}
	if body != "" {
		p.what += " " + clip(body)
	}
	go func() {
		r, err := exchange(ctx, e, method, path, body)
		r.t, r.what = e.T, p.what
		p.result <- outcomeOf{r, err}
	}()
	return p
}

// exchange performs one request. What the broker's own document does not allow
// is an error: of the answer, and of a request that was carried out.
func exchange(ctx context.Context, e *env, method, path, body string) (reply, error) {
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, e.base+path, content)
	if err != nil {
		return reply{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(e.headers); i += 2 {
		req.Header.Set(e.headers[i], e.headers[i+1])
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil {
		err = document.check(method, path, body, resp.StatusCode, resp.Header, data)
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: data}, err
}

// wait returns the answer, which must arrive within the limit.
func (p *pending) wait(limit time.Duration) reply {
	p.e.Helper()
	select {
	case out := <-p.result:
		p.cancel()
		if out.err != nil {
			p.e.Fatalf("%s: %v", p.what, out.err)
		}
		return out.reply
	case <-time.After(limit):
		p.cancel()
		p.e.Fatalf("%s: no answer within %v", p.what, limit)
		return reply{}
	}
}

// drop ends the request from the side of the client and waits until it is
// given up.
func (p *pending) drop() {
	p.e.Helper()
	p.cancel()
	out := <-p.result
	if out.err != nil && !errors.Is(out.err, context.Canceled) {
		p.e.Fatalf("%s: %v", p.what, out.err)
	}
}

// stillParked fails the test if the request has been answered already.
func (p *pending) stillParked() {
	p.e.Helper()
	if len(p.result) > 0 {
		p.e.Fatalf("%s was answered early: %s", p.what, (<-p.result).reply.body)
	}
}

// do sends a request and returns its answer.
func (e *env) do(method, path, body string) reply {
	e.Helper()
	return e.start(method, path, body).wait(65 * time.Second)
}

// get, post and del are do for the three usual methods.
func (e *env) get(path string) reply { e.Helper(); return e.do("GET", path, "") }

func (e *env) post(path, body string) reply { e.Helper(); return e.do("POST", path, body) }

func (e *env) del(path string) reply { e.Helper(); return e.do("DELETE", path, "") }

// seg encodes one path segment.
func seg(s string) string { return url.PathEscape(s) }

// arg encodes one query value.
func arg(s string) string { return url.QueryEscape(s) }

// clip shortens text for messages.
func clip(s string) string {
	if len(s) > 300 {
		return s[:300] + fmt.Sprintf("... (%d bytes)", len(s))
	}
	return s
}

// settle gives a parked request time to reach the broker. Nothing may depend
// on it for correctness: without it a test only becomes easier.
func settle() { time.Sleep(150 * time.Millisecond) }

// eventually repeats check until it holds, for at most 15 seconds.
func (e *env) eventually(what string, check func() bool) {
	e.Helper()
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(25 * time.Millisecond) {
		if check() {
			return
		}
		if time.Now().After(end) {
			e.Fatalf("never happened: %s", what)
		}
	}
}

// atLeast fails the test if less than want has passed since begun.
func (e *env) atLeast(begun time.Time, want time.Duration, what string) {
	e.Helper()
	if got := time.Since(begun); got < want {
		e.Errorf("%s after %v, want at least %v", what, got, want)
	}
}

// rawExchange sends bytes on a connection of its own and returns all that
// comes back until the broker closes it.
func rawExchange(e *env, request string) string {
	e.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.base, "http://"))
	if err != nil {
		e.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(15 * time.Second)); err != nil {
		e.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		e.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		e.Fatalf("after %q: %v", answer, err)
	}
	return string(answer)
}

// want checks the status.
func (r reply) want(status int) reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("%s: status %d, want %d\n%s", r.what, r.status, status, clip(string(r.body)))
	}
	return r
}

// json returns the body, which must be JSON and say so.
func (r reply) json() node {
	r.t.Helper()
	if got := r.header.Get("Content-Type"); !strings.HasPrefix(got, "application/json") {
		r.t.Errorf("%s: Content-Type %q, want application/json", r.what, got)
	}
	n := node{t: r.t, path: "body", raw: r.body, of: r.what}
	n.parse()
	return n
}

// obj checks the status and returns the JSON body.
func (r reply) obj(status int) node { r.t.Helper(); return r.want(status).json() }

// arr checks the status and returns the elements of a bare JSON array.
func (r reply) arr(status int) []node { r.t.Helper(); return r.want(status).json().list() }

// empty checks for a 204 without a body.
func (r reply) empty() reply {
	r.t.Helper()
	r.want(http.StatusNoContent)
	if len(r.body) != 0 {
		r.t.Errorf("%s: 204 with body %q", r.what, r.body)
	}
	return r
}

// refuses checks the status and that the error is exactly text.
func (r reply) refuses(status int, text string) node {
	r.t.Helper()
	n := r.obj(status)
	if got := n.str("error"); got != text {
		r.t.Errorf("%s: error %q, want %q", r.what, got, text)
	}
	return n
}
