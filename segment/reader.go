package segment

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"queend"
)

// Reader reads one segment file. It holds no buffers and is safe for concurrent
// use if its io.ReaderAt is. What it reads is checked before it is believed:
// memory for a block is at most 32768 times its stored bytes and 1 MiB, and for
// the messages in an id block 100 times its raw bytes, all after its checksum
// has matched. Of an Entry it uses where the descriptor is, and that it is the
// run asked for.
type Reader struct {
	r      io.ReaderAt
	file   queend.FileID
	footer uint64 // byte at which it starts
	end    uint64 // byte after it
	runs   uint64
}

// NewReader opens a segment file of size bytes. It reads header and trailer
// only. Errors wrap ErrDamaged, ErrVersion or what r returned.
func NewReader(r io.ReaderAt, size int64) (*Reader, error) {
	sr := &Reader{r: r}
	if size < headerSize+trailSize {
		return nil, fmt.Errorf("segment file of %d bytes is too short: %w", size, ErrDamaged)
	}
	sr.end = uint64(size) - trailSize
	var b [trailSize]byte
	if err := sr.readAt(b[:headerSize], 0); err != nil {
		return nil, err
	}
	if err := sr.parseHeader(b[:headerSize]); err != nil {
		return nil, err
	}
	if err := sr.readAt(b[:], sr.end); err != nil {
		return nil, err
	}
	if !sr.parseTrailer(b[:], uint64(size)) {
		return nil, fmt.Errorf("segment file %d: trailer at byte %d: %w", sr.file, sr.end, ErrDamaged)
	}
	return sr, nil
}

// parseHeader reads the file's first bytes. The checksum comes first, so that a
// flipped bit of the version does not look like a later version.
func (r *Reader) parseHeader(b []byte) error {
	if string(b[:8]) != headMagic || binary.LittleEndian.Uint32(b[20:]) != checksum(b[:20]) {
		return fmt.Errorf("segment file: header: %w", ErrDamaged)
	}
	version := binary.LittleEndian.Uint32(b[8:])
	r.file = queend.FileID(binary.LittleEndian.Uint64(b[12:]))
	if version > Version {
		return fmt.Errorf("segment file %d: version %d, known up to %d: %w", r.file, version, Version, ErrVersion)
	}
	if version == 0 {
		return fmt.Errorf("segment file %d: version 0: %w", r.file, ErrDamaged)
	}
	return nil
}

func (r *Reader) parseTrailer(b []byte, size uint64) bool {
	r.footer = binary.LittleEndian.Uint64(b)
	r.runs = binary.LittleEndian.Uint64(b[16:])
	return string(b[36:]) == tailMagic && binary.LittleEndian.Uint32(b[32:]) == checksum(b[:32]) &&
		binary.LittleEndian.Uint64(b[8:]) == size &&
		queend.FileID(binary.LittleEndian.Uint64(b[24:])) == r.file &&
		r.footer >= headerSize && r.footer <= r.end
}

// File returns the number of the file.
func (r *Reader) File() queend.FileID { return r.file }

// readAt fills b from byte pos. A file that ends early is damaged.
func (r *Reader) readAt(b []byte, pos uint64) error {
	n, err := r.r.ReadAt(b, int64(pos))
	if n == len(b) {
		return nil
	}
	return r.unread(len(b), pos, err)
}

// unread is the error about bytes that could not be read. Only an early end is
// damage, other failures are those of the device.
func (r *Reader) unread(n int, pos uint64, err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("file ends early: %w", ErrDamaged)
	}
	return fmt.Errorf("segment file %d: reading %d bytes at byte %d: %w", r.file, n, pos, err)
}

// damaged adds the file to an error.
func (r *Reader) damaged(err error) error {
	return fmt.Errorf("segment file %d: %w", r.file, err)
}

// Entries calls yield for every run in the order of the file, each after its
// descriptor and filter have been checked, and stops at the first error, its
// own or yield's. It reads the footer only.
func (r *Reader) Entries(yield func(Entry) error) error {
	return r.heads(func(h *head) error { return yield(h.entry) })
}

// heads is Entries with the whole descriptor, which is valid until f returns.
func (r *Reader) heads(f func(*head) error) error {
	s := scratches.Get().(*scratch)
	defer s.release()
	in := bufio.NewReaderSize(io.NewSectionReader(r.r, int64(r.footer), int64(r.end-r.footer)), 64<<10)
	pos := r.footer
	for range r.runs {
		peek, err := in.Peek(crcSize + binary.MaxVarintLen64)
		if err != nil && err != io.EOF {
			return r.unread(crcSize, pos, err)
		}
		p := parser{b: peek[min(crcSize, len(peek)):]}
		size := p.uvarint() + uint64(len(peek)-len(p.b))
		if p.bad || size > r.end-pos {
			return r.damaged(damagedDescriptor(pos, "length is out of range"))
		}
		h, err := r.nextHead(in, pos, size, s)
		if err != nil {
			return err
		}
		if err := f(&h); err != nil {
			return err
		}
		pos += size + h.tail()
	}
	if pos != r.end {
		return r.damaged(damagedDescriptor(pos, "footer has more than the runs"))
	}
	return nil
}

// nextHead reads a descriptor of size bytes and its filters from in.
func (r *Reader) nextHead(in io.Reader, pos, size uint64, s *scratch) (head, error) {
	s.head = resize(s.head, size)
	if _, err := io.ReadFull(in, s.head); err != nil {
		return head{}, r.unread(len(s.head), pos, err)
	}
	h, why := parseHead(s.head, pos, r.footer)
	if why != "" {
		return head{}, r.damaged(damagedDescriptor(pos, why))
	}
	if h.tail() > r.end-pos-size {
		return head{}, r.damaged(damagedDescriptor(pos, "filter is out of range"))
	}
	s.filter = resize(s.filter, h.tail())
	if _, err := io.ReadFull(in, s.filter); err != nil {
		return head{}, r.unread(len(s.filter), pos+size, err)
	}
	run := s.filter[:h.tail()-h.narrow]
	if binary.LittleEndian.Uint32(run) != checksum(run[crcSize:]) {
		return head{}, r.damaged(damagedDescriptor(pos, "checksum of the filter does not match"))
	}
	if rest := s.filter[len(run):]; len(rest) > 0 && binary.LittleEndian.Uint32(rest) != checksum(rest[crcSize:]) {
		return head{}, r.damaged(damagedDescriptor(pos, "checksum of the stripes' filters does not match"))
	}
	return h, nil
}

// head reads the descriptor that e names, and extra bytes that follow it. Its
// bytes are in s.head. Of e it believes nothing: Queue, Partition, First and Last
// must be the descriptor's, and for the rest the descriptor's are used.
func (r *Reader) head(e Entry, extra uint64, s *scratch) (head, error) {
	size := uint64(e.Size)
	if e.Pos < r.footer || e.Pos > r.end || size+extra > r.end-e.Pos || size < crcSize {
		return head{}, r.damaged(damagedDescriptor(e.Pos, "place is out of range"))
	}
	s.head = resize(s.head, size+extra)
	if err := r.readAt(s.head, e.Pos); err != nil {
		return head{}, err
	}
	h, why := parseHead(s.head[:size], e.Pos, r.footer)
	if why == "" && !h.entry.same(e) {
		why = fmt.Sprintf("is of partition %d, offsets %d to %d, not of the run asked for",
			h.entry.Partition, h.entry.First, h.entry.Last)
	}
	if why != "" {
		return head{}, r.damaged(damagedDescriptor(e.Pos, why))
	}
	return h, nil
}

// Filter reads the filter of a run.
func (r *Reader) Filter(e Entry) (*Filter, error) {
	s := scratches.Get().(*scratch)
	defer s.release()
	if e.Last < e.First || e.count() > r.end {
		return nil, r.damaged(damagedDescriptor(e.Pos, "place is out of range"))
	}
	h, err := r.head(e, crcSize+filterSize(e.count()), s)
	if err != nil {
		return nil, err
	}
	field := s.head[e.Size:]
	if binary.LittleEndian.Uint32(field) != checksum(field[crcSize:]) {
		return nil, r.damaged(damagedDescriptor(e.Pos, "checksum of the filter does not match"))
	}
	return &Filter{
		FirstTime: h.firstTime, LastTime: h.entry.LastTime, First: e.First, Last: e.Last, IDs: h.entry.IDs,
		low: slices.Clone(h.low), high: slices.Concat(h.low[:h.shared], h.high),
		field: slices.Clone(field[crcSize:]),
	}, nil
}

// columns reads and takes apart the id block of a stripe, into s.
func (r *Reader) columns(h *head, st stripe, s *scratch) (*columns, error) {
	err := r.block(h, st, 0, st.pos, st.ids, s)
	if err != nil {
		return nil, err
	}
	s.ids = resize(s.ids, st.ids.raw)
	block, err := decodeBlock(s.ids[:0], s.stored[crcSize:], st.ids)
	if err != nil {
		return nil, r.damaged(damagedBlock(h.entry.Partition, st.pos, err.Error()))
	}
	c := &s.columns
	if !c.parse(block, st.n) {
		return nil, r.damaged(damagedBlock(h.entry.Partition, st.pos, "columns make no sense"))
	}
	want := c.stored
	if st.last() < h.entry.PayloadFrom {
		want = 0
	}
	if st.payload != want {
		return nil, r.damaged(damagedBlock(h.entry.Partition, st.pos, "payload blocks are not those of the descriptor"))
	}
	return c, nil
}

// block reads block number n of a stripe into s.stored, crc first, and checks it.
func (r *Reader) block(h *head, st stripe, n int, pos uint64, x extent, s *scratch) error {
	s.stored = resize(s.stored, crcSize+x.stored)
	if err := r.readAt(s.stored, pos); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(s.stored) != blockSum(h.entry.Partition, st.first, n, s.stored[crcSize:]) {
		return r.damaged(damagedBlock(h.entry.Partition, pos, "checksum does not match"))
	}
	return nil
}

// scratch is what one call of a reader works in.
type scratch struct {
	head, filter     []byte
	stored, ids, raw []byte
	rawAt            uint64 // byte of the file of the payload block that raw holds; 0: none
	columns          columns
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// release gives the scratch back, without slices that grew beyond the usual.
func (s *scratch) release() {
	s.rawAt = 0
	for _, b := range []*[]byte{&s.head, &s.filter, &s.stored, &s.ids, &s.raw} {
		if cap(*b) > maxBlock+crcSize {
			*b = nil
		}
	}
	if cap(s.columns.times) > 1<<16 {
		s.columns = columns{}
	}
	scratches.Put(s)
}

// resize returns b with length n and any content.
func resize(b []byte, n uint64) []byte {
	if uint64(cap(b)) < n {
		return make([]byte, n)
	}
	return b[:n]
}
