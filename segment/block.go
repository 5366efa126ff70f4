package segment

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"

	"queend"
)

const (
	// rawBelow is the size in bytes under which compressing does not pay.
	rawBelow = 1 << 10
	// window must not exceed maxBlock, the decoder's bound. A small one keeps the
	// encoder's memory under 0.7 MB.
	window = 256 << 10
	// maxRatio is more than zstd can reach: 4 stored bytes give at most 128 KiB.
	// A block that claims more is damaged, so a decoder allocates for a block at
	// most maxRatio times its stored bytes, and never over maxBlock.
	maxRatio = 128 << 10 / 4
)

// encoders holds idle *zstd.Encoder by level.
var encoders [int(zstd.SpeedBestCompression) + 1]sync.Pool

func encoder(level int) *zstd.Encoder {
	if e, ok := encoders[level].Get().(*zstd.Encoder); ok {
		return e
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevel(level)),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
}

var decoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxBlock), zstd.WithDecoderMaxWindow(maxBlock),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
}}

// extent says how a block is stored.
type extent struct {
	stored uint64 // bytes in the file, without the crc
	raw    uint64 // bytes once decoded
	zstd   bool
}

// sane reports whether a writer could have written the extent.
func (x extent) sane() bool {
	if !x.zstd {
		return x.stored == x.raw && x.raw <= maxBlock
	}
	return x.stored < x.raw && x.raw <= maxBlock && x.raw/maxRatio <= x.stored
}

// pack is stored size and method in one number, as directories have them.
func (x extent) pack() uint64 {
	if x.zstd {
		return x.stored<<1 | 1
	}
	return x.stored << 1
}

// blockSum is the crc of the block number n of the stripe that starts at first.
// Number 0 is the id block.
func blockSum(p queend.PartitionID, first queend.Offset, n int, stored []byte) uint32 {
	var prefix [20]byte
	binary.LittleEndian.PutUint64(prefix[0:], uint64(p))
	binary.LittleEndian.PutUint64(prefix[8:], uint64(first))
	binary.LittleEndian.PutUint32(prefix[16:], uint32(n))
	return crc32.Update(crc32.Update(0, castagnoli, prefix[:]), castagnoli, stored)
}

// appendBlock appends crc and stored form of raw, at most maxBlock bytes, to dst.
func appendBlock(dst []byte, p queend.PartitionID, first queend.Offset, n int, raw []byte, level int) ([]byte, extent) {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	body := len(dst)
	x := extent{raw: uint64(len(raw))}
	if len(raw) >= rawBelow {
		e := encoder(level)
		dst = e.EncodeAll(raw, dst)
		encoders[level].Put(e)
		x.zstd = len(dst)-body <= len(raw)/10*9
	}
	if !x.zstd {
		dst = append(dst[:body], raw...)
	}
	x.stored = uint64(len(dst) - body)
	binary.LittleEndian.PutUint32(dst[at:], blockSum(p, first, n, dst[body:]))
	return dst, x
}

var errDecode = errors.New("content does not decode to its length")

// decodeBlock appends the x.raw bytes that stored stands for to dst, which must
// have room for them. The crc has been checked: what fails here was written so.
func decodeBlock(dst, stored []byte, x extent) ([]byte, error) {
	if !x.zstd {
		return append(dst, stored...), nil
	}
	d := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(d)
	// The capacity is the limit that the decoder keeps to.
	end := len(dst) + int(x.raw)
	out, err := d.DecodeAll(stored, dst[:len(dst):end])
	if err != nil || len(out) != end {
		return dst, errDecode
	}
	return dst[:end], nil
}
