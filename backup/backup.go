// Package backup is the format of a backup: a tar file that says of which
// moment it is and carries a checksum of every file. It knows nothing of what
// the files hold.
//
//	BACKUP     JSON: format, LSN and time of the last record in it
//	...        the files, by their names in the data directory
//	MANIFEST   JSON: name, size and SHA-256 of each
//
// A backup without a MANIFEST is not whole. Whoever fetches one anew after it
// broke off may keep segment files of the attempt before, which never change:
// what is sent then leaves them out, and its MANIFEST names them as kept.
package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"
)

const (
	headName     = "BACKUP"
	manifestName = "MANIFEST"
	format       = 1
)

// Point is the moment a backup is of: everything through the record LSN, and
// nothing behind it.
type Point struct {
	LSN  uint64    `json:"lsn"`
	Time time.Time `json:"time"` // of that record
}

// ErrDamaged is wrapped by errors about a backup that is not what was written.
var ErrDamaged = errors.New("backup is damaged")

type head struct {
	Format int `json:"format"`
	Point
}

type file struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Kept   bool   `json:"kept,omitempty"` // left out: who reads it has it
}

// Writer writes a backup.
type Writer struct {
	tar   *tar.Writer
	at    time.Time
	files []file
}

// NewWriter begins a backup of a moment.
func NewWriter(w io.Writer, p Point) (*Writer, error) {
	b := &Writer{tar: tar.NewWriter(w), at: p.Time}
	return b, b.json(headName, head{format, p})
}

func (w *Writer) json(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := w.header(name, int64(len(data))); err != nil {
		return err
	}
	_, err = w.tar.Write(data)
	return err
}

func (w *Writer) header(name string, size int64) error {
	return w.tar.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o600, ModTime: w.at, Typeflag: tar.TypeReg})
}

// Add adds a file of size bytes. name has slashes and stays below the data
// directory.
func (w *Writer) Add(name string, size int64, r io.Reader) error {
	if err := w.header(name, size); err != nil {
		return err
	}
	sum := sha256.New()
	if n, err := io.Copy(io.MultiWriter(w.tar, sum), io.LimitReader(r, size)); err != nil || n != size {
		return errors.Join(err, fmt.Errorf("%s: %d bytes of %d", name, n, size))
	}
	w.files = append(w.files, file{Name: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// Keep names a file of size bytes that the reader has, with its checksum.
func (w *Writer) Keep(name string, size int64, r io.Reader) error {
	sum := sha256.New()
	if n, err := io.Copy(sum, io.LimitReader(r, size)); err != nil || n != size {
		return errors.Join(err, fmt.Errorf("%s: %d bytes of %d", name, n, size))
	}
	w.files = append(w.files, file{Name: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil)), Kept: true})
	return nil
}

// Close ends the backup. Without it the backup is not whole.
func (w *Writer) Close() error {
	if err := w.json(manifestName, w.files); err != nil {
		return err
	}
	return w.tar.Close()
}

// Sink takes what ReadTo finds.
type Sink struct {
	Begin func(Point) error // comes first; nil: nobody wants to know
	File  func(name string, size int64, r io.Reader) error
	// Kept gets the files that were left out, with their checksums, at the end;
	// nil: none may be.
	Kept func(name string, size int64, sha256 string) error
}

// Read hands take every file of a backup and checks it against the manifest.
// What take got counts only when the error is nil.
func Read(r io.Reader, take func(name string, size int64, r io.Reader) error) (Point, error) {
	return ReadTo(r, Sink{File: take})
}

// ReadTo is Read for a backup that may leave files out.
func ReadTo(r io.Reader, to Sink) (Point, error) {
	t := tar.NewReader(r)
	p, err := readHead(t)
	if err == nil && to.Begin != nil {
		err = to.Begin(p)
	}
	if err != nil {
		return p, err
	}
	var got []file
	for {
		h, err := t.Next()
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrHeader) {
			return p, fmt.Errorf("%w: it ends early", ErrDamaged)
		}
		if err != nil {
			return p, err
		}
		if h.Name == manifestName {
			return p, checkManifest(t, got, to.Kept)
		}
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(filepath.FromSlash(h.Name)) {
			return p, fmt.Errorf("%w: it has %q, which is no file of a data directory", ErrDamaged, h.Name)
		}
		sum := sha256.New()
		if err := to.File(h.Name, h.Size, io.TeeReader(t, sum)); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return p, fmt.Errorf("%w: it ends early", ErrDamaged)
			}
			return p, err
		}
		got = append(got, file{Name: h.Name, Size: h.Size, SHA256: hex.EncodeToString(sum.Sum(nil))})
	}
}

func readHead(t *tar.Reader) (Point, error) {
	var b head
	h, err := t.Next()
	if err != nil || h.Name != headName {
		return b.Point, errors.New("this is no backup of queend")
	}
	if err := json.NewDecoder(t).Decode(&b); err != nil {
		return b.Point, fmt.Errorf("%w: %s: %w", ErrDamaged, headName, err)
	}
	if b.Format != format {
		return b.Point, fmt.Errorf("backup format %d, this program knows %d", b.Format, format)
	}
	return b.Point, nil
}

func checkManifest(r io.Reader, got []file, kept func(name string, size int64, sha256 string) error) error {
	var want []file
	if err := json.NewDecoder(r).Decode(&want); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, manifestName, err)
	}
	sent := slices.DeleteFunc(slices.Clone(want), func(f file) bool { return f.Kept })
	if len(sent) != len(got) || kept == nil && len(sent) != len(want) {
		return fmt.Errorf("%w: it has %d files of %d", ErrDamaged, len(got), len(want))
	}
	for i := range sent {
		if sent[i] != got[i] {
			return fmt.Errorf("%w: %s does not match its checksum", ErrDamaged, got[i].Name)
		}
	}
	for _, f := range want {
		if f.Kept {
			if err := kept(f.Name, f.Size, f.SHA256); err != nil {
				return err
			}
		}
	}
	return nil
}
