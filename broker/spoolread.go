package broker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"queend"
	"queend/segment"
)

// spoolPlace is how far the spool is drained: files below file are, and in
// file everything below pos. It changes in the record that stores what was
// drained, so nothing is drained twice or left out, whatever the dedup window.
type spoolPlace struct {
	file uint64
	pos  int64 // bytes
}

// from is where draining file n begins.
func (s spoolPlace) from(n uint64) int64 {
	if n == s.file {
		return max(s.pos, int64(len(spoolMagic)))
	}
	return int64(len(spoolMagic))
}

// spoolDrained says how far the spool is drained.
type spoolDrained struct{ spoolPlace }

func (v *spoolDrained) encode(e *encoder) {
	e.byte(kindSpoolDrained)
	e.uint(v.file)
	e.int(v.pos)
}

func (v *spoolDrained) decode(d *decoder) {
	v.file = d.uint()
	v.pos = d.int()
}

func (v *spoolDrained) apply(b *Broker, _ int64) { b.state.spool = v.spoolPlace }

// spoolFiles lists the numbers of the files, rising.
func (b *Broker) spoolFiles() ([]uint64, error) {
	byNumber, _, err := numbered(b.spool.dir, spoolSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(byNumber)), err
}

// countSpool counts the records of a file from a place on, by their heads.
func countSpool(path string, from int64) (items int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var head [spoolHead]byte
	for {
		if _, err := f.ReadAt(head[:], from); err != nil {
			return items, notEOF(err)
		}
		if string(head[:4]) != spoolMark {
			return items, nil
		}
		items++
		from += spoolHead + int64(binary.LittleEndian.Uint32(head[4:]))
	}
}

func notEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// spooled is one record of the spool.
type spooled struct {
	tenant queend.ID
	item   PushItem
	m      segment.Message
	at     int64 // of the record in the file, and where it ends
	end    int64
}

// spoolReader reads the records of a file.
type spoolReader struct {
	f   *os.File
	in  *bufio.Reader
	pos int64 // of the next byte of in
}

func openSpool(path string, from int64) (*spoolReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	var magic [len(spoolMagic)]byte
	if _, err := f.ReadAt(magic[:], 0); err == nil && isSpoolVersion(magic[:]) && string(magic[:]) != spoolMagic {
		return nil, errors.Join(fmt.Errorf("%s: unknown version %q", path, magic[6:]), f.Close())
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &spoolReader{f: f, in: bufio.NewReaderSize(f, 1<<20), pos: from}, nil
}

// isSpoolVersion reports whether a file begins like one of any version. A
// crash can leave a beginning of which only some bytes are there.
func isSpoolVersion(magic []byte) bool {
	return string(magic[:6]) == spoolMagic[:6] && len(bytes.Trim(magic[6:], "0123456789")) == 0
}

// errSpoolDamaged says that bytes are no record.
var errSpoolDamaged = errors.New("not a whole record")

// next returns the next record. With errSpoolDamaged, damaged holds the bytes
// up to the next record, or to the end. io.EOF ends the file.
func (r *spoolReader) next() (rec *spooled, damaged []byte, err error) {
	at := r.pos
	body, raw, err := r.frame()
	if err == nil {
		if rec, err = decodeSpooled(body); err == nil {
			rec.at, rec.end = at, r.pos
			return rec, nil, nil
		}
		return nil, raw, fmt.Errorf("%w: %w", errSpoolDamaged, err)
	}
	if errors.Is(err, errSpoolDamaged) {
		rest, skipErr := r.resync()
		return nil, append(raw, rest...), errors.Join(err, skipErr)
	}
	return nil, nil, err
}

// frame reads a record whose checksum holds. On errSpoolDamaged it has taken
// raw, at least a byte, from the file.
func (r *spoolReader) frame() (body, raw []byte, err error) {
	head, err := r.in.Peek(spoolHead)
	if len(head) == 0 {
		return nil, nil, io.EOF
	}
	if err != nil && notEOF(err) != nil {
		return nil, nil, err
	}
	length := 0
	if len(head) == spoolHead && string(head[:4]) == spoolMark {
		length = int(binary.LittleEndian.Uint32(head[4:]))
	}
	if length == 0 || r.left() < int64(spoolHead+length) {
		return nil, r.take(1), errSpoolDamaged
	}
	sum := binary.LittleEndian.Uint32(head[8:])
	raw = make([]byte, spoolHead+length)
	if _, err := io.ReadFull(r.in, raw); err != nil {
		return nil, nil, err
	}
	r.pos += int64(len(raw))
	if crc32.Checksum(raw[spoolHead:], spoolCRC) == sum {
		return raw[spoolHead:], raw, nil
	}
	// The length may be what is wrong: go on right behind the mark.
	if err := r.rewind(int64(len(raw) - 1)); err != nil {
		return nil, nil, err
	}
	return nil, raw[:1], errSpoolDamaged
}

// left is how many bytes the file has behind pos; a length is checked against
// it before anything is allocated.
func (r *spoolReader) left() int64 {
	st, err := r.f.Stat()
	if err != nil {
		return 0
	}
	return st.Size() - r.pos
}

func (r *spoolReader) take(n int) []byte {
	buf := make([]byte, n)
	n, _ = io.ReadFull(r.in, buf)
	r.pos += int64(n)
	return buf[:n]
}

func (r *spoolReader) rewind(n int64) error {
	r.pos -= n
	if _, err := r.f.Seek(r.pos, io.SeekStart); err != nil {
		return err
	}
	r.in.Reset(r.f)
	return nil
}

// resync takes everything up to the next mark.
func (r *spoolReader) resync() (skipped []byte, err error) {
	for {
		head, err := r.in.Peek(len(spoolMark))
		if len(head) < len(spoolMark) {
			return append(skipped, r.take(len(head))...), notEOF(err)
		}
		if string(head) == spoolMark {
			return skipped, nil
		}
		have, _ := r.in.Peek(r.in.Buffered())
		n := bytes.Index(have[1:], []byte(spoolMark)) + 1
		if n == 0 {
			n = max(len(have)-len(spoolMark)+1, 1)
		}
		skipped = append(skipped, r.take(n)...)
	}
}

func decodeSpooled(body []byte) (*spooled, error) {
	d := decoder{buf: body}
	r := &spooled{tenant: d.id()}
	r.item.Queue = d.string()
	r.item.Partition = d.string()
	readMessage(&d, &r.m)
	if d.err == nil && len(d.buf) > 0 {
		d.fail("bytes behind the message")
	}
	r.item.id, r.item.TxnID, r.item.TraceID = r.m.ID, r.m.TxnID, r.m.TraceID
	r.item.Headers, r.item.Payload = r.m.Headers, r.m.Payload
	return r, d.err
}

// keepFailed puts bytes that could not be drained into a file of their own,
// under failed, and reports why.
func (b *Broker) keepFailed(n uint64, pos int64, raw []byte, why string) error {
	s := &b.spool
	dir := filepath.Join(s.dir, "failed")
	if err := makeDir(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, fmt.Sprintf("%020d-%d.bin", n, pos))
	b.cfg.Log.Error("spool: a record was set aside", "file", s.path(n), "at", pos, "kept", path, "why", why)
	if err := writeFile(path, raw); err != nil {
		return err
	}
	s.countFailed()
	return nil
}

// countFailed takes stock of what was set aside.
func (s *spool) countFailed() {
	entries, err := os.ReadDir(filepath.Join(s.dir, "failed"))
	if err != nil {
		return
	}
	var bytes int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			bytes += info.Size()
		}
	}
	s.failed.Store(int64(len(entries)))
	s.failedBy.Store(bytes)
}
