package log

import (
	"fmt"
	"runtime"
	"time"

	"queend"
)

// Stats counts since Open.
type Stats struct {
	Groups  uint64
	Records uint64
	Bytes   uint64 // of groups as written, with their headers
	Sizes   Spread // groups by their records

	// Syncs are those a commit waits for. At the end of a segment the library syncs
	// as part of the write, and the time includes both.
	Syncs     uint64
	SyncTotal time.Duration
	SyncMax   time.Duration
	SyncTimes Spread // syncs by microseconds

	Synced      queend.LSN // through here records survive a power cut, in every mode
	Generations int        // on disk
	DiskBytes   int64      // of all generations
}

// Stats returns the counters.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Generations = len(l.gens)
	for _, g := range l.gens {
		s.DiskBytes += g.bytes
	}
	return s
}

// run is the committer: it alone writes and syncs. It ends with Close or the first
// failure.
func (l *Log) run() {
	err := l.commitAll()
	l.stop(err)
	close(l.stopped)
	if err != ErrClosed && l.c.OnFail != nil {
		l.c.OnFail(err)
	}
}

// commitAll commits groups until the log is closed (ErrClosed) or fails.
func (l *Log) commitAll() error {
	tick := l.c.tick
	if l.c.Sync == SyncInterval && tick == nil {
		ticker := time.NewTicker(l.c.SyncInterval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-tick: // also when there is always a group to commit
			if err := l.syncWritten(); err != nil {
				return err
			}
		default:
		}
		// Those that the last group has let go, and those with a record at hand, go
		// first: it makes groups larger, and costs nothing when there are none.
		runtime.Gosched()
		g, closing := l.take()
		switch {
		case g != nil:
			if err := l.commit(g); err != nil {
				return err
			}
		case closing:
			return l.finish()
		default:
			select {
			case <-l.wake:
			case <-tick:
				if err := l.syncWritten(); err != nil {
					return err
				}
			}
		}
	}
}

// take takes the first group off the queue. From here on it does not grow.
func (l *Log) take() (g *group, closing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return nil, l.closing
	}
	g = l.queue[0]
	n := copy(l.queue, l.queue[1:])
	l.queue[n] = nil
	l.queue = l.queue[:n]
	l.taken = g
	return g, l.closing
}

// commit makes one group durable and lets its waiters go.
func (l *Log) commit(g *group) error {
	if g.roll {
		if err := l.rotate(g.first); err != nil {
			return fmt.Errorf("begin a generation at LSN %d: %w", g.first, err)
		}
	}
	if len(g.recs) > 0 {
		if err := l.write(g); err != nil {
			return fmt.Errorf("commit LSN %d to %d: %w", g.first, g.last(), err)
		}
	}
	l.mu.Lock()
	l.durable.Store(uint64(g.last()))
	l.taken = nil
	l.gens[len(l.gens)-1].bytes = l.writer.bytes
	if len(g.recs) > 0 {
		l.stats.Groups++
		l.stats.Records += uint64(len(g.recs))
		l.stats.Sizes.add(uint64(len(g.recs)))
	}
	if cap(g.recs) <= maxSpare {
		clear(g.recs)
		l.spare = g.recs[:0]
	}
	g.recs = nil
	l.mu.Unlock()
	close(g.done)
	return nil
}

// maxSpare is the largest slice of records kept for the next group, in records.
const maxSpare = 1 << 16

// write appends a group and syncs it when the mode says so.
func (l *Log) write(g *group) error {
	before, start := l.writer.bytes, l.now()
	synced, err := l.writer.append(g.first, l.synced, g.recs)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.stats.Bytes += uint64(l.writer.bytes - before)
	l.mu.Unlock()
	switch {
	case synced:
		l.countSync(start, g.last())
	case l.c.Sync == SyncAlways:
		return l.sync(g.last())
	}
	return nil
}

// sync syncs what was written, through LSN last.
func (l *Log) sync(last queend.LSN) error {
	start := l.now()
	if err := l.writer.sync(); err != nil {
		return err
	}
	l.countSync(start, last)
	return nil
}

// syncWritten is the background sync of SyncInterval.
func (l *Log) syncWritten() error {
	if l.synced == l.Durable() {
		return nil
	}
	return l.sync(l.Durable())
}

func (l *Log) countSync(start time.Time, last queend.LSN) {
	took := l.now().Sub(start)
	l.synced = last
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Synced = last
	l.stats.Syncs++
	l.stats.SyncTotal += took
	l.stats.SyncMax = max(l.stats.SyncMax, took)
	l.stats.SyncTimes.add(uint64(took.Microseconds()))
}

func (l *Log) now() time.Time {
	if l.c.Now == nil {
		return time.Time{}
	}
	return l.c.Now()
}

// rotate ends the generation being written and begins the next with LSN first.
func (l *Log) rotate(first queend.LSN) error {
	start := l.now()
	if err := l.writer.close(); err != nil {
		return err
	}
	l.countSync(start, first-1)
	w, err := l.createGeneration(l.writer.number+1, first, l.synced, nil)
	if err != nil {
		return err
	}
	l.writer = w
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gens = append(l.gens, kept{w.number, first, w.bytes})
	return nil
}

// finish ends the log in good order.
func (l *Log) finish() error {
	last := l.Durable()
	if err := l.writer.close(); err != nil {
		return err
	}
	l.synced = last
	l.mu.Lock()
	l.stats.Synced = last
	l.mu.Unlock()
	if err := writeMark(l.files, l.c.Dir, last); err != nil {
		return err
	}
	return ErrClosed
}

// stop lets every waiter go with err. Nothing is committed after it, and the
// library is not called again: what it has in memory and what is on disk may
// differ after a failure.
func (l *Log) stop(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != ErrClosed {
		err = fmt.Errorf("log: %w", err)
	}
	l.err = err
	for _, g := range l.queue {
		close(g.done)
	}
	if l.taken != nil {
		close(l.taken.done)
	}
	l.queue, l.taken, l.spare = nil, nil, nil
}
