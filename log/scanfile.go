package log

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// ScanFile reads one segment file of a log, wherever it lies, also one that was
// cut off and set aside. Each group goes to visit, each place that does not read
// on to damaged, in their order; both may end the scan with an error. Whether the
// file joins its neighbours only Scan can tell. A file without any group has one
// damage, at its first byte.
func ScanFile(path string, visit func(Group) error, damaged func(*Damage) error) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	g := &generation{path: filepath.Dir(path), segments: []segment{{1, path, int64(len(data))}}}
	at := findGroup(data, 0, 0, 0)
	if at >= 0 {
		h := readHeader(data[at:])
		g.number, g.salt = h.generation, h.salt
	}
	w := &walker{gen: g, seg: -1}
	for {
		group, err := w.next()
		var d *Damage
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &d):
			if err := damaged(d); err != nil {
				return err
			}
			if found, err := w.resync(); err != nil || !found {
				return err
			}
		case err != nil:
			return err
		default:
			if err := visit(group); err != nil {
				return err
			}
		}
	}
}
