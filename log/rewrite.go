package log

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"queend"
)

// Span is a row of records in the log: First to Last, which is First-1 when it
// is empty.
type Span struct{ First, Last queend.LSN }

// Rewrite makes a log of the records keep, all of which the log in c.Dir must
// have, and of the records in more, which follow them. It writes and syncs them
// as a new generation; only then everything else in c.Dir goes to c.Quarantine,
// as it is. Whoever calls it knows that the rest may go: this is for repairs.
//
// After a crash the log is the old one, or refused as damaged until Rewrite is
// called again.
func Rewrite(c Config, keep Span, more [][]byte) error {
	if err := c.complete(); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	l := &Log{c: c, files: files{hook: c.hook}}
	chain, err := readChain(c.Dir)
	if err != nil {
		return fmt.Errorf("log: rewrite %s: %w", c.Dir, err)
	}
	old := append(chain.gens, chain.hollow...)
	number := uint64(1)
	for _, g := range old {
		number = max(number, g.number+1)
	}
	if err := l.files.mkdirAll(c.Dir); err != nil {
		return err
	}
	unfinished := filepath.Join(c.Dir, numberName(number)+tmpSuffix)
	if err := l.files.removeAll(unfinished); err != nil {
		return err
	}
	w, err := l.createGeneration(number, keep.First, keep.Last, func(w *writer) error {
		return copySpan(w, c.Dir, keep, more)
	})
	if err != nil {
		return fmt.Errorf("log: rewrite %s: %w", c.Dir, err)
	}
	if err := w.close(); err != nil {
		return err
	}
	return l.setAside(old)
}

// Copy makes a log of the records keep in the new directory to. It may be called
// while the log in dir is written, for records that are synced, as long as nothing
// is dropped from it.
func Copy(dir string, keep Span, to string) error {
	c := Config{Dir: to, Quarantine: to}
	if err := c.complete(); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	l := &Log{c: c}
	if err := l.files.mkdirAll(c.Dir); err != nil {
		return err
	}
	w, err := l.createGeneration(1, keep.First, keep.Last, func(w *writer) error {
		return copySpan(w, dir, keep, nil)
	})
	if err != nil {
		return fmt.Errorf("log: copy %s: %w", dir, err)
	}
	return w.close()
}

// copySpan writes the records of keep, as dir has them, and more behind them.
func copySpan(w *writer, dir string, keep Span, more [][]byte) error {
	next := keep.First
	_, err := Scan(dir, func(g Group) error {
		if g.Last < next || g.First > next || g.First > keep.Last {
			return nil
		}
		var recs [][]byte
		first := next
		for lsn, rec := range g.Records() {
			if lsn == next && lsn <= keep.Last {
				recs = append(recs, rec)
				next++
			}
		}
		_, err := w.append(first, first-1, recs)
		return err
	})
	switch {
	case err != nil:
		return err
	case next != keep.Last+1:
		return fmt.Errorf("record %d is not in the log", next)
	case len(more) == 0:
		return nil
	}
	_, err = w.append(next, next-1, more)
	return err
}

// setAside moves generations and the mark to the quarantine directory, the
// oldest first: what is left then begins too late, and is refused.
func (l *Log) setAside(old []*generation) error {
	if err := l.files.mkdirAll(l.c.Quarantine); err != nil {
		return err
	}
	paths := []string{filepath.Join(l.c.Dir, markName)}
	for _, g := range old {
		paths = append(paths, g.path)
	}
	for _, path := range paths {
		if err := l.moveAway(path); err != nil {
			return fmt.Errorf("log: set aside %s: %w", path, err)
		}
	}
	if err := l.files.syncDir(l.c.Quarantine); err != nil {
		return err
	}
	return l.files.syncDir(l.c.Dir)
}

// moveAway moves one of them, to a name not taken there.
func (l *Log) moveAway(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	to := filepath.Join(l.c.Quarantine, "wal-"+filepath.Base(path))
	for i, base := 1, to; ; i++ {
		if _, err := os.Lstat(to); errors.Is(err, os.ErrNotExist) {
			return l.files.rename(path, to)
		}
		to = fmt.Sprintf("%s.%d", base, i)
	}
}
