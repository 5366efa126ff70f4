package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"queend"
)

// chain is a base and its deltas: together the state at one LSN.
type chain struct{ files []chainFileInfo }

func (c *chain) newest() *chainFileInfo { return &c.files[len(c.files)-1] }
func (c *chain) lsn() queend.LSN        { return c.newest().lsn }

// deltaBytes is the size of all but the base.
func (c *chain) deltaBytes() (n int64) {
	for i := range c.files[1:] {
		n += c.files[1+i].size
	}
	return n
}

// checkpoints is what the storage knows of them.
// Invariant: at most two chains, older first, that share no file. The log
// reaches back to the older one.
type checkpoints struct {
	chains   []chain
	serial   uint64 // highest number given
	cutBytes uint64 // bytes the log had written at the last cut
	cutAt    int64  // when that was, broker clock
	seenLSN  queend.LSN
	seenAt   int64 // since when the log has not gone beyond seenLSN, but for what checkpoints add
}

// checkpointsMade is what metrics show of them.
type checkpointsMade struct {
	count atomic.Uint64
	cutAt atomic.Int64 // of the newest, else when the broker started; broker clock
}

const (
	// idleAfter is how long nothing must happen before checkpoints go on
	// until the log is empty.
	idleAfter = 10 * Second
	// While the base is small an idle checkpoint is free; a large one is
	// written when the log has grown to a part of it, or some time has passed.
	smallBase    = 4 << 20
	idleInterval = 10 * Minute
)

// checkpointDue says whether a checkpoint is due at now, and whether the
// broker is idle. The caller holds b.storage.checkpointing.
func (b *Broker) checkpointDue(now int64) (due, idle bool) {
	c := &b.storage.checkpoints
	last := b.log.Last()
	if last != c.seenLSN {
		c.seenLSN, c.seenAt = last, now
	}
	if last == 0 {
		return false, false
	}
	st := b.log.Stats()
	grown := int64(st.Bytes - c.cutBytes)
	if grown >= b.cfg.CheckpointBytes {
		return true, false
	}
	if now-c.cutAt >= b.cfg.CheckpointSeconds*Second && grown >= b.cfg.CheckpointBytes/16 {
		return true, false
	}
	if now-c.seenAt < idleAfter || b.logEmpty(last) {
		return false, false
	}
	base := int64(0)
	if n := len(c.chains); n > 0 {
		base = c.chains[n-1].files[0].size
	}
	idle = base <= smallBase || st.DiskBytes >= base/4 || now-c.cutAt >= idleInterval
	return idle, idle
}

// logEmpty reports whether both chains hold everything through last.
func (b *Broker) logEmpty(last queend.LSN) bool {
	c := &b.storage.checkpoints
	return len(c.chains) == 2 && c.chains[0].lsn() == last && c.chains[1].lsn() == last
}

// checkpointIfDue makes one checkpoint, or when idle as many as it takes.
func (b *Broker) checkpointIfDue(now int64) error {
	b.storage.checkpointing.Lock()
	defer b.storage.checkpointing.Unlock()
	for range 4 {
		due, idle := b.checkpointDue(now)
		if !due {
			return nil
		}
		if err := b.checkpoint(idle, idle); err != nil {
			return err
		}
		if !idle {
			return nil
		}
		b.storage.checkpoints.seenLSN = b.log.Last()
	}
	return nil
}

// wantsBase reports whether the next checkpoint should be a base: there is
// none, the deltas have grown, or the log that is kept has.
func (b *Broker) wantsBase() bool {
	c := &b.storage.checkpoints
	if len(c.chains) == 0 {
		return true
	}
	newest := &c.chains[len(c.chains)-1]
	base := newest.files[0].size
	return 2*newest.deltaBytes() > base || b.log.Stats().DiskBytes > 4*max(b.cfg.CheckpointBytes, base)
}

// checkpoint makes one checkpoint and drops what it makes superfluous. With
// settle the tail is flushed before the cut, so that nothing of the log is
// left after it. The caller holds b.storage.checkpointing.
func (b *Broker) checkpoint(base, settle bool) error {
	c := &b.storage.checkpoints
	base = base || b.wantsBase()
	if settle {
		if _, err := b.flush(); err != nil {
			return err
		}
	}
	c.serial++
	link := chainLink{serial: c.serial, base: c.serial}
	if !base {
		newest := &c.chains[len(c.chains)-1]
		link.base, link.prev = newest.files[0].serial, newest.newest().serial
	}
	c.cutBytes, c.cutAt = b.log.Stats().Bytes, b.cfg.Now()
	info, err := b.writeCheckpoint(link)
	b.locked(func() { b.tracker.finish(err == nil) })
	if err != nil {
		return fmt.Errorf("checkpoint %d: %w", link.serial, err)
	}
	b.storage.step("checkpoint")
	return b.adopt(info)
}

// writeCheckpoint cuts, writes and verifies a checkpoint file. It appears
// under its name only when everything it stands for is safe.
func (b *Broker) writeCheckpoint(link chainLink) (chainFileInfo, error) {
	suffix := ".delta"
	if link.isBase() {
		suffix = ".base"
	}
	path := filepath.Join(b.storage.dir.checkpoints(), fmt.Sprintf("%020d%s", link.serial, suffix))
	temp := path + ".tmp"
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return chainFileInfo{}, err
	}
	defer os.Remove(temp) // gone by then when all went well
	defer f.Close()
	var cut cutPoint
	b.locked(func() { cut = b.cut() })
	link.lsn = cut.lsn
	w, err := newChainWriter(f, link)
	if err != nil {
		return chainFileInfo{}, err
	}
	if err := w.add(cut.misc); err != nil {
		return chainFileInfo{}, err
	}
	if err := b.saveImages(w); err != nil {
		return chainFileInfo{}, err
	}
	b.storage.step("images")
	durable, err := b.secure(cut.lsn)
	if err != nil {
		return chainFileInfo{}, err
	}
	if err := w.finish(durable); err != nil {
		return chainFileInfo{}, err
	}
	info, err := readChainFile(temp, nil)
	if err != nil {
		return chainFileInfo{}, err
	}
	b.storage.step("checkpoint written")
	if err := os.Rename(temp, path); err != nil {
		return chainFileInfo{}, err
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return chainFileInfo{}, err
	}
	info.path = path
	return info, nil
}

// saveImages walks over the state and writes the images, its own and those
// that apply saved. The lock is given up between short holds.
func (b *Broker) saveImages(w *chainWriter) error {
	var err error
	write := func(images []byte) {
		if err == nil {
			err = w.add(images)
		}
	}
	var room, rest []byte
	b.locked(func() {
		walk := &walk{b: b, every: b.storage.walkStep, pause: func() {
			images := b.tracker.take(room)
			b.mu.Unlock()
			defer b.mu.Lock()
			write(images)
			room = images
			b.storage.step("walking")
		}}
		if w.link.isBase() {
			walk.everything()
		} else {
			walk.difference()
		}
		b.tracker.cutting = false // all is saved
		rest = b.tracker.take(nil)
	})
	write(rest)
	return err
}

// secure returns when all messages and ids through lsn are in synced segment
// files and the events that say so, and lsn, are synced. It returns an LSN
// that is.
func (b *Broker) secure(lsn queend.LSN) (queend.LSN, error) {
	flushed, err := b.flush()
	if err != nil {
		return 0, err
	}
	lsn = max(lsn, flushed)
	return lsn, b.awaitSynced(lsn)
}

// syncPoll is how often the log is asked whether it has synced, in the modes
// in which nobody waits for that.
const syncPoll = 2 * time.Millisecond

// awaitSynced returns when records through lsn survive a power cut, in every
// mode of syncing.
func (b *Broker) awaitSynced(lsn queend.LSN) error {
	if err := b.log.Wait(context.Background(), lsn); err != nil {
		return err
	}
	if b.log.Stats().Synced >= lsn {
		return nil
	}
	b.log.Roll() // syncs what is before it
	tick := time.NewTicker(syncPoll)
	defer tick.Stop()
	for b.log.Stats().Synced < lsn {
		// A failed or closed log says so here.
		if err := b.log.Wait(context.Background(), lsn); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-b.storage.stopped:
			return errStopped
		}
	}
	return nil
}

var errStopped = errors.New("the broker is closing")

// adopt adds a finished checkpoint to the chains.
func (b *Broker) adopt(info chainFileInfo) error {
	c := &b.storage.checkpoints
	b.storage.made.count.Add(1)
	b.storage.made.cutAt.Store(c.cutAt)
	if !info.isBase() {
		newest := &c.chains[len(c.chains)-1]
		newest.files = append(newest.files, info)
		return nil
	}
	c.chains = append(c.chains, chain{files: []chainFileInfo{info}})
	return b.dropChains()
}

// dropChains keeps the two newest chains, and the log from the older one on.
func (b *Broker) dropChains() error {
	c := &b.storage.checkpoints
	for len(c.chains) > 2 {
		old := c.chains[0]
		c.chains = c.chains[1:]
		// Deltas first: what is left of a chain after a crash is a shorter one.
		for i := len(old.files) - 1; i >= 0; i-- {
			if err := os.Remove(old.files[i].path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			b.storage.step("chain file dropped")
		}
	}
	if len(c.chains) < 2 {
		return nil
	}
	if err := syncDir(b.storage.dir.checkpoints()); err != nil {
		return err
	}
	return b.log.DropThrough(c.chains[0].lsn())
}
