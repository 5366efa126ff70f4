package broker

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"queend"
	"queend/index"
	"queend/segment"
)

var update = flag.Bool("update", false, "rewrite golden files")

// exampleEvents has one event of every kind, with every part set.
func exampleEvents() []event {
	id := func(b byte) queend.ID { return queend.ID{0: 1, 6: 0x70, 15: b} }
	var message encoder
	appendMessage(&message, &segment.Message{
		ID: id(1), TxnID: []byte("txn"), TraceID: id(2), Producer: []byte("sub"), HasProducer: true,
		Headers: []byte(`{"h":"v"}`), Encrypted: true, Payload: []byte(`{"n":1}`),
	})
	var minted encoder
	appendMessage(&minted, &segment.Message{ID: id(3), TxnID: id(3).Append(nil), Payload: []byte(`null`)})
	options := DefaultOptions()
	options.MaxDeliveries, options.RequireLease = 9, true
	return []event{
		&queueSet{id: 1, uuid: id(4), tenant: DefaultTenant, name: "q.t", created: 5, namespace: "q", task: "t", implicit: true, opts: options},
		&queueGone{id: 1},
		&partitionNew{id: 2, queue: 1, uuid: id(5), name: "p", created: 6, internal: true},
		&partitionGone{id: 2},
		&groupSet{id: 3, queue: 1, name: "g", created: 7, mode: "new", conflation: true, seed: 8, start: 9, seedMax: 2, popped: true},
		&groupGone{id: 3},
		&labelSet{labelKey: labelKey{tenant: DefaultTenant, namespace: "n", task: "t", group: "g"}, mode: "all", conflation: true, seed: always, gone: true},
		&pushed{partition: 2, first: 10, raws: [][]byte{message.buf, minted.buf}},
		&rowSet{partition: 2, row: row{group: 3, committed: queend.NoOffset, lastDelivery: 11}},
		&rowSet{partition: 2, row: row{
			group: 3, committed: 12, lastDelivery: 13, settled: id(6), settledFrom: 14, settledTo: 15,
			lane: &lane{
				lease: id(7), leaseUntil: 16, batchEnd: 17, conflated: true, claimed: 18, retry: 19, notBefore: 20,
				attemptStart: 21, attemptEnd: 22, attempts: 23, isolate: 24, headOffset: 25, headAttempts: 26,
			},
		}},
		&logStart{partition: 2, start: 27},
		&deadLettered{id: id(8), queue: 1, group: "g", partition: 2, offset: 28, at: 29},
		&deadLetterGone{id: id(8)},
		&fileNew{id: 4, bytes: 30, gone: []queend.FileID{1, 2}},
		&fileRuns{id: 4, replaces: []queend.FileID{1}, runs: []placedRun{{partition: 2, run: index.Run{
			File: 4, First: 31, Last: 32, PayloadFrom: 33, Pos: 34, Size: 35, Bytes: 36, LastTime: 37,
		}}}},
		&fileGone{id: 4},
		&flagsSet{maintenance: true, popMaintenance: true},
		&counted{totals{1, 2, 3, 4, 5, 6, 7, 8, 9}},
		&idsGone{partition: 2, below: 38},
		&spoolDrained{spoolPlace{file: 5, pos: 39}},
	}
}

func encodeEvent(ev event) []byte {
	var e encoder
	ev.encode(&e)
	return e.buf
}

func TestBytesOfAnEventNeverChange(t *testing.T) {
	var got strings.Builder
	for _, ev := range exampleEvents() {
		fmt.Fprintf(&got, "%s %s\n", strings.TrimPrefix(reflect.TypeOf(ev).String(), "*broker."), hex.EncodeToString(encodeEvent(ev)))
	}
	path := filepath.Join("testdata", "events.golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Fatalf("events encode as\n%s\nnot as\n%s", got.String(), want)
	}
}

func TestEveryKindOfEventHasAnExample(t *testing.T) {
	have := map[reflect.Type]bool{}
	for _, ev := range exampleEvents() {
		have[reflect.TypeOf(ev)] = true
	}
	for kind := byte(1); newEvent(kind) != nil; kind++ {
		if !have[reflect.TypeOf(newEvent(kind))] {
			t.Errorf("%T has no example", newEvent(kind))
		}
	}
}

func TestEventsDecodeToWhatWasEncoded(t *testing.T) {
	for _, ev := range exampleEvents() {
		rec := append(make([]byte, 8), encodeEvent(ev)...)
		var got []event
		if _, err := decodeRecord(rec, func(ev event) { got = append(got, ev) }); err != nil {
			t.Errorf("%T: %v", ev, err)
			continue
		}
		if len(got) != 1 || !reflect.DeepEqual(got[0], ev) {
			t.Errorf("%T decodes to %+v, not %+v", ev, got, ev)
		}
	}
}

func TestCutRecordIsAnError(t *testing.T) {
	for _, ev := range exampleEvents() {
		rec := append(make([]byte, 8), encodeEvent(ev)...)
		for n := 9; n < len(rec); n++ {
			if _, err := decodeRecord(rec[:n], func(event) {}); err == nil {
				t.Errorf("%T cut to %d of %d bytes decodes", ev, n, len(rec))
			}
		}
	}
}
