package segment

import (
	"bytes"
	"errors"
	"testing"

	"queend"
)

// piece is a run to be copied.
type piece struct {
	r *Reader
	e Entry
}

// merge copies the pieces into one run of a new file.
func merge(t testing.TB, c Config, idsFrom, payloadFrom queend.Offset, pieces ...piece) ([]byte, Entry) {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out, 7, c)
	w.Begin(pieces[0].e.Queue, pieces[0].e.Partition)
	for _, p := range pieces {
		if err := w.Copy(p.r, p.e, idsFrom, payloadFrom); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	entries, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) == 0 {
		return out.Bytes(), Entry{}
	}
	return out.Bytes(), entries[0]
}

// split writes the messages into files that are cut before the offsets at.
func split(t testing.TB, c Config, messages []Message, at ...int) []piece {
	t.Helper()
	var pieces []piece
	from := 0
	for _, to := range append(at, len(messages)) {
		file, entries := encode(t, c, testRun{1, 2, messages[from:to]})
		pieces = append(pieces, piece{open(t, file), entries[0]})
		from = to
	}
	return pieces
}

// mergeInput has small messages, an empty stretch, and payloads over a block.
func mergeInput() []Message {
	messages := orders(1, 0, 2500)
	for i := 1500; i < 1540; i++ {
		messages[i].Payload = bytes.Repeat(messages[i].Payload, 300)
	}
	messages[2000].Payload = bytes.Repeat(messages[2000].Payload, 4500)
	for i := 2100; i < 2200; i++ {
		messages[i].Payload = []byte{}
	}
	return messages
}

func TestMergeEqualsWritingAnew(t *testing.T) {
	all := mergeInput()
	for _, cuts := range [][]int{{}, {1, 2, 3, 4, 5}, {1000, 2002, 2050}, {2499}, {2000, 2001}} {
		pieces := split(t, Config{}, all, cuts...)
		for _, from := range []struct{ ids, payload queend.Offset }{
			{0, 0}, {1, 0}, {0, 1}, {0, 1500}, {700, 1500}, {0, 2500}, {2499, 0}, {2001, 2002}, {-7, 9000}, {2, 1520},
		} {
			file, e := merge(t, Config{}, from.ids, from.payload, pieces...)
			want := withoutPayload(all[max(0, from.ids):], from.payload)
			r := open(t, file)
			if err := r.Verify(); err != nil {
				t.Fatalf("cuts %v, from %v: %v", cuts, from, err)
			}
			wantMessages(t, readAll(t, r, e), want)
			ids, err := r.IDs(e)
			if err != nil {
				t.Fatal(err)
			}
			wantIDs(t, ids, want)
			_, entries := encode(t, Config{}, testRun{1, 2, want})
			anew := entries[0]
			if e.First != anew.First || e.Last != anew.Last || e.PayloadFrom != anew.PayloadFrom || e.LastTime != anew.LastTime {
				t.Fatalf("cuts %v, from %v: merged %+v, anew %+v", cuts, from, e, anew)
			}
			if e.Bytes > anew.Bytes+anew.Bytes/20+2000*uint64(len(pieces)) {
				t.Fatalf("cuts %v, from %v: merged %d bytes, anew %d", cuts, from, e.Bytes, anew.Bytes)
			}
		}
	}
}

// F10: space and writing grew with the number of queues.
func TestMergeOfManySmallRunsIsAsSmallAsOneRun(t *testing.T) {
	all := orders(2, 0, 3000)
	var cuts []int
	for i := 3; i < len(all); i += 3 {
		cuts = append(cuts, i)
	}
	merged, _ := merge(t, Config{}, 0, 0, split(t, Config{}, all, cuts...)...)
	anew, _ := encode(t, Config{}, testRun{1, 2, all})
	if !bytes.Equal(merged, anew) {
		t.Fatalf("merged %d bytes, anew %d, not the same", len(merged), len(anew))
	}
}

func TestMergeCopiesFullStripesAsTheyAre(t *testing.T) {
	all := orders(3, 0, 5000)
	pieces := split(t, Config{Level: 4}, all, 3000)
	merged, e := merge(t, Config{Level: 1}, 0, 0, pieces...)
	source, _ := encode(t, Config{Level: 4}, testRun{1, 2, all[:3000]})
	// A stripe of level 4 would not come out of level 1.
	if !bytes.Contains(merged, source[headerSize:headerSize+60_000]) {
		t.Fatal("full stripes were recompressed")
	}
	if dropped, _ := merge(t, Config{}, 0, e.Last+1, pieces...); len(dropped)*3 > len(merged) {
		t.Fatalf("%d bytes without payload, %d with", len(dropped), len(merged))
	}
}

func TestRunsWithoutPayloadKeepTheirIDs(t *testing.T) {
	all := withoutPayload(orders(4, 10, 2000), 1200)
	file, entries := encode(t, Config{}, testRun{1, 2, all})
	r, e := open(t, file), entries[0]
	if e.PayloadFrom != 1200 {
		t.Fatalf("payload from %d, want 1200", e.PayloadFrom)
	}
	got, err := r.Messages(e, 1190, 20, 1e6)
	if err != nil {
		t.Fatal(err)
	}
	wantMessages(t, got, all[1180:1200])
	ids, err := r.IDs(e)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, ids, all)
}

func TestMergeOfNothingLeavesNoRun(t *testing.T) {
	pieces := split(t, Config{}, orders(5, 0, 100))
	file, e := merge(t, Config{}, 100, 100, pieces...)
	if e != (Entry{}) || len(file) != headerSize+trailSize {
		t.Fatalf("%+v in %d bytes", e, len(file))
	}
}

func TestMergeRefusesGapsAndOtherPartitions(t *testing.T) {
	all := orders(6, 0, 6000)
	pieces := split(t, Config{}, all, 2000, 4000)
	w := NewWriter(&sizesWriter{}, 1, Config{})
	w.Begin(1, 2)
	if err := w.Copy(pieces[0].r, pieces[0].e, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := w.Copy(pieces[2].r, pieces[2].e, 0, 0); !errors.Is(err, ErrMessage) {
		t.Fatalf("a gap: %v", err)
	}
	w = NewWriter(&sizesWriter{}, 1, Config{})
	w.Begin(1, 3)
	if err := w.Copy(pieces[0].r, pieces[0].e, 0, 0); err == nil {
		t.Fatal("another partition was copied")
	}
	if _, err := w.Finish(); err == nil {
		t.Fatal("Finish forgot the error")
	}
}

func TestMergeDoesNotCopyDamage(t *testing.T) {
	all := orders(7, 0, 3000)
	file, entries := encode(t, Config{}, testRun{1, 2, all})
	e := entries[0]
	for at := headerSize; at < int(e.Pos); at += 997 {
		bad := bytes.Clone(file)
		bad[at] ^= 1
		w := NewWriter(&sizesWriter{}, 1, Config{})
		w.Begin(1, 2)
		if err := w.Copy(open(t, bad), e, 0, 0); !errors.Is(err, ErrDamaged) {
			t.Fatalf("bit flipped at byte %d: %v", at, err)
		}
	}
}
