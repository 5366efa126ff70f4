package broker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"queend"
	"queend/index"
	"queend/segment"
)

// partitionLoss is what a partition loses with damaged runs: everything below
// an offset, for offsets have no gaps.
type partitionLoss struct {
	p       *partition
	start   queend.Offset // first retained before
	below   queend.Offset
	bad     []damagedRun
	gone    []index.Run // all runs below
	letters int
}

// findLost reads all segment files of the state, takes the damaged runs out of
// it, and makes the record that says so.
func (t *trial) findLost() error {
	b := t.b
	byPartition := map[queend.PartitionID]*partitionLoss{}
	for _, id := range slices.Sorted(maps.Keys(b.state.files)) {
		bad, err := t.damagedIn(id)
		if err != nil {
			return err
		}
		for _, run := range bad {
			l := byPartition[run.p.id]
			if l == nil {
				l = &partitionLoss{p: run.p, start: run.p.start}
				byPartition[run.p.id] = l
			}
			l.bad = append(l.bad, run)
			l.below = max(l.below, run.run.Last+1)
		}
	}
	rec := encoder{}
	rec.fixed64(uint64(b.state.lastStamp + 1))
	for _, n := range slices.Sorted(maps.Keys(byPartition)) {
		l := byPartition[n]
		l.gone = slices.Clone(l.p.runs()[:l.p.runs().At(l.below)])
		l.encode(&rec)
		t.lost = append(t.lost, *l)
	}
	for _, id := range t.missing {
		(&fileGone{id}).encode(&rec)
	}
	if len(t.lost)+len(t.missing) == 0 {
		return nil
	}
	t.record = rec.buf
	return b.replay(t.last+1, slices.Clone(rec.buf))
}

// damagedIn returns the damaged runs of a file, and notes one that cannot be
// opened.
func (t *trial) damagedIn(id queend.FileID) ([]damagedRun, error) {
	path := t.b.storage.dir.segment(id)
	err := readSegment(path, (*segment.Reader).Verify)
	if err == nil {
		return nil, nil
	}
	if !errors.Is(err, segment.ErrDamaged) && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := readSegment(path, func(*segment.Reader) error { return nil }); err != nil {
		t.missing = append(t.missing, id)
	}
	return t.b.damagedRuns(id, path)
}

// encode adds the events of the loss to a record.
func (l *partitionLoss) encode(e *encoder) {
	if l.below > l.p.start {
		(&logStart{l.p.id, l.below}).encode(e)
	}
	(&idsGone{l.p.id, l.below}).encode(e)
	if l.p != l.p.q.dlq {
		return
	}
	for _, d := range l.p.q.letters {
		if d.at < l.below {
			(&deadLetterGone{d.id}).encode(e)
			l.letters++
		}
	}
}

// text says what is lost, "" for ids of messages that retention has removed.
func (l *partitionLoss) text() string {
	where := fmt.Sprintf("queue %q, partition %q", l.p.q.name, l.p.name)
	if l.p == l.p.q.dlq {
		return fmt.Sprintf("queue %q: %d dead letters", l.p.q.name, l.letters)
	}
	if l.below <= l.start {
		return ""
	}
	text := fmt.Sprintf("%s: messages %d to %d", where, l.start, l.below-1)
	first := l.bad[0].run.First
	for _, r := range l.bad {
		first = min(first, r.run.First)
	}
	if first > l.start {
		text += fmt.Sprintf("; those from %d on are in a damaged run, those before it cannot stay without it", first)
	}
	return text
}

// segments plans to keep copies of the files in which runs go out of service,
// and to move those that cannot be opened.
func (r *Repair) segments(t *trial) {
	copies := map[queend.FileID]bool{}
	for i := range t.lost {
		l := &t.lost[i]
		if text := l.text(); text != "" {
			r.Losses = append(r.Losses, text)
		}
		for _, run := range l.gone {
			copies[run.File] = true
		}
	}
	for _, id := range t.missing {
		delete(copies, id)
		path := r.dir.segment(id)
		if _, err := os.Stat(path); err == nil {
			r.step("move segments/"+filepath.Base(path)+" to quarantine", func() error { return r.dir.setAside(path) })
		}
	}
	for _, id := range slices.Sorted(maps.Keys(copies)) {
		name := filepath.Base(r.dir.segment(id))
		r.step("keep a copy of segments/"+name+" in quarantine, to be read with queend dump", func() error {
			return r.keepCopy(name)
		})
	}
}

// keepCopy copies a segment file to quarantine.
func (r *Repair) keepCopy(name string) error {
	from, err := os.Open(filepath.Join(r.dir.segments(), name))
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(r.dir.quarantine(), name+".copy"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Sync(), to.Close())
}
