package log

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"

	"queend"
)

// A commit group is one entry of the library, little endian:
//
//	0         4         8         9      12          16         20
//	| magic   | crc u32 | version | 0 0 0 | count u32 | size u32 |
//	20               28         36          44            52       52+size
//	| generation u64 | salt u64 | first u64 | durable u64 | records |
//
//	record:  | length uvarint | bytes |
//
// crc is CRC-32C of all that follows it, to the end of the entry. version is
// under the checksum, so a version nobody knows is told from a flipped bit.
// count counts records, size counts the bytes of all of them. first is the LSN
// of the first record; the others follow without gaps. durable is the highest
// LSN known to be synced when the group was written, in every sync mode.
//
// generation and salt repeat what the generation began with. salt is random: a
// message that happens to be a copy of a log cannot pass for a group when the
// scan looks for groups behind a bad spot.
//
// A group without records is written once, as the first entry of a generation.
// There, first is the LSN of the first record the generation will hold.
const (
	magic       = "\xb7qlg"
	version     = 1
	headerBytes = 52
)

// MaxRecord is the largest record that Append takes, in bytes.
const MaxRecord = 256 << 20

// maxLSN keeps sums of an LSN and a count from running over.
const maxLSN = queend.LSN(1) << 62

// recordOverhead is the most that the framing adds to one record, in bytes.
const recordOverhead = binary.MaxVarintLen32

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrVersion says that a newer program wrote the log. Nothing is damaged.
var ErrVersion = errors.New("log version not known to this program")

// header is the fixed part of a group.
type header struct {
	count      uint32
	size       uint32
	generation uint64
	salt       uint64
	first      queend.LSN
	durable    queend.LSN
}

// last is the LSN of the group's last record; first-1 when it has none.
func (h header) last() queend.LSN { return h.first + queend.LSN(h.count) - 1 }

// Group is one commit group as it was found on disk.
type Group struct {
	Generation  uint64
	File        string     // the segment file
	Offset      int64      // where the library's entry begins in File, in bytes
	First, Last queend.LSN // of its records
	Durable     queend.LSN // what was synced when it was written

	length int64 // bytes from Offset to the end of the entry
	body   []byte
}

// Records yields the records in order. The slices belong to the scan: they are
// valid until visit returns.
func (g Group) Records() iter.Seq2[queend.LSN, []byte] {
	return func(yield func(queend.LSN, []byte) bool) {
		body := g.body
		for lsn := g.First; lsn <= g.Last; lsn++ {
			n, used := binary.Uvarint(body) // decodeGroup has checked the lengths
			end := used + int(n)
			if !yield(lsn, body[used:end:end]) {
				return
			}
			body = body[end:]
		}
	}
}

// groupSize is the length of the group that holds recs, in bytes.
func groupSize(recs [][]byte) int {
	n := headerBytes
	for _, rec := range recs {
		n += uvarintBytes(uint64(len(rec))) + len(rec)
	}
	return n
}

// appendGroup appends the group of recs to dst. count and size are taken from
// recs; the rest of h is written as it is.
func appendGroup(dst []byte, h header, recs [][]byte) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = append(dst, 0, 0, 0, 0, version, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(recs)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(groupSize(recs)-headerBytes))
	dst = binary.LittleEndian.AppendUint64(dst, h.generation)
	dst = binary.LittleEndian.AppendUint64(dst, h.salt)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.first))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.durable))
	for _, rec := range recs {
		dst = binary.AppendUvarint(dst, uint64(len(rec)))
		dst = append(dst, rec...)
	}
	sum := crc32.Checksum(dst[start+8:], castagnoli)
	binary.LittleEndian.PutUint32(dst[start+4:], sum)
	return dst
}

// readHeader reads the fixed part without verifying it. data holds at least
// headerBytes.
func readHeader(data []byte) header {
	return header{
		count:      binary.LittleEndian.Uint32(data[12:]),
		size:       binary.LittleEndian.Uint32(data[16:]),
		generation: binary.LittleEndian.Uint64(data[20:]),
		salt:       binary.LittleEndian.Uint64(data[28:]),
		first:      queend.LSN(binary.LittleEndian.Uint64(data[36:])),
		durable:    queend.LSN(binary.LittleEndian.Uint64(data[44:])),
	}
}

// decodeGroup verifies one library entry, down to the length of every record,
// and returns its header and the bytes of its records, which are part of entry.
// It allocates nothing that depends on entry. An error other than ErrVersion
// says what is wrong with the bytes.
func decodeGroup(entry []byte) (header, []byte, error) {
	switch {
	case len(entry) < headerBytes:
		return header{}, nil, fmt.Errorf("entry of %d bytes is shorter than a group header", len(entry))
	case string(entry[:4]) != magic:
		return header{}, nil, errors.New("entry is no group: wrong magic")
	case crc32.Checksum(entry[8:], castagnoli) != binary.LittleEndian.Uint32(entry[4:]):
		return header{}, nil, errors.New("group checksum does not match")
	case entry[8] != version:
		return header{}, nil, fmt.Errorf("group version %d: %w", entry[8], ErrVersion)
	}
	h, body := readHeader(entry), entry[headerBytes:]
	if uint64(h.size) != uint64(len(body)) {
		return header{}, nil, fmt.Errorf("group says %d bytes of records and has %d", h.size, len(body))
	}
	if h.first == 0 || h.first > maxLSN {
		return header{}, nil, fmt.Errorf("group with LSN %d and %d records", h.first, h.count)
	}
	rest := body
	for i := range h.count {
		n, used := binary.Uvarint(rest)
		if used <= 0 || n > uint64(len(rest)-used) {
			return header{}, nil, fmt.Errorf("record %d of %d ends outside its group", i+1, h.count)
		}
		rest = rest[used+int(n):]
	}
	if len(rest) != 0 {
		return header{}, nil, fmt.Errorf("%d bytes behind the last record of a group", len(rest))
	}
	return h, body, nil
}

// frameEntry cuts the first entry off data, as the library frames it: a uvarint
// length, then the bytes. It returns the entry and how far it reaches in data.
func frameEntry(data []byte) (entry []byte, end int, err error) {
	n, used := binary.Uvarint(data)
	if used <= 0 {
		return nil, 0, errors.New("entry length is cut off or too long")
	}
	if n > uint64(len(data)-used) {
		return nil, 0, fmt.Errorf("entry of %d bytes, only %d left in the file", n, len(data)-used)
	}
	end = used + int(n)
	return data[used:end], end, nil
}

// findGroup returns the place of the first whole and valid group in data[from:]
// that has this generation and salt, -1 when there is none. 0 stands for any.
func findGroup(data []byte, from int, generation, salt uint64) int {
	for {
		i := bytes.Index(data[from:], []byte(magic))
		if i < 0 {
			return -1
		}
		at := from + i
		from = at + 1
		if len(data)-at < headerBytes {
			return -1
		}
		h := readHeader(data[at:])
		if generation != 0 && h.generation != generation || salt != 0 && h.salt != salt || int64(h.size) > int64(len(data)-at-headerBytes) {
			continue
		}
		if _, _, err := decodeGroup(data[at : at+headerBytes+int(h.size)]); err == nil {
			return at
		}
	}
}

// uvarintBytes is the length of n as the library writes it.
func uvarintBytes(n uint64) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}
