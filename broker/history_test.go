package broker

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"queend"
)

// withHistory keeps the history of traffic for some days.
func withHistory(days int64) func(*Config) {
	return func(c *Config) { c.HistoryDays = days }
}

// pushedIn lists the messages pushed to q in the buckets of a stretch up to
// now, as "minutes ago:count".
func (r *rig) pushedIn(span, step int64) string {
	r.Helper()
	name, now := "q", r.now-r.now%Minute
	all, err := r.b.Traffic(r.Context(), TrafficQuery{Tenant: DefaultTenant, Queue: &name, From: r.now - span, To: r.now + Minute, Step: step})
	r.must(err)
	out := ""
	for i := range all {
		for _, p := range all[i].Points {
			out += fmt.Sprintf("%d:%d ", (now-p.At)/Minute, p.PushMessages)
		}
	}
	return out
}

func (r *rig) wantPushed(span, step int64, want string) {
	r.Helper()
	if got := r.pushedIn(span, step); got != want {
		r.Fatalf("pushed %q, want %q", got, want)
	}
}

// historyRig begins where buckets of every width do.
func historyRig(t *testing.T, change ...func(*Config)) *rig {
	r := newRig(t, change...)
	r.later(2*Day - r.now%(2*Day))
	return r
}

func TestTrafficIsStillKnownAfterARestart(t *testing.T) {
	r := historyRig(t, withHistory(90))
	r.push("a", "b")
	r.later(Minute)
	r.must(r.b.Maintain())
	r.push("c")
	r.pop(1).ack("a=completed")
	before := r.traffic()
	for range 2 {
		r.reopen()
		r.wantPushed(Hour, Minute, "1:2 0:1 ")
		if got := r.traffic(); got != before {
			t.Fatalf("%+v, before it was %+v", got, before)
		}
	}
	// What the running minute counts after the restart is added to it.
	r.push("d")
	r.wantPushed(Hour, Minute, "1:2 0:2 ")
	r.reopen()
	r.wantPushed(Hour, Minute, "1:2 0:2 ")
}

func TestACrashLosesOnlyTheFiguresOfTheLastMinute(t *testing.T) {
	r := historyRig(t, withHistory(90))
	r.push("a")
	r.later(Minute)
	r.must(r.b.Maintain())
	r.push("b", "c")
	settled(t, r.b)
	r.cfg.Dir = copyDir(t, r.cfg.Dir)
	r.close()
	r.open()
	r.wantPushed(Hour, Minute, "1:1 ")
	r.pop(10).want("a b c")
}

func TestOldTrafficIsReadFromTheHistoryUntilItsDaysAreOver(t *testing.T) {
	r := historyRig(t, withHistory(3))
	for range 3 * 24 { // each hour three messages, in different minutes
		for range 3 {
			r.push(fmt.Sprint(r.now))
			r.later(10 * Minute)
			r.must(r.b.Maintain())
		}
		r.later(30 * Minute)
	}
	check := func() {
		t.Helper()
		r.wantPushed(2*Hour, Hour, "120:3 60:3 ")
		r.wantPushed(6*Hour, Hour, "360:3 300:3 240:3 180:3 120:3 60:3 ")
		r.wantPushed(2*Day, Day, "2880:72 1440:72 ")
		r.wantPushed(4*Day, 2*Day, "4320:144 1440:72 ")
	}
	r.flushed()
	check()
	r.reopen()
	check()
	if n := len(r.b.state.queue(DefaultTenant, "q").d.traffic.minutes); n > 2*minutesKept {
		t.Errorf("%d minutes are in memory", n)
	}
	r.later(Day)
	r.b.retain()
	r.wantPushed(4*Day, Day, "4320:72 2880:72 ")
	r.cfg.HistoryDays = 2
	r.reopen()
	r.b.retain()
	r.wantPushed(4*Day, Day, "2880:72 ")
}

func TestAnIdleBrokerWritesNoHistory(t *testing.T) {
	r := historyRig(t, withHistory(90))
	r.push("a")
	r.later(Minute)
	r.must(r.b.Maintain())
	last := r.b.log.Last()
	for range 10 {
		r.later(Minute)
		r.b.saveHistory(false)
	}
	if got := r.b.log.Last(); got != last {
		t.Errorf("%d records were written", got-last)
	}
	if len(r.b.history.busy) != 0 {
		t.Error("a queue is still busy")
	}
}

func TestTheHistoryIsNoQueueAndHasNoFigures(t *testing.T) {
	r := historyRig(t, withHistory(90))
	r.push("a")
	totals := r.b.state.totals
	r.later(Minute)
	r.must(r.b.Maintain())
	if r.b.historyOf() == nil {
		t.Fatal("nothing was written")
	}
	queues, err := r.b.Queues(r.Context(), DefaultTenant)
	r.must(err)
	if len(queues) != 1 || r.b.state.totals != totals || len(r.b.QueueStats()) != 1 {
		t.Errorf("queues %+v, totals %+v", queues, r.b.state.totals)
	}
	if len(r.b.history.busy) != 0 {
		t.Error("writing the history is counted")
	}
}

func TestTheHistoryOfADeletedQueueIsNotThatOfTheNextOne(t *testing.T) {
	r := historyRig(t, withHistory(90))
	r.push("a", "b")
	r.later(Minute)
	r.must(r.b.Maintain())
	_, err := r.b.DeleteQueue(t.Context(), DefaultTenant, "q")
	r.must(err)
	r.push("c")
	r.reopen()
	r.wantPushed(Hour, Minute, "0:1 ")
}

func TestAFullDiskPutsTheHistoryOff(t *testing.T) {
	r := historyRig(t, withHistory(90))
	r.push("a")
	r.later(Minute)
	r.b.storage.disk.full.Store(true)
	r.b.saveHistory(false)
	if r.b.historyOf() != nil {
		t.Error("written on a full disk")
	}
	r.b.storage.disk.full.Store(false)
	r.b.saveHistory(false)
	r.reopen()
	r.wantPushed(Hour, Minute, "1:1 ")
}

func TestAMessageOfTheHistoryIsBounded(t *testing.T) {
	var points []queuePoint
	for q := range queend.QueueID(100_000) {
		p := queuePoint{q, TrafficPoint{At: 1_700_000_040 * Second}}
		for i, f := range p.fields() {
			*f = int64(q) << i
		}
		points = append(points, p)
	}
	rand.Shuffle(len(points), func(i, k int) { points[i], points[k] = points[k], points[i] })
	raw := encodeHistory(points)
	if len(raw) > historyBytes+16 {
		t.Errorf("%d bytes", len(raw))
	}
	got, err := decodeHistory(raw)
	if err != nil || len(got) < 50 || got[0].queue != 99_999 {
		t.Fatalf("%d points, %v", len(got), err)
	}
	for i := range got {
		if want := points[i]; !reflect.DeepEqual(got[i], want) {
			t.Fatalf("%+v, want %+v", got[i], want)
		}
	}
	for n := range raw {
		if _, err := decodeHistory(raw[:n]); err == nil {
			t.Fatalf("%d bytes of it decode", n)
		}
	}
	if n := reflect.TypeOf(Traffic{}).NumField(); n != len(new(Traffic).fields()) {
		t.Errorf("%d fields of %d are kept", len(new(Traffic).fields()), n)
	}
}
