package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"queend"
)

// edgeMessages have every field at its ends.
func edgeMessages() []Message {
	rnd := rand.New(rand.NewPCG(1, 2))
	id := randomID(rnd)
	big := bytes.Repeat([]byte("all work and no play makes a dull message. "), 3<<20/43)
	messages := []Message{
		{Time: baseTime, ID: id, TxnID: []byte(id.String()), Payload: []byte(`{}`)},
		{Time: baseTime, ID: id, TxnID: []byte{}, Payload: []byte{}},
		{Time: math.MaxInt64, ID: queend.ID{}, TxnID: []byte(queend.ID{}.String()), Payload: []byte("null")},
		{Time: math.MinInt64, ID: id, TxnID: []byte(strings.ToUpper(id.String())), Payload: []byte{0}},
		{Time: 0, ID: randomID(rnd), TxnID: []byte(randomID(rnd).String()), Payload: big},
		{Time: 1, ID: randomID(rnd), TxnID: randomBytes(rnd, MaxTxnID), Payload: randomBytes(rnd, 3<<20+17)},
		{Time: 1, ID: id, TxnID: []byte("\xff\xfe\x00not text"), Payload: []byte{}},
		{Time: 1, ID: stepID(id, 1), TxnID: []byte("a"), Payload: randomBytes(rnd, maxBlock)},
		{Time: 2, ID: stepID(id, 2), TxnID: []byte("a"), Payload: randomBytes(rnd, maxBlock+1)},
		{Time: 2, ID: stepID(id, 2), TxnID: []byte("a"), Payload: randomBytes(rnd, maxBlock-1), Encrypted: true},
		{Time: 2, ID: id, TxnID: []byte("b"), TraceID: id, Payload: []byte("1")},
		{Time: 2, ID: id, TxnID: []byte("c"), HasProducer: true, Producer: []byte{}, Payload: []byte("1")},
		{Time: 2, ID: id, TxnID: []byte("d"), HasProducer: true, Producer: []byte("\x80p"), Payload: []byte("1")},
		{Time: 2, ID: id, TxnID: []byte("e"), Headers: []byte(`{"k":"v"}`), Payload: []byte("1")},
		{Time: 2, ID: id, TxnID: []byte("f"), Headers: []byte{}, Payload: []byte("1")},
		{
			Time: 3, ID: id, TxnID: bytes.Repeat([]byte("x"), MaxTxnID), TraceID: randomID(rnd), HasProducer: true,
			Producer: randomBytes(rnd, MaxProducer), Headers: bytes.Repeat([]byte("h"), MaxHeaders), Encrypted: true,
			Payload: bytes.Repeat([]byte("0123456789"), 20_000),
		},
	}
	for i := range messages {
		messages[i].Offset = queend.Offset(1000 + i)
	}
	return messages
}

func TestEveryFieldComesBack(t *testing.T) {
	want := edgeMessages()
	for _, c := range []Config{{}, {Level: 2, BlockBytes: 1}, {Level: 3, BlockBytes: biggestBlock}, {Level: 4}} {
		file, entries := encode(t, c, testRun{3, 4, want})
		r := open(t, file)
		e := entries[0]
		wantMessages(t, readAll(t, r, e), want)
		ids, err := r.IDs(e)
		if err != nil {
			t.Fatal(err)
		}
		wantIDs(t, ids, want)
		if err := r.Verify(); err != nil {
			t.Fatal(err)
		}
		for i, m := range want {
			one, err := r.Messages(e, m.Offset, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			wantMessages(t, one, want[i:i+1])
		}
	}
}

func TestOffsetsAtTheEndOfTheirRange(t *testing.T) {
	want := orders(1, math.MaxInt64-3, 3)
	file, entries := encode(t, Config{}, testRun{1, math.MaxUint64, want})
	r := open(t, file)
	wantMessages(t, readAll(t, r, entries[0]), want)
	if got, err := r.Messages(entries[0], math.MaxInt64, 1, 1); err != nil || len(got) != 0 {
		t.Fatal(got, err)
	}
}

func TestRandomMessagesComeBack(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		want := orders(seed, queend.Offset(rnd.IntN(1e6)), 1+rnd.IntN(400))
		for i := range want {
			m := &want[i]
			switch rnd.IntN(8) {
			case 0:
				m.Payload = randomBytes(rnd, rnd.IntN(60_000))
			case 1:
				m.Payload = []byte{}
			case 2:
				m.TxnID = randomBytes(rnd, rnd.IntN(500))
			case 3:
				m.ID = randomID(rnd)
			case 4:
				m.Time = int64(rnd.Uint64())
			case 5:
				m.ID, m.Headers = queend.ID{}, randomBytes(rnd, rnd.IntN(300))
			}
		}
		want = withoutPayload(want, want[0].Offset+queend.Offset(rnd.IntN(len(want))-len(want)/2))
		file, entries := encode(t, Config{BlockBytes: 1 + rnd.IntN(40_000)}, testRun{1, 2, want})
		r := open(t, file)
		wantMessages(t, readAll(t, r, entries[0]), want)
		if err := r.Verify(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestManyRunsOfManyPartitions(t *testing.T) {
	var runs []testRun
	for i := range 500 {
		runs = append(runs, testRun{queend.QueueID(i % 7), queend.PartitionID(i), orders(uint64(i), queend.Offset(i*i), 1+i%90)})
	}
	file, entries := encode(t, Config{}, runs...)
	r := open(t, file)
	if r.File() != 7 {
		t.Fatalf("file %d, want 7", r.File())
	}
	var walked []Entry
	total := uint64(headerSize + trailSize)
	if err := r.Entries(func(e Entry) error {
		walked, total = append(walked, e), total+e.Bytes
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if total != uint64(len(file)) {
		t.Fatalf("runs, header and trailer are %d bytes, the file %d", total, len(file))
	}
	for i, run := range runs {
		e := entries[i]
		if e != walked[i] {
			t.Fatalf("run %d: Finish says %+v, the file %+v", i, e, walked[i])
		}
		last := run.messages[len(run.messages)-1]
		if e.Queue != run.queue || e.Partition != run.partition || e.Last != last.Offset || e.LastTime != last.Time {
			t.Fatalf("run %d: %+v", i, e)
		}
		wantMessages(t, readAll(t, r, e), run.messages)
	}
	if err := r.Verify(); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	if err := r.Entries(func(Entry) error { return stop }); err != stop {
		t.Fatalf("yield's error came back as %v", err)
	}
}

func TestFileWithoutRuns(t *testing.T) {
	file, entries := encode(t, Config{}, testRun{1, 1, nil})
	if len(entries) != 0 || len(file) != headerSize+trailSize {
		t.Fatalf("%d entries, %d bytes", len(entries), len(file))
	}
	if err := open(t, file).Verify(); err != nil {
		t.Fatal(err)
	}
}

func TestMessagesKeepToTheirLimits(t *testing.T) {
	want := orders(3, 100, 2000)
	file, entries := encode(t, Config{}, testRun{1, 1, want})
	r, e := open(t, file), entries[0]
	for _, row := range []struct {
		from            queend.Offset
		limit, maxBytes int
	}{{0, 10, 1e6}, {100, 0, 1e6}, {100, 5000, 1e9}, {777, 1, 0}, {777, 10, 1}, {1500, 900, 50_000}, {2099, 5, 5}, {2100, 5, 5}, {-9, 3, 600}} {
		got, err := r.Messages(e, row.from, row.limit, row.maxBytes)
		if err != nil {
			t.Fatal(err)
		}
		lo := int(max(row.from, e.First) - e.First)
		hi, sum := lo, 0
		for hi < len(want) && hi-lo < row.limit {
			sum += len(want[hi].Payload)
			if sum > row.maxBytes && hi > lo {
				break
			}
			hi++
		}
		wantMessages(t, got, want[min(lo, len(want)):hi])
	}
}

func TestSlicesOfMessagesAreTheCallers(t *testing.T) {
	want := orders(4, 0, 300)
	file, entries := encode(t, Config{}, testRun{1, 1, want})
	r := open(t, file)
	got := readAll(t, r, entries[0])
	for i := range got {
		m := &got[i]
		for _, b := range []*[]byte{&m.TxnID, &m.Producer, &m.Headers, &m.Payload} {
			*b = append(*b, "overrun"...)
			(*b)[0] = '#'
		}
	}
	wantMessages(t, readAll(t, r, entries[0]), want)
	got = readAll(t, r, entries[0])
	_ = append(got[0].TxnID, "overrun into the next"...)
	_ = append(got[0].Payload, "overrun into the next"...)
	wantMessages(t, got, want)
}

func TestAddKeepsNothingOfTheMessage(t *testing.T) {
	want := orders(5, 0, 500)
	var out bytes.Buffer
	w := NewWriter(&out, 1, Config{})
	w.Begin(1, 1)
	for _, m := range want {
		m.TxnID, m.Payload = bytes.Clone(m.TxnID), bytes.Clone(m.Payload)
		if err := w.Add(&m); err != nil {
			t.Fatal(err)
		}
		clear(m.TxnID)
		clear(m.Payload)
		m = Message{}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	entries, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	wantMessages(t, readAll(t, open(t, out.Bytes()), entries[0]), want)
}

func TestIDsRangeReadsOnlyItsBlocks(t *testing.T) {
	want := orders(6, 0, 20_000)
	file, entries := encode(t, Config{}, testRun{1, 1, want})
	counter := &countingReader{r: bytes.NewReader(file)}
	r, err := NewReader(counter, int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	e := entries[0]
	counter.bytes = 0
	ids, err := r.IDsRange(e, 12_345, 12_350)
	if err != nil {
		t.Fatal(err)
	}
	first := int(ids.Offset(0))
	wantIDs(t, ids, want[first:first+ids.Len()])
	if first > 12_345 || first+ids.Len() <= 12_350 || ids.Len() > 2500 {
		t.Fatalf("offsets %d to %d", first, first+ids.Len()-1)
	}
	if limit := int(e.Size) + 60_000; counter.bytes > limit {
		t.Fatalf("read %d bytes, want at most %d", counter.bytes, limit)
	}
	counter.bytes = 0
	if _, err := r.Messages(e, 12_345, 5, 1e6); err != nil {
		t.Fatal(err)
	}
	if limit := int(e.Size) + 90_000; counter.bytes > limit {
		t.Fatalf("five messages read %d bytes of %d, want at most %d", counter.bytes, len(file), limit)
	}
	if ids.Size() < ids.Len()*24 {
		t.Fatalf("%d ids in %d bytes", ids.Len(), ids.Size())
	}
}

// countingReader counts the bytes read through it.
type countingReader struct {
	r     *bytes.Reader
	bytes int
}

func (c *countingReader) ReadAt(b []byte, pos int64) (int, error) {
	c.bytes += len(b)
	return c.r.ReadAt(b, pos)
}

// sizesWriter notes the size of every write.
type sizesWriter struct{ sizes []int }

func (w *sizesWriter) Write(b []byte) (int, error) {
	w.sizes = append(w.sizes, len(b))
	return len(b), nil
}

func TestWritesAreOfOneSize(t *testing.T) {
	var out sizesWriter
	w := NewWriter(&out, 1, Config{})
	w.Begin(1, 1)
	for _, m := range edgeMessages() {
		if err := w.Add(&m); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	for _, size := range out.sizes[:len(out.sizes)-1] {
		if size != writeSize {
			t.Fatalf("writes of %d bytes", out.sizes)
		}
	}
}

func TestWriterRefusesWhatItCannotStore(t *testing.T) {
	ok := Message{Offset: 5, TxnID: []byte("t")}
	gone := Message{Offset: 6, Gone: true}
	for name, row := range map[string][]Message{
		"negative offset": {{Offset: -1}},
		"gap":             {ok, {Offset: 7}},
		"repeated":        {ok, ok},
		"gone after kept": {ok, gone},
		"long txn":        {{TxnID: make([]byte, MaxTxnID+1)}},
		"long producer":   {{Producer: make([]byte, MaxProducer+1)}},
		"long headers":    {{Headers: make([]byte, MaxHeaders+1)}},
	} {
		w := NewWriter(&sizesWriter{}, 1, Config{})
		w.Begin(1, 1)
		var err error
		for i := range row {
			err = w.Add(&row[i])
		}
		if !errors.Is(err, ErrMessage) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := w.Finish(); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: Finish says %v", name, err)
		}
	}
}

func TestWriterRefusesCallsOutOfOrder(t *testing.T) {
	for name, call := range map[string]func(w *Writer){
		"add outside":    func(w *Writer) { _ = w.Add(&Message{}) },
		"end outside":    func(w *Writer) { _ = w.End() },
		"begin twice":    func(w *Writer) { w.Begin(1, 1); w.Begin(1, 1) },
		"open at finish": func(w *Writer) { w.Begin(1, 1) },
		"finish twice":   func(w *Writer) { _, _ = w.Finish() },
	} {
		w := NewWriter(&sizesWriter{}, 1, Config{})
		call(w)
		if _, err := w.Finish(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, c := range []Config{{Level: 5}, {Level: -1}, {BlockBytes: -1}, {BlockBytes: biggestBlock + 1}} {
		if _, err := NewWriter(&sizesWriter{}, 1, c).Finish(); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}

// failingWriter fails its n-th write.
type failingWriter struct{ n int }

var errDisk = errors.New("disk is gone")

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.n--; w.n < 0 {
		return 0, errDisk
	}
	return len(b), nil
}

func TestAFailedWriteIsReportedByFinish(t *testing.T) {
	messages := edgeMessages()
	for n := range 10 {
		w := NewWriter(&failingWriter{n}, 1, Config{})
		w.Begin(1, 1)
		for i := range messages {
			_ = w.Add(&messages[i])
		}
		_ = w.End()
		if _, err := w.Finish(); !errors.Is(err, errDisk) {
			t.Fatalf("write %d: %v", n, err)
		}
	}
}

func TestManyReadersShareAFile(t *testing.T) {
	var runs []testRun
	for i := range 8 {
		runs = append(runs, testRun{1, queend.PartitionID(i), orders(uint64(i), 0, 700)})
	}
	file, entries := encode(t, Config{}, runs...)
	r := open(t, file)
	for i, e := range entries {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			for range 5 {
				wantMessages(t, readAll(t, r, e), runs[i].messages)
			}
		})
	}
}
