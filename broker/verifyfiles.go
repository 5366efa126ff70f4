package broker

import (
	"bytes"
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
	"queend/log"
	"queend/segment"
)

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
	for _, n := range slices.Sorted(maps.Keys(files)) {
		if err := v.segment(queend.FileID(n)); err != nil {
			return err
		}
	}
	return nil
}

// segment reads one of them. Of a damaged one every run that a partition needs
// is read by itself; damage elsewhere in it is moot.
func (v *verifier) segment(id queend.FileID) error {
	path := v.dir.segment(id)
	err := readSegment(path, (*segment.Reader).Verify)
	if err == nil || !errors.Is(err, segment.ErrDamaged) {
		return err
	}
	bad, openErr := v.broker.damagedRuns(id, path)
	if openErr != nil {
		return openErr
	}
	v.report(Damage{File: path, Offset: placeOf(err), Text: err.Error(), Moot: v.broken == nil && len(bad) == 0})
	for _, r := range bad {
		text := fmt.Sprintf("%s cannot be read: %v", r.name(), r.why)
		v.report(Damage{File: path, Offset: placeOf(r.why), Text: text})
	}
	return nil
}

// readSegment calls fn with the reader of a file.
func readSegment(path string, fn func(*segment.Reader) error) error {
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
	return fn(r)
}

// damagedRun is a run of a partition that cannot be read.
type damagedRun struct {
	p   *partition
	run index.Run
	why error
}

// name says what is in it.
func (r *damagedRun) name() string {
	return fmt.Sprintf("queue %q, partition %q, offsets %d to %d", r.p.q.name, r.p.name, r.run.First, r.run.Last)
}

// damagedRuns reads all runs that partitions have in a file, and returns those
// that are damaged, by partition and offset. A file that is missing or cannot
// be opened damages all of them.
func (b *Broker) damagedRuns(id queend.FileID, path string) (bad []damagedRun, err error) {
	check := func(e segment.Entry) error {
		return readSegment(path, func(r *segment.Reader) error { return r.VerifyRun(e) })
	}
	for p := range b.state.partitions.all() {
		for i := range p.runs() {
			run := &p.runs()[i]
			if run.File != id {
				continue
			}
			why := check(entryOf(p.q.id, p.id, run))
			switch {
			case why == nil:
			case errors.Is(why, segment.ErrDamaged), errors.Is(why, fs.ErrNotExist):
				bad = append(bad, damagedRun{p, *run, why})
			default:
				return nil, why
			}
		}
	}
	return bad, nil
}

// mark looks at the mark of a closed log.
func (v *verifier) mark() error {
	path := filepath.Join(v.dir.wal(), "clean")
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, ok, err := log.ParseMark(data); err != nil || !ok {
		v.report(Damage{File: path, Offset: 0, Text: "this does not say that the log was closed", Moot: true})
	}
	return nil
}

// spool reads what maintenance mode has put off.
func (v *verifier) spool() error {
	dir := filepath.Join(v.dir.path, "spool")
	files, _, err := numbered(dir, spoolSuffix)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, files[n].Name())
		drained := n < v.broker.state.spool.file
		from := v.broker.state.spool.from(n)
		if err := readSpool(path, func(at int64, damaged []byte, _ *spooled) {
			if damaged != nil {
				v.report(Damage{File: path, Offset: at, Text: spoolDamage(damaged), Moot: drained || at < from})
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// spoolDamage says what damaged bytes of a spool are.
func spoolDamage(raw []byte) string {
	if bytes.HasPrefix([]byte(spoolMagic), raw) || len(raw) < spoolHead {
		return fmt.Sprintf("%d bytes are no whole record", len(raw))
	}
	return fmt.Sprintf("%d bytes are no record, or one that does not match its checksum", len(raw))
}

// readSpool hands visit what is in a spool file, in order: records, and bytes
// that are none.
func readSpool(path string, visit func(at int64, damaged []byte, rec *spooled)) error {
	r, err := openSpool(path, 0)
	if err != nil {
		return err
	}
	defer r.f.Close()
	magic := r.take(len(spoolMagic))
	if string(magic) != spoolMagic {
		visit(0, magic, nil)
	}
	for {
		at := r.pos
		rec, damaged, err := r.next()
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, errSpoolDamaged):
			visit(at, damaged, nil)
		case err != nil:
			return err
		default:
			visit(at, nil, rec)
		}
	}
}
