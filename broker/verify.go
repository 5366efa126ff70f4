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
	// Moot: nothing depends on it. A start cuts or ignores these bytes, and
	// loses nothing that was answered.
	Moot bool
}

// ErrNoData is wrapped by the error about a directory that no broker wrote.
var ErrNoData = errors.New("this is no data directory")

// placed is an error about a byte of a file.
type placed struct {
	at int64
	error
}

func (p *placed) Unwrap() error { return p.error }

// Verify reads every byte of a data directory and reports what is damaged:
// checkpoints, log, segments, spool, and whether together they hold
// everything. It changes nothing. The directory must not be in use. An error
// says that it could not be looked at, not that it is damaged.
func Verify(dir string, report func(Damage)) error {
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
	v := &verifier{dir: &dataDir{path: dir}, report: report}
	return v.all()
}

// all looks at everything but FORMAT.
func (v *verifier) all() error {
	for _, part := range []func() error{v.checkpoints, v.log, v.segments, v.spool} {
		if err := part(); err != nil {
			return err
		}
	}
	return v.whole()
}

// isData makes sure that there is something of a broker's in a directory.
func isData(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	for _, name := range []string{"FORMAT", "LOCK", "wal", "checkpoints", "segments"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", dir, ErrNoData)
}

// lockForReading makes sure that no broker uses the directory meanwhile.
func lockForReading(dir string) (unlock func(), err error) {
	if err := isData(dir); err != nil {
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
	proven queend.LSN // durable, as the checkpoints say
	last   queend.LSN // the last record that was replayed
	broken error      // why the records could not be replayed
}

// file reports an error about a file.
func (v *verifier) file(path string, err error) {
	v.report(Damage{File: path, Offset: placeOf(err), Text: err.Error()})
}

// placeOf is the byte that an error about a file speaks of, -1 when it names
// none.
func placeOf(err error) int64 {
	var p *placed
	var d *segment.Damage
	switch {
	case errors.As(err, &p):
		return p.at
	case errors.As(err, &d):
		return int64(d.Pos)
	}
	return -1
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
	v.after, v.proven, v.broken = b.loadChain(v.found)
	return nil
}

// log reads every record, and replays those after the checkpoint.
func (v *verifier) log() error {
	next := v.after + 1
	defer func() { v.last = next - 1 }()
	r, err := log.ScanProven(v.dir.wal(), v.proven, func(g log.Group) error {
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
	for _, d := range r.Tail {
		v.report(Damage{File: d.File, Offset: d.Offset, Text: "torn end of the log: " + d.Reason, Moot: true})
	}
	if v.broken == nil && r.First > v.after+1 {
		v.report(Damage{File: v.dir.wal(), Offset: -1, Text: fmt.Sprintf(
			"the log begins with record %d, and no checkpoint holds what was before it: record %d is needed", r.First, v.after+1)})
	}
	return v.mark()
}

// whole reports whether checkpoint, log and segments fit together.
func (v *verifier) whole() error {
	err := v.broken
	if err == nil {
		err = v.broker.checkHoles()
	}
	if err == nil {
		var wrong int
		if wrong, err = v.wrongFiles(); wrong > 0 {
			return err
		}
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

// wrongFiles reports each segment file that is missing or has another size.
func (v *verifier) wrongFiles() (n int, err error) {
	onDisk, _, err := numbered(v.dir.segments(), ".seg")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	wrong, err := v.broker.wrongFiles(onDisk)
	for _, f := range wrong {
		v.report(Damage{File: f.path, Offset: -1, Text: "segment file " + f.why})
	}
	return len(wrong), err
}

// fits is what a start asks of the state.
func (b *Broker) fits() error {
	if err := b.checkHoles(); err != nil {
		return err
	}
	return b.checkFiles()
}
