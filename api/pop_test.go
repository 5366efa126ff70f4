package api

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"queend"
	"queend/broker"
	"queend/segment"
)

func TestAMessageReadsTheSameWhateverIsBeforeIt(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	res := &broker.PopResult{Group: "g", LeaseID: queend.ID{7}}
	for range 200 {
		part := byte(1 + rnd.IntN(2))
		m := broker.Delivered{
			Message: segment.Message{
				Offset: queend.Offset(rnd.IntN(100)), Time: 1700000000_000000 + rnd.Int64N(2), ID: queend.ID{byte(rnd.IntN(256))},
				TxnID: []byte("t"), Payload: []byte(`{"a":1}`),
			},
			Queue: "q", Partition: strings.Repeat("p", int(part)), PartitionUUID: queend.ID{part}, Attempt: 1 + rnd.IntN(2),
		}
		if rnd.IntN(3) == 0 {
			m.Headers = []byte(`{"h":"` + strings.Repeat("x", rnd.IntN(100)) + `"}`)
		}
		res.Messages = append(res.Messages, m)
	}
	whole := string(appendPop(nil, &broker.PopRequest{Queue: "q"}, res))
	var each []string
	for i := range res.Messages {
		var first written
		each = append(each, string(first.appendDelivered(nil, &res.Messages[i], res)))
	}
	if want := `"messages":[` + strings.Join(each, ",") + `],`; !strings.Contains(whole, want) {
		t.Fatalf("got %s\nwant in it %s", whole, want)
	}
}

func TestInstantsReadAsTheirLayoutSays(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	for i := range 10_000 {
		at := rnd.Int64() >> rnd.IntN(64)
		if i%2 == 0 {
			at = -at
		}
		for _, layout := range []string{layoutMicros, layoutMillis} {
			want := `,"k":"` + time.UnixMicro(at).UTC().Format(layout) + `"`
			if got := string(appendTime(nil, "k", at, layout)); got != want {
				t.Fatalf("%d is %s, want %s", at, got, want)
			}
		}
	}
}
