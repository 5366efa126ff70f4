package linear

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// worker is one client of a cell. It does one thing after the other.
type worker struct {
	c    *cell
	id   int
	rng  *rand.Rand
	http *httpClient
	mine []grant
}

// newWorker makes a client of a cell.
func (r *round) newWorker(c *cell, id int, rng *rand.Rand) *worker {
	return &worker{c: c, id: id, rng: rng, http: &httpClient{target: &r.node.target}}
}

// work calls until stop is set. A call that finds no broker is made again.
func (w *worker) work(stop *atomic.Bool) error {
	defer w.http.close()
	for !stop.Load() {
		o, leave := w.choose()
		err := w.c.do(w.http, o, leave)
		switch {
		case errors.Is(err, errUnsent):
			time.Sleep(5 * time.Millisecond)
		case err != nil:
			return err
		}
		if o.kind == opPop && len(o.runs) > 0 && !o.auto {
			w.mine = append(w.mine, grant{o.got, o.group, o.runs, time.Now()})
		}
		if w.rng.IntN(3) > 0 {
			time.Sleep(time.Duration(w.rng.IntN(12000)) * time.Microsecond)
		}
	}
	return nil
}

// choose picks the next call, and after how long the client hangs up, 0: not.
func (w *worker) choose() (o *op, leave time.Duration) {
	o = &op{client: w.id, group: w.rng.IntN(groups), part: w.rng.IntN(parts)}
	n := w.rng.IntN(100)
	if len(w.mine) == 0 && n >= 60 && n < 95 {
		n = 40
	}
	switch {
	case n < 28:
		w.push(o)
	case n < 60:
		leave = w.pop(o)
	case n < 82:
		w.ack(o, w.take())
	case n < 86:
		w.renew(o, opExtend)
	case n < 89:
		w.renew(o, opRelease)
	case n < 95:
		w.txn(o, w.take())
	default:
		w.wrong(o)
	}
	return o, leave
}

// old is the number of a message that was pushed before, or soon will be.
func (w *worker) old() int {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	return max(1, w.c.msgs-w.rng.IntN(12))
}

func (w *worker) push(o *op) {
	o.kind = opPush
	for range 1 + w.rng.IntN(3) {
		if w.rng.IntN(8) == 0 {
			o.msgs = append(o.msgs, w.old())
		} else {
			o.msgs = append(o.msgs, w.c.newMsg())
		}
	}
}

func (w *worker) pop(o *op) (leave time.Duration) {
	o.kind, o.partitions, o.batch, o.seconds = opPop, 1, 1+w.rng.IntN(6), 1+w.rng.Int64N(2)
	o.auto, o.patient = w.rng.IntN(8) == 0, w.rng.IntN(3) == 0
	if w.rng.IntN(2) == 0 {
		o.part, o.partitions = -1, 1+w.rng.IntN(2)
	}
	if o.patient && o.partitions == 1 && w.rng.IntN(5) == 0 {
		return time.Duration(1+w.rng.IntN(60)) * time.Millisecond
	}
	return 0
}

// take removes one of the client's grants. At times it leaves it in place, so
// that it is settled twice or after its end.
func (w *worker) take() grant {
	i := w.rng.IntN(len(w.mine))
	g := w.mine[i]
	if w.rng.IntN(4) > 0 || len(w.mine) > 4 {
		w.mine = append(w.mine[:i], w.mine[i+1:]...)
	}
	return g
}

// ack settles a grant: mostly all of it and well.
func (w *worker) ack(o *op, g grant) {
	o.kind, o.group = opAck, g.group
	for _, r := range g.runs {
		o.items = append(o.items, w.items(r, g.lease)...)
	}
	if w.rng.IntN(10) == 0 {
		for i := range o.items {
			o.items[i].lease = 0
		}
	}
}

// items settles one run in one of many ways.
func (w *worker) items(r run, lease int32) []ackOne {
	all := numbers(r.msgs)
	word := func() signal {
		if w.rng.IntN(6) == 0 {
			return signal(2 + w.rng.IntN(3))
		}
		return completed
	}
	var items []ackOne
	switch w.rng.IntN(6) {
	case 0: // the last one stands for all
		items = append(items, ackOne{msgRef{r.part, all[len(all)-1]}, completed, lease})
	case 1: // only the beginning
		for _, msg := range all[:1+w.rng.IntN(len(all))] {
			items = append(items, ackOne{msgRef{r.part, msg}, completed, lease})
		}
	case 2: // some, in any order, also twice
		for range 1 + w.rng.IntN(len(all)+1) {
			items = append(items, ackOne{msgRef{r.part, all[w.rng.IntN(len(all))]}, word(), lease})
		}
	default:
		for _, msg := range all {
			items = append(items, ackOne{msgRef{r.part, msg}, word(), lease})
		}
	}
	return items
}

func (w *worker) renew(o *op, k kind) {
	o.kind, o.seconds = k, 1+w.rng.Int64N(2)
	o.lease = w.mine[w.rng.IntN(len(w.mine))].lease
	if w.rng.IntN(5) == 0 {
		if g, ok := w.foreign(); ok {
			o.lease = g.lease
		}
	}
}

// txn acks and pushes in one.
func (w *worker) txn(o *op, g grant) {
	w.ack(o, g)
	o.kind = opTxn
	if w.rng.IntN(4) == 0 {
		for i := range o.items {
			o.items[i].lease = 0
		}
		if w.rng.IntN(3) > 0 {
			o.required = []int32{g.lease}
		}
	}
	for p := range parts {
		for range w.rng.IntN(3) {
			msg := w.c.newMsg()
			if w.rng.IntN(12) == 0 {
				msg = w.old()
			}
			o.pushes = append(o.pushes, msgRef{p, msg})
		}
	}
}

// foreign is a grant of any client, of now or of long ago.
func (w *worker) foreign() (grant, bool) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	n := len(w.c.grants)
	if n == 0 {
		return grant{}, false
	}
	return w.c.grants[n-1-w.rng.IntN(min(n, 12))], true
}

// wrong acks what is somebody else's, or was settled, or is not there.
func (w *worker) wrong(o *op) {
	g, ok := w.foreign()
	if !ok {
		w.push(o)
		return
	}
	w.ack(o, g)
	switch w.rng.IntN(4) {
	case 0: // under another lease
		if other, ok := w.foreign(); ok {
			for i := range o.items {
				o.items[i].lease = other.lease
			}
		}
	case 1: // one more, which may be above the batch
		it := o.items[0]
		it.msg = w.old()
		o.items = append(o.items, it)
	}
}
