package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// item writes one push item. An empty partition or id is left out.
func item(q, p, id, payload string) string {
	out := `{"queue":` + quote(q)
	if p != "" {
		out += `,"partition":` + quote(p)
	}
	if id != "" {
		out += `,"transactionId":` + quote(id)
	}
	return out + `,"payload":` + payload + `}`
}

// payloadOf is the payload that push gives the message with this id.
func payloadOf(id string) string { return `{"v":` + quote(id) + `}` }

// pushItems pushes the items in one request and returns the results.
func (e *env) pushItems(items ...string) []node {
	e.Helper()
	out := e.post("/api/v1/push", `{"items":[`+strings.Join(items, ",")+`]}`).arr(http.StatusCreated)
	if len(out) != len(items) {
		e.Fatalf("%d results for %d items", len(out), len(items))
	}
	return out
}

// push pushes messages with these ids in one request; all must be queued.
func (e *env) push(q, p string, ids ...string) []node {
	e.Helper()
	items := make([]string, len(ids))
	for i, id := range ids {
		items[i] = item(q, p, id, payloadOf(id))
	}
	out := e.pushItems(items...)
	for _, n := range out {
		n.is("status", "queued")
	}
	return out
}

// series makes ids m<from> .. m<to>.
func series(from, to int) []string {
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, "m"+strconv.Itoa(i))
	}
	return out
}

// batch is the answer of a pop that delivered messages.
type batch struct {
	node
	lease string
	msgs  []node
}

// asBatch reads the answer of a pop, which must carry messages.
func (r reply) asBatch() batch {
	r.t.Helper()
	n := r.obj(http.StatusOK)
	n.is("success", true)
	b := batch{node: n, lease: n.str("leaseId"), msgs: n.list("messages")}
	if len(b.msgs) == 0 {
		r.t.Fatalf("%s: no messages: %s", r.what, clip(string(r.body)))
	}
	return b
}

// ids are the transaction ids in the order delivered.
func (b batch) ids() []string {
	b.t.Helper()
	var out []string
	for _, m := range b.msgs {
		out = append(out, m.str("transactionId"))
	}
	return out
}

// want checks which messages the batch has.
func (b batch) want(ids ...string) batch {
	b.t.Helper()
	if got := b.ids(); !slices.Equal(got, ids) {
		b.t.Fatalf("%s: delivered %v, want %v", b.of, got, ids)
	}
	return b
}

// attempt checks the deliveryAttempt of every message.
func (b batch) attempt(want int) batch {
	b.t.Helper()
	for _, m := range b.msgs {
		m.is("deliveryAttempt", want)
	}
	return b
}

// pid is the partition id of the first message.
func (b batch) pid() string { b.t.Helper(); return b.msgs[0].str("partitionId") }

// pidOf is the partition id of the message with this transaction id.
func (b batch) pidOf(id string) string {
	b.t.Helper()
	for _, m := range b.msgs {
		if m.str("transactionId") == id {
			return m.str("partitionId")
		}
	}
	return b.pid()
}

// query joins parameters, each name=value already encoded.
func query(params []string) string {
	if len(params) == 0 {
		return ""
	}
	return "?" + strings.Join(params, "&")
}

// popPath, pinPath and discPath are the three pop routes.
func popPath(q string, params ...string) string { return "/api/v1/pop/queue/" + seg(q) + query(params) }

func pinPath(q, p string, params ...string) string {
	return "/api/v1/pop/queue/" + seg(q) + "/partition/" + seg(p) + query(params)
}

func discPath(params ...string) string { return "/api/v1/pop" + query(params) }

// group is the parameter that names a group; all also starts it at the oldest.
func group(g string) string { return "consumerGroup=" + arg(g) }

func all(g string) string { return group(g) + "&subscriptionMode=all" }

// patiently makes a pop wait up to the given milliseconds.
func patiently(ms int) string { return "wait=true&timeout=" + strconv.Itoa(ms) }

// pop takes messages from a queue; there must be some.
func (e *env) pop(q string, params ...string) batch {
	e.Helper()
	return e.get(popPath(q, params...)).asBatch()
}

// pin takes messages from one partition.
func (e *env) pin(q, p string, params ...string) batch {
	e.Helper()
	return e.get(pinPath(q, p, params...)).asBatch()
}

// popNone expects the queue to have nothing to deliver.
func (e *env) popNone(q string, params ...string) reply {
	e.Helper()
	return e.get(popPath(q, params...)).empty()
}

// popSoon waits for messages that are due any moment.
func (e *env) popSoon(q string, params ...string) batch {
	e.Helper()
	return e.get(popPath(q, append(params, patiently(15000))...)).asBatch()
}

// park starts a pop that waits for messages.
func (e *env) park(q string, params ...string) *pending {
	p := e.start("GET", popPath(q, append(params, patiently(20000))...), "")
	settle()
	return p
}

// wakes expects a parked pop to be answered with messages long before its
// timeout.
func (p *pending) wakes() batch { p.e.Helper(); return p.wait(10 * time.Second).asBatch() }

// ackItem writes one ack item. An empty lease is left out; extra is further
// members, without the comma.
func ackItem(id, pid, lease, status string, extra ...string) string {
	out := `{"transactionId":` + quote(id) + `,"partitionId":` + quote(pid)
	if lease != "" {
		out += `,"leaseId":` + quote(lease)
	}
	if status != "" {
		out += `,"status":` + quote(status)
	}
	for _, x := range extra {
		out += "," + x
	}
	return out + "}"
}

// ackItems acks a batch of raw items and returns the results.
func (e *env) ackItems(g string, items ...string) []node {
	e.Helper()
	body := `{"acknowledgments":[` + strings.Join(items, ",") + `]`
	if g != "" {
		body += `,"consumerGroup":` + quote(g)
	}
	out := e.post("/api/v1/ack/batch", body+"}").arr(http.StatusOK)
	if len(out) != len(items) {
		e.Fatalf("%d results for %d acks", len(out), len(items))
	}
	return out
}

// ack acks messages of a batch under its lease, each given as id=status.
func (e *env) ack(g string, b batch, pairs ...string) []node {
	e.Helper()
	return e.ackAs(g, b, b.lease, pairs...)
}

// ackAs is ack with another lease id; "" leaves the lease out.
func (e *env) ackAs(g string, b batch, lease string, pairs ...string) []node {
	e.Helper()
	items := make([]string, len(pairs))
	for i, pair := range pairs {
		id, status, _ := strings.Cut(pair, "=")
		items[i] = ackItem(id, b.pidOf(id), lease, status)
	}
	return e.ackItems(g, items...)
}

// finish completes every message of a batch.
func (e *env) finish(g string, b batch) {
	e.Helper()
	var pairs []string
	for _, id := range b.ids() {
		pairs = append(pairs, id+"=completed")
	}
	accepted(e.ack(g, b, pairs...)...)
}

// accepted checks that every ack was carried out without an error.
func accepted(results ...node) {
	for _, n := range results {
		n.t.Helper()
		n.is("success", true, "error", nil)
	}
}

// refused checks that every ack was refused with this text.
func refused(text string, results ...node) {
	for _, n := range results {
		n.t.Helper()
		n.is("success", false, "error", text)
	}
}

// The texts of refused acks.
const (
	noConsumer   = "consumer not found"
	badLease     = "invalid or expired lease"
	committed    = "already committed: the cursor moved past this message before this ack"
	unresolvable = "unresolvable: transaction not in the ack window (hash purged or never pushed); if leased, the message redelivers"
	dlqRejected  = "dlq rejected"
)

// extend renews a lease.
func (e *env) extend(lease string, seconds int) node {
	e.Helper()
	return e.post("/api/v1/lease/"+seg(lease)+"/extend", fmt.Sprintf(`{"seconds":%d}`, seconds)).obj(http.StatusOK)
}

// leased checks whether the lease is live, without changing it.
func (e *env) leased(lease string, want bool) {
	e.Helper()
	if got := e.extend(lease, 1); got.at("success").text() != strconv.FormatBool(want) {
		e.Errorf("lease live: %s, want %v", got.text(), want)
	}
}

// leaseLasts checks that a lease taken between begun and now ends seconds
// after that. Extending by one second does not change a longer lease.
func (e *env) leaseLasts(b batch, begun time.Time, seconds int) {
	e.Helper()
	now, length := time.Now(), time.Duration(seconds)*time.Second
	end := e.extend(b.lease, 1).is("success", true).when("newExpiresAt")
	if end.Before(begun.Add(length-100*time.Millisecond)) || end.After(now.Add(length+100*time.Millisecond)) {
		e.Errorf("lease ends %v after the pop, want %ds", end.Sub(begun), seconds)
	}
}

// configure replaces the options of a queue.
func (e *env) configure(q, options string) node {
	e.Helper()
	return e.post("/api/v1/configure", `{"queue":`+quote(q)+`,"options":`+options+`}`).obj(http.StatusOK).is("configured", true)
}

// depth reads the depth of a queue for a group; "" asks without one.
func (e *env) depth(q, g string) node {
	e.Helper()
	path := "/api/v1/resources/queues/" + seg(q) + "/depth"
	if g != "" {
		path += "?group=" + arg(g)
	}
	return e.get(path).obj(http.StatusOK)
}

// pending is how many messages the group has not committed.
func (e *env) pending(q, g string) int64 { e.Helper(); return e.depth(q, g).num("pending") }

// detail reads everything the broker tells about a queue.
func (e *env) detail(q string) node {
	e.Helper()
	return e.get("/api/v1/resources/queues/" + seg(q)).obj(http.StatusOK)
}

// retained is how many messages of a queue still exist.
func (e *env) retained(q string) int64 { e.Helper(); return e.detail(q).num("totals", "total") }

// dlq lists the dead letters of a queue.
func (e *env) dlq(q string, params ...string) []node {
	e.Helper()
	return e.get("/api/v1/dlq" + query(append([]string{"queue=" + arg(q)}, params...))).obj(http.StatusOK).list("messages")
}

// deadLetter files the first message of a fresh queue and returns its row.
func (e *env) deadLetter(q, p, id string) node {
	e.Helper()
	e.push(q, p, id)
	b := e.pin(q, p, "batch=1").want(id)
	e.ack("", b, id+"=dlq")[0].is("success", true, "dlq", true)
	return find(e.T, e.dlq(q), "transactionId", id)
}

// seek moves the cursors of a group on a queue.
func (e *env) seek(g, q, body string) reply {
	e.Helper()
	return e.post("/api/v1/consumer-groups/"+seg(g)+"/queues/"+seg(q)+"/seek", body)
}

// transact runs a transaction of raw operations.
func (e *env) transact(operations ...string) node {
	e.Helper()
	return e.post("/api/v1/transaction", `{"operations":[`+strings.Join(operations, ",")+`]}`).obj(http.StatusOK)
}

// txPush and txAck write operations of a transaction.
func txPush(items ...string) string {
	return `{"type":"push","items":[` + strings.Join(items, ",") + `]}`
}

func txAck(g, id, pid, lease, status string) string {
	extra := []string{`"type":"ack"`}
	if g != "" {
		extra = append(extra, `"consumerGroup":`+quote(g))
	}
	return ackItem(id, pid, lease, status, extra...)
}
