package crash

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"

	"queend/log"
)

// fault decides which steps of a disk fail. Its methods are called under the
// lock of the disk.
type fault struct {
	errno syscall.Errno
	after int // steps that go well before the first that fails
	times int // how many fail
	only  func(kind opKind) bool

	seen   int
	last   int      // the step that failed last
	struck []string // the steps that failed, by kind
	paths  []string
}

// oneFault lets one step fail, whatever it is.
func oneFault(errno syscall.Errno, after int) *fault {
	return &fault{errno: errno, after: after, times: 1, only: func(opKind) bool { return true }}
}

// fullDisk lets everything fail that needs room, for some steps.
func fullDisk(after int) *fault {
	return &fault{errno: syscall.ENOSPC, after: after, times: 30, only: func(kind opKind) bool {
		return kind == opWrite || kind == opLink || kind == opRename
	}}
}

// strike makes a disk fail.
func (d *disk) strike(f *fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = f.step
}

func (f *fault) step(kind opKind, path string) syscall.Errno {
	f.seen++
	// A write over several pages that fails behind the first is a short one for
	// the process, which tries the rest again: the block is still bad.
	again := kind == opWrite && f.last == f.seen-1 && f.last > 0 && f.paths[len(f.paths)-1] == path
	if !again && (f.seen <= f.after || len(f.struck) >= f.times || !f.only(kind)) {
		return 0
	}
	f.last = f.seen
	o := op{kind: kind, path: path}
	what := o.kindOf()
	f.struck, f.paths = append(f.struck, what), append(f.paths, path)
	total.add(tallyFaults, f.errno.Error()+" at "+what, 1)
	return f.errno
}

// faultRounds is how long the script is of which every step fails once.
const faultRounds = 4

// TestEveryStepFailsOnce: a write, sync or renaming number k fails, for all k
// until a run has no such step. What of the log fails ends the process with
// its own code and a message; what else fails is done again later or
// answered as failed. Whether the process or the power goes afterwards,
// nothing that was answered is lost, and the next start is clean.
func TestEveryStepFailsOnce(t *testing.T) {
	m := newMount(t)
	t.Logf("CRASH_SEED=%d", seed())
	c := newCampaign(t, log.SyncAlways)
	defer c.end()
	stride := 1
	if testing.Short() {
		stride = 25
	}
	r := rand.New(rand.NewPCG(seed(), 1))
	for _, make := range []func(k int) *fault{
		func(k int) *fault { return oneFault(syscall.EIO, k) },
		fullDisk,
	} {
		var runs sync.WaitGroup
		slots := newSlots()
		for k := r.IntN(stride); c.failed.Load() < maxFailures && !slots.finished(); k += stride {
			slots.take()
			runs.Go(func() {
				defer slots.free()
				if f := make(k); !c.fails(m, f) {
					slots.finish()
				}
			})
		}
		runs.Wait()
	}
}

// slots bound how many runs there are at once, until one has come to the end.
type slots struct {
	room chan struct{}
	done chan struct{}
	once sync.Once
}

func newSlots() *slots { return &slots{room: make(chan struct{}, 2), done: make(chan struct{})} }

func (s *slots) take()   { s.room <- struct{}{} }
func (s *slots) free()   { <-s.room }
func (s *slots) finish() { s.once.Do(func() { close(s.done) }) }
func (s *slots) finished() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// fails runs the script on a disk that fails, and checks what is left. It
// reports whether a step failed.
func (c *campaign) fails(m *mount, f *fault) bool {
	d := newDisk(emptyDir())
	d.strike(f)
	s := &session{t: c.t, d: d, h: &history{}}
	ended := !s.open(m, true) || !s.through(func(s *session) { script(s, faultRounds) })
	code, said := s.c.ended() // the script ends with a close
	d.cut()
	ops := d.trace()
	total.calls(s.h)
	if len(f.struck) == 0 {
		total.add(tallyRounds, "script without a fault", 1)
		return false
	}
	total.add(tallyRounds, "script with a fault", 1)
	name := fmt.Sprintf("%v at step %d, %s (%s): ", f.errno, f.after, f.struck[0], f.paths[0])
	switch {
	case code == exitFailed && strings.Contains(said, f.errno.Error()):
		total.add(tallyEnds, "log: ended with its code", 1)
	case ended && code == exitRefused && len(s.h.events) == 0:
		total.add(tallyEnds, "start: refused", 1)
	case !ended && code == 0 && !f.ofLog():
		total.add(tallyEnds, "went on", 1)
	default:
		c.failed.Add(1)
		c.t.Errorf("%sended %v, code %d: %s", name, ended, code, said)
		return true
	}
	w := newWorld(d.base, ops)
	for w.at < len(ops) {
		w.step()
	}
	past := c.past(d, s.h, len(ops))
	c.check(name+"the power stayed", d.now(), past, s.ahead)
	for i := range variants {
		if i == allLost || i == allKept || i == f.after%len(variants) {
			total.add(tallyVariants, variants[i].name, 1)
			c.check(name+variants[i].name, w.image(&variants[i], seed()), past, s.ahead)
		}
	}
	total.add(tallyCuts, "failed "+f.struck[0], 1)
	return true
}

// ofLog reports whether a step failed that the log cannot do without.
func (f *fault) ofLog() bool {
	for _, what := range f.struck {
		if strings.HasSuffix(what, " of log file") && !strings.HasPrefix(what, "remove") {
			return true
		}
	}
	return false
}
