package crash

import (
	"maps"
	"slices"
	"strings"

	"queend/broker"
)

// place is a partition; reader is a group on it.
type place struct{ queue, part string }

type reader struct {
	place
	group string
}

// facts is what a history says about the state it left. Retained queues may
// have lost what was consumed; spooled ones have no order with the rest.
type facts struct {
	seen    map[place]map[int64]string // offsets that an answer has shown, with their ids
	ids     map[place]map[string]bool  // all ids that were sent; true: stored for certain
	wholes  [][]item                   // stored all or none
	readers map[reader]*progress
	letters map[address]*filing
	replays []*event
	txns    []*event // without an answer
	leases  []int64  // leaseTime of the configured queue: what it may be
	after   []ordered
	clash   []string // offsets that had two ids
}

// progress is how far a group has come.
type progress struct {
	floor  int64   // committed for certain
	maybe  []int64 // or through one of these
	unsure bool    // or anywhere above
}

// address is a message in a group.
type address struct {
	reader
	txn string
}

// filing is a message that a group gave up.
type filing struct {
	offset   int64
	certain  bool
	replayed int // 0: no, 1: perhaps, 2: certainly
}

// ordered says that id, sent after the answer that stored another message
// at offset, stands behind it.
type ordered struct {
	place
	txn    string
	offset int64
}

const (
	retainedQueue = "kept"
	spooledQueue  = "spool"
	optionsQueue  = "conf"
)

func (h *history) facts() *facts {
	f := &facts{
		seen: map[place]map[int64]string{}, ids: map[place]map[string]bool{},
		readers: map[reader]*progress{}, letters: map[address]*filing{},
	}
	for _, e := range h.events {
		f.add(h, e)
	}
	return f
}

func (f *facts) add(h *history, e *event) {
	done := e.done != never
	if done && e.Refused != "" {
		for _, it := range e.Items { // not stored by this one
			f.id(place{it.Queue, it.Part}, it.Txn, false)
		}
		return
	}
	switch e.Op {
	case "push":
		f.addPush(h, e, done)
	case "pop":
		f.addPop(e, done)
	case "ack":
		f.addAcks(e, done)
	case "transaction":
		for _, it := range e.Items {
			f.id(place{it.Queue, it.Part}, it.Txn, done)
		}
		f.addAcks(e, done)
		if !done {
			f.wholes = append(f.wholes, e.Items)
			f.txns = append(f.txns, e)
		}
	case "letters":
		for _, l := range e.Letters {
			f.see(place{l.Queue, l.Part}, l.Offset, l.Txn)
		}
	case "replay":
		f.addReplay(e, done)
	case "configure":
		if e.Queue != optionsQueue {
			return
		}
		if done {
			f.leases = nil
		}
		f.leases = append(f.leases, e.call.N)
	}
}

func (f *facts) id(p place, txn string, certain bool) {
	if f.ids[p] == nil {
		f.ids[p] = map[string]bool{}
	}
	f.ids[p][txn] = f.ids[p][txn] || certain
}

func (f *facts) see(p place, offset int64, txn string) {
	if f.seen[p] == nil {
		f.seen[p] = map[int64]string{}
	}
	if old, ok := f.seen[p][offset]; ok && old != txn {
		f.clash = append(f.clash, old+" and "+txn)
	}
	f.seen[p][offset] = txn
	f.id(p, txn, true)
}

func (f *facts) addPush(h *history, e *event, done bool) {
	for i, it := range e.Items {
		p := place{it.Queue, it.Part}
		f.id(p, it.Txn, done)
		if done && e.Pushed[i].Status != broker.PushBuffered && e.Pushed[i].Offset >= 0 {
			f.see(p, e.Pushed[i].Offset, it.Txn)
		}
	}
	if done {
		return
	}
	f.addWhole(e.Items)
	for _, it := range e.Items {
		p := place{it.Queue, it.Part}
		last := int64(-1)
		for _, before := range h.events {
			if before.Op != "push" || before.done > e.sent {
				continue
			}
			for i, other := range before.Items {
				if (place{other.Queue, other.Part}) == p && before.Refused == "" {
					last = max(last, before.Pushed[i].Offset)
				}
			}
		}
		f.after = append(f.after, ordered{p, it.Txn, last})
	}
}

// addWhole notes a request that is stored whole or not at all; the spool
// promises that of each message only.
func (f *facts) addWhole(items []item) {
	if items[0].Queue != spooledQueue {
		f.wholes = append(f.wholes, items)
	}
}

func (f *facts) reader(r reader) *progress {
	if f.readers[r] == nil {
		f.readers[r] = &progress{floor: -1}
	}
	return f.readers[r]
}

func (f *facts) addPop(e *event, done bool) {
	if e.Auto && !done {
		for p := range f.ids {
			if p.queue == e.Queue {
				f.reader(reader{p, e.Group}).unsure = true
			}
		}
	}
	for _, m := range e.Messages {
		p := place{m.Queue, m.Part}
		f.see(p, m.Offset, m.Txn)
		r := f.reader(reader{p, e.Group})
		if e.Auto {
			r.floor = max(r.floor, m.Offset)
		}
	}
}

// addAcks takes the acks of a call. Those of a partition are all of one kind.
func (f *facts) addAcks(e *event, done bool) {
	targets := map[reader]int64{}
	for i, a := range e.Acks {
		r := reader{place{a.Queue, a.Part}, e.Group}
		f.reader(r)
		if done && e.Op == "ack" && !e.Acked[i].Success {
			continue
		}
		filed := a.Signal == broker.DLQ || a.Signal == broker.Failed
		if filed && done && e.Op == "ack" && !e.Acked[i].DLQ || a.Signal == broker.Retry {
			continue
		}
		if filed {
			at := address{r, a.Txn}
			if f.letters[at] == nil {
				f.letters[at] = &filing{offset: a.Offset}
			}
			f.letters[at].certain = f.letters[at].certain || done
		}
		targets[r] = max(targets[r], a.Offset)
	}
	for r, target := range targets {
		if p := f.reader(r); done {
			p.floor = max(p.floor, target)
		} else {
			p.maybe = append(p.maybe, target)
		}
	}
}

func (f *facts) addReplay(e *event, done bool) {
	it := e.Items[0]
	p := place{it.Queue, it.Part}
	at := address{reader{p, e.Group}, it.Txn}
	again := replayed + e.Of
	f.id(p, again, done)
	if l := f.letters[at]; l != nil {
		l.replayed = max(l.replayed, 1)
		if done {
			l.replayed = 2
		}
	}
	if done {
		f.see(p, e.Pushed[0].Offset, again)
	}
	f.replays = append(f.replays, e)
}

// replayed begins the ids of messages that were dead letters.
const replayed = "dlq:"

// original is the id that a payload was made from.
func (f *facts) original(txn string) string {
	id, again := strings.CutPrefix(txn, replayed)
	if !again {
		return txn
	}
	for _, e := range f.replays {
		if e.Of == id {
			return f.original(e.Items[0].Txn)
		}
	}
	return txn
}

// may reports whether a group may have come through offset.
func (p *progress) may(offset, start int64) bool {
	return p.unsure && offset >= p.floor || offset == max(p.floor, start-1) ||
		slices.ContainsFunc(p.maybe, func(m int64) bool { return m > p.floor && offset == max(m, start-1) })
}

// places lists the partitions in a fixed order.
func (f *facts) places() []place {
	return slices.SortedFunc(maps.Keys(f.ids), func(a, b place) int {
		return strings.Compare(a.queue+"\x00"+a.part, b.queue+"\x00"+b.part)
	})
}
