// Package log makes records durable: bytes in, an LSN out, and word when the disk
// has them. It knows nothing about what a record means.
//
// Records that wait together are written as one group, with one sync. The files
// are written by tidwall/wal, which only appends here; checksums, repair, and
// everything else that makes a log safe is done from outside (see group.go for
// the format and boot.go for what happens after a crash).
package log

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"queend"
)

// SyncMode says when a record counts as durable.
type SyncMode uint8

// The zero value is the safe one.
const (
	SyncAlways   SyncMode = iota // when it was synced
	SyncInterval                 // when it was written; synced every Config.SyncInterval
	SyncNever                    // when it was written; synced when a segment is full, at Roll and at Close
)

// Config tells Open how to work. Dir and Quarantine are required.
type Config struct {
	Dir          string // holds the generations; created when missing
	SegmentBytes int    // a file is finished when it has this many; 0: 4 MiB, at most 256 MiB
	GroupBytes   int    // the largest commit group, of more than one record; 0: 4 MiB, at most 256 MiB
	Sync         SyncMode
	SyncInterval time.Duration // for SyncInterval; must be positive then

	// Proven is an LSN that something else says was durable. A log that ends
	// before it is damaged.
	Proven queend.LSN

	// Quarantine is the directory where bytes cut from the tail are kept. It is
	// created when needed.
	Quarantine string

	// Check is called when every record was replayed and before anything changes
	// on disk: its error makes Open refuse. nil: nothing to check.
	Check func() error

	// OnFail is called once, on a goroutine of the log, when a write or a sync
	// failed. The process must stop then: memory is ahead of the disk.
	OnFail func(error)

	// Now is the clock for the times in Stats, which stay 0 without it.
	Now func() time.Time

	hook func(step, path string) error // see files
	tick <-chan time.Time              // in the place of a ticker of SyncInterval
}

const (
	defaultBytes = 4 << 20
	maxBytes     = 256 << 20
)

// complete checks c and fills in what was left at 0.
func (c *Config) complete() error {
	if c.Dir == "" || c.Quarantine == "" {
		return errors.New("directory and quarantine directory are required")
	}
	for _, n := range []*int{&c.SegmentBytes, &c.GroupBytes} {
		if *n == 0 {
			*n = defaultBytes
		}
		if *n < 0 || *n > maxBytes {
			return fmt.Errorf("size of %d bytes is not between 1 and %d", *n, maxBytes)
		}
	}
	if c.Sync > SyncNever || c.Sync == SyncInterval && c.SyncInterval <= 0 {
		return fmt.Errorf("sync mode %d with interval %v", c.Sync, c.SyncInterval)
	}
	// The library makes paths absolute; what is compared and reported does not
	// depend on the working directory either.
	var err error
	if c.Dir, err = filepath.Abs(c.Dir); err == nil {
		c.Quarantine, err = filepath.Abs(c.Quarantine)
	}
	return err
}

// ErrClosed is returned by Wait for a record appended after Close began.
var ErrClosed = errors.New("log closed")

// Log is an open log. Its methods may be called from any goroutine.
//
// Invariant: synced <= durable <= last.
type Log struct {
	c       Config
	files   files
	stopped chan struct{} // closed when the committer has ended
	wake    chan struct{} // holds a value when the committer has something to look at

	durable atomic.Uint64 // the LSN through which waiters have been let go

	mu      sync.Mutex
	last    queend.LSN
	taken   *group   // being committed; nil: none
	queue   []*group // after taken, in order; records are added to the last one
	spare   [][]byte // an empty slice for the records of the next group
	closing bool
	err     error  // the failure, or ErrClosed: nothing is committed any more
	gens    []kept // on disk, oldest first; the last one is being written
	stats   Stats

	dropping sync.Mutex // held by DropThrough, taken before mu
	dropErr  error      // the failed sync after which nothing is dropped, under dropping

	// The committer's own.
	writer *writer
	synced queend.LSN // what a sync has covered
}

// kept is a generation on disk.
type kept struct {
	number uint64
	first  queend.LSN
	bytes  int64
}

// group is what is committed at once. The last one of the queue still grows.
type group struct {
	first queend.LSN
	recs  [][]byte
	bytes int           // of recs, framed
	roll  bool          // a new generation begins before it
	done  chan struct{} // closed when it is committed, and when it never will be
}

func (g *group) last() queend.LSN { return g.first + queend.LSN(len(g.recs)) - 1 }

// Open reads the log in c.Dir and returns it ready to append. Records with an LSN
// above after go to replay in order; each slice is replay's to keep.
//
// A bad place in the log is its tail when nothing says that the bytes were ever
// durable: it is cut there and the bytes are kept in c.Quarantine. Otherwise the
// error wraps ErrDamaged, names the place, and nothing has been changed. What was
// replayed before an error is to be thrown away.
//
// What nothing proves to be durable is written again and synced before Open
// returns: all that was replayed stays.
func Open(c Config, after queend.LSN, replay func(lsn queend.LSN, rec []byte) error) (*Log, Recovery, error) {
	if err := c.complete(); err != nil {
		return nil, Recovery{}, fmt.Errorf("log: %w", err)
	}
	l, rec, err := open(c, after, replay)
	var d *Damage
	if errors.As(err, &d) {
		return nil, rec, fmt.Errorf("log: %w; nothing was changed, look at it with \"queend verify\"", err)
	}
	if err != nil {
		return nil, rec, fmt.Errorf("log: open %s: %w", c.Dir, err)
	}
	go l.run()
	return l, rec, nil
}

func open(c Config, after queend.LSN, replay func(queend.LSN, []byte) error) (*Log, Recovery, error) {
	f := files{hook: c.hook}
	b := &boot{c: c, files: f, after: after, replay: replay}
	if err := b.run(); err != nil {
		return nil, b.rec, err
	}
	l := &Log{
		c: c, files: f,
		stopped: make(chan struct{}), wake: make(chan struct{}, 1),
		last: b.rec.Last, synced: b.rec.Last,
	}
	l.durable.Store(uint64(b.rec.Last))
	l.stats.Synced = b.rec.Last
	for _, g := range b.chain.gens {
		l.gens = append(l.gens, kept{g.number, g.first, g.size()})
	}
	var err error
	if l.writer, err = b.newGeneration(l); err != nil {
		return nil, b.rec, err
	}
	l.gens = append(l.gens, kept{l.writer.number, b.first(), l.writer.bytes})
	if err := removeMark(f, c.Dir); err != nil {
		l.writer.abandon()
		return nil, b.rec, err
	}
	return l, b.rec, nil
}

// Append queues one record and returns its LSN, one more than the last. It never
// waits for the disk. rec belongs to the log and its readers: nobody may change it
// any more. The queue has no bound of its own: whoever appends reserves the bytes
// before. After a failure, and after Close, the record is dropped; Wait says so.
// A record larger than MaxRecord is a bug.
func (l *Log) Append(rec []byte) queend.LSN {
	if len(rec) > MaxRecord {
		panic(fmt.Sprintf("log: record of %d bytes, at most %d", len(rec), MaxRecord))
	}
	l.mu.Lock()
	l.last++
	lsn := l.last
	if l.err != nil || l.closing {
		l.mu.Unlock()
		return lsn
	}
	size := len(rec) + recordOverhead
	g := l.room(size)
	g.recs = append(g.recs, rec)
	g.bytes += size
	l.mu.Unlock()
	l.signal()
	return lsn
}

// room returns the group that a record of size bytes goes to, the one with LSN
// last. mu is held.
func (l *Log) room(size int) *group {
	if n := len(l.queue); n > 0 {
		if g := l.queue[n-1]; len(g.recs) == 0 || g.bytes+size <= l.c.GroupBytes {
			return g
		}
	}
	return l.push(&group{first: l.last})
}

// push puts a new group at the end of the queue. mu is held.
func (l *Log) push(g *group) *group {
	g.done = make(chan struct{})
	g.recs, l.spare = l.spare, nil
	l.queue = append(l.queue, g)
	return g
}

// signal makes the committer look, now or when it has done what it does.
func (l *Log) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Last returns the LSN of the last record appended.
func (l *Log) Last() queend.LSN {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Durable returns the LSN through which records are durable, as Config.Sync
// defines it.
func (l *Log) Durable() queend.LSN { return queend.LSN(l.durable.Load()) }

// Wait returns nil when the records through lsn, which must have been appended,
// are durable. Otherwise it returns the failure that stopped the log, ErrClosed,
// or ctx's error.
func (l *Log) Wait(ctx context.Context, lsn queend.LSN) error {
	if lsn <= l.Durable() {
		return nil
	}
	done, err := l.committed(lsn)
	if done == nil {
		return err
	}
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if lsn <= l.Durable() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// committed returns the channel of the group that holds lsn. Without a channel,
// the error is the answer.
func (l *Log) committed(lsn queend.LSN) (<-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lsn <= l.Durable() {
		return nil, nil
	}
	if l.err != nil {
		return nil, l.err
	}
	if l.taken != nil && lsn <= l.taken.last() {
		return l.taken.done, nil
	}
	i, _ := slices.BinarySearchFunc(l.queue, lsn, func(g *group, lsn queend.LSN) int {
		if g.last() < lsn {
			return -1
		}
		return 1
	})
	switch {
	case i < len(l.queue):
		return l.queue[i].done, nil
	case l.closing:
		return nil, ErrClosed
	}
	return nil, fmt.Errorf("log: wait for LSN %d, the last one is %d", lsn, l.last)
}

// Err returns what stopped the log, nil while records can be committed.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Roll begins a new generation behind the last record appended. It does not wait
// for it. Without a record in the newest generation it does nothing.
func (l *Log) Roll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	newest := l.gens[len(l.gens)-1].first
	for _, g := range l.queue {
		if g.roll {
			newest = g.first
		}
	}
	if l.taken != nil && l.taken.roll {
		newest = max(newest, l.taken.first)
	}
	if l.err != nil || l.closing || newest > l.last {
		return
	}
	l.push(&group{first: l.last + 1, roll: true})
	l.signal()
}

// Close commits what is queued, syncs it in every mode, and leaves a mark that the
// log was closed. It returns the failure if there was one, also in an earlier
// commit.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	l.signal()
	<-l.stopped
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == ErrClosed {
		return nil
	}
	return l.err
}
