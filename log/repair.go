package log

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// path is the path of a name in the log's directory.
func (b *boot) path(name string) string { return filepath.Join(b.c.Dir, name) }

// cut takes the tail off: what stands from cutFrom on in its generation, and the
// generations that hold no valid group. The bytes are kept in the quarantine
// directory, synced, before they go from the log.
func (b *boot) cut() error {
	for _, g := range b.chain.hollow {
		if err := b.cutSegments(g, 0, 0); err != nil {
			return err
		}
		if err := b.files.removeAll(g.path); err != nil {
			return err
		}
	}
	if len(b.chain.hollow) > 0 {
		if err := b.files.syncDir(b.c.Dir); err != nil {
			return err
		}
	}
	if w := b.cutFrom; w != nil {
		if err := b.cutSegments(w.gen, w.seg, int64(w.pos)); err != nil {
			return err
		}
		return b.files.syncDir(w.gen.path)
	}
	return nil
}

// cutSegments cuts segment from of g at offset, and all of the later ones. It
// begins with the last: a crash in between leaves the same tail, only shorter.
func (b *boot) cutSegments(g *generation, from int, offset int64) error {
	for i := len(g.segments) - 1; i >= from; i-- {
		at := int64(0)
		if i == from {
			at = offset
		}
		if err := b.cutSegment(g, g.segments[i], at); err != nil {
			return err
		}
	}
	return nil
}

// cutSegment cuts one file at offset and removes it when nothing is left. The
// name it is kept under says where the bytes were, so a repair that a crash ended
// does the same again.
func (b *boot) cutSegment(g *generation, s segment, offset int64) error {
	if n := s.size - offset; n > 0 {
		name := filepath.Join(b.c.Quarantine, fmt.Sprintf("log-%d-%d-%d", g.number, s.index, offset))
		if err := b.keep(s.path, offset, name); err != nil {
			return fmt.Errorf("set aside %s from byte %d: %w", s.path, offset, err)
		}
		b.rec.Cut += n
		b.rec.CutFile = name // the last one kept is the first in the log
	}
	if offset > 0 {
		return b.files.truncate(s.path, offset)
	}
	return b.files.removeAll(s.path)
}

// keep copies path from offset on to a new file, synced with its name.
func (b *boot) keep(path string, offset int64, to string) error {
	if err := b.files.mkdirAll(b.c.Quarantine); err != nil {
		return err
	}
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	if _, err := from.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	return b.files.replace(to, from)
}
