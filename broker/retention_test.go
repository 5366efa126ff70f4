package broker

import (
	"fmt"
	"testing"
	"time"

	"queend"
)

// cycle is one retention round a while later.
func (l *lane1) cycle(d int64) {
	l.c.advance(d)
	l.b.retain()
}

func (l *lane1) start() queend.Offset { return l.p().start }

// group registers a group that popped and consumed everything below next.
func (l *lane1) group(name string, popped bool, next queend.Offset) queend.GroupID {
	var id queend.GroupID
	l.b.locked(func() {
		t := l.b.begin()
		id = l.b.state.lastGroup + 1
		t.add(&groupSet{id: id, queue: l.p().q.id, name: name, created: t.stamp, mode: "all", seedMax: l.id, popped: popped})
		if next >= 0 {
			t.add(&rowSet{l.id, row{group: id, committed: next - 1}})
		}
		l.b.commit(t)
	})
	return id
}

func (l *lane1) commitRow(g queend.GroupID, next queend.Offset) {
	l.b.locked(func() {
		t := l.b.begin()
		t.add(&rowSet{l.id, row{group: g, committed: next - 1}})
		l.b.commit(t)
	})
}

// retained is a queue with ten messages, one a second, the first at second 0.
func tenSeconds(t *testing.T, opts Options, flushed bool) *lane1 {
	t.Helper()
	c := newClock()
	b := openTest(t, testConfig(t.TempDir(), c))
	l := newLane(t, b, c, opts)
	for i := range 10 {
		l.push(10, fmt.Sprint(i))
		if flushed && i%4 == 3 {
			l.flush()
		}
		c.advance(Second)
	}
	return l
}

func options(change func(*Options)) Options {
	o := DefaultOptions()
	change(&o)
	return o
}

func TestRetentionDeletesWhatIsOlderConsumedOrNot(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		rules := map[string]Options{
			"R90": options(func(o *Options) { o.RetentionEnabled, o.RetentionSeconds = true, 20 }),
			"R92": options(func(o *Options) { o.MaxWaitTimeSeconds = 20 }),
			"both": options(func(o *Options) {
				o.RetentionEnabled, o.RetentionSeconds, o.MaxWaitTimeSeconds = true, 100, 20
			}),
		}
		for name, opts := range rules {
			l := tenSeconds(t, opts, flushed)
			l.group("slow", true, 0)
			l.cycle(9 * Second) // the first is 19 s old
			if l.start() != 0 {
				t.Fatalf("%s, flushed %v: start %d, nothing may die early", name, flushed, l.start())
			}
			l.cycle(3*Second + Second/2) // 22.5, 21.5, 20.5, 19.5 ...
			if l.start() != 3 {
				t.Fatalf("%s, flushed %v: start %d, want 3", name, flushed, l.start())
			}
			l.cycle(Minute)
			if l.start() != 10 {
				t.Fatalf("%s, flushed %v: start %d, want 10", name, flushed, l.start())
			}
		}
	}
}

// Every look at the clock finds it further on, as in life: what is asked about one
// instant is not asked again about another while the answer is read.
func TestRetentionEndsThoughTimeGoesOn(t *testing.T) {
	opts := options(func(o *Options) {
		o.RetentionEnabled, o.RetentionSeconds, o.CompletedRetentionSeconds = true, 20, 10
	})
	l := tenSeconds(t, opts, true)
	l.group("g", true, 10)
	l.c.tick.Store(1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.cycle(7*Second + Second/2) // 17.5, 16.5 ... 8.5
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("retention has not ended in 30 s")
	}
	if l.start() != 8 {
		t.Fatalf("start %d, want 8", l.start())
	}
}

func TestRetentionNeedsItsSwitch(t *testing.T) {
	l := tenSeconds(t, options(func(o *Options) { o.RetentionSeconds, o.CompletedRetentionSeconds = 1, 1 }), true)
	l.group("g", true, 10)
	l.cycle(Hour)
	if l.start() != 0 {
		t.Fatalf("start %d with retention off", l.start())
	}
}

func TestCompletedRetentionStopsAtTheSlowestGroup(t *testing.T) {
	opts := options(func(o *Options) { o.RetentionEnabled, o.CompletedRetentionSeconds = true, 5 })
	for _, flushed := range []bool{false, true} {
		l := tenSeconds(t, opts, flushed)
		l.cycle(Minute)
		if l.start() != 0 {
			t.Fatalf("start %d without groups", l.start())
		}
		l.group("registered", false, -1)
		fast := l.group("fast", true, 10)
		slow := l.group("slow", true, 4)
		l.cycle(Minute)
		if l.start() != 4 {
			t.Fatalf("start %d, the slowest group is at 4", l.start())
		}
		l.commitRow(slow, 7)
		l.cycle(Second)
		if l.start() != 7 {
			t.Fatalf("start %d after the slowest moved to 7", l.start())
		}
		l.b.locked(func() {
			t := l.b.begin()
			t.add(&groupGone{slow})
			l.b.commit(t)
		})
		l.cycle(Second)
		if l.start() != 10 {
			t.Fatalf("start %d after the slow group went", l.start())
		}
		_ = fast
	}
}

func TestCompletedRetentionCountsImpliedCursors(t *testing.T) {
	l := tenSeconds(t, options(func(o *Options) { o.RetentionEnabled, o.CompletedRetentionSeconds = true, 5 }), true)
	var seed int64
	l.b.locked(func() {
		t := l.b.begin()
		seed = l.all[6].time
		t.add(&groupSet{id: 1, queue: l.p().q.id, name: "g", created: t.stamp, seed: seed, seedMax: l.id, start: t.stamp, popped: true})
		l.b.commit(t)
	})
	l.cycle(Minute)
	if l.start() != 6 {
		t.Fatalf("start %d, the group's cursor stands before 6", l.start())
	}
}

func TestOptionsThatMakeMessagesOldActFromTheNextCycle(t *testing.T) {
	l := tenSeconds(t, DefaultOptions(), true)
	l.cycle(Hour)
	l.b.locked(func() {
		t, q := l.b.begin(), l.p().q
		t.add(&queueSet{id: q.id, uuid: q.uuid, name: q.name, created: q.created, opts: options(func(o *Options) { o.MaxWaitTimeSeconds = 60 })})
		l.b.commit(t)
	})
	l.cycle(Second)
	if l.start() != 10 {
		t.Fatalf("start %d", l.start())
	}
}

// F45: retention looked at every partition in every cycle.
func TestRetentionLooksAtNothingThatIsNotDue(t *testing.T) {
	l := tenSeconds(t, options(func(o *Options) { o.RetentionEnabled, o.CompletedRetentionSeconds = true, 5 }), true)
	l.group("slow", true, 0)
	l.cycle(Minute)
	l.cycle(Minute)
	for range 100 {
		l.cycle(5 * Second)
		if n := len(l.b.storage.retention.due); n > 0 {
			t.Fatalf("%d partitions are listed", n)
		}
	}
	if n := l.b.wheel.Len(); n > 3 {
		t.Fatalf("%d entries on the wheel for one partition", n)
	}
}

func TestIDsOutliveMessagesByTheAckWindow(t *testing.T) {
	l := tenSeconds(t, options(func(o *Options) { o.MaxWaitTimeSeconds, o.DedupWindowSeconds = 60, 10 }), true)
	l.flush()
	l.cycle(Minute + Second)
	if l.start() != 10 {
		t.Fatalf("start %d", l.start())
	}
	if m := l.lookup("3", 0, 0, 9); !m.found || m.off != 3 {
		t.Fatalf("an id within 900 s of its push is gone: %+v", m)
	}
	l.cycle(900 * Second)
	if len(l.p().runs()) != 0 {
		t.Fatalf("runs %v after the window", l.p().runs())
	}
	if err := l.b.Maintain(); err != nil {
		t.Fatal(err)
	}
	settled(t, l.b)
	l.b.sweepFiles()
	if files := filesOf(t, l.b, "segments"); len(files) != 0 {
		t.Fatalf("files are left: %v", files)
	}
}

func TestMergesDropPayloadOfRemovedMessages(t *testing.T) {
	c := newClock()
	b := openTest(t, testConfig(t.TempDir(), c))
	l := newLane(t, b, c, options(func(o *Options) { o.MaxWaitTimeSeconds = 10 }))
	for i := range 20 {
		l.push(10_000, fmt.Sprint(i))
		c.advance(Second)
	}
	l.flush()
	before := liveBytes(b)
	l.cycle(Hour / 2)
	if err := b.Maintain(); err != nil {
		t.Fatal(err)
	}
	if after := liveBytes(b); after > before/20 {
		t.Fatalf("%d bytes live, %d before", after, before)
	}
	if m := l.lookup("7", 0, 0, 19); !m.found || m.off != 7 || m.id != l.all[7].id {
		t.Fatalf("id 7: %+v", m)
	}
	again := reopened(t, b, c)
	sameDump(t, "after the merge", dump(t, b), dump(t, again))
}

func liveBytes(b *Broker) (n int64) {
	for _, f := range b.state.files {
		n += f.bytes
	}
	return n
}

func TestUnusedPartitionsGoAfterTheirDays(t *testing.T) {
	l := tenSeconds(t, options(func(o *Options) { o.MaxWaitTimeSeconds = 60 }), true)
	g := l.group("g", true, 10)
	l.cycle(Hour)
	l.cycle(20 * Day)
	l.commitRow(g, 10)
	l.cycle(20 * Day)
	if l.p() == nil {
		t.Fatal("a partition went that a group used 20 days ago")
	}
	l.cycle(11 * Day)
	if l.p() != nil {
		t.Fatal("a partition is still there that nobody used for 31 days")
	}
}

func TestPartitionsWithMessagesOrDeadLettersStay(t *testing.T) {
	l := tenSeconds(t, DefaultOptions(), true)
	l.cycle(40 * Day)
	l.cycle(40 * Day)
	if l.p() == nil {
		t.Fatal("a partition with messages went")
	}
}

func TestTheInternalPartitionStartsAtItsLowestDeadLetter(t *testing.T) {
	l := tenSeconds(t, DefaultOptions(), true)
	w := &world{b: l.b, r: l.b.cfg.Rand}
	var ids []queend.ID
	l.b.locked(func() {
		for at := range queend.Offset(4) {
			t := l.b.begin()
			box := l.id + 1
			if at == 0 {
				t.add(&partitionNew{id: box, queue: l.p().q.id, uuid: l.b.newID(t.stamp), created: t.stamp, internal: true})
			}
			ids = append(ids, l.b.newID(t.stamp))
			t.add(&pushed{partition: box, first: at, raws: w.messages(t, 1)})
			t.add(&deadLettered{id: ids[at], queue: l.p().q.id, group: "g", partition: l.id, offset: at, at: at})
			l.b.commit(t)
		}
	})
	box := l.b.state.partitions.get(l.id + 1)
	drop := func(i int) {
		l.b.locked(func() {
			t := l.b.begin()
			t.add(&deadLetterGone{ids[i]})
			l.b.commit(t)
		})
		l.cycle(Second)
	}
	for i, want := range []queend.Offset{0: 1, 1: 1, 2: 3, 3: 4} {
		drop([]int{0, 2, 1, 3}[i])
		if box.start != want {
			t.Fatalf("start %d after %d deletions, want %d", box.start, i+1, want)
		}
	}
}
