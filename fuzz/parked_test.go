package fuzz

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"queend/broker"
)

// patience is how long a parked pop may take to answer once it must. It is
// long so that a busy machine fails no test; only a broken broker waits it out.
const patience = 5 * time.Second

// parkedPop is a pop that waits in a goroutine of its own.
type parkedPop struct {
	call   popCall
	look   int64 // first look
	due    int64
	slept  bool // was parked with nothing to have (R52)
	unsure bool // whether it slept cannot be known
	cancel context.CancelFunc
	res    *broker.PopResult
	err    error
}

// request is the pop as the broker takes it.
func (c *popCall) request() broker.PopRequest {
	return broker.PopRequest{
		Tenant: broker.DefaultTenant, Discovery: c.Discovery, Namespace: c.NS, Task: c.Task, Queue: c.Queue,
		Pinned: c.Pinned, Partition: c.Part, Group: c.Group, Batch: c.Batch, Partitions: c.Partitions, Wait: c.Wait,
		TimeoutMS: c.TimeoutMS, AutoAck: c.AutoAck, LeaseSeconds: c.LeaseSeconds, Mode: c.Sub.Mode, From: c.Sub.From,
		Conflation: c.Conflation, Autopilot: c.Autopilot,
	}
}

// park starts a waiting pop and returns it once it has answered or waits.
func (h *harness) park(c popCall) error {
	p := &parkedPop{call: c, look: h.m.clock(), due: h.m.clock() + (c.TimeoutMS-50)*millisecond}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	req := c.request()
	waits := make(chan bool, 1)
	req.Watch = func() (<-chan struct{}, func()) {
		waits <- true
		return make(chan struct{}), func() {}
	}
	req.StillThere = func() bool { return true }
	h.m.prepare(&p.call)
	p.slept = !p.filling(h.m)
	if p.slept && len(h.m.offers(h.m.prepare(&p.call))) == 0 {
		h.m.seal(h.m.prepare(&p.call), true)
	}
	h.parked = append(h.parked, p)
	go func() {
		p.res, p.err = h.b.Pop(ctx, req)
		h.answers <- p
	}()
	select {
	case <-waits:
		return nil
	case got := <-h.answers:
		return h.arrive(got)
	case <-time.After(patience):
		return fmt.Errorf("a pop neither answered nor parked: %+v", c)
	}
}

// filling reports whether minPopWaitTime holds the pop back (R52). Only
// pinned ones wait for that here: what a queue has ready is an estimate.
func (p *parkedPop) filling(m *model) bool {
	q := m.queues[p.call.Queue]
	if p.slept || q == nil || !p.call.Pinned {
		return false
	}
	batch, _ := p.call.limits(false)
	until := min(p.look+q.opts.MinPopWaitTime*millisecond, p.due)
	part, g := q.parts[p.call.Part], q.groups[p.call.Group]
	if q.opts.MinPopWaitTime == 0 || batch <= 1 || m.clock() >= until || part == nil || g == nil {
		return false
	}
	o := m.offer(lane{g, part})
	n := len(o.offs) + len(o.heads) // heads at their delivery limit count until they are filed
	return n > 0 && n < batch
}

// settle lets parked pops take what they must, and checks that the others
// stay where they are. Answers that come together may come in any order: each
// is compared as soon as it is legal.
func (h *harness) settle() error {
	for end := time.Now().Add(patience); ; runtime.Gosched() {
		if err := h.compareArrived(); err != nil {
			return err
		}
		must := false
		for _, p := range h.parked {
			must = h.mustAnswer(p) || must
		}
		if !must && len(h.arrived) == 0 {
			return h.quiesce()
		}
		select {
		case p := <-h.answers:
			if err := h.arrive(p); err != nil {
				return err
			}
			end = time.Now().Add(patience)
		default:
		}
		switch late := time.Now().After(end); {
		case late && len(h.arrived) > 0:
			_, _, err := h.legal(&h.arrived[0].call, h.arrived[0].res)
			return fmt.Errorf("parked pop %+v: %w", h.arrived[0].call, err)
		case late:
			return h.stranded()
		}
	}
}

// arrive takes the answer of a parked pop.
func (h *harness) arrive(p *parkedPop) error {
	h.parked = slices.DeleteFunc(h.parked, func(x *parkedPop) bool { return x == p })
	p.cancel()
	if p.err != nil {
		return fmt.Errorf("parked pop: %w", p.err)
	}
	if len(p.res.Messages) == 0 && h.m.clock() < p.due {
		return fmt.Errorf("a parked pop answered empty before its time: %+v", p.call)
	}
	h.arrived = append(h.arrived, p)
	return nil
}

// compareArrived compares the answers that are legal now.
func (h *harness) compareArrived() error {
	for i := 0; i < len(h.arrived); i++ {
		p := h.arrived[i]
		if _, _, err := h.legal(&p.call, p.res); err != nil {
			continue
		}
		h.arrived = slices.Delete(h.arrived, i, i+1)
		if err := h.compare(&p.call, p.res); err != nil {
			return err
		}
		i = -1
	}
	return nil
}

// stranded describes a parked pop that did not answer.
func (h *harness) stranded() error {
	for _, p := range h.parked {
		if !h.mustAnswer(p) {
			continue
		}
		for _, o := range h.m.offers(h.m.prepare(&p.call)) {
			if len(o.offs) > 0 {
				return fmt.Errorf("a parked pop was not answered, %s/%s has %v: %+v", o.p.q.name, o.p.name, o.offs, p.call)
			}
		}
		return fmt.Errorf("a parked pop was not answered when its time was over: %+v", p.call)
	}
	return nil
}

// mustAnswer reports whether a parked pop has something to say now.
func (h *harness) mustAnswer(p *parkedPop) bool {
	lanes := h.m.prepare(&p.call)
	if h.m.clock() >= p.due {
		return true
	}
	if p.unsure {
		return false
	}
	for _, o := range h.m.offers(lanes) {
		if len(o.offs) > 0 {
			return !p.filling(h.m)
		}
	}
	p.unsure = !p.slept
	return false
}

// quiesce waits until every parked pop is back in its line.
func (h *harness) quiesce() error {
	if len(h.parked) == 0 {
		return nil
	}
	for end := time.Now().Add(patience); ; runtime.Gosched() {
		select {
		case p := <-h.answers:
			if err := h.arrive(p); err != nil {
				return err
			}
			return h.settle()
		default:
		}
		wrong, err := h.unparked()
		if err == nil && wrong == "" {
			wrong, err = h.syncHeads()
		}
		if err != nil || wrong == "" {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("pops of %s are not parked", wrong)
		}
	}
}

// unparked names a queue and group whose parked pops are not all in line, or
// that a discovery pop has yet to register anew.
func (h *harness) unparked() (string, error) {
	want := map[[2]string]int{}
	covered := map[[2]string]bool{}
	for _, p := range h.parked {
		if !p.call.Discovery {
			want[[2]string{p.call.Queue, p.call.Group}]++
		}
		for _, g := range h.m.covered(mLabelKey{p.call.NS, p.call.Task, p.call.Group}) {
			if p.call.Discovery {
				covered[[2]string{g.q.name, g.name}] = true
			}
		}
	}
	rows, err := h.b.ConsumerGroups(h.ctx, broker.DefaultTenant)
	if err != nil {
		return "", err
	}
	for i := range rows {
		key := [2]string{rows[i].Queue, rows[i].Group}
		if rows[i].Consumers == want[key] {
			delete(want, key)
		}
		delete(covered, key)
	}
	for key := range want {
		return fmt.Sprint(key), nil
	}
	for key := range covered {
		return fmt.Sprint(key), nil
	}
	return "", nil
}

// syncHeads follows the broker in what parked pops filed and sealed on their
// way (A3, R9), and names a lane whose head none of them has filed yet.
func (h *harness) syncHeads() (wrong string, err error) {
	for _, p := range h.parked {
		if err := h.followHeads(h.m.offers(h.m.prepare(&p.call))); err != nil {
			return "", err
		}
		if p.filling(h.m) || p.unsure {
			continue
		}
		h.m.seal(h.m.prepare(&p.call), true)
		for _, o := range h.m.offers(h.m.prepare(&p.call)) {
			if len(o.heads) > 0 {
				return fmt.Sprint(o.p.q.name, "/", o.p.name), nil
			}
		}
	}
	return "", nil
}

// hangUp ends a parked pop as if its client had gone.
func (h *harness) hangUp(p *parkedPop) error {
	p.cancel()
	for {
		select {
		case got := <-h.answers:
			if got == p && (p.err != nil || len(p.res.Messages) == 0) {
				h.parked = slices.DeleteFunc(h.parked, func(x *parkedPop) bool { return x == p })
				return nil
			}
			if err := h.arrive(got); err != nil || got == p {
				return err
			}
		case <-time.After(patience):
			return fmt.Errorf("a pop whose client has gone did not end: %+v", p.call)
		}
	}
}

// hangUpAll ends all of them.
func (h *harness) hangUpAll() error {
	for len(h.parked) > 0 {
		if err := h.hangUp(h.parked[0]); err != nil {
			return err
		}
	}
	return h.compareArrived()
}

// hangUpOp ends one parked pop.
type hangUpOp struct{ N int }

func (o hangUpOp) run(h *harness) error {
	if len(h.parked) == 0 {
		return nil
	}
	return h.hangUp(h.parked[o.N%len(h.parked)])
}
