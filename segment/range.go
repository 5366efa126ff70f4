package segment

import (
	"encoding/binary"
	"encoding/hex"
)

// Range bounds the transaction ids of a run in 16 bytes of memory. It knows ids
// that are texts of UUIDs only, by the first 8 bytes of the UUID: clients that
// mint UUIDv7 bring ids that lie above those of every run but the newest, and
// need ask nothing more of them. The zero Range bounds nothing.
type Range struct{ Low, High uint64 }

// Place is where an id lies in ranges; ok is false for one that lies nowhere.
func Place(txnID []byte) (place uint64, ok bool) {
	id, ok := packUUID(txnID)
	return binary.BigEndian.Uint64(id[:8]), ok
}

// Excludes reports whether no message of the run has an id at this place.
func (r Range) Excludes(place uint64) bool { return r != Range{} && (place < r.Low || place > r.High) }

// rangeOf makes a range of the bounds in a descriptor. They are ordered as
// texts, and texts that begin like UUIDs are ordered like these first bytes;
// whatever lies between them in the run does not matter.
func rangeOf(low, high []byte) Range {
	l, ok := placeOfText(low)
	h, also := placeOfText(high)
	if !ok || !also {
		return Range{}
	}
	return Range{l, h}
}

// placeText is the characters of a UUID's text that stand for its first 8 bytes.
const placeText = 8 + 1 + 4 + 1 + 4

// placeOfText reads the first 8 bytes of a UUID from the beginning of its text.
func placeOfText(text []byte) (place uint64, ok bool) {
	if len(text) < placeText || text[8] != '-' || text[13] != '-' {
		return 0, false
	}
	var b [8]byte
	for i, part := range [][]byte{text[0:8], text[9:13], text[14:18]} {
		if _, err := hex.Decode(b[[...]int{0, 4, 6}[i]:], part); err != nil {
			return 0, false
		}
		for _, c := range part {
			if c >= 'A' && c <= 'F' {
				return 0, false
			}
		}
	}
	return binary.BigEndian.Uint64(b[:]), true
}
