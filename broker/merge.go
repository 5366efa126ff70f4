package broker

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"queend"
	"queend/segment"
)

// Merges make few large files out of many small ones, and leave out what is
// needed no more: payload of removed messages, runs that nobody names.

const (
	// mergeFan is how many files of about a size are merged; a factor of the
	// same size separates one size from the next.
	mergeFan = 8
	// mergeFiles bounds one merge.
	mergeFiles = 64
	// smallestTier is the live bytes below which size does not matter.
	smallestTier = 256 << 10
	// mergesPerRound lets other work of the loop have its turn.
	mergesPerRound = 32
)

// mergeIfDue merges until nothing is worth it. pace is told of every write.
func (b *Broker) mergeIfDue(pace func(int)) error {
	b.storage.merging.Lock()
	defer b.storage.merging.Unlock()
	for range mergesPerRound {
		var files []queend.FileID
		b.locked(func() {
			b.dropUnused()
			files = b.chooseMerge()
			for _, id := range files {
				b.storage.files.pin(id)
			}
		})
		if len(files) == 0 {
			return nil
		}
		err := b.merge(files, pace)
		for _, id := range files {
			b.storage.files.unpin(id)
		}
		if err != nil {
			return fmt.Errorf("merge of segment files %v: %w", files, err)
		}
		b.storage.step("merged")
	}
	return nil
}

// dropUnused retires files that no partition names.
func (b *Broker) dropUnused() {
	t := b.begin()
	for _, id := range slices.Sorted(maps.Keys(b.state.files)) {
		if b.state.files[id].runs == 0 {
			t.add(&fileGone{id})
		}
	}
	b.commit(t)
}

// live is about how many bytes a merge of the file would keep.
func (f *file) live() int64 { return max(f.bytes-f.dead, 0) }

// chooseMerge returns the files that should be merged next: those that are
// half dead, else a row of about the same size; none when nothing is due.
func (b *Broker) chooseMerge() []queend.FileID {
	var dead []*file
	tiers := map[int][]*file{}
	for _, f := range b.state.files {
		switch {
		case 2*f.dead >= f.bytes:
			dead = append(dead, f)
		case f.live() < b.cfg.SegmentBytes/2:
			tier := bits.Len64(uint64(max(f.live(), smallestTier)/smallestTier)) / 3
			tiers[tier] = append(tiers[tier], f)
		}
	}
	if len(dead) > 0 {
		return b.fitting(dead)
	}
	fan := mergeFan
	s := &b.storage
	if b.now()-s.sweptAt >= b.cfg.SealAgeSeconds*Second {
		fan = 2 // old small files are merged even when there are few
	}
	for _, tier := range slices.Sorted(maps.Keys(tiers)) {
		if len(tiers[tier]) >= fan {
			if files := b.fitting(tiers[tier]); len(files) > 1 {
				return files
			}
		}
	}
	if fan == 2 {
		s.sweptAt = b.now()
	}
	return nil
}

// fitting returns the oldest of the files that fit one merge, at least one.
func (b *Broker) fitting(files []*file) (ids []queend.FileID) {
	slices.SortFunc(files, func(a, b *file) int { return cmp.Compare(a.id, b.id) })
	sum := int64(0)
	for _, f := range files {
		if len(ids) > 0 && (sum+f.live() > b.cfg.SegmentBytes || len(ids) == mergeFiles) {
			break
		}
		sum += f.live()
		ids = append(ids, f.id)
	}
	return ids
}

// source is a run that a merge reads.
type source struct {
	file  queend.FileID
	entry segment.Entry
}

// mergePart is what one partition puts into a merge.
type mergePart struct {
	id      queend.PartitionID
	sources []source // alive, by offset
	start   queend.Offset
	// cutoff is the stamp before which ids are too old to matter, if the
	// first source is where the partition's ids begin; else 0.
	cutoff int64
	leased queend.Offset // ids from it on stay, whatever their age
	bytes  int64         // about what is kept
}

// merge writes the live runs of some files anew and puts the new files in
// their place. The files are pinned.
func (b *Broker) merge(files []queend.FileID, pace func(int)) error {
	parts, err := b.mergeParts(files)
	if err != nil {
		return err
	}
	alive := map[queend.FileID]int{}
	for i := range parts {
		for _, s := range parts[i].sources {
			alive[s.file]++
		}
	}
	written, err := b.writeMerged(parts, pace)
	if err != nil {
		return err
	}
	if err := b.primeMerged(parts, written); err != nil {
		return err
	}
	b.storage.step("merge written")
	b.locked(func() { err = b.announceMerge(files, written, alive) })
	return err
}

// primeMerged caches the hashes of merged runs if those of their sources were
// cached, so that no push has to wait for a large run to be read.
func (b *Broker) primeMerged(parts []mergePart, written []writtenFile) error {
	hot := map[queend.PartitionID]queend.QueueID{}
	for i := range parts {
		for _, s := range parts[i].sources {
			placed := runOf(s.file, &s.entry)
			if _, ok := b.storage.ids.get(keyOf(&placed.run, partHashes, 0)); ok {
				hot[parts[i].id] = s.entry.Queue
			}
		}
	}
	for i := range written {
		for _, placed := range written[i].runs {
			if q, ok := hot[placed.partition]; ok {
				if err := b.prime(q, placed); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// prime caches filter and hashes of a run.
func (b *Broker) prime(q queend.QueueID, placed placedRun) error {
	return b.storage.files.use(placed.run.File, func(r *segment.Reader) error {
		for _, part := range []idPart{partFilter, partHashes} {
			n := need{key: keyOf(&placed.run, part, 0), queue: q, owner: placed.partition, run: placed.run}
			v, size, err := n.read(r)
			if err != nil {
				return err
			}
			b.storage.ids.put(n.key, v, size)
		}
		return nil
	})
}

// announceMerge logs a merge. Memory must not name more runs of the files
// than the merge has read.
func (b *Broker) announceMerge(files []queend.FileID, written []writtenFile, alive map[queend.FileID]int) error {
	for _, id := range files {
		f := b.state.files[id]
		if f == nil || f.runs > alive[id] {
			return fmt.Errorf("segment file %d has not the runs that partitions name", id)
		}
	}
	t := b.begin()
	if len(written) == 0 {
		for _, id := range files {
			t.add(&fileGone{id})
		}
	}
	for i := range written {
		var gone []queend.FileID
		if i == len(written)-1 {
			gone = files
		}
		written[i].announce(t, files, gone)
	}
	b.commit(t)
	b.noteRanges(written)
	return nil
}

// mergeParts reads what the files hold and keeps what partitions still name.
func (b *Broker) mergeParts(files []queend.FileID) ([]mergePart, error) {
	byID := map[queend.PartitionID][]source{}
	for _, id := range files {
		err := b.storage.files.use(id, func(r *segment.Reader) error {
			return r.Entries(func(e segment.Entry) error {
				byID[e.Partition] = append(byID[e.Partition], source{id, e})
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
	}
	var parts []mergePart
	for step := range slices.Chunk(slices.Sorted(maps.Keys(byID)), snapshotStep) {
		b.locked(func() {
			for _, id := range step {
				if p := b.state.partitions.get(id); p != nil {
					if m := b.mergePart(p, byID[id]); len(m.sources) > 0 {
						parts = append(parts, m)
					}
				}
			}
		})
	}
	return parts, nil
}

func (b *Broker) mergePart(p *partition, all []source) mergePart {
	m := mergePart{id: p.id, start: p.start}
	m.leased, _ = p.leasedIDs(b.now())
	for _, s := range all {
		i := p.runs().At(s.entry.First)
		if i == len(p.runs()) || p.runs()[i].File != s.file || p.runs()[i].Pos != s.entry.Pos {
			continue // dropped, or merged already
		}
		m.sources = append(m.sources, s)
		if s.entry.Last >= p.start {
			m.bytes += int64(s.entry.Bytes)
		}
		if i == 0 {
			m.cutoff = b.now() - b.idWindow(p)
		}
	}
	slices.SortFunc(m.sources, func(a, b source) int { return cmp.Compare(a.entry.First, b.entry.First) })
	return m
}

// writeMerged writes the files of a merge and syncs them and their directory.
func (b *Broker) writeMerged(parts []mergePart, pace func(int)) ([]writtenFile, error) {
	var files []writtenFile
	write := func(parts []mergePart) error {
		if len(parts) == 0 {
			return nil
		}
		f, err := b.writeSegment(pace, func(w *segment.Writer) error {
			for i := range parts {
				if err := b.copyPart(w, &parts[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			files = append(files, f)
		}
		return err
	}
	var shared []mergePart
	for i := range parts {
		if parts[i].bytes < ownFileBytes {
			shared = append(shared, parts[i])
		} else if err := write(parts[i : i+1]); err != nil {
			return nil, err
		}
	}
	if err := write(shared); err != nil {
		return nil, err
	}
	return files, syncDir(b.storage.dir.segments())
}

// copyPart copies the runs of a partition; neighbours become one run.
func (b *Broker) copyPart(w *segment.Writer, m *mergePart) error {
	for i := range m.sources {
		s := &m.sources[i]
		if i == 0 || m.sources[i-1].entry.Last+1 != s.entry.First {
			if i > 0 {
				if err := w.End(); err != nil {
					return err
				}
			}
			w.Begin(s.entry.Queue, s.entry.Partition)
		}
		err := b.storage.files.use(s.file, func(r *segment.Reader) error {
			from := s.entry.First
			if i == 0 && m.cutoff > 0 {
				var err error
				if from, err = firstNeeded(r, s, m); err != nil {
					return err
				}
			}
			return w.Copy(r, s.entry, from, m.start)
		})
		if err != nil {
			return err
		}
	}
	return w.End()
}

// firstNeeded is the first offset of a run whose id still matters. At least
// the last one does: a run that is gone altogether is for retention to drop.
func firstNeeded(r *segment.Reader, s *source, m *mergePart) (queend.Offset, error) {
	e := &s.entry
	placed := runOf(s.file, e)
	n := need{queue: e.Queue, owner: e.Partition, run: placed.run}
	from, err := firstInRun(r, &n, m.cutoff)
	return max(min(from, m.start, m.leased, e.Last), e.First), err
}

// sweepFiles deletes the files that are retired for good.
func (b *Broker) sweepFiles() {
	if err := b.storage.files.sweep(b.log.Stats().Synced); err != nil {
		b.cfg.Log.Error("segment files cannot be deleted", "error", err)
	}
	b.storage.step("swept")
}
