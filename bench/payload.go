package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// payloadBytes is the size of every message that is measured.
const payloadBytes = 256

// slot is the place of one message: the n-th of its lane, counted from 0. A lane
// is what the system under test calls a partition, a stream or a subject, and is
// written by one producer at a time.
type slot struct {
	lane uint32
	seq  uint32
}

// The payload is an order event. Four of its values differ from message to
// message: lane, seq, at, which is when it was due, in nanoseconds of the run, and
// token, which follows from lane and seq and is there so that payloads have
// something that does not compress.
var (
	payloadText = makePayload()
	laneHole    = hole(`"lane":"`)
	seqHole     = hole(`"seq":"`)
	atHole      = hole(`"at":"`)
	tokenHole   = hole(`"token":"`)
)

const (
	laneDigits  = 7
	seqDigits   = 10
	atDigits    = 16 // hexadecimal
	tokenDigits = 64 // hexadecimal
)

func makePayload() []byte {
	zeros := func(n int) string { return strings.Repeat("0", n) }
	text := `{"event":"order.placed","lane":"` + zeros(laneDigits) + `","seq":"` + zeros(seqDigits) + `","at":"` + zeros(atDigits) +
		`","token":"` + zeros(tokenDigits) + `","currency":"EUR","lines":[{"sku":"A-1009","count":2},{"sku":"B-77","count":1}],"note":"`
	return []byte(text + strings.Repeat("x", payloadBytes-len(text)-2) + `"}`)
}

// hole is where the value after key begins in a payload.
func hole(key string) int { return bytes.Index(payloadText, []byte(key)) + len(key) }

// fillPayload writes what differs into a copy of payloadText.
func fillPayload(dst []byte, s slot, at int64) {
	_ = dst[payloadBytes-1]
	putDecimal(dst[laneHole:laneHole+laneDigits], s.lane)
	putDecimal(dst[seqHole:seqHole+seqDigits], s.seq)
	putHex(dst[atHole:atHole+atDigits], uint64(at))
	for i := range tokenDigits / 16 {
		putHex(dst[tokenHole+16*i:tokenHole+16*i+16], token(s, uint64(i)))
	}
}

// newPayload makes the payload of a message for a client that keeps it.
func newPayload(s slot, at int64) []byte {
	data := make([]byte, payloadBytes)
	copy(data, payloadText)
	fillPayload(data, s, at)
	return data
}

// token is the i-th word of the token of a message.
func token(s slot, i uint64) uint64 {
	return mix(uint64(s.lane)<<32 | uint64(s.seq) + i*0x9e3779b97f4a7c15)
}

// mix scatters v over all 64 bits: the finalizer of splitmix64.
func mix(v uint64) uint64 {
	v += 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

var errPayload = errors.New("a payload is not the one that was pushed")

// readPayload reads a payload back. It must be one that fillPayload has made, to
// the last byte.
func readPayload(text []byte) (s slot, at int64, err error) {
	if len(text) != payloadBytes {
		return s, 0, fmt.Errorf("%w: %d bytes: %.300s", errPayload, len(text), text)
	}
	lane, err1 := strconv.ParseUint(string(text[laneHole:laneHole+laneDigits]), 10, 32)
	seq, err2 := strconv.ParseUint(string(text[seqHole:seqHole+seqDigits]), 10, 32)
	due, err3 := strconv.ParseUint(string(text[atHole:atHole+atDigits]), 16, 63)
	if err := errors.Join(err1, err2, err3); err != nil {
		return s, 0, fmt.Errorf("%w: %w: %s", errPayload, err, text)
	}
	s = slot{uint32(lane), uint32(seq)}
	var want [payloadBytes]byte
	copy(want[:], payloadText)
	fillPayload(want[:], s, int64(due))
	if !bytes.Equal(want[:], text) {
		return s, 0, fmt.Errorf("%w: %s", errPayload, text)
	}
	return s, int64(due), nil
}

const hexDigits = "0123456789abcdef"

// putHex fills dst with the lower hexadecimal digits of v.
func putHex(dst []byte, v uint64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = hexDigits[v&15]
		v >>= 4
	}
}

// putDecimal fills dst with the lower decimal digits of v.
func putDecimal(dst []byte, v uint32) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + v%10)
		v /= 10
	}
}

// putUUID writes the 36 characters of a UUID given by its halves.
func putUUID(dst []byte, high, low uint64) {
	_ = dst[35]
	putHex(dst[0:8], high>>32)
	dst[8] = '-'
	putHex(dst[9:13], high>>16)
	dst[13] = '-'
	putHex(dst[14:18], high)
	dst[18] = '-'
	putHex(dst[19:23], low>>48)
	dst[23] = '-'
	putHex(dst[24:36], low)
}

const idHole = "00000000-0000-7000-8000-000000000000"

// ids says which transaction id a message has.
type ids struct {
	// random gives version 4; otherwise the ids are version 7, as clients mint
	// them, whose first half is a time.
	random bool
	// fixedMS is what the time of version 7 counts from, so that the id of a
	// message can be told again; 0 takes the time of the push.
	fixedMS int64
}

// put writes the id of a message that is pushed at nowMS.
func (k ids) put(dst []byte, s slot, nowMS int64) {
	low := token(s, 100)>>2 | 1<<63
	if k.random {
		putUUID(dst, token(s, 101)&^0xf000|0x4000, low)
		return
	}
	if k.fixedMS != 0 {
		nowMS = k.fixedMS + int64(s.seq/100) // a batch has one time, the next a later one
	}
	putUUID(dst, uint64(nowMS)<<16|0x7000|uint64(s.seq)&0xfff, low)
}
