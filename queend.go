// Package queend holds the nouns that the rooms of the broker share: scalar
// types, how they print and how they are parsed. It holds nothing else.
package queend

import (
	"encoding/binary"
	"errors"
	"strconv"
)

// Offset is the place of a message in its partition: 0, 1, 2, ... without
// gaps (rule R1). NoOffset stands for "before the first message".
type Offset int64

// NoOffset is the cursor of a group that has consumed nothing.
const NoOffset Offset = -1

// String prints the offset in decimal.
func (o Offset) String() string { return strconv.FormatInt(int64(o), 10) }

// QueueID is the internal number of a queue, from 1, never reused.
type QueueID uint64

// PartitionID is the internal number of a partition, from 1, never reused.
type PartitionID uint64

// GroupID is the internal number of one consumer group on one queue, from 1,
// never reused.
type GroupID uint64

// LSN is the place of a record in the log, from 1. 0 is "before everything".
type LSN uint64

// FileID is the number of a segment file, from 1, never reused.
type FileID uint64

// ID is a UUID in its binary form. The zero ID is "unknown" (R82).
type ID [16]byte

// ErrID is returned by ParseID for text that is no UUID.
var ErrID = errors.New("not a UUID")

// IsZero reports whether the id is the zero UUID.
func (id ID) IsZero() bool { return id == ID{} }

// String prints the id as 36 characters in lower case.
func (id ID) String() string { return string(id.Append(nil)) }

// Append appends the 36 characters of the id to dst.
func (id ID) Append(dst []byte) []byte {
	text := [36]byte{8: '-', 13: '-', 18: '-', 23: '-'}
	for i, at := range digitPairs {
		binary.LittleEndian.PutUint16(text[at:], digitTexts[id[i]])
	}
	return append(dst, text[:]...)
}

// ParseID reads the 36-character form of a UUID, in either case.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, ErrID
	}
	var seen byte
	for i, at := range digitPairs {
		high, low := digitValues[s[at]], digitValues[s[at+1]]
		seen |= high | low
		id[i] = high<<4 | low
	}
	if seen >= noDigit {
		return ID{}, ErrID
	}
	return id, nil
}

// digitPairs is where the two digits of each byte stand in the text.
var digitPairs = [16]uint8{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34}

// digitTexts has the two digits of every byte, the first one lower.
var digitTexts = func() (table [256]uint16) {
	const digits = "0123456789abcdef"
	for b := range table {
		table[b] = uint16(digits[b>>4]) | uint16(digits[b&15])<<8
	}
	return table
}()

const noDigit = 16

// digitValues has the value of every hexadecimal digit, in either case.
var digitValues = func() (table [256]byte) {
	for c := range table {
		table[c] = noDigit
	}
	for value := range 16 {
		table["0123456789abcdef"[value]], table["0123456789ABCDEF"[value]] = byte(value), byte(value)
	}
	return table
}()
