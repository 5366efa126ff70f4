package broker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"queend"
)

// Moment is what a backup holds: everything through a record and nothing
// behind it.
type Moment struct {
	LSN  queend.LSN
	Time time.Time // of that record; zero when there is none
}

// BackupSink takes a backup: its moment first, then the files, by their names
// in the data directory, with slashes.
type BackupSink interface {
	Begin(Moment) error
	Add(name string, size int64, r io.Reader) error
}

// BackupDir gives the files of a directory that is not in use to a sink, after
// all of them have been read and nothing was found damaged; damage goes to
// report, and the error wraps ErrDamaged then.
func BackupDir(dir string, to BackupSink, report func(Damage)) error {
	unlock, err := lockForReading(dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := checkFormat(dir); err != nil {
		return err
	}
	damaged := false
	v := &verifier{dir: &dataDir{path: dir}, report: func(d Damage) {
		damaged = damaged || !d.Moot
		report(d)
	}}
	if err := v.all(); err != nil {
		return err
	}
	if damaged {
		return fmt.Errorf("%w: %s: no backup was made", ErrDamaged, dir)
	}
	if err := to.Begin(momentOf(v.last, v.broker.state.lastStamp)); err != nil {
		return err
	}
	return addFiles(dir, to)
}

// momentOf is the moment of a record.
func momentOf(lsn queend.LSN, stamp int64) Moment {
	m := Moment{LSN: lsn}
	if stamp > 0 {
		m.Time = time.UnixMicro(stamp).UTC()
	}
	return m
}

// addFiles adds everything that a start reads.
func addFiles(dir string, to BackupSink) error {
	for _, part := range []string{"FORMAT", "wal", "checkpoints", "segments", "spool"} {
		err := filepath.WalkDir(filepath.Join(dir, part), func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			return addFile(dir, path, to)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func addFile(dir, path string, to BackupSink) error {
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	return to.Add(filepath.ToSlash(name), st.Size(), f)
}
