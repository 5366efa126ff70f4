// Package segment is the immutable form of messages that have left the log:
// compressed runs of consecutive offsets, many of them in one file. It knows
// nothing of consumers, of the log, or of which file is live.
//
// A segment file, little endian. "uv" is an unsigned varint, "zz" a signed one
// in zigzag form. Every crc is CRC-32C.
//
//	file:    | header | run | run | ... | descriptor | descriptor | ... | trailer |
//	                                    '----------- footer ------------'
//
//	header:  0         8             12         20        24
//	         | magic   | version u32 | file u64 | crc u32 |
//	trailer: 0            8          16         24         32        36        40
//	         | footer u64 | size u64 | runs u64 | file u64 | crc u32 | magic   |
//
// The header's layout is the same in every version, so a version this program
// does not know is told apart from damage. footer is the byte at which the
// footer starts, size the length of the whole file. Each crc is of the bytes
// before it.
//
// A run is a row of stripes. A stripe is up to some hundred messages: one block
// with everything but the payload, then the payload in blocks of their own,
// which are missing once retention has dropped them:
//
//	run:     | stripe | stripe | ...
//	stripe:  | id block | payload block | payload block | ...
//	block:   | crc u32 | stored bytes |
//
// The stored bytes are a zstd frame, or the bytes themselves if they are few or
// do not shrink. The crc is of a prefix that is not stored (partition u64, the
// stripe's first offset u64, number of the block in its stripe u32) and of the
// stored bytes: a block read at another block's place does not pass.
//
// An id block, for the n messages of its stripe, is column after column:
//
//	flags        n bytes, see flagEncrypted and following
//	times        n zz, microseconds, each less the one before
//	ids          runs: uv count<<1|step, 16 bytes; an id is the one before + step
//	payload      n uv, lengths in bytes
//	blocks       uv count, then per payload block: uv messages, uv stored<<1|zstd
//	txn          uv, length of each verbatim transaction id
//	packed       16 bytes for each transaction id that is a UUID's text
//	traces       16 bytes for each message that has one
//	producers    uv, length of each that is there
//	headers      uv, length of each that are there
//	bytes        of the transaction ids, then producers, then headers
//
// The payloads of a stripe are one stream, cut into blocks. A block holds whole
// messages, but for a payload over 1 MiB, which is cut every 1 MiB: its first
// block counts one message, the others none. If all payloads are empty there
// are no blocks.
//
// A descriptor says what a run holds and where its stripes are:
//
//	| crc u32 | length uv | body | crc u32 | filter | crc u32 | filter | filter | ... |
//	'----------- head -----------'-- of the run ----'-------- of its stripes ---------'
//
//	body:    queue uv, partition uv, first offset uv, messages uv,
//	         earliest time zz, latest less earliest uv,
//	         offsets without payload uv, first byte of the run uv,
//	         lower id bound: uv length, bytes,
//	         upper id bound: uv bytes shared with the lower, uv length of the rest, bytes,
//	         uv stripes, then per stripe: uv messages, uv stored<<1|zstd of the
//	         id block, uv its raw length if zstd, uv bytes of payload blocks
//
// The first crc is of length and body, the others of the filters behind them. A
// filter's size follows from its number of messages, see filterSize. The filter
// of the run excludes it in a few probes; those of the stripes, which are there
// only if it has more than one, say which id blocks to read if it does not. Runs and descriptors lie in the same
// order, without gaps between them.
package segment

import (
	"errors"
	"fmt"
	"hash/crc32"

	"queend"
)

// Version is the format this package writes.
const Version = 1

// Limits of one message, in bytes. Add refuses what is over them.
const (
	MaxTxnID    = 65535
	MaxProducer = 65535
	MaxHeaders  = 256 << 10
	MaxPayload  = 1 << 30
)

const (
	headMagic  = "queenseg"
	tailMagic  = "qsgt"
	headerSize = 24
	trailSize  = 40
	crcSize    = 4

	// maxBlock bounds the raw bytes of any block. An id block stays below it
	// because it holds at most 512 KiB or one message, whose columns the limits
	// above bound.
	maxBlock = 1 << 20
	// maxStripePayload closes a stripe, so that a merge which must cut one
	// inside does not recompress more than this (and one message).
	maxStripePayload = 1 << 20
	defaultBlock     = 30 << 10
	biggestBlock     = 512 << 10

	// minColumns is the least an id block spends on a message: flags, time and
	// payload length. It bounds what a decoder allocates for a claimed count.
	minColumns = 3
)

// Bits of a message's flags byte. The others are zero.
const (
	flagEncrypted = 1 << iota
	flagTrace
	flagProducer
	flagHeaders
	flagPacked   // the transaction id is the text of a UUID, stored as 16 bytes
	flagVerbatim // the transaction id is stored as it is
	// Neither: the transaction id is the text of the message id.
	flagsKnown = 1<<iota - 1
)

var (
	// ErrDamaged is wrapped by every error about bytes that are not what was
	// written.
	ErrDamaged = errors.New("segment is damaged")
	// ErrVersion is wrapped by NewReader's error about a file of a later format.
	ErrVersion = errors.New("segment format is newer than this program")
	// ErrMessage is wrapped by errors about a message that cannot be stored.
	ErrMessage = errors.New("message does not fit a segment")
)

// Message is one message of a partition.
type Message struct {
	Offset      queend.Offset
	Time        int64 // microseconds since 1970, broker clock
	ID          queend.ID
	TxnID       []byte
	TraceID     queend.ID // zero: none
	Producer    []byte    // meaningful only with HasProducer
	Headers     []byte    // JSON object, verbatim; nil: none
	Payload     []byte    // verbatim; nil if Gone
	HasProducer bool
	Encrypted   bool
	Gone        bool // the payload is not kept
}

// Entry is where a run is and what it covers: all that memory needs per run.
// Invariant: First <= Last, First <= PayloadFrom <= Last+1.
type Entry struct {
	Queue       queend.QueueID
	Partition   queend.PartitionID
	First, Last queend.Offset // both included
	PayloadFrom queend.Offset // offsets below have no payload kept
	Pos         uint64        // byte of the file at which the descriptor starts
	Size        uint32        // bytes of the descriptor, without its filters
	Bytes       uint64        // stored bytes of the run, with descriptor and filters
	LastTime    int64         // latest time of its messages, microseconds
	IDs         Range         // of its transaction ids
}

// same reports whether both name the same run.
func (e Entry) same(o Entry) bool {
	return e.Queue == o.Queue && e.Partition == o.Partition && e.First == o.First && e.Last == o.Last
}

// count returns the number of messages.
func (e Entry) count() uint64 { return uint64(e.Last-e.First) + 1 }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Damage is a place in a segment file that is not what was written. It wraps
// ErrDamaged.
type Damage struct {
	Pos  uint64 // byte of the file
	Text string
}

func (d *Damage) Error() string { return d.Text + ": " + ErrDamaged.Error() }

func (d *Damage) Unwrap() error { return ErrDamaged }

// damagedBlock is the error about one block of a run.
func damagedBlock(p queend.PartitionID, pos uint64, why string) error {
	return &Damage{pos, fmt.Sprintf("run of partition %d: block at byte %d: %s", p, pos, why)}
}

// damagedDescriptor is the error about a descriptor or its filter.
func damagedDescriptor(pos uint64, why string) error {
	return &Damage{pos, fmt.Sprintf("descriptor at byte %d: %s", pos, why)}
}
