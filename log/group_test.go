package log

import (
	"bytes"
	"testing"

	"queend"
)

func FuzzLogEntry(f *testing.F) {
	h := header{generation: 3, salt: 5, first: 7, durable: 6}
	for _, recs := range [][][]byte{nil, {{}}, {[]byte("one"), []byte("two")}, {make([]byte, 300)}} {
		entry := appendGroup(nil, h, recs)
		f.Add(entry)
		f.Add(entry[:len(entry)-1])
		entry = bytes.Clone(entry)
		entry[12]++ // one record more than there is
		f.Add(entry)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if framed, end, err := frameEntry(data); err == nil && (end > len(data) || len(framed) >= end) {
			t.Fatalf("entry of %d bytes ends at %d of %d", len(framed), end, len(data))
		}
		if at := findGroup(data, 0, 0, 0); at >= 0 {
			if _, _, err := decodeGroup(data[at : at+headerBytes+int(readHeader(data[at:]).size)]); err != nil {
				t.Fatalf("found a group that is none: %v", err)
			}
		}
		checkDecode(t, data)
		if len(data) >= headerBytes {
			sealed := bytes.Clone(data)
			copy(sealed, magic)
			sealed[8] = version
			resum(sealed) // so that what is behind the checksum is reached too
			checkDecode(t, sealed)
		}
	})
}

// checkDecode checks that what decodes is what was encoded, and that decoding
// allocates nothing but an error.
func checkDecode(t *testing.T, data []byte) {
	h, body, err := decodeGroup(data)
	if err != nil {
		return
	}
	if n := testing.AllocsPerRun(1, func() { decodeGroup(data) }); n > 0 {
		t.Fatalf("%v allocations", n)
	}
	g := Group{First: h.first, Last: h.last(), body: body}
	size, next := 0, h.first
	for lsn, rec := range g.Records() {
		if lsn != next {
			t.Fatalf("LSN %d, want %d", lsn, next)
		}
		next++
		size += len(rec)
	}
	if next != h.first+queend.LSN(h.count) || size > len(body) {
		t.Fatalf("%d bytes and LSNs to %d out of %+v", size, next, h)
	}
}

func TestGroupHoldsWhatWasEncoded(t *testing.T) {
	want := header{count: 3, size: 1 + 0 + 1 + 5 + 2 + 200, generation: 3, salt: 5, first: 7, durable: 6}
	recs := [][]byte{{}, []byte("hello"), make([]byte, 200)}
	entry := appendGroup(nil, want, recs)
	h, body, err := decodeGroup(entry)
	if err != nil || h != want || len(entry) != groupSize(recs) {
		t.Fatalf("%+v, %v", h, err)
	}
	g := Group{First: h.first, Last: h.last(), body: body}
	for lsn, rec := range g.Records() {
		if !bytes.Equal(rec, recs[lsn-7]) {
			t.Errorf("LSN %d: %q", lsn, rec)
		}
	}
	for at := range entry {
		entry[at] ^= 0x10
		if _, _, err := decodeGroup(entry); err == nil {
			t.Errorf("flip at byte %d is not seen", at)
		}
		entry[at] ^= 0x10
	}
}
