package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"queend"
	"queend/broker"
	"queend/segment"
)

// checker compares a data directory with facts.
type checker struct {
	*facts
	r      *rig
	stored map[place]*stored
	cursor map[reader]int64
	listed map[address]letter
	wrong  []error
	told   *history // with the answers that a cut may take back
}

// stored is what a partition holds.
type stored struct {
	start, end int64
	at         map[int64]segment.Message
	byID       map[string]int64
}

// leasesOver is later than any lease, and before ids are forgotten.
const leasesOver = 90 * broker.Second

// checkImage opens what a power cut left in dir and reports what is not as
// the history says. ahead is where the clock stood.
func checkImage(dir string, h past, ahead int64, whole bool) error {
	r := &rig{ahead: &atomic.Int64{}}
	r.ahead.Store(ahead + leasesOver)
	cfg := config(dir, r.ahead)
	cfg.Manual = true
	var failed atomic.Value
	cfg.OnFail = func(err error) { failed.Store(err) }
	var err error
	if r.b, err = broker.Open(cfg); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	c := &checker{
		facts: h.certain.facts(), told: h.told, r: r,
		stored: map[place]*stored{}, cursor: map[reader]int64{}, listed: map[address]letter{},
	}
	c.run()
	ctx, cancel := context.WithCancel(context.Background())
	if !whole {
		cancel() // no checkpoint at the end
	}
	defer cancel()
	if err := r.b.Close(ctx); err != nil {
		c.fail("close: %v", err)
	}
	if err := failed.Load(); err != nil {
		c.fail("the log failed: %v", err)
	}
	if whole {
		if err := verify(dir, func(d broker.Damage) { c.fail("verify: %+v", d) }); err != nil {
			c.fail("verify: %v", err)
		}
	}
	return errors.Join(c.wrong...)
}

// verify waits for the lock of a closed directory: a process that is being
// started meanwhile has our files, and with them the lock, until its exec.
func verify(dir string, report func(broker.Damage)) (err error) {
	for range 500 {
		if err = broker.Verify(dir, report); !errors.Is(err, broker.ErrLocked) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

func (c *checker) fail(format string, args ...any) {
	if len(c.wrong) < 3 {
		c.wrong = append(c.wrong, fmt.Errorf(format, args...))
	}
}

// call does what must succeed.
func (c *checker) call(what call) reply {
	out := c.r.do(&what)
	if out.Err != "" || out.Refused != "" {
		c.fail("%s: %s%s", what.Op, out.Err, out.Refused)
	}
	return out
}

func (c *checker) run() {
	for _, clash := range c.clash {
		c.fail("one offset had two ids: %s", clash)
	}
	c.call(call{Op: "spool", On: false})
	c.call(call{Op: "drain"})
	c.r.b.Tick()
	for _, p := range c.places() {
		c.read(p)
		c.checkStored(p)
	}
	c.checkWholes()
	for r := range c.readers {
		c.drain(r)
	}
	c.checkLetters()
	c.checkTransactions()
	c.checkOptions()
	c.checkEnd()
	for _, p := range c.places() {
		c.checkDedup(p)
	}
}

// read reads a partition by offset.
func (c *checker) read(p place) {
	s := &stored{at: map[int64]segment.Message{}, byID: map[string]int64{}}
	c.stored[p] = s
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	for from := int64(0); ; {
		out, err := c.r.b.Fetch(ctx, broker.FetchRequest{Tenant: broker.DefaultTenant, Entries: []broker.FetchEntry{{
			Queue: p.queue, Partition: p.part, Offset: queend.Offset(from), MaxBytes: 1 << 20,
		}}})
		if err != nil {
			c.fail("%v: fetch from %d: %v", p, from, err)
			return
		}
		switch e := out[0]; {
		case e.Error == broker.FetchUnknown:
			return
		case e.Error == broker.FetchOutOfRange && from < int64(e.LogStart):
			from = int64(e.LogStart)
			s.start, s.end = from, int64(e.HighWatermark)
			if s.start == s.end {
				return
			}
		case e.Error != "":
			c.fail("%v: fetch from %d: %s", p, from, e.Error)
			return
		default:
			s.start, s.end = int64(e.LogStart), int64(e.HighWatermark)
			for _, m := range e.Records {
				if int64(m.Offset) != from {
					c.fail("%v: offset %d follows %d", p, m.Offset, from-1)
				}
				if _, twice := s.byID[string(m.TxnID)]; twice {
					c.fail("%v: %s is there twice", p, m.TxnID)
				}
				from = int64(m.Offset) + 1
				s.at[int64(m.Offset)], s.byID[string(m.TxnID)] = m, int64(m.Offset)
			}
			if from >= s.end {
				return
			}
			if len(e.Records) == 0 {
				c.fail("%v: nothing at %d, end %d", p, from, s.end)
				return
			}
		}
	}
}

// checkStored looks for messages that are missing, changed or made up.
func (c *checker) checkStored(p place) {
	s := c.stored[p]
	if s.start > 0 && p.queue != retainedQueue {
		c.fail("%v begins at %d", p, s.start)
	}
	for txn, offset := range s.byID {
		if _, ok := c.ids[p][txn]; !ok {
			c.fail("%v: %s was never sent", p, txn)
		}
		if want := payload(c.original(txn)); string(s.at[offset].Payload) != want {
			c.fail("%v: %s has payload %.60s", p, txn, s.at[offset].Payload)
		}
	}
	for offset, txn := range c.seen[p] {
		if m, ok := s.at[offset]; offset >= s.start && (!ok || string(m.TxnID) != txn) {
			c.fail("%v: offset %d was %s and is %q, start %d, end %d", p, offset, txn, m.TxnID, s.start, s.end)
		}
	}
	for txn, certain := range c.ids[p] {
		if _, ok := s.byID[txn]; certain && !ok && s.start == 0 {
			c.fail("%v: %s was stored and is missing", p, txn)
		}
	}
	for _, o := range c.after {
		if at, ok := s.byID[o.txn]; ok && o.place == p && p.queue != spooledQueue && at <= o.offset {
			c.fail("%v: %s is at %d, before what was stored earlier at %d", p, o.txn, at, o.offset)
		}
	}
}

// checkWholes makes sure that no request was stored in part.
func (c *checker) checkWholes() {
	for _, items := range c.wholes {
		n := 0
		for _, it := range items {
			if it.Queue == retainedQueue {
				n = -len(items)
			}
			if _, ok := c.stored[place{it.Queue, it.Part}].byID[it.Txn]; ok {
				n++
			}
		}
		if n > 0 && n < len(items) {
			c.fail("%d of %d messages of one request are there: %v", n, len(items), items)
		}
	}
}

// drain pops everything a group has before it.
func (c *checker) drain(r reader) {
	if _, ok := c.cursor[r]; ok {
		return
	}
	got := map[place][]message{}
	for range 1000 {
		out := c.call(call{Op: "pop", Queue: r.queue, Group: r.group, Batch: 1 << 20})
		if len(out.Messages) == 0 {
			break
		}
		for _, m := range out.Messages {
			got[place{m.Queue, m.Part}] = append(got[place{m.Queue, m.Part}], m)
		}
	}
	for other := range c.readers { // all partitions of the queue were popped
		if other.group != r.group || other.queue != r.queue {
			continue
		}
		s, p := c.stored[other.place], c.readers[other]
		next := s.end
		if list := got[other.place]; len(list) > 0 {
			next = list[0].Offset
			for i, m := range list {
				if m.Offset != next+int64(i) || string(s.at[m.Offset].TxnID) != m.Txn || m.Payload != string(s.at[m.Offset].Payload) {
					c.fail("%v: delivery %d is %s at %d, and %q is stored there", other, i, m.Txn, m.Offset, s.at[m.Offset].TxnID)
					break
				}
			}
			if end := list[len(list)-1].Offset + 1; end != s.end {
				c.fail("%v: deliveries end at %d, the partition at %d", other, end, s.end)
			}
		}
		c.cursor[other] = next - 1
		if !p.may(next-1, s.start) {
			c.fail("%v: the group is behind %d; certain: %d, possible: %v", other, next-1, p.floor, p.maybe)
		}
	}
}

// checkLetters compares the dead letters.
func (c *checker) checkLetters() {
	ids := map[string]bool{}
	for _, l := range c.call(call{Op: "letters"}).Letters {
		at := address{reader{place{l.Queue, l.Part}, l.Group}, l.Txn}
		if _, twice := c.listed[at]; twice {
			c.fail("%v is a dead letter twice", at)
		}
		c.listed[at], ids[l.ID] = l, true
		f := c.letters[at]
		if f == nil {
			c.fail("%v is a dead letter and never was one", at)
			continue
		}
		if l.Payload != payload(c.original(l.Txn)) || l.Offset != f.offset {
			c.fail("%v: dead letter at %d with payload %.60s", at, l.Offset, l.Payload)
		}
		if f.replayed == 2 {
			c.fail("%v was replayed and is still a dead letter", at)
		}
		if c.cursor[at.reader] < l.Offset {
			c.fail("%v is a dead letter and is delivered", at)
		}
	}
	for at, f := range c.letters {
		if _, ok := c.listed[at]; !ok && f.replayed == 0 && (f.certain || c.cursor[at.reader] == f.offset) {
			c.fail("%v is no dead letter, the group is behind %d", at, c.cursor[at.reader])
		}
	}
	for _, e := range c.replays {
		it := e.Items[0]
		_, ok := c.stored[place{it.Queue, it.Part}].byID[replayed+e.Of]
		if f := c.letters[address{reader{place{it.Queue, it.Part}, e.Group}, it.Txn}]; !ok && (f == nil || !f.certain) {
			continue // it may never have been filed
		}
		if ok == ids[e.Of] && it.Queue != retainedQueue {
			c.fail("the replay of %s as %s%s: message there: %v, dead letter there: %v", it.Txn, replayed, e.Of, ok, ids[e.Of])
		}
	}
}

// checkTransactions makes sure that pushes and acks of one happened together.
func (c *checker) checkTransactions() {
	for _, e := range c.txns {
		if len(e.Acks) == 0 {
			continue // there was nothing to ack
		}
		it, a := e.Items[0], e.Acks[len(e.Acks)-1]
		_, pushed := c.stored[place{it.Queue, it.Part}].byID[it.Txn]
		r := reader{place{a.Queue, a.Part}, e.Group}
		others := -1 // besides this one, that may have acked as much
		for _, m := range c.readers[r].maybe {
			if m >= a.Offset {
				others++
			}
		}
		behind := c.cursor[r] >= a.Offset
		if pushed && !behind || !pushed && behind && others == 0 && c.readers[r].floor < a.Offset && !c.readers[r].unsure {
			c.fail("transaction with push %s: pushed: %v, group %v behind %d after acking %d", it.Txn, pushed, r, c.cursor[r], a.Offset)
		}
	}
}

func (c *checker) checkOptions() {
	if len(c.leases) == 0 {
		return
	}
	got := c.call(call{Op: "configure", Queue: optionsQueue}).N
	first := c.leases[0] == 1 // the first configure may not have happened
	if !slices.Contains(c.leases, got) && !first {
		c.fail("leaseTime is %d, not one of %v", got, c.leases)
	}
}

// checkDedup pushes everything again.
func (c *checker) checkDedup(p place) {
	s := c.stored[p]
	for ids := range slices.Chunk(sortedIDs(c.ids[p]), 200) {
		var items []item
		for _, txn := range ids {
			items = append(items, item{p.queue, p.part, txn})
		}
		out := c.call(call{Op: "push", Items: items})
		for i, got := range out.Pushed {
			at, there := s.byID[ids[i]]
			there = there || c.ids[p][ids[i]]
			switch {
			case there && got.Status != broker.PushDuplicate:
				c.fail("%v: %s was there and is pushed again, status %d", p, ids[i], got.Status)
			case there && at > 0 && got.Offset != at:
				c.fail("%v: %s is at %d, its duplicate says %d", p, ids[i], at, got.Offset)
			case !there && p.queue != retainedQueue && (got.Status != broker.PushQueued || got.Offset < s.end):
				c.fail("%v: %s was not there: status %d, offset %d, end %d", p, ids[i], got.Status, got.Offset, s.end)
			}
		}
	}
}

func sortedIDs(ids map[string]bool) []string {
	out := make([]string, 0, len(ids))
	for txn := range ids {
		out = append(out, txn)
	}
	slices.Sort(out)
	return out
}

// shelf is where images are written to be checked: memory, if there is some.
func shelf() string {
	if st, err := os.Stat("/dev/shm"); err == nil && st.IsDir() {
		return "/dev/shm"
	}
	return os.TempDir()
}

// checkSnap writes an image out and checks it. A check that hangs is wrong.
func checkSnap(image *snap, h past, ahead int64, whole bool) (err error) {
	dir, err := os.MkdirTemp(shelf(), "queend-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := image.writeTo(dir); err != nil {
		return err
	}
	defer func() {
		if out := os.Getenv("CRASH_OUT"); err != nil && out != "" {
			kept := filepath.Join(out, filepath.Base(dir))
			err = errors.Join(err, image.writeTo(kept), fmt.Errorf("the image is in %s", kept))
		}
	}()
	result := make(chan error, 1)
	go func() { result <- checkImage(dir+"/data", h, ahead, whole) }()
	select {
	case err := <-result:
		return err
	case <-time.After(2 * time.Minute):
		return errors.New("the check did not end")
	}
}
