package broker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/klauspost/compress/zstd"

	"queend"
)

// A checkpoint file, little endian; every crc is CRC-32C:
//
//	| header | frame | frame | ... | trailer |
//
//	header:  0        8             12         20       28       36      44
//	         | magic | version u32 | serial u64 | base u64 | prev u64 | lsn u64 | crc u32 |
//	frame:   | stored u32 | raw u32 | crc u32 | zstd frame of stored bytes |
//	trailer: | 0 u32 | frames u32 | durable u64 | size u64 | crc u32 |
//
// lsn is the record the checkpoint is sharp at. A base stands alone: its base
// is its own serial and its prev 0. A delta holds what changed since the
// checkpoint with the serial prev; base is the one its chain began with.
// durable is an LSN that was durable when the file was finished; size is the
// whole file's. The crc of header and trailer is of the bytes before it; that
// of a frame is of the serial u64 and the frame's number u32, from 0, which
// are not stored, of stored and raw, and of the bytes: a frame at another
// one's place does not pass. The frames together are a row of entries, see
// image.go; an entry does not cross frames.
const (
	chainMagic   = "queenckp"
	chainVersion = 1
	chainHeader  = 8 + 4 + 4*8 + 4
	chainTrailer = 4 + 4 + 8 + 8 + 4
	chainFrame   = 4 + 4 + 4
	// maxFrame bounds the raw bytes of a frame, before anything is allocated.
	maxFrame = 256 << 20
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// chainLink is what the header of a checkpoint says.
type chainLink struct {
	serial, base, prev uint64
	lsn                queend.LSN
}

func (l *chainLink) isBase() bool { return l.prev == 0 }

func (l *chainLink) encode() []byte {
	b := append(make([]byte, 0, chainHeader), chainMagic...)
	b = binary.LittleEndian.AppendUint32(b, chainVersion)
	for _, v := range []uint64{l.serial, l.base, l.prev, uint64(l.lsn)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crcTable))
}

// chainWriter writes one checkpoint file.
type chainWriter struct {
	f      *os.File
	w      io.Writer
	link   chainLink
	zstd   *zstd.Encoder
	frames uint32
	size   int64
	out    []byte
}

func newChainWriter(f *os.File, link chainLink) (*chainWriter, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	w := &chainWriter{f: f, w: &backWriter{f: f}, link: link, zstd: enc}
	return w, w.write(link.encode())
}

func (w *chainWriter) write(b []byte) error {
	n, err := w.w.Write(b)
	w.size += int64(n)
	return err
}

// frameBytes is where a frame of several entries ends.
const frameBytes = 1 << 20

// add appends whole entries, in as many frames as they need.
func (w *chainWriter) add(entries []byte) error {
	for len(entries) > 0 {
		n := 0
		for n < len(entries) && n < frameBytes {
			n += 4 + int(binary.LittleEndian.Uint32(entries[n:]))
		}
		if err := w.frame(entries[:n]); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

func (w *chainWriter) frame(entries []byte) error {
	if len(entries) > maxFrame {
		return fmt.Errorf("checkpoint entry of %d bytes, at most %d", len(entries), maxFrame)
	}
	w.out = w.zstd.EncodeAll(entries, append(w.out[:0], make([]byte, chainFrame)...))
	stored := w.out[chainFrame:]
	binary.LittleEndian.PutUint32(w.out[0:], uint32(len(stored)))
	binary.LittleEndian.PutUint32(w.out[4:], uint32(len(entries)))
	binary.LittleEndian.PutUint32(w.out[8:], frameSum(w.link.serial, w.frames, w.out[:8], stored))
	w.frames++
	return w.write(w.out)
}

func frameSum(serial uint64, number uint32, lengths, stored []byte) uint32 {
	var prefix [12]byte
	binary.LittleEndian.PutUint64(prefix[0:], serial)
	binary.LittleEndian.PutUint32(prefix[8:], number)
	sum := crc32.Update(crc32.Checksum(prefix[:], crcTable), crcTable, lengths)
	return crc32.Update(sum, crcTable, stored)
}

// finish writes the trailer and syncs the file.
func (w *chainWriter) finish(durable queend.LSN) error {
	b := binary.LittleEndian.AppendUint32(nil, 0)
	b = binary.LittleEndian.AppendUint32(b, w.frames)
	b = binary.LittleEndian.AppendUint64(b, uint64(durable))
	b = binary.LittleEndian.AppendUint64(b, uint64(w.size)+chainTrailer)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crcTable))
	if err := w.write(b); err != nil {
		return err
	}
	return w.f.Sync()
}

// chainFileInfo is a checkpoint file that has been read through and is whole.
type chainFileInfo struct {
	chainLink
	path    string
	durable queend.LSN
	size    int64
}

// errCheckpointVersion is wrapped by the error about a later format.
var errCheckpointVersion = errors.New("checkpoint format is newer than this program")

// readChainFile reads a checkpoint file and hands every entry to visit, which
// may be nil. The info counts only when the error is nil: what visit saw
// before is to be thrown away then. Errors of damage wrap ErrDamaged.
func readChainFile(path string, visit func(entry []byte) error) (chainFileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return chainFileInfo{}, err
	}
	defer f.Close()
	r := &chainReader{r: bufio.NewReaderSize(f, 1<<20), path: path, visit: visit}
	info, err := r.read()
	if err != nil {
		return chainFileInfo{}, err
	}
	if st, err := f.Stat(); err != nil {
		return chainFileInfo{}, err
	} else if st.Size() != info.size || r.at != info.size {
		return chainFileInfo{}, r.damage("the file has %d bytes, its trailer says %d", st.Size(), info.size)
	}
	return info, nil
}

type chainReader struct {
	r     io.Reader
	path  string
	at    int64
	visit func([]byte) error
	zstd  *zstd.Decoder

	stored, raw []byte // memory of the frame before
}

func (r *chainReader) damage(format string, args ...any) error {
	return &placed{r.at, fmt.Errorf("%w: checkpoint %s: byte %d: %s", ErrDamaged, r.path, r.at, fmt.Sprintf(format, args...))}
}

// fill reads len(b) bytes.
func (r *chainReader) fill(b []byte) error {
	n, err := io.ReadFull(r.r, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return r.damage("ends early")
	}
	r.at += int64(n)
	return err
}

func (r *chainReader) read() (chainFileInfo, error) {
	info := chainFileInfo{path: r.path}
	var err error
	if info.chainLink, err = r.header(); err != nil {
		return info, err
	}
	r.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxFrame),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return info, err
	}
	defer r.zstd.Close()
	for frames := uint32(0); ; frames++ {
		var head [8]byte
		if err := r.fill(head[:]); err != nil {
			return info, err
		}
		stored, raw := binary.LittleEndian.Uint32(head[0:]), binary.LittleEndian.Uint32(head[4:])
		if stored == 0 {
			if raw != frames {
				return info, r.damage("trailer counts %d frames, there are %d", raw, frames)
			}
			return info, r.trailer(&info, head[:])
		}
		if err := r.frame(info.serial, frames, head[:], stored, raw); err != nil {
			return info, err
		}
	}
}

func (r *chainReader) header() (l chainLink, err error) {
	var b [chainHeader]byte
	if err := r.fill(b[:]); err != nil {
		return l, err
	}
	body := b[:chainHeader-4]
	if string(b[:8]) != chainMagic || crc32.Checksum(body, crcTable) != binary.LittleEndian.Uint32(b[chainHeader-4:]) {
		return l, r.damage("header does not match its checksum")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != chainVersion {
		return l, fmt.Errorf("checkpoint %s: version %d: %w", r.path, v, errCheckpointVersion)
	}
	for i, v := range []*uint64{&l.serial, &l.base, &l.prev, (*uint64)(&l.lsn)} {
		*v = binary.LittleEndian.Uint64(b[12+8*i:])
	}
	return l, nil
}

func (r *chainReader) frame(serial uint64, number uint32, lengths []byte, stored, raw uint32) error {
	if stored > maxFrame || raw > maxFrame {
		return r.damage("frame of %d bytes is out of range", max(stored, raw))
	}
	var sum [4]byte
	if err := r.fill(sum[:]); err != nil {
		return err
	}
	data, err := r.take(stored)
	if err != nil {
		return err
	}
	if frameSum(serial, number, lengths, data) != binary.LittleEndian.Uint32(sum[:]) {
		return r.damage("frame %d does not match its checksum", number)
	}
	room := r.raw[:0]
	if r.visit != nil || cap(room) < int(raw) { // visit may keep what it sees
		room = make([]byte, 0, raw)
	}
	entries, err := r.zstd.DecodeAll(data, room)
	if err != nil || len(entries) != int(raw) {
		return r.damage("frame %d does not decode", number)
	}
	r.raw = entries
	return r.entries(entries)
}

// take reads n bytes in steps, so that a damaged length allocates little more
// than the file has.
func (r *chainReader) take(n uint32) ([]byte, error) {
	data := r.stored[:0]
	for left := int(n); left > 0; {
		step := min(left, 1<<20)
		at := len(data)
		data = slices.Grow(data, step)[:at+step]
		if err := r.fill(data[at:]); err != nil {
			return nil, err
		}
		left -= step
	}
	r.stored = data
	return data, nil
}

// entries takes a frame apart.
func (r *chainReader) entries(b []byte) error {
	for len(b) > 0 {
		if len(b) < 4 || int64(binary.LittleEndian.Uint32(b)) > int64(len(b)-4) {
			return r.damage("an entry runs past its frame")
		}
		n := int(binary.LittleEndian.Uint32(b))
		if r.visit != nil {
			if err := r.visit(b[4 : 4+n]); err != nil {
				return r.damage("%v", err)
			}
		}
		b = b[4+n:]
	}
	return nil
}

func (r *chainReader) trailer(info *chainFileInfo, head []byte) error {
	var b [chainTrailer]byte
	copy(b[:], head)
	if err := r.fill(b[8:]); err != nil {
		return err
	}
	if crc32.Checksum(b[:chainTrailer-4], crcTable) != binary.LittleEndian.Uint32(b[chainTrailer-4:]) {
		return r.damage("trailer does not match its checksum")
	}
	info.durable = queend.LSN(binary.LittleEndian.Uint64(b[8:]))
	info.size = int64(binary.LittleEndian.Uint64(b[16:]))
	return nil
}
