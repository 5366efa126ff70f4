package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"strings"
)

// Keepable reports whether a file of a backup never changes under its name.
func Keepable(name string) bool { return strings.HasPrefix(name, "segments/") }

// Part is a whole file inside the beginning of a backup.
type Part struct {
	Name   string
	SHA256 string
	*io.SectionReader
}

// Parts returns the files that may be kept of what a broken-off backup has left
// in f, which is whatever f begins with: it may end anywhere. They read from f.
func Parts(f *os.File) ([]Part, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	var parts []Part
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if err != nil {
			return parts, nil // it ends here
		}
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		sum := sha256.New()
		if n, err := io.Copy(sum, t); err != nil || n != h.Size {
			return parts, nil
		}
		if Keepable(h.Name) {
			parts = append(parts, Part{h.Name, hex.EncodeToString(sum.Sum(nil)), io.NewSectionReader(f, at, h.Size)})
		}
	}
}

// WriteParts writes parts so that Parts finds them again.
func WriteParts(w io.Writer, parts []Part) error {
	t := tar.NewWriter(w)
	for i := range parts {
		p := &parts[i]
		if err := t.WriteHeader(&tar.Header{Name: p.Name, Size: p.Size(), Mode: 0o600, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := io.Copy(t, io.NewSectionReader(p, 0, p.Size())); err != nil {
			return err
		}
	}
	return t.Close()
}
