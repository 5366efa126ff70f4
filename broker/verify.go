package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"queend"
	"queend/log"
	"queend/segment"
)

// Damage is something in a data directory that is not what was written.
type Damage struct {
	File   string // "" when it is of no one file
	Offset int64  // bytes from the start of File; -1: not known
	Text   string
}

// Verify reads every byte of a data directory and reports what is damaged:
// checkpoints, log, segments, and whether together they hold everything. It
// changes nothing. The directory must not be in use. An error says that it
// could not be looked at, not that it is damaged.
func Verify(dir string, report func(Damage)) error {
	d := &dataDir{path: dir}
	unlock, err := lockForReading(dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := checkFormat(dir); err != nil {
		if !errors.Is(err, ErrDamaged) {
			return err
		}
		report(Damage{File: filepath.Join(dir, "FORMAT"), Offset: -1, Text: err.Error()})
	}
	v := &verifier{dir: d, report: report}
	for _, part := range []func() error{v.checkpoints, v.segments, v.log} {
		if err := part(); err != nil {
			return err
		}
	}
	return v.whole()
}

// lockForReading makes sure that no broker uses the directory meanwhile.
func lockForReading(dir string) (unlock func(), err error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dir, "LOCK"))
	if errors.Is(err, os.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
	}
	return func() { f.Close() }, nil
}

type verifier struct {
	dir    *dataDir
	report func(Damage)
	found  foundChains
	broker *Broker // what the newest chain and the log after it make
	after  queend.LSN
	broken error // why the records could not be replayed
}

// file reports an error about a file.
func (v *verifier) file(path string, err error) {
	v.report(Damage{File: path, Offset: -1, Text: err.Error()})
}

// checkpoints reads all of them and loads the newest chain.
func (v *verifier) checkpoints() error {
	b := &Broker{state: newState()}
	b.cfg.fill()
	b.storage.init(b, v.dir)
	v.broker = b
	if _, err := os.Stat(v.dir.checkpoints()); errors.Is(err, os.ErrNotExist) {
		b.tracker.loaded()
		return nil
	}
	var err error
	if v.found, err = findChains(v.dir.checkpoints()); err != nil {
		return err
	}
	for i, path := range v.found.bad {
		v.file(path, v.found.why[i])
	}
	v.after, _, v.broken = b.loadChain(v.found)
	return nil
}

// segments reads every segment file, also those that nothing names.
func (v *verifier) segments() error {
	files, rest, err := numbered(v.dir.segments(), ".seg")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range rest {
		v.file(filepath.Join(v.dir.segments(), name), errors.New("this is no segment file"))
	}
	numbers := make([]uint64, 0, len(files))
	for n := range files {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		path := v.dir.segment(queend.FileID(n))
		err := verifySegment(path)
		switch {
		case errors.Is(err, segment.ErrDamaged):
			v.file(path, err)
		case err != nil:
			return err
		}
	}
	return nil
}

func verifySegment(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	r, err := segment.NewReader(f, st.Size())
	if err != nil {
		return err
	}
	return r.Verify()
}

// log reads every record, and replays those after the checkpoint.
func (v *verifier) log() error {
	next := v.after + 1
	r, err := log.Scan(v.dir.wal(), func(g log.Group) error {
		for lsn, rec := range g.Records() {
			if lsn != next || v.broken != nil {
				continue
			}
			v.broken = v.broker.replay(lsn, slices.Clone(rec)) // the tail keeps it
			next++
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, d := range r.Damages {
		v.report(Damage{File: d.File, Offset: d.Offset, Text: d.Reason})
	}
	return nil
}

// whole reports whether checkpoint, log and segments fit together.
func (v *verifier) whole() error {
	err := v.broken
	if err == nil {
		err = v.broker.checkHoles()
	}
	if err == nil {
		err = v.broker.checkFiles()
	}
	if err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	if err != nil {
		v.report(Damage{Offset: -1, Text: err.Error()})
	}
	return nil
}
