package api

import (
	"fmt"
	"strings"
	"testing"
)

func TestMessagesAreReadByOffset(t *testing.T) {
	h := served(t)
	h.push("q", "a", "b", "c")
	h.ask(201, "POST", "/api/v1/push", `{"items":[{"queue":"q","partition":"7","transactionId":"n","payload":1}]}`)
	out := h.ask(200, "POST", "/api/v1/fetch", `{"entries":[{"queue":"q","partition":"p","offset":1},{"queue":"q","partition":7},{"queue":"none"},
		{"queue":"q","partition":"unwritten"},{"queue":"q","partition":"p","offset":9},{"queue":"q","partition":"p","maxBytes":1}]}`)
	keys(t, out, "entries")
	keys(t, at(t, out, "entries", 0), "queue partition records highWatermark logStartOffset")
	is(t, at(t, out, "entries", 0), "queue", "q", "partition", "p", "highWatermark", 3, "logStartOffset", 0)
	record := at(t, out, "entries", 0, "records", 0)
	keys(t, record, "offset transactionId payload ts")
	is(t, record, "offset", 1, "transactionId", "b")
	is(t, at(t, out, "entries", 1, "records", 0), "transactionId", "n")
	is(t, at(t, out, "entries", 2), "error", "UNKNOWN_TOPIC_OR_PARTITION")
	is(t, at(t, out, "entries", 3), "records", "[]", "highWatermark", 0)
	is(t, at(t, out, "entries", 4), "error", "OFFSET_OUT_OF_RANGE")
	if got := at(t, out, "entries", 5, "records").([]any); len(got) != 1 {
		t.Errorf("%d records", len(got))
	}
}

func TestOffsetsAreFoundByTime(t *testing.T) {
	h := served(t)
	h.push("q", "a", "b")
	out := h.ask(200, "POST", "/api/v1/fetch/offsets", `{"entries":[{"queue":"q","partition":"p","timestamp":1000},
		{"queue":"q","partition":"p","timestamp":"2001-01-01"},{"queue":"q","partition":"p","timestamp":"2999-01-01T00:00:00Z"},{"queue":"none","timestamp":0}]}`)
	keys(t, at(t, out, "entries", 0), "queue partition offset ts highWatermark logStartOffset")
	is(t, at(t, out, "entries", 0), "offset", 0, "highWatermark", 2)
	is(t, at(t, out, "entries", 1), "offset", 0)
	is(t, at(t, out, "entries", 2), "offset", nil, "ts", nil)
	is(t, at(t, out, "entries", 3), "error", "UNKNOWN_TOPIC_OR_PARTITION", "partition", "Default")
}

func TestChangedPartitionsArePaged(t *testing.T) {
	h := served(t)
	for i := range 3 {
		h.ask(201, "POST", "/api/v1/push", fmt.Sprintf(`{"items":[{"queue":"q","partition":"p%d","payload":1}]}`, i))
	}
	out := h.ask(200, "POST", "/api/v1/partitions/changed", `{"entries":[{"queue":"q","limit":2,"since":null,"after":null}]}`)
	keys(t, out, "safeTime safeTimeDegraded entries")
	is(t, out, "safeTimeDegraded", false)
	entry := at(t, out, "entries", 0)
	keys(t, entry, "queue partitions next")
	keys(t, at(t, entry, "partitions", 1), "id name lastOffset logStart lastWriteAt")
	is(t, at(t, entry, "partitions", 1), "name", "p1", "lastOffset", 0, "logStart", 0)
	next := fmt.Sprintf(`{"entries":[{"queue":"q","limit":2,"after":%q}]}`, at(t, entry, "next"))
	entry = at(t, h.ask(200, "POST", "/api/v1/partitions/changed", next), "entries", 0)
	is(t, entry, "next", nil)
	is(t, at(t, entry, "partitions", 0), "name", "p2")
	since := fmt.Sprintf(`{"entries":[{"queue":"q","since":%q},{"queue":"none"},{"queue":"q","after":"-"}]}`, at(t, out, "safeTime"))
	out = h.ask(200, "POST", "/api/v1/partitions/changed", since)
	is(t, at(t, out, "entries", 0), "partitions", "[]")
	is(t, at(t, out, "entries", 1), "error", "UNKNOWN_TOPIC_OR_PARTITION")
	is(t, at(t, out, "entries", 2), "error", "BAD_CURSOR")
}

func TestReadsByOffsetRefuseBadShapes(t *testing.T) {
	h := served(t)
	many := `{"entries":[` + strings.Repeat(`{"queue":"q","offset":0,"timestamp":0},`, 1024) + `{"queue":"q","timestamp":0}]}`
	shared := []string{"", "[]", "{}", `{"entries":{}}`, `{"entries":[7]}`, `{"entries":[{}]}`, `{"entries":[{"queue":7}]}`, `{"entries":null}`, many}
	for path, own := range map[string][]string{
		"/api/v1/fetch": {`{"entries":[{"queue":"q","offset":-1}]}`, `{"entries":[{"queue":"q","offset":"x"}]}`, `{"entries":[],"maxWaitMs":-1}`,
			`{"entries":[{"queue":"q","partition":true}]}`},
		"/api/v1/fetch/offsets": {`{"entries":[{"queue":"q"}]}`, `{"entries":[{"queue":"q","timestamp":"soon"}]}`, `{"entries":[{"queue":"q","timestamp":1.5}]}`,
			`{"entries":[{"queue":"q","timestamp":9223372036854775807}]}`},
		"/api/v1/partitions/changed": {`{"entries":[{"queue":""}]}`, `{"entries":[{"queue":"q","since":"soon"}]}`, `{"entries":[{"queue":"q","limit":"x"}]}`},
	} {
		for _, body := range append(own, shared...) {
			at(t, h.ask(400, "POST", path, body), "error")
		}
		if list := at(t, h.ask(200, "POST", path, `{"entries":[]}`), "entries").([]any); len(list) != 0 {
			t.Errorf("%s: %v", path, list)
		}
	}
}
