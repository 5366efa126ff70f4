package broker

import (
	"sync"
	"time"

	"queend"
	"queend/dedup"
	"queend/segment"
)

// storage is what moves messages from the tail to segment files, merges and
// deletes files, and makes checkpoints. Its work is done by goroutines that
// take the broker's lock for short steps only and never while they read or
// write.
type storage struct {
	dir       *dataDir
	files     *segmentFiles
	ids       *idCache
	batches   *dedup.Cache[laneKey, *batchIDs]
	bookmarks *dedup.Cache[laneKey, *segment.Bookmark] // where pops of a lane have stopped to read
	stopped   chan struct{}                            // closed when the broker has ended
	wake      chan struct{}                            // the tail is large enough to be flushed
	onStep    func(name string)

	walkStep int // records that a checkpoint saves in one hold of the lock

	// One of each at a time.
	checkpointing, flushing, merging, retaining, backing sync.Mutex

	checkpoints checkpoints // under checkpointing
	announced   queend.LSN  // the record of the last flush, 0: none since the start; under flushing
	made        checkpointsMade

	// Under the broker's lock:
	nextFile  queend.FileID // highest number given
	tails     []*partition  // those with a tail that no flush has taken, by their queued bit
	tailSince int64         // when the first of them joined
	sealed    []uint64      // generations of state.fresh that the next flush may drop
	retention retention
	sweptAt   int64 // when old small files were last merged

	disk  diskGate
	admit admission
}

func (s *storage) init(b *Broker, dir *dataDir) {
	s.dir, s.files = dir, newSegmentFiles(dir)
	s.ids = newIDCache(b.cfg.DedupCacheBytes)
	s.batches = dedup.NewCache[laneKey, *batchIDs](batchIDBytes)
	s.bookmarks = dedup.NewCache[laneKey, *segment.Bookmark](bookmarkBytes)
	s.stopped, s.wake = make(chan struct{}), make(chan struct{}, 1)
	s.walkStep = walkStep
	s.retention.init()
	s.admit.budget, s.admit.over = b.cfg.AdmitBytes, b.tailOver
}

// step tells a test that one step towards the disk is done.
func (s *storage) step(name string) {
	if s.onStep != nil {
		s.onStep(name)
	}
}

// bookmarkBytes bounds what pops keep decoded of segment files for the next pop of
// their lane.
const bookmarkBytes = 32 << 20

// fileFrame is what a segment file has besides its runs, in bytes.
const fileFrame = 64

// deriveStorage derives from the state what replay did not keep up to date.
// It happens once, at the end of boot.
func (b *Broker) deriveStorage() {
	b.storage.sweptAt = b.now()
	for _, f := range b.state.files {
		f.dead = f.bytes - fileFrame
	}
	for p := range b.state.partitions.all() {
		for i := range p.runs() {
			if f := b.state.files[p.runs()[i].File]; f != nil {
				f.dead -= int64(p.runs()[i].Bytes)
			}
		}
		b.payloadDied(p, 0)
	}
}

// Maintain does one round of all background work that is due now. The broker
// does it by itself unless it was opened with Manual.
func (b *Broker) Maintain() error {
	b.checkDisk()
	err := b.flushIfDue()
	b.retain()
	if merr := b.mergeIfDue(func(int) {}); err == nil {
		err = merr
	}
	if cerr := b.checkpointIfDue(b.cfg.Now()); err == nil {
		err = cerr
	}
	b.sweepFiles()
	b.saveHistory(false)
	return err
}

// startStorage starts the goroutines.
func (b *Broker) startStorage() {
	b.done.Add(5)
	go b.loop("flush", time.Second, b.storage.wake, func() error {
		b.checkDisk()
		return b.flushIfDue()
	})
	go b.loop("retention", time.Duration(b.cfg.RetentionMS)*time.Millisecond, nil, func() error {
		b.retain()
		b.sweepFiles()
		return nil
	})
	go b.loop("history of figures", time.Duration(b.cfg.HistoryFlushMS)*time.Millisecond, nil, func() error {
		b.saveHistory(false)
		return nil
	})
	go b.loop("merge", time.Second, nil, func() error { return b.mergeIfDue(b.pace) })
	go b.loop("checkpoint", time.Second, nil, func() error { return b.checkpointIfDue(b.cfg.Now()) })
}

// loop runs work once per interval, and when woken, until the broker closes.
// What fails is tried again the next time.
func (b *Broker) loop(name string, every time.Duration, wake <-chan struct{}, work func() error) {
	defer b.done.Done()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-b.quit:
			return
		case <-wake:
		case <-tick.C:
		}
		if err := work(); err != nil {
			b.cfg.Log.Error("storage: "+name+" failed and will be tried again", "error", err)
		}
	}
}

// pace makes a background writer rest as long as writing n bytes takes a slow
// disk, so that commits find it free half of the time.
func (b *Broker) pace(n int) {
	rest := time.Duration(n) * time.Second / paceBytes
	select {
	case <-b.quit:
	case <-time.After(rest):
	}
}

// paceBytes is the highest rate of a merge, bytes per second. It is above
// what flushes bring for long, so merges keep up.
const paceBytes = 96 << 20
