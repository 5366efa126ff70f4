package log

import (
	"fmt"
	"path/filepath"

	"queend"
)

// DropThrough deletes the generations whose every record has an LSN at or below
// lsn, oldest first, never the one being written. It may run beside everything
// else. An error leaves the log as usable as before; what was not deleted is
// deleted by the next call, or, after a failed sync, by the next Open alone.
func (l *Log) DropThrough(lsn queend.LSN) error {
	l.dropping.Lock()
	defer l.dropping.Unlock()
	if l.dropErr != nil {
		return l.dropErr
	}
	l.mu.Lock()
	var old []kept
	for i := 0; i+1 < len(l.gens) && l.gens[i+1].first-1 <= lsn; i++ {
		old = append(old, l.gens[i])
	}
	l.mu.Unlock()
	if len(old) == 0 {
		return nil
	}
	var gone []string
	for _, g := range old {
		path := filepath.Join(l.c.Dir, numberName(g.number))
		// A crash must not leave a part of a generation under its name.
		if err := l.files.rename(path, path+droppedSuffix); err != nil {
			return fmt.Errorf("log: drop generation %d: %w", g.number, err)
		}
		gone = append(gone, path+droppedSuffix)
		l.mu.Lock()
		l.gens = l.gens[1:]
		l.mu.Unlock()
		// The next one must not go before this one has: a log with a hole is
		// damaged. A sync that is tried again proves nothing about this one.
		if err := l.files.syncDir(l.c.Dir); err != nil {
			l.dropErr = fmt.Errorf("log: drop generation %d: %w", g.number, err)
			return l.dropErr
		}
	}
	for _, path := range gone {
		if err := l.files.removeAll(path); err != nil {
			return fmt.Errorf("log: drop through LSN %d: %w", lsn, err)
		}
	}
	return nil
}
