package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"queend"
)

// Config says how segments are written.
type Config struct {
	Level      int // zstd, 1 (fastest) to 4 (smallest); 0 means 1
	BlockBytes int // raw bytes at which a block is closed, at most 512 KiB; 0 means 30 KiB
}

// writeSize is the size of every write but the last.
const writeSize = 256 << 10

// Writer writes one segment file. After the first error every call returns it
// and the file is worth nothing. It holds one stripe (about 4 MiB and twice the
// largest payload), 8 bytes per message of the open run, and the footer:
// about 60 bytes per run, 8 bytes per stripe and 2.5 bytes per message.
// It is not safe for concurrent use.
type Writer struct {
	w    io.Writer
	file queend.FileID
	buf  []byte
	pos  uint64 // bytes written, those in buf included
	err  error

	builder stripeBuilder
	run     run
	open    bool // between Begin and End
	entries []Entry
	footer  []byte // all descriptors so far
}

// run is what is known of the run being written.
type run struct {
	head
	next    queend.Offset
	kept    bool // a message had its payload kept
	hashes  []uint64
	bounds  idBounds
	scratch []byte // a transaction id
}

// NewWriter returns a writer of the segment file with that number. It writes to
// w from its start, in writes of 256 KiB, and neither syncs nor closes it.
func NewWriter(w io.Writer, file queend.FileID, c Config) *Writer {
	sw := &Writer{w: w, file: file, buf: make([]byte, 0, writeSize)}
	sw.builder.level = c.Level
	if c.Level == 0 {
		sw.builder.level = 1
	}
	sw.builder.blockBytes = c.BlockBytes
	if c.BlockBytes == 0 {
		sw.builder.blockBytes = defaultBlock
	}
	if l, b := sw.builder.level, sw.builder.blockBytes; l < 1 || l > 4 || b < 1 || b > biggestBlock {
		sw.err = fmt.Errorf("segment writer: level %d or block of %d bytes is out of range", c.Level, c.BlockBytes)
	}
	sw.write(appendHeader(nil, file))
	return sw
}

// Begin starts a run. The run before must have ended.
func (w *Writer) Begin(queue queend.QueueID, partition queend.PartitionID) {
	if w.open {
		w.fail(errors.New("segment writer: Begin inside a run"))
		return
	}
	w.open = true
	r := &w.run
	r.head = head{start: w.pos, stripes: r.stripes[:0]}
	r.entry.Queue, r.entry.Partition = queue, partition
	r.hashes, r.kept = r.hashes[:0], false
	r.bounds.reset()
}

// Add appends a message to the run. The first one may have any offset from 0,
// the others follow without gaps; messages without payload come before those
// with. A message that breaks this or a limit is refused with ErrMessage, and
// then the file is lost. Nothing of m is kept.
func (w *Writer) Add(m *Message) error {
	if w.err == nil && !w.open {
		w.fail(errors.New("segment writer: Add outside a run"))
	}
	if w.err == nil {
		w.fail(w.run.check(m))
	}
	if w.err != nil {
		return w.err
	}
	if !w.builder.fits(m) {
		w.cut()
	}
	if w.builder.n == 0 {
		w.builder.reset(w.run.entry.Partition, m.Offset)
	}
	w.builder.add(m)
	w.run.note(m.Offset, m.Time, m.TxnID, m.Gone)
	return w.err
}

// check says what is wrong with m as the next message.
func (r *run) check(m *Message) error {
	var why string
	switch {
	case m.Offset < 0 || m.Offset == 1<<63-1:
		why = "its offset is out of range"
	case len(r.hashes) > 0 && m.Offset != r.next:
		why = "the run goes on at " + r.next.String()
	case m.Gone && r.kept:
		why = "it has no payload but one before it has"
	case len(m.TxnID) > MaxTxnID:
		why = "its transaction id is too long"
	case len(m.Producer) > MaxProducer:
		why = "its producer is too long"
	case len(m.Headers) > MaxHeaders:
		why = "its headers are too long"
	case len(m.Payload) > MaxPayload:
		why = "its payload is too long"
	default:
		return nil
	}
	return fmt.Errorf("run of partition %d: offset %d: %s: %w", r.entry.Partition, m.Offset, why, ErrMessage)
}

// note keeps what the descriptor says of a message.
func (r *run) note(o queend.Offset, time int64, txn []byte, gone bool) {
	e := &r.entry
	if len(r.hashes) == 0 {
		e.First, e.PayloadFrom = o, o
		r.firstTime, e.LastTime = time, time
	}
	r.firstTime, e.LastTime = min(r.firstTime, time), max(e.LastTime, time)
	e.Last, r.next = o, o+1
	if gone {
		e.PayloadFrom = o + 1
	} else {
		r.kept = true
	}
	r.hashes = append(r.hashes, Hash(txn))
	r.bounds.add(txn)
}

// cut writes the open stripe, if it has messages.
func (w *Writer) cut() {
	if w.builder.n == 0 {
		return
	}
	ids, x, payload := w.builder.finish()
	w.run.stripes = appendStripe(w.run.stripes, w.builder.n, x, len(payload))
	w.run.count++
	w.write(ids)
	w.write(payload)
	w.builder.reset(w.run.entry.Partition, w.run.next)
}

// End ends the run. A run without messages leaves no trace.
func (w *Writer) End() error {
	if w.err == nil && !w.open {
		w.fail(errors.New("segment writer: End outside a run"))
	}
	w.cut()
	w.open = false
	r := &w.run
	if w.err != nil || len(r.hashes) == 0 {
		return w.err
	}
	low, high, shared := r.bounds.cut()
	r.low, r.high, r.shared = low, high[shared:], shared
	at := len(w.footer)
	w.footer = appendHead(w.footer, &r.head)
	size := len(w.footer) - at
	w.footer = appendSealedFilter(w.footer, r.hashes)
	w.footer = appendStripeFilters(w.footer, &r.head, r.hashes)
	e := r.entry
	e.IDs = rangeOf(r.bounds.low, r.bounds.high)
	e.Pos, e.Size = uint64(at), uint32(size) // Finish adds where the footer starts
	e.Bytes = w.pos - r.start + uint64(len(w.footer)-at)
	w.entries = append(w.entries, e)
	return nil
}

// appendSealedFilter appends the filter and its crc, as the footer has them.
func appendSealedFilter(dst []byte, hashes []uint64) []byte {
	at := len(dst)
	dst = appendFilter(append(dst, 0, 0, 0, 0), hashes)
	binary.LittleEndian.PutUint32(dst[at:], checksum(dst[at+crcSize:]))
	return dst
}

// Finish writes footer and trailer and returns the runs in their order. The
// file is complete once the caller has synced it.
func (w *Writer) Finish() ([]Entry, error) {
	if w.err == nil && w.open {
		w.fail(errors.New("segment writer: Finish inside a run"))
	}
	footer := w.pos
	w.write(w.footer)
	w.write(appendTrailer(nil, footer, w.pos+trailSize, uint64(len(w.entries)), w.file))
	w.flush()
	if w.err != nil {
		return nil, w.err
	}
	for i := range w.entries {
		w.entries[i].Pos += footer
	}
	entries := w.entries
	w.fail(errors.New("segment writer: finished"))
	return entries, nil
}

// write appends b to the file.
func (w *Writer) write(b []byte) {
	w.pos += uint64(len(b))
	for len(b) > 0 {
		n := min(len(b), writeSize-len(w.buf))
		w.buf, b = append(w.buf, b[:n]...), b[n:]
		if len(w.buf) == writeSize {
			w.flush()
		}
	}
}

func (w *Writer) flush() {
	if w.err == nil && len(w.buf) > 0 {
		_, err := w.w.Write(w.buf)
		w.fail(err)
	}
	w.buf = w.buf[:0]
}

// fail keeps the first error.
func (w *Writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// appendHeader appends the file's first bytes.
func appendHeader(dst []byte, file queend.FileID) []byte {
	at := len(dst)
	dst = append(dst, headMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, Version)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(file))
	return binary.LittleEndian.AppendUint32(dst, checksum(dst[at:]))
}

// appendTrailer appends the file's last bytes.
func appendTrailer(dst []byte, footer, size, runs uint64, file queend.FileID) []byte {
	dst = slices.Grow(dst, trailSize)
	at := len(dst)
	for _, v := range []uint64{footer, size, runs, uint64(file)} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	dst = binary.LittleEndian.AppendUint32(dst, checksum(dst[at:]))
	return append(dst, tailMagic...)
}
