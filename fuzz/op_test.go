package fuzz

import (
	"fmt"
	"reflect"
	"strings"

	"queend"
	"queend/broker"
)

// op is one command. It names leases, messages and dead letters by where they
// are, so that it means something when commands before it are left out. run
// returns how broker and model disagree.
type op interface{ run(h *harness) error }

// literal prints a value as Go source, without what is zero.
func literal(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return "nil"
		}
		if v.Kind() == reflect.Pointer {
			return "ptr(" + literal(v.Elem()) + ")"
		}
		return literal(v.Elem())
	case reflect.Struct:
		var fields []string
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				fields = append(fields, v.Type().Field(i).Name+": "+literal(f))
			}
		}
		return typeName(v.Type()) + "{" + strings.Join(fields, ", ") + "}"
	case reflect.Slice:
		var items []string
		for i := range v.Len() {
			items = append(items, literal(v.Index(i)))
		}
		return "[]" + typeName(v.Type().Elem()) + "{" + strings.Join(items, ", ") + "}"
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	}
	return fmt.Sprint(v.Interface())
}

func typeName(t reflect.Type) string { return strings.TrimPrefix(t.String(), "fuzz.") }

func ptr[T any](v T) *T { return &v }

func offset(off int) queend.Offset { return queend.Offset(off) }

// leaseRef names a lease: "" none, "row" what the row holds, dead or alive,
// "settled" the last one settled whole, "bogus" one that never was, "text" no
// id at all.
type leaseRef struct{ Kind, Queue, Part, Group string }

const bogusID = "0199aa00-0000-7000-8000-000000000001"

func (h *harness) lease(ref leaseRef) string {
	switch ref.Kind {
	case "":
		return ""
	case "bogus":
		return bogusID
	case "text":
		return "no lease"
	}
	p := h.m.find(ref.Queue, ref.Part)
	if p == nil || p.q.groups[ref.Group] == nil {
		return bogusID
	}
	r := p.q.groups[ref.Group].cursor(p)
	id := r.lease
	if ref.Kind == "settled" {
		id = r.settled
	}
	if id.IsZero() {
		return bogusID
	}
	return id.String()
}

func (h *harness) leaseID(ref leaseRef) queend.ID {
	id, _ := queend.ParseID(h.lease(ref))
	return id
}

// pushOp stores messages.
type pushOp struct {
	Items    []pushItem
	Producer *string
}

func (o pushOp) run(h *harness) error {
	items := make([]broker.PushItem, len(o.Items))
	for i, it := range o.Items {
		items[i] = it.request()
	}
	got, err := h.b.Push(h.ctx, broker.DefaultTenant, o.Producer, items)
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	want := h.m.push(o.Items, o.Producer)
	for i := range want {
		if err := want[i].matches(&got[i], o.Items[i].Queue); err != nil {
			return fmt.Errorf("push item %d: %w", i, err)
		}
	}
	return nil
}

func (it pushItem) request() broker.PushItem {
	r := broker.PushItem{Queue: it.Queue, Partition: it.Part, Payload: []byte(it.payload())}
	if it.Txn != "" {
		r.TxnID = []byte(it.Txn)
	}
	if it.Headers {
		r.Headers = []byte(it.headers())
	}
	return r
}

// matches compares the answer of an item.
func (w *mPushed) matches(got *broker.PushResult, queue string) error {
	if got.Status != w.status || int(got.Offset) != w.msg.off || got.Queue != queue {
		return fmt.Errorf("answer %+v, want status %d offset %d", *got, w.status, w.msg.off)
	}
	switch {
	case w.status == broker.PushQueued:
		w.msg.settleID(got.ID)
	case w.gone && !got.ID.IsZero():
		return fmt.Errorf("duplicate of a removed message has id %s", got.ID)
	case !w.gone && got.ID != w.msg.id:
		return fmt.Errorf("duplicate has id %s, want %s", got.ID, w.msg.id)
	}
	if string(got.TxnID) != w.msg.txn {
		return fmt.Errorf("transaction id %q, want %q", got.TxnID, w.msg.txn)
	}
	return nil
}

// popOp claims messages, at once or later with Wait.
type popOp struct{ popCall }

func (o popOp) run(h *harness) error {
	c := o.popCall
	if c.Pinned {
		c.Part = orText(c.Part, broker.DefaultPartition)
	}
	c.Group = orText(c.Group, broker.QueueMode)
	if q := h.m.queues[c.Queue]; c.Wait && q != nil && q.opts.MinPopWaitTime > 0 && !c.Pinned {
		c.Wait = false
	}
	if c.Wait {
		return h.park(c)
	}
	res, err := h.b.Pop(h.ctx, c.request())
	if err != nil {
		return fmt.Errorf("pop: %w", err)
	}
	return h.compare(&c, res)
}

// legal reports whether an answer may be given in the state of the model: by
// which lanes there are, what they offer and what was taken.
func (h *harness) legal(c *popCall, res *broker.PopResult) (offers []offer, claims []claim, err error) {
	lanes := h.m.prepare(c)
	offers = h.m.offers(lanes)
	if claims, err = split(offers, res.Messages); err != nil {
		return nil, nil, err
	}
	conflation := len(lanes) > 0 && !c.Discovery && lanes[0].g.conflation
	batch, partitions := c.limits(conflation)
	if res.Autopilot != nil {
		batch, partitions = res.Autopilot.Batch, res.Autopilot.Partitions
	}
	if err := h.m.checkAnswer(lanes, offers, claims, batch, partitions); err != nil {
		return nil, nil, err
	}
	if len(claims) != res.Claimed || (len(claims) > 0 && !c.AutoAck) == res.LeaseID.IsZero() {
		return nil, nil, fmt.Errorf("answer says %d partitions, lease %s; %d gave messages", res.Claimed, res.LeaseID, len(claims))
	}
	return offers, claims, nil
}

// compare checks an answer and applies what the broker chose.
func (h *harness) compare(c *popCall, res *broker.PopResult) error {
	offers, claims, err := h.legal(c, res)
	if err != nil {
		return err
	}
	lanes := h.m.prepare(c)
	now := h.m.stamp()
	rec := &popped{res: res}
	left := offers[:0:0]
	for _, cl := range claims {
		undo, err := h.m.take(c, cl, res.LeaseID, now)
		if err != nil {
			return err
		}
		rec.claims = append(rec.claims, undo)
		lanes = dropLane(lanes, cl.lane)
	}
	for _, o := range offers {
		if containsLane(lanes, o.lane) {
			left = append(left, o)
		}
	}
	if len(claims) > 0 && !c.AutoAck {
		h.last = rec
	}
	h.m.seal(lanes, len(claims) == 0)
	return h.followHeads(left)
}

func dropLane(all []lane, gone lane) (kept []lane) {
	for _, l := range all {
		if l != gone {
			kept = append(kept, l)
		}
	}
	return kept
}

func containsLane(all []lane, l lane) bool { return len(dropLane(all, l)) < len(all) }

// followHeads sees how many heads at their delivery limit the broker took out
// of the way on lanes that it may or may not have looked at.
func (h *harness) followHeads(offers []offer) error {
	for _, o := range offers {
		if len(o.heads) == 0 {
			continue
		}
		rows, _, err := h.depth(o.g)
		if err != nil {
			return err
		}
		for _, head := range o.heads {
			if rows[o.p.name].Pending > int64(o.p.pending(head)) {
				break
			}
			h.m.fileHead(o.lane, head)
		}
	}
	return nil
}

// giveBackOp undoes the last pop as if its answer could not be written.
type giveBackOp struct{}

func (o giveBackOp) run(h *harness) error {
	if h.last == nil {
		return nil
	}
	h.b.GiveBack(h.ctx, h.last.res)
	h.m.giveBack(h.last.claims, h.last.res.LeaseID)
	h.last = nil
	return nil
}

// extendOp renews a lease.
type extendOp struct {
	Lease   leaseRef
	Seconds int64
}

func (o extendOp) run(h *harness) error {
	lease := h.lease(o.Lease)
	n, until, err := h.b.Extend(h.ctx, broker.DefaultTenant, lease, o.Seconds)
	if err != nil {
		return fmt.Errorf("extend: %w", err)
	}
	want, wantUntil := h.m.extend(h.leaseID(o.Lease), o.Seconds)
	if n != want || until < wantUntil-millisecond || until > wantUntil+millisecond {
		return fmt.Errorf("extend renewed %d until %d, want %d until %d", n, until, want, wantUntil)
	}
	return nil
}

// releaseOp gives a lease back.
type releaseOp struct{ Lease leaseRef }

func (o releaseOp) run(h *harness) error {
	n, err := h.b.Release(h.ctx, broker.DefaultTenant, h.lease(o.Lease))
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	if want := h.m.release(h.leaseID(o.Lease)); n != want {
		return fmt.Errorf("released %d, want %d", n, want)
	}
	return nil
}
