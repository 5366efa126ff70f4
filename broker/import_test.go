package broker

import (
	"testing"

	"queend"
)

func (r *rig) imports(in Import) Imported {
	r.Helper()
	in.Tenant, in.Queue = DefaultTenant, "q"
	out, err := r.b.Import(r.Context(), in)
	r.must(err)
	return out
}

func TestAnImportPutsGroupsWhereTheyWere(t *testing.T) {
	r := newRig(t)
	r.push("a", "b", "c")
	r.flushed()
	begun := r.now - Hour
	in := Import{Groups: []ImportGroup{
		{Name: "audit", Mode: "new", Start: begun, Cursors: []ImportCursor{{"p", 2}, {"empty", 0}}},
		{Name: "latest", Mode: "all", Start: -1, Conflation: true, Cursors: []ImportCursor{{"p", 1}}},
		{Cursors: []ImportCursor{{"p", 3}}},
	}}
	if got := r.imports(in); got != (Imported{Groups: 3, Cursors: 4}) {
		t.Fatalf("%+v", got)
	}
	r.reopen()
	r.popAs("audit", 10).want("c").ack("c=completed")
	r.pop(10).want("")
	if res := r.popReq(func(q *PopRequest) { q.Group = "latest" }); len(res.Messages) != 1 || string(res.Messages[0].TxnID) != "c" {
		t.Errorf("the conflating group gets %+v", res.Messages)
	}
	if g := r.part("empty").q.groups["audit"]; g.mode != "new" || g.start != begun {
		t.Errorf("group %+v", g)
	}
	// Again: nothing that moved on goes back.
	if got := r.imports(in); got != (Imported{Known: 4}) {
		t.Errorf("again: %+v", got)
	}
	r.popAs("audit", 10).want("")
}

func TestAnImportedDeadLetterIsOneLikeAnyOther(t *testing.T) {
	r := newRig(t, withKey(7))
	r.options(func(o *Options) { o.EncryptionEnabled = true })
	r.push("a")
	producer, id := "sub", queend.ID{0: 1, 6: 0x70, 8: 0x80}
	in := Import{Letters: []ImportLetter{
		{Partition: "gone", Group: "g", Offset: queend.NoOffset, TxnID: []byte("old"), Payload: []byte("1"), Error: "first"},
		{
			ID: id, Partition: "p", Offset: 0, TxnID: []byte("a"), Producer: &producer, Headers: []byte(`{"h":"1"}`), Payload: []byte(`{"n":1}`),
			Error: "boom", Retries: 3, Attempts: 4, Enqueued: 5 * Second,
		},
	}}
	if got := r.imports(in); got != (Imported{Letters: 2}) {
		t.Fatalf("%+v", got)
	}
	for _, step := range []func(){func() {}, r.flushed, r.reopen} {
		step()
		page := r.page()
		if page.Total != 2 {
			t.Fatalf("%d letters", page.Total)
		}
		l := page.Letters[0]
		if l.ID != id || l.Group != QueueMode || l.Error != "boom" || l.RetryCount != 3 || l.Attempts != 4 || l.EnqueuedAt != 5*Second || !l.Encrypted ||
			string(l.Payload) != `{"n":1}` || string(l.Headers) != `{"h":"1"}` || string(l.Producer) != "sub" || l.Partition != "p" || l.Offset != 0 {
			t.Fatalf("%+v", l)
		}
		if l := page.Letters[1]; l.Error != "first" || l.Partition != "gone" || l.Offset != queend.NoOffset || l.ID.IsZero() {
			t.Fatalf("%+v", l)
		}
	}
	if got := r.b.state.totals.DeadLetters; got != 0 {
		t.Errorf("%d failures are counted", got)
	}
	if got := r.imports(Import{Letters: in.Letters[1:]}); got != (Imported{Known: 1}) {
		t.Errorf("again: %+v", got)
	}
	out, err := r.b.ReplayByID(t.Context(), DefaultTenant, id, ReplayTarget{}, nil)
	r.must(err)
	if string(out.Push.TxnID) != "dlq:"+id.String() || out.Partition != "p" {
		t.Errorf("replayed %+v", out)
	}
}

func TestARefusedImportChangesNothing(t *testing.T) {
	r := newRig(t)
	r.push("a")
	before := dump(t, r.b)
	for _, c := range []struct {
		queue string
		next  queend.Offset
		code  ErrorCode
	}{{"nowhere", 1, CodeNotFound}, {tracesQueue, 1, CodeNameTooLong}, {"q", 2, CodeBadRequest}, {"q", -1, CodeBadRequest}} {
		_, err := r.b.Import(t.Context(), Import{Tenant: DefaultTenant, Queue: c.queue, Letters: []ImportLetter{{TxnID: []byte("x"), Payload: []byte("1")}},
			Groups: []ImportGroup{{Name: "g", Cursors: []ImportCursor{{"new", 0}, {"p", c.next}}}}})
		r.wantCode(err, c.code)
	}
	sameDump(t, "after refusals", before, dump(t, r.b))
	r.maintenance(true)
	_, err := r.b.Import(t.Context(), Import{Tenant: DefaultTenant, Queue: "q"})
	r.wantCode(err, CodeMaintenance)
}
