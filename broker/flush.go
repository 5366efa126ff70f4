package broker

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"queend"
	"queend/index"
	"queend/segment"
)

// A flush moves the tails of all partitions to segment files: one that they
// share, and one each for those with a lot. It announces all of them in one
// record, which is also what makes the tails let go.

const (
	// ownFileBytes is how much a partition must have to get a file of its own.
	ownFileBytes = 16 << 20
	// runsPerEvent keeps a fileRuns event below 1 MiB.
	runsPerEvent = 16 << 10
	// snapshotStep is how many partitions one hold of the lock looks at.
	snapshotStep = 1000
	writeTries   = 3
)

// span is the tail of a partition at one moment. Nobody changes the slice.
type span struct {
	p     *partition
	queue queend.QueueID
	id    queend.PartitionID
	first queend.Offset
	start queend.Offset // messages below it are removed: only their ids count
	tail  []tailMessage
	bytes int64
}

// writtenFile is a synced segment file that no event names yet.
type writtenFile struct {
	id    queend.FileID
	bytes int64
	runs  []placedRun
}

// tailGrew notes that a partition has a tail. The caller holds the lock.
func (b *Broker) tailGrew(p *partition) {
	s := &b.storage
	if !p.queued {
		p.queued = true
		if len(s.tails) == 0 {
			s.tailSince = b.now()
		}
		s.tails = append(s.tails, p)
	}
	if b.state.tailBytes > b.cfg.TailBytes/2 {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// flushIfDue flushes when the tail is large or old.
func (b *Broker) flushIfDue() error {
	due := false
	b.locked(func() {
		s := &b.storage
		old := len(s.tails) > 0 && b.now()-s.tailSince >= b.cfg.SealAgeSeconds*Second
		due = old || b.state.tailBytes > b.cfg.TailBytes/2
	})
	if !due {
		return nil
	}
	_, err := b.flush()
	return err
}

// flush moves every message that is in a tail when it is called into synced
// segment files, and returns the LSN of the last record that says so: of an
// earlier flush when there was nothing to do, and 0 when there was none since
// the start.
func (b *Broker) flush() (queend.LSN, error) {
	s := &b.storage
	s.flushing.Lock()
	defer s.flushing.Unlock()
	spans, drop := b.takeTails()
	if len(spans) == 0 {
		b.locked(func() { b.dropFresh(drop) })
		return s.announced, nil
	}
	files, err := b.writeSpans(spans)
	if err != nil {
		b.giveBack(spans, drop)
		return 0, fmt.Errorf("flush: %w", err)
	}
	s.step("segments written")
	var lsn queend.LSN
	b.locked(func() {
		t := b.begin()
		for i := range files {
			files[i].announce(t, nil, nil)
		}
		lsn = b.commit(t)
		b.noteRanges(files)
		b.dropFresh(drop)
	})
	s.announced = lsn
	s.step("flushed")
	s.admit.changed()
	return lsn, nil
}

// takeTails empties the list of partitions with a tail and returns what they
// hold, and the generations of fresh ids that are in it. Messages pushed
// meanwhile are in it or in the next flush.
func (b *Broker) takeTails() (spans []span, drop []uint64) {
	s := &b.storage
	var list []*partition
	b.locked(func() {
		list, s.tails = s.tails, nil
		drop, s.sealed = append(s.sealed, b.state.fresh.Seal()), nil
	})
	spans = make([]span, 0, len(list))
	for part := range slices.Chunk(list, snapshotStep) {
		b.locked(func() {
			for _, p := range part {
				p.queued = false
				if b.state.partitions.get(p.id) == p && p.tail != nil {
					spans = append(spans, span{
						p: p, queue: p.q.id, id: p.id, first: p.flushed, start: p.start, tail: p.inMemory(),
					})
				}
			}
		})
	}
	for i := range spans {
		for _, m := range spans[i].tail {
			spans[i].bytes += int64(len(m.raw))
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.id, b.id) })
	return spans, drop
}

// giveBack undoes takeTails.
func (b *Broker) giveBack(spans []span, drop []uint64) {
	b.locked(func() {
		b.storage.sealed = append(b.storage.sealed, drop...)
		for i := range spans {
			if p := spans[i].p; b.state.partitions.get(p.id) == p && p.tail != nil {
				b.tailGrew(p)
			}
		}
	})
}

// dropFresh forgets ids that are found through runs from now on.
func (b *Broker) dropFresh(generations []uint64) {
	for _, g := range generations {
		b.state.fresh.Drop(g)
	}
}

// writeSpans writes the files of a flush and syncs them and their directory.
func (b *Broker) writeSpans(spans []span) ([]writtenFile, error) {
	var files []writtenFile
	write := func(spans []span) error {
		if len(spans) == 0 {
			return nil
		}
		f, err := b.writeSegment(nil, func(w *segment.Writer) error { return addSpans(w, spans) })
		if err == nil {
			files = append(files, f)
		}
		return err
	}
	var shared []span
	for i := range spans {
		if spans[i].bytes < ownFileBytes {
			shared = append(shared, spans[i])
			continue
		}
		if err := write(spans[i : i+1]); err != nil {
			return nil, err
		}
	}
	if err := write(shared); err != nil {
		return nil, err
	}
	return files, syncDir(b.storage.dir.segments())
}

func addSpans(w *segment.Writer, spans []span) error {
	for i := range spans {
		s := &spans[i]
		w.Begin(s.queue, s.id)
		for j, t := range s.tail {
			m := segment.Message{Offset: s.first + queend.Offset(j), Time: t.time}
			d := decoder{buf: t.raw}
			readMessage(&d, &m)
			if d.err != nil {
				return fmt.Errorf("partition %d, offset %d: %w", s.id, m.Offset, d.err)
			}
			if m.Offset < s.start {
				m.Gone, m.Payload = true, nil
			}
			if err := w.Add(&m); err != nil {
				return err
			}
		}
		if err := w.End(); err != nil {
			return err
		}
	}
	return nil
}

// writeSegment writes and syncs one segment file; the directory is for the
// caller to sync. After a failure it writes the file anew under a new number,
// since what a failed sync left behind is not known. pace is told the bytes
// of every write; nil: never.
func (b *Broker) writeSegment(pace func(int), fill func(*segment.Writer) error) (writtenFile, error) {
	var errs []error
	for range writeTries {
		f, err := b.trySegment(pace, fill)
		if err == nil {
			return f, nil
		}
		errs = append(errs, err)
		if errors.Is(err, segment.ErrDamaged) || errors.Is(err, segment.ErrMessage) || errors.Is(err, errStopped) {
			break // it would fail again
		}
	}
	return writtenFile{}, errors.Join(errs...)
}

func (b *Broker) trySegment(pace func(int), fill func(*segment.Writer) error) (out writtenFile, err error) {
	b.locked(func() {
		b.storage.nextFile++
		out.id = b.storage.nextFile
	})
	path := b.storage.dir.segment(out.id)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return out, err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			_ = os.Remove(path) // boot would set it aside
		}
	}()
	back := &backWriter{f: f, pace: pace}
	w := segment.NewWriter(back, out.id, segment.Config{Level: b.cfg.ZstdLevel})
	if err := fill(w); err != nil {
		return out, err
	}
	entries, err := w.Finish()
	if err != nil {
		return out, err
	}
	if err := f.Sync(); err != nil {
		return out, err
	}
	out.bytes = back.at
	out.runs = make([]placedRun, len(entries))
	for i := range entries {
		out.runs[i] = runOf(out.id, &entries[i])
	}
	return out, nil
}

// noteRanges notes which ids the runs of announced files hold. It is not logged:
// after a start it is learned when it is first asked for.
func (b *Broker) noteRanges(files []writtenFile) {
	for i := range files {
		for _, placed := range files[i].runs {
			if p := b.state.partitions.get(placed.partition); p != nil {
				p.noteRange(&placed.run)
			}
		}
	}
}

// noteRange gives the run of the partition that is where from is its range.
func (p *partition) noteRange(from *index.Run) {
	if i := p.runs().At(from.First); i < len(p.runs()) && p.runs()[i].File == from.File && p.runs()[i].Pos == from.Pos {
		p.runs()[i].Low, p.runs()[i].High = from.Low, from.High
	}
}

// announce adds the events that make a written file live.
func (f *writtenFile) announce(t *bundle, replaces, gone []queend.FileID) {
	for part := range slices.Chunk(f.runs, runsPerEvent) {
		t.add(&fileRuns{id: f.id, replaces: replaces, runs: part})
	}
	t.add(&fileNew{id: f.id, bytes: f.bytes, gone: gone})
}
