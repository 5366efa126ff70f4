package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"queend"
	"queend/segment"
)

// known is one message as a plain list remembers it.
type known struct {
	txn  string
	id   queend.ID
	time int64
}

// lane1 is a partition in a broker that a test pushes to.
type lane1 struct {
	t   *testing.T
	b   *Broker
	c   *clock
	id  queend.PartitionID
	all []known // by offset
}

// newLane makes a queue with one partition.
func newLane(t *testing.T, b *Broker, c *clock, opts Options) *lane1 {
	t.Helper()
	l := &lane1{t: t, b: b, c: c}
	b.locked(func() {
		t := b.begin()
		q := b.state.lastQueue + 1
		l.id = b.state.lastPartition + 1
		t.add(&queueSet{id: q, uuid: b.newID(t.stamp), name: fmt.Sprint("q", q), created: t.stamp, opts: opts})
		t.add(&partitionNew{id: l.id, queue: q, uuid: b.newID(t.stamp), name: "Default", created: t.stamp})
		b.commit(t)
	})
	return l
}

func (l *lane1) p() *partition { return l.b.state.partitions.get(l.id) }

// push appends messages with these transaction ids and payload sizes.
func (l *lane1) push(size int, txns ...string) {
	l.b.locked(func() {
		t := l.b.begin()
		v := &pushed{partition: l.id, first: l.p().end}
		for _, txn := range txns {
			m := segment.Message{ID: l.b.newID(t.stamp), TxnID: []byte(txn), Payload: make([]byte, size)}
			for i := range m.Payload {
				m.Payload[i] = byte(l.b.cfg.Rand.Uint32())
			}
			var e encoder
			appendMessage(&e, &m)
			v.raws = append(v.raws, e.buf)
			l.all = append(l.all, known{txn, m.ID, t.stamp})
		}
		t.add(v)
		l.b.commit(t)
	})
}

func (l *lane1) flush() {
	l.t.Helper()
	if _, err := l.b.flush(); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lane1) setStart(off queend.Offset) {
	l.b.locked(func() {
		t := l.b.begin()
		t.add(&logStart{l.id, off})
		l.b.commit(t)
	})
}

// find asks until the finder is ready. It fails when that takes too long.
func (l *lane1) find(ask func(f *finder) bool) {
	l.t.Helper()
	f := l.b.newFinder()
	defer f.release()
	for range 20 {
		ready := false
		l.b.locked(func() { ready = ask(f) })
		if ready {
			return
		}
		if !f.waiting() {
			l.t.Fatal("not ready and nothing to load")
		}
		if err := f.load(); err != nil {
			l.t.Fatal(err)
		}
	}
	l.t.Fatal("a lookup makes no progress")
}

func (l *lane1) lookup(txn string, since int64, lo, hi queend.Offset) (m match) {
	l.t.Helper()
	l.find(func(f *finder) (ready bool) {
		m, ready = f.lookup(l.p(), []byte(txn), since, lo, hi)
		return ready
	})
	var again match
	l.find(func(f *finder) (ready bool) {
		again, ready = f.lookupNew(l.p(), []byte(txn), segment.Hash([]byte(txn)), since, lo, hi)
		return ready
	})
	if again != m {
		l.t.Fatalf("%q in [%d, %d]: %+v by comparing, %+v by filters and hashes", txn, lo, hi, m, again)
	}
	return m
}

func (l *lane1) lookupModel(txn string, since int64, lo, hi queend.Offset) match {
	for off := max(lo, 0); off <= hi && int(off) < len(l.all); off++ {
		if k := l.all[off]; k.txn == txn && k.time >= since {
			return match{true, off, k.id}
		}
	}
	return match{}
}

func TestAFinderAgreesWithAPlainList(t *testing.T) {
	for _, cache := range []int64{1, 3000, 1 << 20} {
		for seed := range uint64(3) {
			c := newClock()
			cfg := testConfig(t.TempDir(), c)
			cfg.DedupCacheBytes = cache
			b := openTest(t, cfg)
			l := newLane(t, b, c, DefaultOptions())
			r := rand.New(rand.NewPCG(seed, 3))
			for range 60 {
				c.advance(r.Int64N(Second))
				var txns []string
				for range 1 + r.IntN(30) {
					txns = append(txns, l.someID(r))
				}
				l.push(r.IntN(100), txns...)
				switch r.IntN(8) {
				case 0, 1:
					l.flush()
				case 2:
					if err := b.mergeIfDue(func(int) {}); err != nil {
						t.Fatal(err)
					}
				case 3:
					l.setStart(queend.Offset(r.IntN(len(l.all))) / 2)
				}
				for range 20 {
					l.compare(r)
				}
			}
		}
	}
}

// someID is an id that may have been there before: a text of its own, or a UUID
// that rises with time or does not.
func (l *lane1) someID(r *rand.Rand) string {
	switch n := len(l.all); r.IntN(4) {
	case 0:
		return fmt.Sprint("id", r.IntN(2000))
	case 1:
		return queend.ID{7, byte(r.IntN(4)), byte(r.IntN(256))}.String()
	case 2:
		return queend.ID{7, 1, byte(n >> 8), byte(n), byte(r.IntN(3))}.String()
	default:
		if n == 0 {
			return ""
		}
		return l.all[n-1-r.IntN(min(n, 300))].txn
	}
}

// compare asks the finder and the list some random questions.
func (l *lane1) compare(r *rand.Rand) {
	l.t.Helper()
	n := len(l.all)
	txn := l.someID(r)
	since := l.all[r.IntN(n)].time + r.Int64N(2)
	if r.IntN(2) == 0 {
		since = 0
	}
	lo, hi := queend.Offset(0), queend.Offset(n-1)
	if r.IntN(2) == 0 {
		lo, hi = queend.Offset(r.IntN(n)), queend.Offset(r.IntN(n))
	}
	if got, want := l.lookup(txn, since, lo, hi), l.lookupModel(txn, since, lo, hi); got != want {
		l.t.Fatalf("lookup(%q, %d, %d, %d) = %+v, want %+v", txn, since, lo, hi, got, want)
	}
	p := l.p()
	at := since
	want := p.start
	for want < p.end && l.all[want].time < at {
		want++
	}
	var first queend.Offset
	l.find(func(f *finder) (ready bool) { first, ready = f.firstAt(p, at); return ready })
	if first != want {
		l.t.Fatalf("firstAt(%d) = %d, want %d", at, first, want)
	}
	if p.empty() {
		return
	}
	off := p.start + queend.Offset(r.Int64N(p.retained()))
	l.find(func(f *finder) bool {
		at, ready := f.timeAt(p, off)
		id, txn, ready2 := f.idAt(p, off)
		if ready && at != l.all[off].time || ready2 && (id != l.all[off].id || string(txn) != l.all[off].txn) {
			l.t.Fatalf("offset %d: time %d id %v %q, want %+v", off, at, id, txn, l.all[off])
		}
		return ready && ready2
	})
}

func TestAViewReadsWhatWasThereWhenItWasTaken(t *testing.T) {
	c := newClock()
	b := openTest(t, testConfig(t.TempDir(), c))
	l := newLane(t, b, c, DefaultOptions())
	for i := range 12 {
		l.push(50, fmt.Sprint("a", i), fmt.Sprint("b", i), fmt.Sprint("c", i))
		if i%2 == 0 {
			l.flush()
		}
	}
	var v *view
	b.locked(func() { v = b.viewSpan(l.p(), 4, 28) })
	l.push(10, "later")
	l.flush()
	l.setStart(30)
	b.locked(func() { b.storage.sweptAt = c.read() - Hour })
	if err := b.mergeIfDue(func(int) {}); err != nil {
		t.Fatal(err)
	}
	settled(t, b)
	b.sweepFiles()
	var got []segment.Message
	for {
		part, err := v.read(120)
		if err != nil {
			t.Fatal(err)
		}
		if len(part) == 0 {
			break
		}
		if len(part) > 2 {
			t.Fatalf("%d messages of 50 bytes in 120", len(part))
		}
		got = append(got, part...)
	}
	if len(got) != 28 {
		t.Fatalf("%d messages, want 28", len(got))
	}
	for i, m := range got {
		off := queend.Offset(4 + i)
		if m.Offset != off || string(m.TxnID) != l.all[off].txn || m.Gone || len(m.Payload) != 50 {
			t.Fatalf("message %d: %+v", off, m)
		}
	}
	before := len(filesOf(t, b, "segments"))
	v.release()
	b.sweepFiles()
	if after := len(filesOf(t, b, "segments")); after >= before {
		t.Fatalf("%d segment files with the view, %d without", before, after)
	}
}

func TestReadingAFewFilesManyTimesKeepsFewOpen(t *testing.T) {
	c := newClock()
	b := openTest(t, testConfig(t.TempDir(), c))
	b.storage.files.limit = 4
	l := newLane(t, b, c, DefaultOptions())
	for i := range 20 {
		l.push(10, fmt.Sprint(i))
		l.flush()
	}
	readAll(t, b, l.p())
	if n := len(b.storage.files.open); n > 4 {
		t.Fatalf("%d files open", n)
	}
}

// An id that a client mints after all others of a partition is looked for in no
// run and not in the tail's table; one from between the others is.
func TestAnIDFromLaterIsLookedForNowhere(t *testing.T) {
	c := newClock()
	b := openTest(t, testConfig(t.TempDir(), c))
	l := newLane(t, b, c, DefaultOptions())
	minted := func(n int) string { return queend.ID{1, 2, 3, byte(n >> 8), byte(n)}.String() }
	for run := range 5 {
		for n := range 40 {
			l.push(5, minted(2*(run*40+n)))
		}
		l.flush()
	}
	l.push(5, minted(500))
	needs := func(txn string) (n int) {
		f := b.newFinder()
		defer f.release()
		b.locked(func() {
			f.lookupNew(l.p(), []byte(txn), segment.Hash([]byte(txn)), 0, 0, l.p().end-1)
			n = len(f.needs) + len(f.finding)
		})
		return n
	}
	if n := needs(minted(501)); n != 0 {
		t.Errorf("a later id asks for %d parts of runs", n)
	}
	if n := needs(minted(81)); n != 1 {
		t.Errorf("an id from between asks for %d parts, want the filter of one run", n)
	}
	if m := l.lookup(minted(500), 0, 0, l.p().end-1); m.off != 200 {
		t.Errorf("the highest id is found at %d", m.off)
	}
}

// A pop looks at one instant however often it has to read, though the clock goes
// on: what became visible meanwhile is for the next pop.
func TestAPopOfTheNewestVisibleMessageEndsThoughTimeGoesOn(t *testing.T) {
	l := tenSeconds(t, options(func(o *Options) { o.DelayedProcessing = 5 }), true) // 10, 9, 8 ... 1 s old
	l.flush()
	l.c.tick.Store(1)
	req := PopRequest{Queue: "q1", Group: "g", Mode: "all", Conflation: true}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	res, err := l.b.Pop(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Messages) != 1 || res.Messages[0].Offset != 5 {
		t.Fatalf("%d messages, %+v; want the one of 5 s ago, at offset 5", len(res.Messages), res.Messages)
	}
}

// R71: where nothing is delayed, what was pushed while a pop read is the newest.
func TestAPopOfTheNewestMessageGivesWhatCameWhileItRead(t *testing.T) {
	l := tenSeconds(t, DefaultOptions(), true)
	l.flush()
	l.c.tick.Store(1)
	req := PopRequest{Queue: "q1", Group: "g", Mode: "all", Conflation: true}
	p := &popper{b: l.b, ctx: t.Context(), r: &req, f: l.b.newFinder(), heads: l.b.newFetcher(), unwatch: func() {}}
	defer p.f.release()
	defer l.b.locked(p.finish)
	var s step
	l.b.locked(func() {
		p.start()
		s = p.attempt()
	})
	if s != stepRead {
		t.Fatalf("step %d, the newest message is in a file", s)
	}
	l.push(10, "meanwhile")
	if err := p.read(); err != nil {
		t.Fatal(err)
	}
	l.b.locked(func() { s = p.attempt() })
	if s != stepDone || len(p.result.Messages) != 1 || p.result.Messages[0].Offset != 10 {
		t.Fatalf("step %d, %+v; want the message at offset 10", s, p.result.Messages)
	}
}
