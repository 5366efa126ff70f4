// Package queend holds the nouns that the rooms of the broker share: scalar
// types, how they print and how they are parsed. It holds nothing else.
package queend

import (
	"encoding/hex"
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
	const digits = "0123456789abcdef"
	text := [36]byte{8: '-', 13: '-', 18: '-', 23: '-'}
	at := 0
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			at++
		}
		text[at], text[at+1] = digits[b>>4], digits[b&15]
		at += 2
	}
	return append(dst, text[:]...)
}

// ParseID reads the 36-character form of a UUID, in either case.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, ErrID
	}
	text := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	if _, err := hex.Decode(id[:], []byte(text)); err != nil {
		return ID{}, ErrID
	}
	return id, nil
}
