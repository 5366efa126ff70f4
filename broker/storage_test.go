package broker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"queend"
	"queend/segment"
)

// clock is the time of a test, in microseconds. The log reads it too. It goes on
// by tick each time it is read.
type clock struct{ now, tick atomic.Int64 }

func (c *clock) read() int64     { return c.now.Add(c.tick.Load()) }
func (c *clock) advance(d int64) { c.now.Add(d) }

func newClock() *clock {
	c := &clock{}
	c.now.Store(1_700_000_000 * Second)
	return c
}

func roomy(string) (uint64, uint64, error) { return 1, 100, nil }

// testConfig is a small broker that a test drives by hand.
func testConfig(dir string, c *clock) Config {
	return Config{
		Dir: dir, Now: c.read, Manual: true, StatDisk: roomy, Rand: rand.New(rand.NewPCG(1, 2)),
		TailBytes: 64 << 10, SegmentBytes: 256 << 10, CheckpointBytes: 256 << 10, DedupCacheBytes: 1 << 20,
	}
}

// openTest opens a broker that is closed with the test.
func openTest(t *testing.T, cfg Config) *Broker {
	t.Helper()
	b, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.storage.walkStep = 3
	t.Cleanup(func() {
		select {
		case <-b.storage.stopped:
		default:
			kill(t, b)
		}
	})
	return b
}

// kill ends a broker without a checkpoint, as if its process had gone.
func kill(t *testing.T, b *Broker) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.Close(ctx); err != nil {
		t.Error(err)
	}
}

// settled waits until everything that memory has is durable.
func settled(t *testing.T, b *Broker) {
	t.Helper()
	if err := b.log.Wait(context.Background(), b.log.Last()); err != nil {
		t.Fatal(err)
	}
}

// copyDir copies a data directory as a crash at this moment would leave it.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	for {
		to := t.TempDir()
		err := os.CopyFS(to, os.DirFS(from))
		if err == nil {
			return to
		}
		// The log may be making or dropping a generation: then again.
		if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// reopened opens a copy of the directory as it is on disk now.
func reopened(t *testing.T, b *Broker, c *clock) *Broker {
	t.Helper()
	settled(t, b)
	return openTest(t, testConfig(copyDir(t, b.cfg.Dir), c))
}

// dump writes everything the state holds, with every retained message, one
// record a line in a fixed order.
func dump(t *testing.T, b *Broker) string {
	t.Helper()
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	s := &b.state
	for _, q := range s.queues {
		dlq := queend.PartitionID(0)
		if q.dlq != nil {
			dlq = q.dlq.id
		}
		add("queue %d %v %v created %d labels %q %q implicit %v opts %+v named %v groups %d parts %d letters %d dlq %d",
			q.id, q.uuid, q.queueKey, q.created, q.namespace, q.task, q.implicit, q.opts,
			s.names[q.queueKey] == q, len(q.groups), q.parts.len(), len(q.letters), dlq)
	}
	for p := range s.partitions.all() {
		runs := slices.Clone(p.runs())
		for i := range runs {
			runs[i].Low, runs[i].High = 0, 0 // learned, not logged
		}
		add("partition %d %v of %d name %q internal %v created %d lastTime %d lastUse %d start %d end %d flushed %d letters %d runs %v",
			p.id, p.uuid, p.q.id, p.name, p.ord < 0, p.created, p.lastTime, p.lastUse, p.start, p.end, p.flushed, p.letters, runs)
		for r := range p.rows.all() {
			if s.groups[r.group] != nil {
				var l lane
				if r.lane != nil {
					l = *r.lane
				}
				flat := *r
				flat.lane = nil
				add("row %d/%d %+v lane %v %+v", p.id, r.group, flat, r.lane != nil, l)
			}
		}
		for _, m := range readAll(t, b, p) {
			add("message %d/%08d %v %q %v %q %v %q %v %q at %d", p.id, m.Offset, m.ID, m.TxnID, m.TraceID, m.Producer,
				m.HasProducer, m.Headers, m.Encrypted, m.Payload, m.Time)
		}
	}
	for _, g := range s.groups {
		add("group %d %q of %d created %d mode %q %v seed %d %d %d popped %v", g.id, g.name, g.q.id, g.created, g.mode,
			g.conflation, g.seed, g.seedMax, g.start, g.popped)
	}
	for _, l := range s.labels {
		add("label %+v mode %q %v seed %d", l.labelKey, l.mode, l.conflation, l.seed)
	}
	for _, l := range s.dead {
		add("letter %v of %d group %q part %d off %d at %d failed %d", l.id, l.q.id, l.group, l.part, l.offset, l.at, l.failedAt)
	}
	for _, f := range s.files {
		add("file %d bytes %d runs %d", f.id, f.bytes, f.runs)
	}
	slices.Sort(lines)
	add("last %d %d %d %d stamp %d flags %v %v totals %+v tail %d", s.lastQueue, s.lastPartition, s.lastGroup, s.lastFile,
		s.lastStamp, s.maintenance, s.popMaintenance, s.totals, s.tailBytes)
	return strings.Join(lines, "\n")
}

// readAll reads every retained message of a partition.
func readAll(t *testing.T, b *Broker, p *partition) []segment.Message {
	t.Helper()
	v := b.viewSpan(p, p.start, 1<<40)
	defer v.release()
	var all []segment.Message
	for {
		got, err := v.read(10_000)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			break
		}
		all = append(all, got...)
	}
	if int64(len(all)) != p.retained() {
		t.Fatalf("partition %d: %d messages read, %d are retained", p.id, len(all), p.retained())
	}
	return all
}

// sameDump fails with the first lines that differ.
func sameDump(t *testing.T, what, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	var diff []string
	for _, l := range a {
		if !slices.Contains(b, l) {
			diff = append(diff, "- "+l)
		}
	}
	for _, l := range b {
		if !slices.Contains(a, l) {
			diff = append(diff, "+ "+l)
		}
	}
	t.Fatalf("%s: states differ:\n%s", what, strings.Join(diff[:min(len(diff), 12)], "\n"))
}

// world makes random events that a broker could have planned.
type world struct {
	b *Broker
	r *rand.Rand
	n int
}

func pick[V any](w *world, from iter.Seq[V], less func(a, b V) int) (v V) {
	all := slices.SortedFunc(from, less)
	if len(all) == 0 {
		return v
	}
	return all[w.r.IntN(len(all))]
}

func (w *world) queue() *queue {
	return pick(w, maps.Values(w.b.state.queues), func(a, b *queue) int { return int(a.id) - int(b.id) })
}

func (w *world) group() *group {
	return pick(w, maps.Values(w.b.state.groups), func(a, b *group) int { return int(a.id) - int(b.id) })
}

func (w *world) partition() *partition {
	return pick(w, w.b.state.partitions.all(), func(a, b *partition) int { return int(a.id) - int(b.id) })
}

func (w *world) letter() *deadLetter {
	return pick(w, maps.Values(w.b.state.dead), func(a, b *deadLetter) int { return strings.Compare(a.id.String(), b.id.String()) })
}

// act commits one random bundle of one or two events.
func (w *world) act() {
	w.b.locked(func() {
		t := w.b.begin()
		w.n++
		switch k := w.r.IntN(100); {
		case k < 4:
			w.newQueue(t)
		case k < 5:
			if q := w.queue(); q != nil {
				t.add(&queueGone{q.id})
			}
		case k < 12:
			w.newPartition(t)
		case k < 13:
			if p := w.partition(); p != nil && p.ord >= 0 {
				t.add(&partitionGone{p.id})
			}
		case k < 17:
			w.newGroup(t)
		case k < 18:
			if g := w.group(); g != nil {
				t.add(&groupGone{g.id})
			}
		case k < 20:
			key := labelKey{namespace: fmt.Sprint(w.r.IntN(3)), group: fmt.Sprint(w.r.IntN(3))}
			t.add(&labelSet{labelKey: key, mode: "all", seed: t.stamp, gone: w.r.IntN(3) == 0})
		case k < 60:
			w.push(t)
		case k < 85:
			w.row(t)
		case k < 90:
			if p := w.partition(); p != nil && !p.empty() && p.ord >= 0 {
				t.add(&logStart{p.id, p.start + queend.Offset(w.r.Int64N(p.retained()+1))})
			}
		case k < 95:
			w.deadLetter(t)
		case k < 97:
			if l := w.letter(); l != nil {
				t.add(&deadLetterGone{l.id})
			}
		case k < 98:
			t.add(&flagsSet{w.r.IntN(2) == 0, w.r.IntN(2) == 0})
		}
		t.count.PushRequests++
		w.b.commit(t)
	})
}

func (w *world) newQueue(t *bundle) {
	o := DefaultOptions()
	o.LeaseTime = w.r.Int64N(100)
	id := w.b.state.lastQueue + 1
	if q := w.queue(); q != nil && w.r.IntN(2) == 0 {
		t.add(&queueSet{id: q.id, uuid: q.uuid, name: q.name, created: q.created, namespace: fmt.Sprint(w.n), opts: o})
		return
	}
	name := fmt.Sprint("q", w.r.IntN(20))
	if w.b.state.names[queueKey{name: name}] == nil {
		t.add(&queueSet{id: id, uuid: w.b.newID(t.stamp), name: name, created: t.stamp, opts: o})
	}
}

func (w *world) newPartition(t *bundle) {
	q := w.queue()
	if q == nil {
		return
	}
	name := fmt.Sprint("p", w.r.IntN(30))
	if w.b.state.partition(q, name) == nil {
		t.add(&partitionNew{
			id: w.b.state.lastPartition + 1, queue: q.id, uuid: w.b.newID(t.stamp), name: name, created: t.stamp,
		})
	}
}

func (w *world) newGroup(t *bundle) {
	q := w.queue()
	if q == nil {
		return
	}
	name := fmt.Sprint("g", w.r.IntN(4))
	if q.groups[name] == nil {
		t.add(&groupSet{
			id: w.b.state.lastGroup + 1, queue: q.id, name: name, created: t.stamp, mode: "new",
			seed: t.stamp - w.r.Int64N(100), seedMax: w.b.state.lastPartition, start: t.stamp, popped: w.r.IntN(2) == 0,
		})
	}
}

func (w *world) messages(t *bundle, count int) (raws [][]byte) {
	for range count {
		id := w.b.newID(t.stamp)
		m := segment.Message{ID: id, TxnID: id.Append(nil), Payload: make([]byte, w.r.IntN(300))}
		for i := range m.Payload {
			m.Payload[i] = 'a' + byte(w.r.IntN(26))
		}
		if w.r.IntN(2) == 0 {
			m.TxnID = fmt.Append(nil, "txn-", w.n)
		}
		if w.r.IntN(5) == 0 {
			m.Producer, m.HasProducer, m.Headers, m.TraceID, m.Encrypted = []byte("me"), true, []byte("{}"), id, true
		}
		var e encoder
		appendMessage(&e, &m)
		raws = append(raws, e.buf)
	}
	return raws
}

func (w *world) push(t *bundle) {
	if p := w.partition(); p != nil && p.ord >= 0 {
		t.add(&pushed{partition: p.id, first: p.end, raws: w.messages(t, 1+w.r.IntN(20))})
	}
}

func (w *world) row(t *bundle) {
	p := w.partition()
	if p == nil || len(p.q.groups) == 0 || p.ord < 0 {
		return
	}
	g := pick(w, maps.Values(p.q.groups), func(a, b *group) int { return int(a.id) - int(b.id) })
	r := row{group: g.id, committed: queend.Offset(w.r.Int64N(int64(p.end)+1)) - 1, lastDelivery: t.stamp}
	if w.r.IntN(2) == 0 {
		r.lane = &lane{lease: w.b.newID(t.stamp), leaseUntil: t.stamp + w.r.Int64N(Second), batchEnd: p.end, claimed: t.stamp, retry: w.r.Int64N(3)}
	}
	if w.r.IntN(3) == 0 {
		r.settled, r.settledFrom, r.settledTo = w.b.newID(t.stamp), 1, 2
	}
	t.add(&rowSet{p.id, r})
}

func (w *world) deadLetter(t *bundle) {
	p := w.partition()
	if p == nil || p.end == 0 || p.ord < 0 {
		return
	}
	box, at := queend.PartitionID(0), queend.Offset(0)
	if d := p.q.dlq; d != nil {
		box, at = d.id, d.end
	} else {
		box = w.b.state.lastPartition + 1
		t.add(&partitionNew{id: box, queue: p.q.id, uuid: w.b.newID(t.stamp), created: t.stamp, internal: true})
	}
	t.add(&pushed{partition: box, first: at, raws: w.messages(t, 1)})
	t.add(&deadLettered{id: w.b.newID(t.stamp), queue: p.q.id, group: "g", partition: p.id, offset: p.end - 1, at: at})
}

func (w *world) acts(n int) {
	for range n {
		w.act()
	}
}

// filesOf lists the names in a part of a data directory.
func filesOf(t *testing.T, b *Broker, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(b.cfg.Dir, dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}
