package crash

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"queend/broker"
	"queend/log"
)

// life is how many rounds a disk lives: what is checked grows with each.
const life = 5

// lives are the modes of disks that follow each other.
var lives = []log.SyncMode{log.SyncAlways, log.SyncAlways, log.SyncInterval, log.SyncAlways, log.SyncNever}

// TestPowerCutUnderLoad cuts the power at random moments of concurrent load,
// looks at many images of each round, and goes on with one of them. In every
// third round something on the disk fails before that.
func TestPowerCutUnderLoad(t *testing.T) {
	m := newMount(t)
	t.Logf("CRASH_SEED=%d", seed())
	r := rand.New(rand.NewPCG(seed(), 0))
	end := time.Now().Add(span(t))
	for n := 0; n == 0 || time.Now().Before(end); n++ {
		c := newCampaign(t, lives[n%len(lives)])
		c.live(m, n, end, r)
		c.end()
		if c.failed.Load() > 0 {
			return
		}
	}
}

// live is the life of one disk.
func (c *campaign) live(m *mount, n int, end time.Time, r *rand.Rand) {
	image, h, ahead := emptyDir(), &history{}, int64(0)
	for i := range life {
		round := n*life + i
		if c.failed.Load() >= maxFailures || i > 0 && !time.Now().Before(end) {
			return
		}
		ahead += leasesOver
		s := &session{t: c.t, d: newDisk(image), h: h, ahead: ahead, sync: c.sync}
		s.d.slow = slowness[round%len(slowness)]
		if !s.open(m, false) {
			_, said := s.c.ended()
			c.t.Errorf("round %d: the broker does not start: %s", round, said)
			c.failed.Add(1)
			return
		}
		if round%3 == 2 {
			s.d.strike(oneFault(syscall.EIO, 20+r.IntN(200)))
		}
		s.load(round, time.Duration(300+r.IntN(1700))*time.Millisecond)
		total.add(tallyRounds, "load, "+modeName(c.sync), 1)
		total.calls(s.h)
		image, h = c.looks(round, s, r)
	}
}

func modeName(sync log.SyncMode) string {
	for _, m := range modes {
		if m.sync == sync {
			return m.name
		}
	}
	panic(sync)
}

// slowness are disks on which some syncs take their time.
var slowness = []func(string) time.Duration{
	nil,
	slowIn("/segments/", 60*time.Millisecond),
	slowIn("/wal/", 3*time.Millisecond),
	slowIn("/checkpoints/", 60*time.Millisecond),
	slowIn("00000000000000000001", 200*time.Millisecond), // the first of each kind
}

func slowIn(part string, d time.Duration) func(string) time.Duration {
	return func(path string) time.Duration {
		if strings.Contains(path, part) {
			return d
		}
		return 0
	}
}

// looks checks images at random cuts of a round, and all of its end. It
// returns one of them to go on with.
func (c *campaign) looks(round int, s *session, r *rand.Rand) (*snap, *history) {
	ops := s.d.trace()
	at := map[int]bool{len(ops): true}
	for range 20 {
		at[r.IntN(len(ops)+1)] = true
	}
	next := r.IntN(len(variants))
	w := newWorld(s.d.base, ops)
	for k := 0; ; k++ {
		if at[k] {
			past := c.past(s.d, s.h, k)
			total.add(tallyCuts, stepKind(ops, k), 1)
			for i := range variants {
				if k < len(ops) && r.IntN(3) > 0 {
					continue
				}
				name := fmt.Sprintf("round %d, cut behind step %d of %d (%s), %s", round, k, len(ops), stepName(ops, k), variants[i].name)
				total.add(tallyVariants, variants[i].name, 1)
				c.check(name, w.image(&variants[i], r.Uint64()), past, s.ahead)
			}
		}
		if k == len(ops) {
			c.t.Logf("round %d: %d steps, %d calls in all", round, len(ops), len(s.h.events))
			return w.image(&variants[next], r.Uint64()), c.past(s.d, s.h, k).certain.rebase(k)
		}
		w.step()
	}
}

// load works on the broker with many workers until the power goes.
func (s *session) load(round int, d time.Duration) {
	if r, ok := s.h.do(s.d, s.c, call{Op: "configure", Queue: retainedQueue, Keep: 1, N: 60}); !ok {
		s.t.Errorf("configure: %s", r.Err)
	}
	var all sync.WaitGroup
	for i, work := range []func(*worker) bool{
		(*worker).produce, (*worker).produce, (*worker).produce, (*worker).consume, (*worker).consume,
		(*worker).read, (*worker).move, (*worker).bury, (*worker).retained, (*worker).configure,
	} {
		all.Add(1)
		go func() {
			defer all.Done()
			w := &worker{session: s, name: fmt.Sprintf("r%dw%d", round, i), r: rand.New(rand.NewPCG(seed()+uint64(round), uint64(i)))}
			for work(w) {
			}
		}()
	}
	select {
	case <-time.After(d):
	case <-s.c.gone: // its log failed
	}
	s.d.cut()
	// The broker may be there a little longer, with a disk that is gone.
	time.Sleep(time.Duration(round%3) * 10 * time.Millisecond)
	s.c.kill()
	all.Wait()
}

// worker makes calls of one kind, one after the other, until one fails.
type worker struct {
	*session
	name string
	r    *rand.Rand
	ids  int
}

func (w *worker) try(c call) (reply, bool) { return w.h.do(w.d, w.c, c) }

func (w *worker) id() string {
	w.ids++
	return fmt.Sprintf("%s-%d", w.name, w.ids)
}

func (w *worker) produce() bool {
	var items []item
	for range 1 + w.r.IntN(6) {
		items = append(items, item{"work", fmt.Sprintf("p%d", w.r.IntN(5)), w.id()})
	}
	_, ok := w.try(call{Op: "push", Items: items})
	return ok
}

func (w *worker) consume() bool {
	got, ok := w.try(call{Op: "pop", Queue: "work", Group: "g", Batch: 1 + w.r.IntN(20)})
	if !ok || len(got.Messages) == 0 {
		time.Sleep(time.Millisecond)
		return ok
	}
	_, ok = w.try(call{Op: "ack", Group: "g", Acks: acks(got, broker.Completed)})
	return ok
}

func (w *worker) read() bool {
	_, ok := w.try(call{Op: "pop", Queue: "work", Group: "auto", Batch: 1 + w.r.IntN(30), Auto: true})
	time.Sleep(2 * time.Millisecond)
	return ok
}

func (w *worker) move() bool {
	if _, ok := w.try(call{Op: "push", Items: []item{{"in", "p", w.id()}}}); !ok {
		return false
	}
	got, ok := w.try(call{Op: "pop", Queue: "in", Group: "g", Batch: 2})
	if !ok || len(got.Messages) == 0 {
		return ok
	}
	_, ok = w.try(call{Op: "transaction", Group: "g", Acks: acks(got, broker.Completed),
		Items: []item{{"out", "a", w.id()}, {"out", "b", w.id()}, {"out", "a", w.id()}}})
	return ok
}

// bury makes dead letters and replays some.
func (w *worker) bury() bool {
	if _, ok := w.try(call{Op: "push", Items: []item{{"bad", fmt.Sprintf("p%d", w.r.IntN(3)), w.id()}}}); !ok {
		return false
	}
	got, ok := w.try(call{Op: "pop", Queue: "bad", Group: "g", Batch: 1})
	if !ok {
		return false
	}
	if len(got.Messages) > 0 {
		if _, ok = w.try(call{Op: "ack", Group: "g", Acks: acks(got, broker.DLQ)}); !ok {
			return false
		}
	}
	if w.r.IntN(5) > 0 {
		return true
	}
	got, ok = w.try(call{Op: "letters"})
	if len(got.Letters) > 0 {
		l := got.Letters[w.r.IntN(len(got.Letters))]
		_, ok = w.try(call{Op: "replay", Group: l.Group, Of: l.ID, Items: []item{{l.Queue, l.Part, l.Txn}}})
	}
	return ok
}

// retained feeds and consumes a queue whose messages go.
func (w *worker) retained() bool {
	if _, ok := w.try(call{Op: "push", Items: []item{{retainedQueue, "p", w.id()}, {retainedQueue, "p", w.id()}}}); !ok {
		return false
	}
	got, ok := w.try(call{Op: "pop", Queue: retainedQueue, Group: "g", Batch: 10})
	if ok && len(got.Messages) > 0 {
		_, ok = w.try(call{Op: "ack", Group: "g", Acks: acks(got, broker.Completed)})
	}
	return ok
}

func (w *worker) configure() bool {
	w.ids++
	_, ok := w.try(call{Op: "configure", Queue: optionsQueue, N: int64(w.ids)})
	time.Sleep(5 * time.Millisecond)
	return ok
}
