package segment

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
)

// seal makes the checksums of a damaged file right as far as its structure
// still leads, so that the fuzzer reaches what lies behind them.
func seal(file []byte) {
	if len(file) < headerSize+trailSize {
		return
	}
	binary.LittleEndian.PutUint32(file[20:], checksum(file[:20]))
	end := uint64(len(file) - trailSize)
	trailer := file[end:]
	binary.LittleEndian.PutUint64(trailer[8:], uint64(len(file)))
	copy(trailer[24:32], file[12:20])
	binary.LittleEndian.PutUint32(trailer[32:], checksum(trailer[:32]))
	footer := binary.LittleEndian.Uint64(trailer)
	for pos := footer; pos < end && end-pos > crcSize; {
		p := parser{b: file[pos+crcSize : end]}
		length := p.uvarint()
		body := p.take(length)
		if p.bad || body == nil {
			return
		}
		size := end - pos - uint64(len(p.b))
		b := file[pos : pos+size]
		binary.LittleEndian.PutUint32(b, checksum(b[crcSize:]))
		h, why := parseHead(b, pos, footer)
		if why != "" {
			return
		}
		sealRun(file, &h)
		pos += size
		if h.tail() > end-pos {
			return
		}
		n := h.tail() - h.narrow
		binary.LittleEndian.PutUint32(file[pos:], checksum(file[pos+crcSize:pos+n]))
		if rest := file[pos+n : pos+h.tail()]; len(rest) > 0 {
			binary.LittleEndian.PutUint32(rest, checksum(rest[crcSize:]))
		}
		pos += h.tail()
	}
}

// sealRun does so for the blocks of a run.
func sealRun(file []byte, h *head) {
	sum := func(st stripe, n int, pos, size uint64) []byte {
		b := file[pos : pos+crcSize+size]
		binary.LittleEndian.PutUint32(b, blockSum(h.entry.Partition, st.first, n, b[crcSize:]))
		return b[crcSize:]
	}
	for st := range h.overlapping(h.entry.First, h.entry.Last) {
		stored := sum(st, 0, st.pos, st.ids.stored)
		block, err := decodeBlock(make([]byte, 0, st.ids.raw), stored, st.ids)
		var c columns
		if err != nil || !c.parse(block, st.n) || c.stored != st.payload {
			continue
		}
		for n, b := range c.blocks {
			sum(st, n+1, st.payloadPos()+b.skip, b.stored)
		}
	}
}

// useAll calls all there is on a file of any bytes. It reports what Verify says.
func useAll(t *testing.T, file []byte) (sound bool) {
	r, err := NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return false
	}
	sound = r.Verify() == nil
	err = r.Entries(func(e Entry) error {
		messages, err := r.Messages(e, e.First, 1000, 1<<20)
		if sound && (err != nil || len(messages) == 0 || messages[0].Offset != e.First) {
			t.Fatalf("verified, but Messages of %+v says %v", e, err)
		}
		_, _ = r.Messages(e, e.Last, 10, 10)
		ids, err := r.IDs(e)
		if sound && (err != nil || ids.Len() != int(e.count())) {
			t.Fatalf("verified, but IDs of %+v says %v", e, err)
		}
		for i := 0; err == nil && i < min(ids.Len(), 5000); i++ {
			ids.TxnID(i)
		}
		var txn []byte
		if sound {
			txn = ids.TxnID(ids.Len() - 1)
		}
		found, err := r.Find(e, txn, Hash(txn))
		if sound && (err != nil || found[len(found)-1].Offset != e.Last) {
			t.Fatalf("verified, but Find of %+v says %v", e, err)
		}
		f, err := r.Filter(e)
		if err == nil {
			f.MayHold([]byte("x"), 1)
		}
		w := NewWriter(&sizesWriter{}, 1, Config{})
		w.Begin(e.Queue, e.Partition)
		err = w.Copy(r, e, e.First+1, e.PayloadFrom+1)
		if sound && err != nil {
			t.Fatalf("verified, but Copy of %+v says %v", e, err)
		}
		return nil
	})
	if sound && err != nil {
		t.Fatalf("verified, but Entries says %v", err)
	}
	return sound
}

func FuzzSegmentFile(f *testing.F) {
	small, _ := encode(f, Config{}, testRun{1, 2, orders(1, 0, 1)}, testRun{1, 3, orders(2, 5, 2)})
	f.Add(small, true)
	f.Add(small, false)
	medium, _ := encode(f, Config{BlockBytes: 2000}, testRun{1, 2, withoutPayload(orders(3, 0, 60), 9)})
	f.Add(medium, true)
	empty, _ := encode(f, Config{})
	f.Add(empty, true)
	f.Fuzz(func(t *testing.T, file []byte, sealed bool) {
		file = bytes.Clone(file)
		if sealed {
			seal(file)
		}
		useAll(t, file)
	})
}

func FuzzSegmentDecoder(f *testing.F) {
	var s stripeBuilder
	s.level, s.blockBytes = 1, 1000
	s.reset(1, 0)
	for _, m := range orders(4, 0, 40) {
		s.add(&m)
	}
	stored, x, _ := s.finish()
	f.Add(s.block, uint16(40), uint32(len(s.block)), false)
	f.Add(stored[crcSize:], uint16(40), uint32(x.raw), x.zstd)
	f.Add([]byte{}, uint16(1), uint32(1), true)
	f.Add([]byte{0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, uint16(1), uint32(21), false)
	h := head{start: headerSize, count: 1, stripes: appendStripe(nil, 5, extent{stored: 50, raw: 50}, 60)}
	h.entry.Last, h.low, h.high, h.shared = 4, []byte("abc"), []byte("d"), 2
	f.Add(appendHead(nil, &h)[crcSize:], uint16(5), uint32(5), false)
	f.Fuzz(func(t *testing.T, b []byte, n uint16, raw uint32, zstd bool) {
		fuzzHead(t, b)
		x := extent{uint64(len(b)), uint64(raw), zstd}
		if !zstd {
			x.raw = x.stored
		}
		if !x.sane() {
			return
		}
		block, err := decodeBlock(make([]byte, 0, x.raw), b, x)
		if err != nil {
			return
		}
		if len(block) != int(x.raw) {
			t.Fatalf("decoded to %d bytes, want %d", len(block), x.raw)
		}
		fuzzColumns(t, block, int(n))
	})
}

// fuzzHead takes b for a descriptor with the right checksum.
func fuzzHead(t *testing.T, b []byte) {
	sealed := binary.LittleEndian.AppendUint32(nil, checksum(b))
	h, why := parseHead(append(sealed, b...), 1000, 1000)
	if why != "" {
		return
	}
	n := uint64(0)
	for st := range h.overlapping(h.entry.First, h.entry.Last) {
		n += uint64(st.n)
		if st.end() > 1000 {
			t.Fatalf("stripe at bytes %d to %d is outside the file", st.pos, st.end())
		}
	}
	if n != h.entry.count() || h.entry.Last < h.entry.First {
		t.Fatalf("%d messages in stripes, offsets %d to %d", n, h.entry.First, h.entry.Last)
	}
}

// fuzzColumns takes an id block apart, and what it yields must survive being
// written again.
func fuzzColumns(t *testing.T, block []byte, n int) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var c columns
	ok := c.parse(block, n)
	runtime.ReadMemStats(&after)
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 1<<20+200*uint64(len(block)) {
		t.Fatalf("a block of %d bytes took %d bytes of memory", len(block), spent)
	}
	if !ok {
		return
	}
	s := stripeBuilder{level: 1, blockBytes: defaultBlock}
	s.reset(1, 0)
	var want []Message
	for i := range n {
		m, _ := c.message(i, 0, make([]byte, 0, c.metaSize(i, i+1)))
		s.add(&m)
		want = append(want, m)
	}
	s.finish()
	var again columns
	if !again.parse(s.block, n) {
		t.Fatal("what was decoded and written again does not decode")
	}
	for i := range n {
		m, _ := again.message(i, 0, make([]byte, 0, again.metaSize(i, i+1)))
		if !reflect.DeepEqual(m, want[i]) {
			t.Fatalf("message %d: %s written again is %s", i, short(want[i]), short(m))
		}
	}
}

// Damage whose checksums are right is what the checks of structure are for.
func TestDamageWithRightChecksumsDoesNotPanic(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 6))
	var files [][]byte
	for _, c := range []Config{{}, {BlockBytes: 300}, {BlockBytes: 3000}} {
		file, _ := encode(t, c, testRun{1, 2, withoutPayload(orders(3, 3, 90), 12)}, testRun{1, 3, orders(4, 0, 1)})
		files = append(files, file)
	}
	verified := 0
	for range 2000 {
		file := bytes.Clone(files[rnd.IntN(len(files))])
		for range 1 + rnd.IntN(3) {
			at := rnd.IntN(len(file))
			if rnd.IntN(2) == 0 {
				at = len(file) - 1 - rnd.IntN(min(len(file), 400)) // descriptors
			}
			file[at] = byte(rnd.Uint32())
		}
		seal(file)
		if useAll(t, file) {
			verified++
		}
	}
	t.Logf("%d of 2000 damaged files make sense", verified)
}
