package crash

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"queend/log"
)

// campaign checks images of cuts, two at a time.
type campaign struct {
	t      *testing.T
	sync   log.SyncMode
	work   chan func()
	done   sync.WaitGroup
	cuts   atomic.Int64 // images looked at
	opened atomic.Int64 // of them, those not seen before
	failed atomic.Int64
	seen   map[[3]uint64]bool
}

// maxFailures ends a campaign that has found enough.
const maxFailures = 12

func newCampaign(t *testing.T, sync log.SyncMode) *campaign {
	c := &campaign{t: t, sync: sync, work: make(chan func(), 8), seen: map[[3]uint64]bool{}}
	for range 2 {
		c.done.Add(1)
		go func() {
			defer c.done.Done()
			for fn := range c.work {
				if c.failed.Load() < maxFailures {
					fn()
				}
			}
		}()
	}
	return c
}

// end waits for the checks that are under way.
func (c *campaign) end() {
	close(c.work)
	c.done.Wait()
	c.t.Logf("%d cuts, %d different images opened and checked, %d wrong", c.cuts.Load(), c.opened.Load(), c.failed.Load())
	total.add(tallyImages, "opened and checked", int(c.opened.Load()))
	total.add(tallyImages, "the same as another", int(c.cuts.Load()-c.opened.Load()))
	if n := c.failed.Load(); n > 0 {
		total.add(tallyViolations, c.t.Name(), int(n))
	}
}

// check has an image checked, unless the same was.
func (c *campaign) check(name string, image *snap, h past, ahead int64) {
	c.cuts.Add(1)
	key := [3]uint64{image.sum(), uint64(h.certain.answered()), uint64(len(h.certain.events))}
	if c.seen[key] {
		return
	}
	c.seen[key] = true
	n := c.opened.Add(1)
	c.work <- func() {
		if err := checkSnap(image, h, ahead, n%16 == 0); err != nil {
			c.failed.Add(1)
			c.t.Errorf("%s: %v", name, err)
		}
	}
}

// everywhere cuts a disk behind every step, in all variants; with -short behind
// every seventh. each, when not nil, is shown each image.
func (c *campaign) everywhere(name string, d *disk, h *history, ahead int64, each func(k, i int, image *snap)) {
	ops := d.trace()
	w := newWorld(d.base, ops)
	stride := 1
	if testing.Short() {
		stride = 7
	}
	first := int(seed() % uint64(stride))
	for k := 0; ; k++ {
		if k%stride == first || k == len(ops) {
			c.here(name, w, d, h, ahead, each)
		}
		if k == len(ops) {
			return
		}
		w.step()
	}
}

// here cuts a disk where a world stands, in all variants.
func (c *campaign) here(name string, w *world, d *disk, h *history, ahead int64, each func(k, i int, image *snap)) {
	k := w.at
	past := c.past(d, h, k)
	total.add(tallyCuts, stepKind(w.ops, k), 1)
	for i := range variants {
		if c.failed.Load() >= maxFailures {
			return
		}
		v := &variants[i]
		image := w.image(v, seed()+uint64(i))
		total.add(tallyVariants, v.name, 1)
		c.check(fmt.Sprintf("%scut behind step %d of %d (%s), %s", name, k, len(w.ops), stepName(w.ops, k), v.name), image, past, ahead)
		if each != nil {
			each(k, i, image)
		}
	}
}

func stepName(ops []op, k int) string {
	if k == 0 {
		return "nothing"
	}
	return ops[k-1].where()
}

// stepKind is what the last step before a cut did.
func stepKind(ops []op, k int) string {
	if k == 0 {
		return "nothing"
	}
	return ops[k-1].kindOf()
}
