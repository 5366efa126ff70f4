package crash

import (
	"fmt"
	"strings"
	"testing"

	"queend/broker"
	"queend/log"
)

// scriptRounds is how often the script does everything.
const scriptRounds = 12

// script does one of everything, rounds times, and what the small limits make
// due: flushes, merges, checkpoints, dropped logs, retention.
func script(s *session, rounds int) {
	s.do(call{Op: "configure", Queue: retainedQueue, Keep: 5, N: 60})
	for round := range rounds {
		id := func(what string, i int) string { return fmt.Sprintf("%s-%d-%d", what, round, i) }
		var items []item
		for i := range 9 {
			items = append(items, item{"work", fmt.Sprintf("p%d", i%3), id("work", i)})
		}
		items = append(items, item{retainedQueue, "p", id("kept", 0)}, item{retainedQueue, "p", id("kept", 1)})
		s.do(call{Op: "push", Items: items})
		s.do(call{Op: "push", Items: []item{{"in", "p", id("in", 0)}, {"in", "p", id("in", 1)}, {"bad", "p", id("bad", 0)}}})
		s.do(call{Op: "configure", Queue: optionsQueue, N: int64(round + 1)})

		got := s.do(call{Op: "pop", Queue: "work", Group: "g", Batch: 7})
		s.do(call{Op: "ack", Group: "g", Acks: acks(got, broker.Completed)})
		s.do(call{Op: "pop", Queue: "work", Group: "auto", Batch: 4, Auto: true})
		got = s.do(call{Op: "pop", Queue: retainedQueue, Group: "g", Batch: 100})
		s.do(call{Op: "ack", Group: "g", Acks: acks(got, broker.Completed)})

		got = s.do(call{Op: "pop", Queue: "in", Group: "g", Batch: 1})
		s.do(call{Op: "transaction", Group: "g", Acks: acks(got, broker.Completed),
			Items: []item{{"out", "a", id("out", 0)}, {"out", "b", id("out", 1)}, {"work", "p0", id("out", 2)}}})

		signal := broker.DLQ
		if round%2 == 1 {
			signal = broker.Failed
		}
		for range 4 {
			if got = s.do(call{Op: "pop", Queue: "bad", Group: "g", Batch: 1}); len(got.Messages) == 0 {
				break
			}
			s.do(call{Op: "ack", Group: "g", Acks: acks(got, signal)})
		}
		letters := s.do(call{Op: "letters"}).Letters
		if len(letters) > 2 {
			l := letters[len(letters)-1]
			s.do(call{Op: "replay", Group: l.Group, Of: l.ID, Items: []item{{l.Queue, l.Part, l.Txn}}})
		}
		s.do(call{Op: "maintain"})
		if round%3 == 2 {
			s.do(call{Op: "spool", On: true})
			s.do(call{Op: "push", Items: []item{{spooledQueue, "p", id("spool", 0)}, {spooledQueue, "q", id("spool", 1)}}})
			s.do(call{Op: "push", Items: []item{{spooledQueue, "p", id("spool", 2)}, {spooledQueue, "p", id("spool", 3)}}})
			s.do(call{Op: "spool", On: false})
			s.do(call{Op: "drain"})
		}
		if round%4 == 3 {
			s.advance(8)
			s.do(call{Op: "maintain"})
		}
	}
	s.do(call{Op: "close"})
}

// TestPowerCutAtEveryStep cuts the power behind each step of the script, and
// of the starts that follow.
func TestPowerCutAtEveryStep(t *testing.T) {
	m := newMount(t)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) { cutEverywhere(t, m, mode.sync) })
	}
}

// modes are the ways in which the log is synced.
var modes = []struct {
	name string
	sync log.SyncMode
}{{"always", log.SyncAlways}, {"interval", log.SyncInterval}, {"never", log.SyncNever}}

func cutEverywhere(t *testing.T, m *mount, sync log.SyncMode) {
	d := newDisk(emptyDir())
	s := &session{t: t, d: d, h: &history{}, sync: sync}
	if !s.open(m, true) {
		t.Fatal("the broker does not start")
	}
	script(s, scriptRounds)
	s.c.kill()
	d.cut()
	logSteps(t, d)
	total.add(tallyRounds, "script, "+t.Name(), 1)
	total.calls(s.h)

	c := newCampaign(t, sync)
	boots := 0
	type again struct {
		name  string
		image *snap
		past  *history
	}
	var second []again
	next := 0
	c.everywhere("", d, s.h, s.ahead, func(k, i int, image *snap) {
		if k >= next && i == k/secondEvery()%len(variants) {
			next = k + secondEvery()
			second = append(second, again{fmt.Sprintf("step %d, %s; ", k, variants[i].name), image, c.past(d, s.h, k).certain.rebase(k)})
		}
	})
	for _, a := range second {
		if c.failed.Load() >= maxFailures {
			break
		}
		boots++
		c.bootAgain(m, a.name, a.image, a.past, s.ahead)
	}
	c.end()
	t.Logf("%d steps, %d starts cut behind every step", len(d.trace()), boots)
}

// secondEvery is how many cuts there are to one whose start is cut again.
func secondEvery() int {
	if testing.Short() {
		return 200
	}
	return 20
}

// bootAgain starts a broker on an image, asks it about all whose fate was
// open, and cuts the power behind every step of that.
func (c *campaign) bootAgain(m *mount, name string, image *snap, h *history, ahead int64) {
	d := newDisk(image)
	s := &session{t: c.t, d: d, h: h, ahead: ahead, sync: c.sync}
	if !s.open(m, true) {
		c.t.Errorf("%sthe broker does not start", name)
		c.failed.Add(1)
		return
	}
	for _, e := range h.until(0).events {
		if e.Op == "push" && e.done == never && e.Items[0].Queue != spooledQueue {
			s.do(call{Op: "push", Items: e.Items})
		}
	}
	s.do(call{Op: "push", Items: []item{{"work", "p0", "after-the-cut"}}})
	s.do(call{Op: "pop", Queue: "work", Group: "g", Batch: 5})
	s.c.kill()
	d.cut()
	c.everywhere(name, d, s.h, ahead, nil)
}

// logSteps counts the steps by kind and place.
func logSteps(t *testing.T, d *disk) {
	counts := map[string]int{}
	for _, o := range d.trace() {
		parts := strings.Split(o.path, "/")
		what, _, _ := strings.Cut(o.where(), " ")
		counts[what+" "+strings.Join(parts[:min(len(parts), 3)], "/")]++
	}
	t.Logf("%d steps: %v", len(d.trace()), counts)
}
