package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"queend"
	"queend/log"
)

// rig drives a broker with a clock of its own. Queue "q" and partition "p"
// are meant where none is named, and queue mode where no group is.
type rig struct {
	*testing.T
	b   *Broker
	cfg Config
	now int64 // the log reads it too: written atomically
}

func newRig(t *testing.T, change ...func(*Config)) *rig {
	r := &rig{T: t, now: 1_700_000_000 * Second}
	r.cfg = Config{
		Dir: t.TempDir(), Now: func() int64 { return atomic.LoadInt64(&r.now) }, Rand: rand.New(rand.NewPCG(1, 2)),
		Manual: true, Sync: log.SyncNever, OnFail: func(err error) { t.Errorf("the broker failed: %v", err) },
	}
	for _, f := range change {
		f(&r.cfg)
	}
	r.open()
	t.Cleanup(func() { r.close() })
	return r
}

func (r *rig) open() {
	r.Helper()
	b, err := Open(r.cfg)
	r.must(err)
	r.b = b
}

func (r *rig) close() {
	if r.b != nil {
		r.must(r.b.Close(context.Background()))
		r.b = nil
	}
}

func (r *rig) reopen() {
	r.Helper()
	r.close()
	r.open()
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// later lets time go by.
func (r *rig) later(d int64) { atomic.AddInt64(&r.now, d) }

// pass lets time go by and everything due happen.
func (r *rig) pass(d int64) {
	r.later(d)
	r.b.Tick()
}

// flushed moves every message from memory into segment files.
func (r *rig) flushed() {
	r.Helper()
	_, err := r.b.flush()
	r.must(err)
}

func (r *rig) push(ids ...string) {
	r.Helper()
	r.pushTo("q", "p", ids...)
}

func (r *rig) pushTo(queue, part string, ids ...string) {
	r.Helper()
	var items []PushItem
	for _, id := range ids {
		items = append(items, PushItem{Queue: queue, Partition: part, TxnID: []byte(id), Payload: []byte(`"` + id + `"`)})
	}
	results, err := r.b.Push(context.Background(), DefaultTenant, nil, items)
	r.must(err)
	for _, res := range results {
		if res.Status != PushQueued {
			r.Fatalf("push: %+v", res)
		}
	}
}

// options changes the options of q, which is made when it is not there.
func (r *rig) options(change func(*Options)) {
	r.Helper()
	r.b.locked(func() {
		q := r.b.state.queue(DefaultTenant, "q")
		if q == nil {
			t := r.b.begin()
			t.add(r.b.addQueue(t, DefaultTenant, "q"))
			r.b.commit(t)
			q = r.b.state.queue(DefaultTenant, "q")
		}
		t := r.b.begin()
		ev := &queueSet{
			id: q.id, uuid: q.uuid, tenant: q.tenant, name: q.name, created: q.created,
			namespace: q.namespace, task: q.task, implicit: q.implicit, opts: q.opts,
		}
		change(&ev.opts)
		t.add(ev)
		r.b.commit(t)
	})
}

// popReq is a pop of everything that q has.
func (r *rig) popReq(change ...func(*PopRequest)) *PopResult {
	r.Helper()
	req := PopRequest{Tenant: DefaultTenant, Queue: "q", Batch: 100, Partitions: 64, Mode: "all"}
	for _, f := range change {
		f(&req)
	}
	res, err := r.b.Pop(context.Background(), req)
	r.must(err)
	return res
}

// pop claims up to n messages.
func (r *rig) pop(n int) *popped {
	r.Helper()
	return &popped{r, r.popReq(func(q *PopRequest) { q.Batch = n })}
}

func (r *rig) popAs(group string, n int) *popped {
	r.Helper()
	return &popped{r, r.popReq(func(q *PopRequest) { q.Batch, q.Group = n, group })}
}

type popped struct {
	r *rig
	*PopResult
}

// want checks the transaction ids of a pop, in any order of partitions.
func (p *popped) want(ids string) *popped {
	p.r.Helper()
	var got []string
	for i := range p.Messages {
		got = append(got, string(p.Messages[i].TxnID))
	}
	if s := strings.Join(got, " "); s != ids {
		p.r.Fatalf("popped %q, want %q", s, ids)
	}
	return p
}

func (p *popped) attempt(n int) *popped {
	p.r.Helper()
	for i := range p.Messages {
		if p.Messages[i].Attempt != n {
			p.r.Fatalf("%s is delivery %d, want %d", p.Messages[i].TxnID, p.Messages[i].Attempt, n)
		}
	}
	return p
}

// ackCallOf reads "a=completed b=failed:text c=retry~500" as items on one
// partition.
func ackCallOf(t *testing.T, part queend.ID, lease, call string) []AckItem {
	t.Helper()
	words := map[string]Signal{"completed": Completed, "retry": Retry, "failed": Failed, "dlq": DLQ}
	var items []AckItem
	for one := range strings.FieldsSeq(call) {
		it := AckItem{Partition: part.String(), Lease: lease, DelayMS: -1}
		id, rest, _ := strings.Cut(one, "=")
		rest, it.Error, _ = strings.Cut(rest, ":")
		word, delay, delayed := strings.Cut(rest, "~")
		if delayed {
			fmt.Sscan(delay, &it.DelayMS)
		}
		if it.Signal = words[word]; it.Signal == 0 {
			t.Fatalf("item %q", one)
		}
		it.TxnID = []byte(id)
		items = append(items, it)
	}
	return items
}

func (r *rig) ackItems(group string, items []AckItem) []AckResult {
	r.Helper()
	results, err := r.b.Ack(context.Background(), DefaultTenant, group, items)
	r.must(err)
	return results
}

// ack settles messages under the pop's lease.
func (p *popped) ack(call string) []AckResult {
	p.r.Helper()
	return p.r.ackItems(p.Group, ackCallOf(p.r.T, p.Messages[0].PartitionUUID, p.LeaseID.String(), call))
}

// leaseless settles messages of p without a lease.
func (r *rig) leaseless(group, call string) []AckResult {
	r.Helper()
	return r.ackItems(group, ackCallOf(r.T, r.part("p").uuid, "", call))
}

func (r *rig) part(name string) *partition {
	r.Helper()
	p := r.b.state.partition(r.b.state.queue(DefaultTenant, "q"), name)
	if p == nil {
		r.Fatalf("no partition %q", name)
	}
	return p
}

// cursor is the committed offset of a group on p.
func (r *rig) cursor(group string) queend.Offset {
	r.Helper()
	p := r.part("p")
	row := p.rows.find(p.q.groups[group].id)
	if row == nil {
		r.Fatalf("%s has no row", group)
	}
	return row.committed
}

// said checks the answers to an ack, see answers.
func (r *rig) said(results []AckResult, want string) {
	r.Helper()
	if got := answers(results); got != want {
		r.Fatalf("answers %q, want %q", got, want)
	}
}

// letters lists the dead letters of q as "id:error", the newest first.
func (r *rig) letters() string {
	r.Helper()
	var out []string
	for _, l := range r.page().Letters {
		out = append(out, string(l.TxnID)+":"+l.Error)
	}
	return strings.Join(out, " ")
}

func (r *rig) page(change ...func(*DeadLetterQuery)) DeadLetterPage {
	r.Helper()
	q := "q"
	query := DeadLetterQuery{Tenant: DefaultTenant, Queue: &q, Limit: 100}
	for _, f := range change {
		f(&query)
	}
	page, err := r.b.DeadLetters(context.Background(), query)
	r.must(err)
	return page
}

// wantCode checks that an error is a refusal with the code.
func (r *rig) wantCode(err error, code ErrorCode) {
	r.Helper()
	refusal, ok := err.(*Refusal)
	if !ok || refusal.Code != code {
		r.Fatalf("error %v, want a refusal %q", err, code)
	}
}

func series(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(prefix, i)
	}
	return ids
}

func sortedIDs(messages []Delivered) string {
	var ids []string
	for i := range messages {
		ids = append(ids, string(messages[i].TxnID))
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}
