package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"testing"
)

func TestPayloadComesBackOrIsFoundOut(t *testing.T) {
	for _, s := range []slot{{}, {7, 1}, {9999999, 4294967295}} {
		text := newPayload(s, 123456789)
		if len(text) != payloadBytes || !json.Valid(text) {
			t.Fatalf("%d bytes: %s", len(text), text)
		}
		got, at, err := readPayload(text)
		if err != nil || got != s || at != 123456789 {
			t.Fatalf("%+v became %+v, %d, %v", s, got, at, err)
		}
		for i := range text {
			spoilt := bytes.Clone(text)
			spoilt[i] ^= 1
			if i >= atHole && i < atHole+atDigits {
				continue // the instant is what it says it is
			}
			if _, _, err := readPayload(spoilt); !errors.Is(err, errPayload) {
				t.Fatalf("byte %d: %v\n%s", i, err, spoilt)
			}
		}
	}
	if _, _, err := readPayload(payloadText[1:]); !errors.Is(err, errPayload) {
		t.Errorf("a short one: %v", err)
	}
}

func TestIDsAreOfTheirVersionAndDiffer(t *testing.T) {
	for version, k := range map[string]ids{"7": {}, "7 ": {fixedMS: 1700000000000}, "4": {random: true}} {
		want := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-` + version[:1] + `[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
		seen := map[string]bool{}
		for lane := range uint32(10) {
			for seq := range uint32(1000) {
				var id [36]byte
				k.put(id[:], slot{lane, seq}, 1700000000000)
				if !want.Match(id[:]) || seen[string(id[:])] {
					t.Fatalf("version %s: %s", version, id)
				}
				seen[string(id[:])] = true
				var again [36]byte
				k.put(again[:], slot{lane, seq}, 1800000000000)
				if (k.random || k.fixedMS != 0) != (again == id) {
					t.Fatalf("version %s: %s and then %s", version, id, again)
				}
			}
		}
	}
}

func TestTallyFindsGapsDuplicatesAndDisorder(t *testing.T) {
	for name, c := range map[string]struct {
		seqs               []uint32
		ordered, unordered bool // it is all right
	}{
		"whole":     {[]uint32{0, 1, 2, 3}, true, true},
		"gap":       {[]uint32{0, 1, 3}, false, false},
		"duplicate": {[]uint32{0, 1, 1, 2, 3}, false, false},
		"disorder":  {[]uint32{0, 2, 1, 3}, false, true},
		"short":     {[]uint32{0, 1, 2}, false, false},
		"long":      {[]uint32{0, 1, 2, 3, 4}, false, false},
		"far":       {[]uint32{0, 1, 2, 3, 200}, false, false},
	} {
		for _, ordered := range []bool{true, false} {
			tally := newTally(2, ordered)
			var err error
			for _, seq := range c.seqs {
				if err == nil {
					err = tally.take(slot{1, seq})
				}
			}
			if err == nil {
				err = tally.complete([]uint32{0, 4})
			}
			want := c.unordered
			if ordered {
				want = c.ordered
			}
			if (err == nil) != want {
				t.Errorf("%s, ordered %v: %v", name, ordered, err)
			}
		}
	}
	if err := newTally(1, true).take(slot{lane: 1}); err == nil {
		t.Error("a lane that is not there was taken")
	}
}

func TestPushRequestIsWhatItShouldBe(t *testing.T) {
	h := &httpProducer{}
	h.prepare(loadQueue, 3)
	items := []slot{{5, 0}, {6, 3}, {7, 9}}
	for i, s := range items {
		putDecimal(h.request[h.lanes[i]:h.lanes[i]+laneDigits], s.lane)
		h.ids.put(h.request[h.txns[i]:], s, 1)
		fillPayload(h.request[h.payloads[i]:], s, 42)
	}
	_, text, _ := bytes.Cut(h.request, []byte("\r\n\r\n"))
	var body struct {
		Items []struct {
			Queue, Partition, TransactionID string
			Payload                         json.RawMessage
		}
	}
	if err := json.Unmarshal(text, &body); err != nil {
		t.Fatal(err)
	}
	for i, item := range body.Items {
		s, at, err := readPayload(item.Payload)
		if item.Queue != loadQueue || item.Partition != laneName(int(items[i].lane)) || s != items[i] || at != 42 || err != nil {
			t.Errorf("item %d: %+v, %v", i, item, err)
		}
	}
}
