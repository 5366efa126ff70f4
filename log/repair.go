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
	if b.cutFrom != nil {
		w := b.cutFrom
		for i := len(w.gen.segments) - 1; i >= w.seg; i-- { // from the end: a crash leaves the same tail, only shorter
			offset := int64(0)
			if i == w.seg {
				offset = int64(w.pos)
			}
			if err := b.cutSegment(w.gen, w.gen.segments[i], offset); err != nil {
				return err
			}
		}
		if err := b.files.syncDir(w.gen.path); err != nil {
			return err
		}
	}
	for _, g := range b.chain.hollow {
		for i := len(g.segments) - 1; i >= 0; i-- {
			if err := b.cutSegment(g, g.segments[i], 0); err != nil {
				return err
			}
		}
		if err := b.files.removeAll(g.path); err != nil {
			return err
		}
	}
	if len(b.chain.hollow) > 0 {
		return b.files.syncDir(b.c.Dir)
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
