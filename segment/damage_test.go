package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// damageRuns are some runs of every kind: raw and compressed, large and small.
func damageRuns() []testRun {
	big := orders(1, 0, 30)
	big[10].Payload = bytes.Repeat(big[10].Payload, 5000)
	return []testRun{
		{1, 2, orders(2, 0, 1)},
		{1, 3, orders(3, 50, 400)},
		{9, 4, withoutPayload(orders(4, 1, 300), 150)},
		{9, 5, big},
	}
}

func isDamage(err error) bool { return errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) }

// readsRightOrFails reads everything the entries name: each answer must be what
// was written or an error of damage. It reports whether there was an error.
func readsRightOrFails(t *testing.T, file []byte, entries []Entry, runs []testRun) (failed bool) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		if !isDamage(err) {
			t.Fatal(err)
		}
		return true
	}
	for i, e := range entries {
		want := runs[i].messages
		got, err := r.Messages(e, e.First, len(want), 1<<30)
		switch {
		case err == nil && !reflect.DeepEqual(got, want):
			t.Fatalf("run %d: changed messages", i)
		case err != nil && !isDamage(err):
			t.Fatal(err)
		}
		failed = failed || err != nil
		ids, err := r.IDs(e)
		if err == nil {
			wantIDs(t, ids, want)
		}
		txn := want[len(want)-1].TxnID
		found, err := r.Find(e, txn, Hash(txn))
		switch {
		case err == nil && (len(found) == 0 || found[len(found)-1].Offset != e.Last):
			t.Fatalf("run %d: Find does not find %q", i, txn)
		case err != nil && !isDamage(err):
			t.Fatal(err)
		}
		failed = failed || err != nil
		f, err := r.Filter(e)
		for _, m := range want {
			if err == nil && !f.MayHold(m.TxnID, Hash(m.TxnID)) {
				t.Fatalf("run %d: filter excludes %q", i, m.TxnID)
			}
		}
		failed = failed || err != nil
	}
	return failed
}

func TestEveryFlippedBitIsReported(t *testing.T) {
	runs := damageRuns()
	file, entries := encode(t, Config{}, runs...)
	if readsRightOrFails(t, file, entries, runs) {
		t.Fatal("the file is damaged before the test")
	}
	bits := len(file) * 8
	for bit := 0; bit < bits; bit += 1 + bits/900 {
		bad := bytes.Clone(file)
		bad[bit/8] ^= 1 << (bit % 8)
		r, err := NewReader(bytes.NewReader(bad), int64(len(bad)))
		if err == nil {
			err = r.Verify()
		}
		if !isDamage(err) {
			t.Fatalf("bit %d of byte %d: Verify says %v", bit%8, bit/8, err)
		}
		if bit%9 == 0 && !readsRightOrFails(t, bad, entries, runs) {
			t.Fatalf("bit %d of byte %d: nobody noticed", bit%8, bit/8)
		}
	}
}

func TestEveryFlippedBitOfASmallFileIsReported(t *testing.T) {
	runs := []testRun{{1, 2, orders(2, 0, 2)}, {1, 3, orders(3, 0, 1)}}
	file, entries := encode(t, Config{}, runs...)
	for bit := range len(file) * 8 {
		bad := bytes.Clone(file)
		bad[bit/8] ^= 1 << (bit % 8)
		r, err := NewReader(bytes.NewReader(bad), int64(len(bad)))
		if err == nil {
			err = r.Verify()
		}
		if !isDamage(err) {
			t.Fatalf("bit %d of byte %d: Verify says %v", bit%8, bit/8, err)
		}
		readsRightOrFails(t, bad, entries, runs)
	}
}

func TestEveryTruncationIsReported(t *testing.T) {
	runs := []testRun{{1, 2, orders(2, 0, 3)}, {1, 3, orders(3, 0, 1)}}
	file, _ := encode(t, Config{}, runs...)
	for size := range file {
		if _, err := NewReader(bytes.NewReader(file[:size]), int64(size)); !isDamage(err) {
			t.Fatalf("file cut at byte %d: %v", size, err)
		}
		// A file that became shorter after its size was taken.
		r, err := NewReader(bytes.NewReader(file[:size]), int64(len(file)))
		if err == nil {
			err = r.Verify()
		}
		if !isDamage(err) {
			t.Fatalf("file cut at byte %d behind our back: %v", size, err)
		}
	}
}

func TestBlockErrorsNamePartitionAndByte(t *testing.T) {
	runs := damageRuns()
	file, entries := encode(t, Config{}, runs...)
	bad := bytes.Clone(file)
	bad[headerSize+5] ^= 1
	_, err := open(t, bad).Messages(entries[0], 0, 1, 1)
	if want := fmt.Sprintf("run of partition 2: block at byte %d: ", headerSize); err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v, want %q in it", err, want)
	}
}

func TestALaterVersionIsNotDamage(t *testing.T) {
	file, _ := encode(t, Config{}, damageRuns()...)
	binary.LittleEndian.PutUint32(file[8:], Version+1)
	binary.LittleEndian.PutUint32(file[20:], checksum(file[:20]))
	_, err := NewReader(bytes.NewReader(file), int64(len(file)))
	if !errors.Is(err, ErrVersion) || errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
}

func TestAnEntryOfAnotherRunIsRefused(t *testing.T) {
	runs := damageRuns()
	file, entries := encode(t, Config{}, runs...)
	r := open(t, file)
	wrong := []Entry{entries[0], entries[1], entries[2], {}, {Pos: 1 << 63, Size: 1 << 31}, {Last: -5}, {Last: 1<<63 - 1}}
	wrong[0].Partition++
	wrong[1].Pos++
	wrong[2].Size--
	for _, e := range wrong {
		if _, err := r.Messages(e, 0, 1, 1); !isDamage(err) {
			t.Errorf("%+v: Messages says %v", e, err)
		}
		if _, err := r.IDs(e); !isDamage(err) {
			t.Errorf("%+v: IDs says %v", e, err)
		}
		if _, err := r.Find(e, nil, 0); !isDamage(err) {
			t.Errorf("%+v: Find says %v", e, err)
		}
		if _, err := r.Filter(e); !isDamage(err) {
			t.Errorf("%+v: Filter says %v", e, err)
		}
	}
}

func TestABlockAtAnotherBlocksPlaceIsRefused(t *testing.T) {
	// Two runs of the same form: only partition and offsets differ.
	runs := []testRun{{1, 2, orders(2, 0, 1)}, {1, 3, orders(2, 0, 1)}, {1, 2, orders(2, 1, 1)}}
	file, entries := encode(t, Config{}, runs...)
	size := (int(entries[0].Pos) - headerSize) / 3
	for i := range runs {
		bad := bytes.Clone(file)
		from := headerSize + (i+1)%3*size
		copy(bad[headerSize+i*size:], file[from:from+size])
		if _, err := open(t, bad).Messages(entries[i], 0, 1, 1); !isDamage(err) {
			t.Errorf("run %d has the blocks of another: %v", i, err)
		}
	}
}

// brokenDisk fails every read after the first two.
type brokenDisk struct {
	r     *bytes.Reader
	reads int
}

func (d *brokenDisk) ReadAt(b []byte, pos int64) (int, error) {
	if d.reads++; d.reads > 2 {
		return 0, errDisk
	}
	return d.r.ReadAt(b, pos)
}

func TestAFailedReadIsNotDamage(t *testing.T) {
	file, entries := encode(t, Config{}, damageRuns()...)
	r, err := NewReader(&brokenDisk{r: bytes.NewReader(file)}, int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	_, ofMessages := r.Messages(entries[0], 0, 1, 1)
	for _, err := range []error{ofMessages, r.Verify(), r.Entries(func(Entry) error { return nil })} {
		if !errors.Is(err, errDisk) || errors.Is(err, ErrDamaged) {
			t.Error(err)
		}
	}
}

func TestHugeClaimsAllocateNothing(t *testing.T) {
	// A head whose only stripe claims a million messages in few bytes.
	h := head{start: headerSize, count: 1}
	h.entry.Last = 1 << 20
	h.entry.PayloadFrom = 0
	h.stripes = appendStripe(nil, 1<<20+1, extent{stored: 40, raw: maxBlock, zstd: true}, 0)
	if _, why := parseHead(appendHead(nil, &h), 100, 100); why == "" {
		t.Fatal("a million messages in one block were believed")
	}
	var c columns
	if c.parse(make([]byte, 100), 34) || c.parse(nil, 0) || c.parse([]byte{1}, -1) {
		t.Fatal("columns were believed")
	}
	if cap(c.times) != 0 {
		t.Fatalf("%d times were allocated", cap(c.times))
	}
	dst := make([]byte, 0, 10)
	if _, err := decodeBlock(dst, []byte{}, extent{stored: 0, raw: 10, zstd: true}); err == nil {
		t.Fatal("an empty frame decoded")
	}
	for _, x := range []extent{{10, 11, false}, {10, 9, true}, {1, maxBlock + 1, true}, {maxBlock + 1, maxBlock + 1, false}, {1, maxRatio * 3, true}} {
		if x.sane() {
			t.Errorf("%+v was believed", x)
		}
	}
}
