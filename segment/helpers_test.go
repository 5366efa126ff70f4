package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"queend"
)

// testRun is a run to be written.
type testRun struct {
	queue     queend.QueueID
	partition queend.PartitionID
	messages  []Message
}

// encode writes the runs to a file in memory.
func encode(t testing.TB, c Config, runs ...testRun) ([]byte, []Entry) {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out, 7, c)
	for _, run := range runs {
		w.Begin(run.queue, run.partition)
		for i := range run.messages {
			if err := w.Add(&run.messages[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.End(); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), entries
}

func open(t testing.TB, file []byte) *Reader {
	t.Helper()
	r, err := NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// readAll returns all messages of a run, read in steps of 97.
func readAll(t testing.TB, r *Reader, e Entry) []Message {
	t.Helper()
	var all []Message
	for from := e.First; from <= e.Last; from = all[len(all)-1].Offset + 1 {
		part, err := r.Messages(e, from, 97, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if len(part) == 0 {
			t.Fatalf("no messages from offset %d on", from)
		}
		all = append(all, part...)
	}
	return all
}

// wantMessages fails unless got is want.
func wantMessages(t testing.TB, got, want []Message) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d messages, want %d", len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("message %d:\n got %s\nwant %s", i, short(got[i]), short(want[i]))
		}
	}
}

func short(m Message) string {
	s := fmt.Sprintf("%+v", m)
	return s[:min(len(s), 600)]
}

// wantIDs fails unless ids are those of the messages.
func wantIDs(t testing.TB, ids *IDs, want []Message) {
	t.Helper()
	if ids.Len() != len(want) {
		t.Fatalf("got %d ids, want %d", ids.Len(), len(want))
	}
	for i, m := range want {
		if ids.Offset(i) != m.Offset || ids.Time(i) != m.Time || ids.ID(i) != m.ID || !bytes.Equal(ids.TxnID(i), m.TxnID) {
			t.Fatalf("ids of message %d: got %d %d %s %q, want %s", i, ids.Offset(i), ids.Time(i), ids.ID(i), ids.TxnID(i), short(m))
		}
	}
}

// baseTime is the time of the first message of every test.
const baseTime = 1_760_000_000_000_000

// uuid7 is an id of the time t in microseconds with random rest.
func uuid7(rnd *rand.Rand, t int64) (id queend.ID) {
	binary.BigEndian.PutUint64(id[:], uint64(t/1000)<<16|0x7000|rnd.Uint64()&0xfff)
	binary.BigEndian.PutUint64(id[8:], rnd.Uint64()>>2|1<<63)
	return id
}

func randomID(rnd *rand.Rand) (id queend.ID) {
	binary.BigEndian.PutUint64(id[:], rnd.Uint64())
	binary.BigEndian.PutUint64(id[8:], rnd.Uint64())
	return id
}

func randomBytes(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// order is a JSON payload of about 256 bytes, half of it fresh.
func order(rnd *rand.Rand) []byte {
	return fmt.Appendf(nil, `{"orderId":"%s","customer":{"name":"customer-%d","tier":"gold"},"items":[{"sku":"SKU-%06d","quantity":%d,"price":%d.%02d}],"currency":"EUR","status":"created","comment":"deliver to the back door please","total":%d}`,
		randomID(rnd), rnd.IntN(5000), rnd.IntN(1000000), rnd.IntN(9)+1, rnd.IntN(200), rnd.IntN(100), rnd.IntN(100000))
}

// orders are n messages like those of a usual producer: ids minted as a run per
// push of ten, transaction ids random UUIDs, or minted, or text.
func orders(seed uint64, first queend.Offset, n int) []Message {
	rnd := rand.New(rand.NewPCG(seed, 0))
	out := make([]Message, n)
	var id queend.ID
	for i := range out {
		at := int64(baseTime + i/10*1500)
		if i%10 == 0 {
			id = uuid7(rnd, at)
		} else {
			id = stepID(id, 1)
		}
		m := Message{Offset: first + queend.Offset(i), Time: at, ID: id, Payload: order(rnd)}
		switch i / 50 % 3 {
		case 0:
			m.TxnID = []byte(randomID(rnd).String())
		case 1:
			m.TxnID = []byte(id.String())
		default:
			m.TxnID = fmt.Appendf(nil, "shop/%d/%d", rnd.IntN(9), rnd.Uint32())
		}
		if i%7 == 0 {
			m.TraceID = randomID(rnd)
			m.Producer, m.HasProducer = []byte("checkout"), true
			m.Headers = []byte(`{"content-type":"application/json"}`)
		}
		out[i] = m
	}
	return out
}

// withoutPayload returns the messages with those below from gone.
func withoutPayload(in []Message, from queend.Offset) []Message {
	out := append([]Message(nil), in...)
	for i := range out {
		if out[i].Offset < from {
			out[i].Payload, out[i].Gone = nil, true
		}
	}
	return out
}
