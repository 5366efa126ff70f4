package broker

import (
	"bytes"
	"strings"
	"testing"

	"queend"
)

// deadLetter pushes ids and files them, each with the error "bad <id>".
func (r *rig) deadLetter(ids ...string) {
	r.Helper()
	r.push(ids...)
	call := ""
	for _, id := range ids {
		call += id + "=dlq:bad-" + id + " "
	}
	r.said(r.pop(len(ids)).ack(call), "dlq")
}

func TestR30_ADeadLetterKeepsTheMessage(t *testing.T) {
	r := newRig(t)
	producer, trace := "sub", queend.ID{3}
	item := PushItem{Queue: "q", Partition: "p", TxnID: []byte("a"), TraceID: trace, Headers: []byte(`{"h":"1"}`), Payload: []byte(`{"n": 1}`)}
	pushed, err := r.b.Push(t.Context(), DefaultTenant, &producer, []PushItem{item})
	r.must(err)
	enqueued := r.part("p").lastTime
	for range 3 {
		r.said(r.popAs("g", 1).ack("a=failed"), "ok")
	}
	r.pass(Second)
	r.said(r.popAs("g", 1).ack("a=failed:boom"), "dlq")
	for _, step := range []func(){func() {}, r.flushed, r.reopen} {
		step()
		page := r.page()
		if page.Total != 1 || len(page.Letters) != 1 {
			t.Fatalf("%d of %d letters", len(page.Letters), page.Total)
		}
		l := page.Letters[0]
		if l.MessageID != pushed[0].ID || string(l.TxnID) != "a" || l.Group != "g" || l.Error != "boom" || l.RetryCount != 3 || l.Attempts != 4 ||
			string(l.Payload) != `{"n": 1}` || string(l.Headers) != `{"h":"1"}` || !l.HasProducer || string(l.Producer) != producer || l.TraceID != trace ||
			l.Queue != "q" || l.Partition != "p" || l.PartitionUUID != r.part("p").uuid || l.Offset != 0 || l.EnqueuedAt != enqueued ||
			l.FailedAt < enqueued+Second || l.Encrypted || l.ID.IsZero() || l.ID == l.MessageID {
			t.Fatalf("%+v", l)
		}
	}
	r.popAs("g", 1).want("")
}

func TestF32_AFiledMessageIsListedAndNeverDeliveredAgain(t *testing.T) {
	r := newRig(t)
	r.push(series("m", 20)...)
	r.flushed()
	r.said(r.pop(20).ack("m0=dlq m1=dlq m2=completed m5=dlq m6=completed m7=retry"), "dlq ok dlq ok")
	r.reopen()
	if got := r.letters(); got != "m5:"+retriesExhausted+" m1:"+retriesExhausted+" m0:"+retriesExhausted {
		t.Fatalf("letters %q", got)
	}
	r.pop(1).want("m7")
}

func TestR31_WhatRetentionRemovedIsNotFiled(t *testing.T) {
	r := newRig(t)
	r.push("a", "b", "c")
	p := r.pop(3)
	r.b.locked(func() {
		b := r.b.begin()
		b.add(&logStart{partition: r.part("p").id, start: 2})
		r.b.commit(b)
	})
	out := p.ack("a=completed b=dlq")
	r.said(out, "ok rejected")
	if out[0].LeaseReleased || r.cursor(QueueMode) != 0 {
		t.Fatalf("%+v, cursor %v", out, r.cursor(QueueMode))
	}
	r.said(p.ack("c=completed"), "ok")
	if got := r.letters(); got != "" {
		t.Fatalf("letters %q", got)
	}
}

func TestDeadLettersAreListedByTheirFilters(t *testing.T) {
	r := newRig(t)
	r.deadLetter("a")
	r.pass(Second)
	from := r.now
	r.deadLetter("b", "c")
	r.pass(Second)
	r.pushTo("q", "p2", "d")
	r.said((&popped{r, r.popReq(func(q *PopRequest) { q.Group = "g" })}).ackAll("d=dlq"), "ghost dlq")
	for _, c := range []struct {
		change func(*DeadLetterQuery)
		want   string
		total  int
	}{
		{func(q *DeadLetterQuery) {}, "d c b a", 4},
		{func(q *DeadLetterQuery) { q.Queue = nil }, "d c b a", 4},
		{func(q *DeadLetterQuery) { other := "other"; q.Queue = &other }, "", 0},
		{func(q *DeadLetterQuery) { q.Tenant = queend.ID{8} }, "", 0},
		{func(q *DeadLetterQuery) { q.Group = "g" }, "d", 1},
		{func(q *DeadLetterQuery) { q.Partition = "p" }, "c b a", 3},
		{func(q *DeadLetterQuery) { q.Partition = "nope" }, "", 0},
		{func(q *DeadLetterQuery) { q.From = from }, "d c b", 3},
		{func(q *DeadLetterQuery) { q.To = from }, "a", 1},
		{func(q *DeadLetterQuery) { q.Limit = 2 }, "d c", 4},
		{func(q *DeadLetterQuery) { q.Limit, q.Offset = 2, 3 }, "a", 4},
		{func(q *DeadLetterQuery) { q.Offset = 9 }, "", 4},
		{func(q *DeadLetterQuery) { q.Limit = 0 }, "", 4},
		{func(q *DeadLetterQuery) { q.ErrorContains = "bad-" }, "c b a", 3},
	} {
		page := r.page(c.change)
		var ids []string
		for _, l := range page.Letters {
			ids = append(ids, string(l.TxnID))
		}
		if got := strings.Join(ids, " "); got != c.want || page.Total != c.total {
			t.Errorf("%q of %d, want %q of %d", got, page.Total, c.want, c.total)
		}
	}
}

// ackAll settles the same items on every partition of the pop.
func (p *popped) ackAll(call string) []AckResult {
	p.r.Helper()
	var items []AckItem
	seen := map[queend.ID]bool{}
	for i := range p.Messages {
		if id := p.Messages[i].PartitionUUID; !seen[id] {
			seen[id] = true
			items = append(items, ackCallOf(p.r.T, id, p.LeaseID.String(), call)...)
		}
	}
	return p.r.ackItems(p.Group, items)
}

func TestAPageOfDeadLettersStopsAtItsBytesAfterOne(t *testing.T) {
	r := newRig(t, func(c *Config) { c.PopMaxBytes = 10 })
	for _, id := range []string{"aaa", "bbb", "ccccccccccccc"} {
		r.deadLetter(id)
	}
	r.flushed()
	if page := r.page(); len(page.Letters) != 1 || page.Total != 3 || string(page.Letters[0].TxnID) != "ccccccccccccc" {
		t.Errorf("%d letters of %d", len(page.Letters), page.Total)
	}
	if page := r.page(func(q *DeadLetterQuery) { q.Offset = 1 }); len(page.Letters) != 2 {
		t.Errorf("%d letters", len(page.Letters))
	}
}

func TestReplayByIDMovesTheDeadLetterAsDlqID(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		r := newRig(t)
		r.deadLetter("a")
		if flushed {
			r.flushed()
		}
		l := r.page().Letters[0]
		out, err := r.b.ReplayByID(t.Context(), DefaultTenant, l.ID, ReplayTarget{}, nil)
		r.must(err)
		if out.Duplicate || out.Push.Status != PushQueued || string(out.Push.TxnID) != "dlq:"+l.ID.String() || out.Push.Queue != "q" ||
			out.Partition != "p" || out.Push.Offset != 1 || out.LetterID != l.ID || string(out.OriginalTxn) != "a" || out.Group != QueueMode {
			t.Fatalf("%+v", out)
		}
		r.reopen()
		if got := r.letters(); got != "" {
			t.Fatalf("letters %q", got)
		}
		// A new life: attempt 1 and a fresh budget (F33).
		p := r.pop(1).want("dlq:" + l.ID.String()).attempt(1)
		if string(p.Messages[0].Payload) != `"a"` {
			t.Fatalf("payload %s", p.Messages[0].Payload)
		}
		_, err = r.b.ReplayByID(t.Context(), DefaultTenant, l.ID, ReplayTarget{}, nil)
		r.wantCode(err, CodeNotFound)
	}
}

func TestReplayOfAKnownIDIsADuplicateAndKeepsTheRow(t *testing.T) {
	r := newRig(t)
	r.deadLetter("a")
	l := r.page().Letters[0]
	r.push("dlq:" + l.ID.String())
	out, err := r.b.ReplayByID(t.Context(), DefaultTenant, l.ID, ReplayTarget{}, nil)
	r.must(err)
	if !out.Duplicate || !out.Push.ID.IsZero() {
		t.Fatalf("%+v", out)
	}
	if r.page().Total != 1 {
		t.Error("the row is gone")
	}
}

func TestReplayElsewhereMakesTheDestination(t *testing.T) {
	r := newRig(t)
	r.deadLetter("a")
	queue, part := "new.queue", "there"
	out, err := r.b.ReplayByID(t.Context(), DefaultTenant, r.page().Letters[0].ID, ReplayTarget{Queue: &queue, Partition: &part}, nil)
	r.must(err)
	if out.Push.Queue != queue || out.Partition != part || out.Push.Offset != 0 {
		t.Fatalf("%+v", out)
	}
	long := strings.Repeat("x", 500)
	r.deadLetter("b")
	_, err = r.b.ReplayByID(t.Context(), DefaultTenant, r.page().Letters[0].ID, ReplayTarget{Queue: &long}, nil)
	r.wantCode(err, CodeNameTooLong)
	if r.page().Total != 1 {
		t.Error("a refused replay removed the row")
	}
}

func TestReplayByAddressTakesTheNewestUnderAFreshID(t *testing.T) {
	r := newRig(t)
	r.deadLetter("x", "a")
	r.push("b")
	r.popAs("g", 3).ack("a=dlq:newest")
	r.flushed()
	r.reopen()
	part := r.part("p").uuid
	out, err := r.b.ReplayByAddress(t.Context(), DefaultTenant, part, []byte("a"), nil)
	r.must(err)
	if out.Group != "g" || string(out.Push.TxnID) != out.Push.ID.String() || string(out.OriginalTxn) != "a" {
		t.Fatalf("%+v", out)
	}
	if got := r.letters(); got != "a:bad-a x:bad-x" {
		t.Fatalf("letters %q", got)
	}
	for _, c := range []struct {
		tenant, part queend.ID
		txn          string
	}{{DefaultTenant, part, "b"}, {DefaultTenant, queend.ID{4}, "a"}, {queend.ID{4}, part, "a"}} {
		_, err := r.b.ReplayByAddress(t.Context(), c.tenant, c.part, []byte(c.txn), nil)
		r.wantCode(err, CodeNotFound)
	}
}

func TestR120_MaintenanceRefusesReplays(t *testing.T) {
	r := newRig(t)
	r.deadLetter("a")
	id := r.page().Letters[0].ID
	r.b.locked(func() {
		b := r.b.begin()
		b.add(&flagsSet{maintenance: true})
		r.b.commit(b)
	})
	_, err := r.b.ReplayByID(t.Context(), DefaultTenant, id, ReplayTarget{}, nil)
	r.wantCode(err, CodeMaintenance)
	_, err = r.b.ReplayByAddress(t.Context(), DefaultTenant, r.part("p").uuid, []byte("a"), nil)
	r.wantCode(err, CodeMaintenance)
	queue := "q"
	_, err = r.b.ReplayDeadLetters(t.Context(), DeadLetterQuery{Tenant: DefaultTenant, Queue: &queue}, false, nil)
	r.wantCode(err, CodeMaintenance)
	if r.page().Total != 1 {
		t.Error("the row is gone")
	}
}

func TestA4_BulkReplayIsOldestFirstAndSafeToRepeat(t *testing.T) {
	r := newRig(t)
	r.deadLetter(series("m", 40)...)
	r.flushed()
	queue := "q"
	query := DeadLetterQuery{Tenant: DefaultTenant, Queue: &queue, Limit: 30}
	sum, err := r.b.ReplayDeadLetters(t.Context(), query, true, nil)
	r.must(err)
	if sum != (ReplaySummary{Matched: 40, Remaining: 40}) {
		t.Fatalf("dry run %+v", sum)
	}
	letters := r.page().Letters
	r.push("dlq:" + letters[39].ID.String()) // m0 is a duplicate
	sum, err = r.b.ReplayDeadLetters(t.Context(), query, false, nil)
	r.must(err)
	if sum != (ReplaySummary{Matched: 40, Replayed: 29, Duplicates: 1, Remaining: 11}) {
		t.Fatalf("%+v", sum)
	}
	query.ErrorContains = "bad-m39"
	sum, err = r.b.ReplayDeadLetters(t.Context(), query, false, nil)
	r.must(err)
	if sum != (ReplaySummary{Matched: 1, Replayed: 1}) {
		t.Fatalf("%+v", sum)
	}
	p := r.pop(100)
	if len(p.Messages) != 31 || string(p.Messages[1].Payload) != `"m1"` || string(p.Messages[30].Payload) != `"m39"` {
		t.Fatalf("%d messages", len(p.Messages))
	}
}

func TestDeadLettersAreDeletedByIDAddressAndFilter(t *testing.T) {
	r := newRig(t)
	r.deadLetter("a", "b", "c", "d")
	r.popAs("g", 10).ack("a=dlq")
	r.flushed()
	id := r.page(func(q *DeadLetterQuery) { q.Offset = 1 }).Letters[0].ID // d
	for _, want := range []bool{true, false} {
		found, err := r.b.DeleteDeadLetter(t.Context(), DefaultTenant, id)
		r.must(err)
		if found != want {
			t.Fatalf("found %v", found)
		}
	}
	for _, want := range []int{2, 0} {
		n, err := r.b.DeleteAddress(t.Context(), DefaultTenant, r.part("p").uuid, []byte("a"))
		r.must(err)
		if n != want {
			t.Fatalf("deleted %d, want %d", n, want)
		}
	}
	queue := "q"
	n, err := r.b.DeleteDeadLetters(t.Context(), DeadLetterQuery{Tenant: DefaultTenant, Queue: &queue, ErrorContains: "bad-c"})
	r.must(err)
	if got := r.letters(); n != 1 || got != "b:bad-b" {
		t.Fatalf("deleted %d, left %q", n, got)
	}
	r.reopen()
	n, err = r.b.DeleteDeadLetters(t.Context(), DeadLetterQuery{Tenant: DefaultTenant, Queue: &queue})
	r.must(err)
	if n != 1 || r.page().Total != 0 {
		t.Fatalf("deleted %d", n)
	}
}

func withKey(key byte) func(*Config) {
	return func(c *Config) { c.EncryptionKey = bytes.Repeat([]byte{key}, 32) }
}

func TestR103_DeadLettersOfAnEncryptedQueue(t *testing.T) {
	r := newRig(t, withKey(1))
	r.options(func(o *Options) { o.EncryptionEnabled = true })
	r.deadLetter("a", "b")
	raw := r.part("p").message(0).Payload
	if !isSealed(raw) || bytes.Contains(raw, []byte(`"a"`)) {
		t.Fatalf("stored as %s", raw)
	}
	l := r.page().Letters[1]
	if string(l.Payload) != `"a"` || !l.Encrypted {
		t.Fatalf("%+v", l)
	}
	// The destination's flag counts.
	plain := "plain"
	_, err := r.b.ReplayByID(t.Context(), DefaultTenant, l.ID, ReplayTarget{Queue: &plain}, nil)
	r.must(err)
	if got := r.b.state.partition(r.b.state.queue(DefaultTenant, plain), "p").message(0).Payload; string(got) != `"a"` {
		t.Fatalf("stored as %s", got)
	}
	// Without the key it goes as it is, and is not encrypted again.
	r.close()
	r.cfg.EncryptionKey = bytes.Repeat([]byte{2}, 32)
	r.open()
	l = r.page().Letters[0]
	if !isSealed(l.Payload) || l.Encrypted {
		t.Fatalf("%+v", l)
	}
	_, err = r.b.ReplayByID(t.Context(), DefaultTenant, l.ID, ReplayTarget{}, nil)
	r.must(err)
	if got := r.pop(1).Messages[0].Payload; !bytes.Equal(got, l.Payload) {
		t.Fatalf("stored as %s, was %s", got, l.Payload)
	}
}
