package hostile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// answer is what came back for one request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// try makes a request and returns the error of the connection, if any. Every
// body that claims to be JSON must be.
func (n *node) try(ctx context.Context, method, path string, body io.Reader) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, n.url+path, body)
	if err != nil {
		return answer{}, err
	}
	resp, err := n.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	a := answer{resp.StatusCode, resp.Header, text}
	if err == nil && len(text) > 0 && strings.HasPrefix(a.header.Get("Content-Type"), "application/json") && !json.Valid(text) {
		err = fmt.Errorf("%s %s: the answer is no JSON: %.200q", method, path, text)
	}
	return a, err
}

// do makes a request that must be answered.
func (n *node) do(method, path, body string) answer {
	n.t.Helper()
	a, err := n.try(context.Background(), method, path, strings.NewReader(body))
	if err != nil {
		n.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// must makes a request that must have the status.
func (n *node) must(status int, method, path, body string) answer {
	n.t.Helper()
	a := n.do(method, path, body)
	if a.status != status {
		n.t.Fatalf("%s %s: %d, want %d: %.300s", method, path, a.status, status, a.body)
	}
	return a
}

// healthy fails the test when the broker does not serve others.
func (n *node) healthy() {
	n.t.Helper()
	if n.gone() {
		n.t.Fatalf("the broker is gone, code %d", n.cmd.ProcessState.ExitCode())
	}
	n.must(200, "GET", "/health", "")
}

// item is one message to push as JSON.
func item(queue, partition, txn, payload string) string {
	return fmt.Sprintf(`{"queue":%s,"partition":%s,"transactionId":%s,"payload":%s}`, quote(queue), quote(partition), quote(txn), payload)
}

func quote(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

// pushed is an element of the answer of a push.
type pushed struct {
	Status string `json:"status"`
	Txn    string `json:"transaction_id"`
	Offset int64  `json:"offset"`
}

// push stores messages in one partition, which must be queued.
func (n *node) push(queue, partition string, txns ...string) {
	n.t.Helper()
	items := make([]string, len(txns))
	for i, txn := range txns {
		items[i] = item(queue, partition, txn, `{"n":1}`)
	}
	a := n.must(201, "POST", "/api/v1/push", `{"items":[`+strings.Join(items, ",")+`]}`)
	var got []pushed
	if err := json.Unmarshal(a.body, &got); err != nil {
		n.t.Fatal(err)
	}
	for i := range got {
		if got[i].Status != "queued" {
			n.t.Fatalf("push of %s: %s", got[i].Txn, got[i].Status)
		}
	}
}

// popped is the answer of a pop.
type popped struct {
	LeaseID   string `json:"leaseId"`
	Partition string `json:"partition"`
	Messages  []struct {
		Txn         string          `json:"transactionId"`
		PartitionID string          `json:"partitionId"`
		Partition   string          `json:"partition"`
		Data        json.RawMessage `json:"data"`
		Offset      int64           `json:"offset"`
		CreatedAt   string          `json:"createdAt"`
	} `json:"messages"`
}

func (p popped) txns() []string {
	var out []string
	for _, m := range p.Messages {
		out = append(out, m.Txn)
	}
	return out
}

// pop takes messages; query goes behind the question mark.
func (n *node) pop(queue, query string) popped {
	n.t.Helper()
	a := n.do("GET", "/api/v1/pop/queue/"+url.PathEscape(queue)+"?"+query, "")
	return parsePop(n.t, a)
}

func parsePop(t *testing.T, a answer) (p popped) {
	t.Helper()
	switch a.status {
	case 204:
	case 200:
		if err := json.Unmarshal(a.body, &p); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("pop: %d %.200s", a.status, a.body)
	}
	return p
}

// ack completes every message of a pop and fails when one is refused.
func (n *node) ack(p popped) {
	n.t.Helper()
	acks := make([]string, len(p.Messages))
	for i, m := range p.Messages {
		acks[i] = fmt.Sprintf(`{"transactionId":%s,"partitionId":%s,"leaseId":%s}`, quote(m.Txn), quote(m.PartitionID), quote(p.LeaseID))
	}
	a := n.must(200, "POST", "/api/v1/ack/batch", `{"acknowledgments":[`+strings.Join(acks, ",")+`]}`)
	var results []struct {
		Success bool   `json:"success"`
		Error   string `json:"error"`
	}
	if err := json.Unmarshal(a.body, &results); err != nil || len(results) != len(acks) {
		n.t.Fatalf("ack of %d: %v %.200s", len(acks), err, a.body)
	}
	for i, r := range results {
		if !r.Success {
			n.t.Fatalf("ack of %s: %s", p.Messages[i].Txn, r.Error)
		}
	}
}

// drain pops and acks until nothing is left and counts every transaction id.
func (n *node) drain(queue string) map[string]int {
	n.t.Helper()
	seen := map[string]int{}
	for {
		p := n.pop(queue, "batch=5000&partitions=64")
		if len(p.Messages) == 0 {
			return seen
		}
		for _, m := range p.Messages {
			seen[m.Txn]++
		}
		n.ack(p)
	}
}

// raw is a connection on which a test writes what it likes.
type raw struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func (n *node) dial() *raw {
	n.t.Helper()
	c, err := net.DialTimeout("tcp", n.addr, patience)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * patience))
	return &raw{n.t, c, bufio.NewReader(c)}
}

// send writes text and ignores that the peer may have closed: the answer says.
func (r *raw) send(text string) { _, _ = io.WriteString(r.Conn, text) }

// answer reads one answer.
func (r *raw) answer() answer {
	r.t.Helper()
	resp, err := http.ReadResponse(r.in, nil)
	if err != nil {
		r.t.Fatalf("reading an answer: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatalf("reading the body of a %d: %v", resp.StatusCode, err)
	}
	return answer{resp.StatusCode, resp.Header, body}
}

// refused expects an answer with the status and an error body in JSON.
func (a answer) refused(t *testing.T, status int) {
	t.Helper()
	var e struct {
		Error string `json:"error"`
	}
	if a.status != status || json.Unmarshal(a.body, &e) != nil || e.Error == "" {
		t.Fatalf("%d %q, want %d with an error in JSON", a.status, a.body, status)
	}
}

// request is the text of a POST with a body.
func request(path string, body []byte, headers ...string) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", path, len(body))
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.String()
}
