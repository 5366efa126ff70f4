package log

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidwall/wal"

	"queend"
)

// writer appends groups to one generation through the library. The library frames,
// writes and starts new files, nothing else: it is never asked to read or to
// truncate. After any error it must not be used again, for the library's memory
// and its file may differ then.
type writer struct {
	files        files
	wal          *wal.Log
	dir          *os.File // the generation's directory, open to be synced without a new descriptor
	number, salt uint64
	segmentBytes int
	keepBytes    int // buffers that grew larger than this are let go

	entry   uint64 // the library's index of the last entry
	segment uint64 // the index that names the file being written
	inFile  int    // bytes in that file
	bytes   int64  // bytes in the generation

	buf   []byte
	batch wal.Batch
	tail  []byte // lent to the library, see lendTail
}

// newSalt returns a random number other than 0.
func newSalt() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: the runtime ends the process instead
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// open lets the library open or create the generation's files at path.
func (w *writer) open(path string) error {
	if err := w.files.step("open", path); err != nil {
		return err
	}
	lib, err := wal.Open(path, &wal.Options{
		// The library would sync the new, empty file once more at each end of a
		// segment, and in every mode. Syncing by hand also tells write from sync.
		NoSync:      true,
		SegmentSize: w.segmentBytes,
		AllowEmpty:  true,
		// Nothing is ever read through it.
		SegmentCacheSize: 1,
		NoCopy:           true,
		DirPerms:         dirPerm,
		FilePerms:        filePerm,
	})
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	last, err := lib.LastIndex()
	if err == nil && last != w.entry {
		err = fmt.Errorf("open %s: library finds %d entries, %d were written", path, last, w.entry)
	}
	if err != nil {
		lib.Close()
		return err
	}
	dir, err := os.Open(path)
	if err != nil {
		lib.Close()
		return err
	}
	w.wal, w.dir = lib, dir
	w.lendTail()
	return nil
}

// append writes one group of recs that begins with LSN first. durable is what is
// synced by now. When the group was the last of its segment, the library has
// synced it and begun the next file, whose name is synced here: synced is true.
func (w *writer) append(first, durable queend.LSN, recs [][]byte) (synced bool, err error) {
	h := header{generation: w.number, salt: w.salt, first: first, durable: durable}
	w.buf = appendGroup(w.buf[:0], h, recs)
	w.batch.Write(w.entry+1, w.buf)
	if err := w.files.step("write", w.file()); err != nil {
		return false, err
	}
	if err := w.wal.WriteBatch(&w.batch); err != nil {
		return false, fmt.Errorf("write %s: %w", w.file(), err)
	}
	n := uvarintBytes(uint64(len(w.buf))) + len(w.buf)
	w.entry++
	w.inFile += n
	w.bytes += int64(n)
	if len(w.buf) > w.keepBytes {
		w.buf, w.batch = nil, wal.Batch{}
	}
	if w.inFile < w.segmentBytes {
		return false, nil
	}
	w.segment, w.inFile = w.entry+1, 0
	if err := w.wal.ClearCache(); err != nil { // it keeps the finished segment in memory
		return false, err
	}
	w.lendTail()
	return true, w.files.syncOpenDir(w.dir)
}

// sync makes everything appended durable.
func (w *writer) sync() error {
	if err := w.files.step("sync", w.file()); err != nil {
		return err
	}
	if err := w.wal.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", w.file(), err)
	}
	return nil
}

// close syncs and closes the files.
func (w *writer) close() error {
	if err := w.files.step("sync", w.file()); err != nil {
		return err
	}
	if err := w.wal.Close(); err != nil {
		return fmt.Errorf("close %s: %w", w.file(), err)
	}
	return w.dir.Close()
}

// abandon gives back the descriptors of a writer that failed.
func (w *writer) abandon() {
	if w.wal != nil {
		w.wal.Close()
		w.dir.Close()
	}
}

// file is the path of the segment being written.
func (w *writer) file() string { return filepath.Join(w.dir.Name(), numberName(w.segment)) }

// createGeneration makes generation number, which begins with LSN first, and
// returns it ready to append. durable is what is synced by now. fill, when not
// nil, writes groups into it before it counts.
//
// A crash leaves either no generation or a whole one: all is written and synced
// under another name, which then becomes the right one.
func (l *Log) createGeneration(number uint64, first, durable queend.LSN, fill func(*writer) error) (*writer, error) {
	w := &writer{
		files: l.files, number: number, salt: newSalt(),
		segmentBytes: l.c.SegmentBytes, keepBytes: 2 * l.c.GroupBytes,
		segment: 1,
	}
	if err := w.create(l.c.Dir, first, durable, fill); err != nil {
		w.abandon()
		return nil, err
	}
	return w, nil
}

// create does the work of createGeneration.
func (w *writer) create(dir string, first, durable queend.LSN, fill func(*writer) error) error {
	path := filepath.Join(dir, numberName(w.number))
	tmp := path + tmpSuffix
	if err := w.open(tmp); err != nil {
		return err
	}
	if _, err := w.append(first, durable, nil); err != nil {
		return err
	}
	if fill != nil {
		if err := fill(w); err != nil {
			return err
		}
	}
	if err := w.files.syncOpenDir(w.dir); err != nil {
		return err
	}
	if err := w.close(); err != nil {
		return err
	}
	if err := w.files.rename(tmp, path); err != nil {
		return err
	}
	if err := w.files.syncDir(dir); err != nil {
		return err
	}
	return w.open(path)
}
