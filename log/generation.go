package log

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"queend"
)

// A generation is one log of the library in a directory of its own, named by a
// number that grows by one. It comes under that name whole: with its first entry
// and the copies that boot makes synced (see createGeneration). From the LSN it
// begins with, it stands in for every generation before it; what they hold from
// there on was copied into it or was never promised to anybody.
type generation struct {
	number   uint64
	path     string
	segments []segment // by index
	bad      error     // what is wrong with the first entry; then the rest is 0
	first    queend.LSN
	durable  queend.LSN // when the generation was made; at least first-1
	salt     uint64
}

// segment is one file of the library, named by the index of its first entry.
type segment struct {
	index uint64
	path  string
	size  int64 // bytes
}

// size is the bytes of all segments.
func (g *generation) size() int64 {
	var n int64
	for _, s := range g.segments {
		n += s.size
	}
	return n
}

// Suffixes of what is not part of the log: a generation not finished, and one
// being deleted. Open removes both.
const (
	tmpSuffix     = ".tmp"
	droppedSuffix = ".dropped"
)

func numberName(n uint64) string { return fmt.Sprintf("%020d", n) }

// parseNumber reads a name of exactly 20 digits.
func parseNumber(name string) (uint64, bool) {
	if len(name) != 20 || strings.Trim(name, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(name, 10, 64)
	return n, err == nil && n > 0
}

// readGenerations lists the generations in dir by number and reads how each
// begins. A directory that does not exist holds none.
func readGenerations(dir string) ([]*generation, error) {
	names, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var gens []*generation
	for _, name := range names {
		number, ok := parseNumber(name.Name())
		if !ok {
			continue
		}
		g := &generation{number: number, path: filepath.Join(dir, name.Name())}
		if g.segments, err = readSegments(g.path); err != nil {
			return nil, err
		}
		if err := g.readStart(); err != nil {
			return nil, err
		}
		gens = append(gens, g)
	}
	slices.SortFunc(gens, func(a, b *generation) int { return cmp.Compare(a.number, b.number) })
	return gens, nil
}

// readSegments lists the segment files of one generation by index.
func readSegments(dir string) ([]segment, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var segments []segment
	for _, name := range names {
		index, ok := parseNumber(name.Name())
		if !ok {
			continue
		}
		info, err := name.Info()
		if err != nil {
			return nil, err
		}
		segments = append(segments, segment{index, filepath.Join(dir, name.Name()), info.Size()})
	}
	slices.SortFunc(segments, func(a, b segment) int { return cmp.Compare(a.index, b.index) })
	return segments, nil
}

// startEntry is the length of a generation's first entry in the file, with the
// library's length prefix, in bytes.
const startEntry = 1 + headerBytes

// readStart reads the first entry. What is wrong with it goes to g.bad; the
// error is for a file that cannot be read and for a version nobody knows.
func (g *generation) readStart() error {
	if len(g.segments) == 0 || g.segments[0].index != 1 {
		g.bad = errors.New("generation has no first segment")
		return nil
	}
	path := g.segments[0].path
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var data [startEntry]byte
	n, err := io.ReadFull(f, data[:])
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return fmt.Errorf("%s: %w", path, err)
	}
	entry, _, err := frameEntry(data[:n])
	if err != nil {
		g.bad = err
		return nil
	}
	h, _, err := decodeGroup(entry)
	switch {
	case errors.Is(err, ErrVersion):
		return fmt.Errorf("%s: entry at byte 0: %w", path, err)
	case err != nil:
		g.bad = err
	case h.count != 0:
		g.bad = errors.New("generation does not begin with its first entry")
	case h.generation != g.number:
		g.bad = fmt.Errorf("generation %d stands under the name of %d", h.generation, g.number)
	default:
		g.first, g.durable, g.salt = h.first, h.durable, h.salt
	}
	return nil
}

// hollow reports whether a generation whose first entry is bad has no valid group
// at all, not even one of another generation: then it is nothing but garbage.
func (g *generation) hollow() (bool, error) {
	anyones := *g
	anyones.number = 0
	found, err := newWalker(&anyones).resync()
	return !found, err
}
