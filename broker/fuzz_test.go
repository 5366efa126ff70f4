package broker

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// FuzzEvent decodes records as boot reads them: an error or events that
// encode to the same bytes again, never a panic.
func FuzzEvent(f *testing.F) {
	for _, ev := range exampleEvents() {
		f.Add(append(binary.LittleEndian.AppendUint64(nil, 7), encodeEvent(ev)...))
	}
	f.Fuzz(func(t *testing.T, rec []byte) {
		var again encoder
		stamp, err := decodeRecord(rec, func(ev event) { ev.encode(&again) })
		if err != nil {
			return
		}
		// Numbers may be written longer than need be: what is encoded is the
		// short form, and that must stay as it is.
		short := append(binary.LittleEndian.AppendUint64(nil, uint64(stamp)), again.buf...)
		var third encoder
		if _, err := decodeRecord(short, func(ev event) { ev.encode(&third) }); err != nil {
			t.Fatalf("what was encoded does not decode: %v", err)
		}
		if !bytes.Equal(again.buf, third.buf) {
			t.Fatalf("%x encodes to %x", again.buf, third.buf)
		}
	})
}
