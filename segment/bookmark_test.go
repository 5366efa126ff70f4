package segment

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"queend"
)

// Pieces that are read one after the other with a bookmark are those that are
// read without, wherever the reading jumps and whatever run comes in between.
func TestReadingOnFromABookmarkGivesTheSame(t *testing.T) {
	big := orders(2, 0, 400)
	for i := range big {
		if i%50 == 0 {
			big[i].Payload = randomBytes(rand.New(rand.NewPCG(1, uint64(i))), 100<<10)
		}
	}
	runs := []testRun{
		{queue: 1, partition: 1, messages: orders(1, 5, 3000)},
		{queue: 1, partition: 2, messages: big},
		{queue: 1, partition: 3, messages: withoutPayload(orders(3, 0, 1500), 700)},
	}
	file, entries := encode(t, Config{}, runs...)
	r := open(t, file)
	rnd := rand.New(rand.NewPCG(9, 9))
	var at Bookmark
	inside := 0
	for range 300 {
		e := entries[rnd.IntN(len(entries))]
		from := e.First + queend.Offset(rnd.IntN(int(e.Last-e.First+1)))
		for range 1 + rnd.IntN(8) {
			limit, maxBytes := 1+rnd.IntN(150), 1+rnd.IntN(400<<10)
			got, err := r.ReadOn(&at, nil, e, from, limit, maxBytes)
			if err != nil {
				t.Fatal(err)
			}
			want, err := r.Messages(e, from, limit, maxBytes)
			if err != nil {
				t.Fatal(err)
			}
			wantMessages(t, got, want)
			if at.Inside() {
				inside++
			}
			from += queend.Offset(len(got))
		}
	}
	if inside == 0 || at.Size() < 1000 {
		t.Fatal("the bookmark was never inside a stripe")
	}
	at.Release()
	if at.Inside() {
		t.Fatal("a bookmark that was released is inside a stripe")
	}
}

func TestReadingOnDoesNotReadTheSameAgain(t *testing.T) {
	file, entries := encode(t, Config{}, testRun{queue: 1, partition: 1, messages: orders(1, 0, 3000)})
	counted := &countingReader{r: bytes.NewReader(file)}
	r, err := NewReader(counted, int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	var at Bookmark
	counted.bytes = 0
	for from := queend.Offset(0); from < 3000; from += 10 {
		if _, err := r.ReadOn(&at, nil, entries[0], from, 10, 1<<20); err != nil {
			t.Fatal(err)
		}
		if !at.Inside() {
			at.Release()
		}
	}
	// The descriptor again for each stripe, and a block that two pieces share once.
	if counted.bytes > len(file)*11/10 {
		t.Fatalf("%d bytes were read of a file of %d", counted.bytes, len(file))
	}
}
