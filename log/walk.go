package log

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"queend"
)

// ErrDamaged says that the log lost something that was durable.
var ErrDamaged = errors.New("log damaged")

// Damage is a place where the log does not read on. It wraps ErrDamaged.
type Damage struct {
	File   string
	Offset int64 // bytes from the start of File
	Reason string

	// certain: no crash leaves this behind, so it needs no later group as proof
	certain bool
}

func (d *Damage) Error() string {
	return fmt.Sprintf("%v: %s: byte %d: %s", ErrDamaged, d.File, d.Offset, d.Reason)
}

func (d *Damage) Unwrap() error { return ErrDamaged }

// maxSegment bounds what is read into memory at once: more than a segment can
// hold by the limits of Config and MaxRecord.
const maxSegment = 1 << 30

// walker reads the groups of one generation in order. It reads whole segments,
// one at a time.
type walker struct {
	gen    *generation
	seg    int // the segment in data, by place in gen.segments; -1 before the first
	data   []byte
	pos    int        // where the next entry begins in data
	entry  uint64     // the library's index of the next entry; 0 behind a bad spot
	expect queend.LSN // first of the next group; 0 behind a bad spot
	bare   bool       // pos is at a group, behind the library's length prefix
}

func newWalker(g *generation) *walker {
	return &walker{gen: g, seg: -1, entry: 1, expect: g.first}
}

// next returns the next group with records. io.EOF: the generation ends here.
// *Damage: it does not read on; the walker stays, resync goes on behind.
func (w *walker) next() (Group, error) {
	for {
		if err := w.fill(); err != nil {
			return Group{}, err
		}
		begin := w.pos
		h, body, end, err := w.decode()
		if errors.Is(err, ErrVersion) {
			return Group{}, fmt.Errorf("%s: entry at byte %d: %w", w.file(), begin, err)
		}
		if err != nil {
			return Group{}, w.damage("%v", err)
		}
		if w.expect != 0 && h.first != w.expect {
			d := w.damage("group begins with LSN %d where %d must follow", h.first, w.expect)
			d.certain = true
			return Group{}, d
		}
		w.pos, w.bare, w.expect = end, false, h.last()+1
		if w.entry != 0 {
			w.entry++
		}
		if h.count == 0 {
			continue // the generation's first entry
		}
		return Group{
			Generation: h.generation, File: w.file(), Offset: int64(begin),
			First: h.first, Last: h.last(), Durable: h.durable,
			length: int64(end - begin), body: body,
		}, nil
	}
}

// fill opens the next segments until there is something at pos.
func (w *walker) fill() error {
	for w.seg < 0 || w.pos == len(w.data) {
		if w.seg+1 >= len(w.gen.segments) {
			return io.EOF
		}
		if err := w.open(w.seg + 1); err != nil {
			return err
		}
	}
	return nil
}

// open reads segment i. It is Damage when the segment does not join the one
// before.
func (w *walker) open(i int) error {
	s := w.gen.segments[i]
	w.seg, w.data, w.pos, w.bare = i, nil, 0, false
	if s.size > maxSegment {
		d := w.damage("file of %d bytes is larger than a segment can be", s.size)
		d.certain = true
		return d
	}
	data, err := os.ReadFile(s.path)
	if err != nil {
		return err
	}
	w.data = data
	if w.entry != 0 && w.entry != s.index {
		return w.damage("segment begins with entry %d where %d must follow", s.index, w.entry)
	}
	w.entry = s.index
	return nil
}

// decode verifies the group at pos and returns where it ends in data.
func (w *walker) decode() (h header, body []byte, end int, err error) {
	entry, used := w.data[w.pos:], 0
	if w.bare {
		used = headerBytes + int(readHeader(entry).size) // resync has verified it
		entry = entry[:used]
	} else if entry, used, err = frameEntry(entry); err != nil {
		return header{}, nil, 0, err
	}
	if h, body, err = decodeGroup(entry); err != nil {
		return header{}, nil, 0, err
	}
	if h.generation != w.gen.number || w.gen.salt != 0 && h.salt != w.gen.salt {
		return header{}, nil, 0, fmt.Errorf("group belongs to another generation, numbered %d", h.generation)
	}
	return h, body, w.pos + used, nil
}

// resync moves behind a bad spot to the next valid group, wherever it begins, and
// reports whether there is one. After it, LSNs and entries are counted anew.
func (w *walker) resync() (bool, error) {
	w.expect, w.entry = 0, 0
	for {
		if w.seg >= 0 {
			if at := findGroup(w.data, w.pos, w.gen.number, w.gen.salt); at >= 0 {
				w.pos, w.bare = at, true
				return true, nil
			}
		}
		if w.seg+1 >= len(w.gen.segments) {
			w.pos = len(w.data)
			return false, nil
		}
		var d *Damage
		if err := w.open(w.seg + 1); err != nil && !errors.As(err, &d) {
			return false, err
		}
		w.entry = 0
	}
}

// durableLater returns the highest durable LSN that a valid group behind the
// current place tells of. The walker is of no use afterwards.
func (w *walker) durableLater() (queend.LSN, error) {
	var high queend.LSN
	for {
		found, err := w.resync()
		if err != nil || !found {
			return high, err
		}
		h := readHeader(w.data[w.pos:])
		high = max(high, h.durable)
		w.pos += headerBytes + int(h.size)
	}
}

func (w *walker) file() string {
	if w.seg < 0 {
		return filepath.Join(w.gen.path, numberName(1))
	}
	return w.gen.segments[w.seg].path
}

// damage describes a bad spot at the walker's place.
func (w *walker) damage(format string, args ...any) *Damage {
	return &Damage{File: w.file(), Offset: int64(w.pos), Reason: fmt.Sprintf(format, args...)}
}
