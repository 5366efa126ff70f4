package hostile

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// malformed are bodies that are no JSON.
var malformed = []string{
	``, ` `, `{`, `}`, `[`, `]`, `"`, `{"items":`, `{"items":[`, `{"items":[{`, `{"items":[{"queue":"q`,
	`{"items":[{"queue":"q","payload":}]}`, `{"items":[{"queue":"q","payload":1},]}`, `{"items":[],}`,
	`{"items":[{"queue":"q" "payload":1}]}`, `{items:[]}`, `{'items':[]}`, `{"items":[{"queue":"a
b","payload":1}]}`, "{\"items\":[{\"queue\":\"a\tb\",\"payload\":1}]}", `{"items":[{"queue":"\x","payload":1}]}`,
	`{"items":[{"queue":"\u12","payload":1}]}`, `{"items":[{"queue":"q","payload":01}]}`,
	`{"items":[{"queue":"q","payload":1.}]}`, `{"items":[{"queue":"q","payload":+1}]}`,
	`{"items":[{"queue":"q","payload":1e}]}`, `{"items":[{"queue":"q","payload":NaN}]}`,
	`{"items":[{"queue":"q","payload":tru}]}`, `{"items":[{"queue":"q","payload":nullx}]}`,
	`{"items":[{"queue":"q","payload":1}]} x`, `{"items":[{"queue":"q","payload":"a}]}`,
	`// {"items":[]}`, "\ufeff{\"items\":[]}", "{\"items\":[{\"queue\":\"q\",\"payload\":\"\x00\"}]}",
	"{\"items\":[{\"queue\":\"\xff\",\"payload\":1}]}", "{\"items\":[{\"queue\":\"q\",\"payload\":\"\xc3\"}]}",
	"{\"items\":[{\"queue\":\"q\",\"payload\":\"\xed\xa0\x80\"}]}", "\xff", "\"\\\"\n\"",
}

// bodyRoutes are the routes that read a body.
var bodyRoutes = []string{
	"/api/v1/push", "/api/v1/ack", "/api/v1/ack/batch", "/api/v1/transaction", "/api/v1/configure",
	"/api/v1/lease/x/extend", "/api/v1/fetch", "/api/v1/fetch/offsets", "/api/v1/partitions/changed",
	"/api/v1/dlq/replay", "/api/v1/traces", "/api/v1/consumer-groups/g/subscription",
	"/api/v1/consumer-groups/g/queues/q/seek", "/api/v1/consumer-groups/g/queues/q/partitions/p/seek",
	"/api/v1/system/maintenance", "/api/v1/system/maintenance/pop",
}

// mustRefuse are the routes on which a body that is no JSON is always a 400.
var mustRefuse = map[string]bool{
	"/api/v1/push": true, "/api/v1/ack": true, "/api/v1/ack/batch": true, "/api/v1/transaction": true, "/api/v1/configure": true,
}

func TestMalformedBodiesAreAnsweredInJSON(t *testing.T) {
	t.Parallel()
	n := start(t)
	for _, route := range bodyRoutes {
		for _, body := range malformed {
			a := n.do("POST", route, body)
			if !json.Valid(a.body) || a.status >= 500 {
				t.Errorf("POST %s %q: %d %q", route, body, a.status, a.body)
			}
			if mustRefuse[route] && a.status != 400 {
				t.Errorf("POST %s %q: %d, want 400", route, body, a.status)
			}
		}
	}
	n.healthy()
	if got := n.pop("q", "batch=100").Messages; len(got) != 0 {
		t.Errorf("a refused body stored %d messages", len(got))
	}
}

// misshapen are bodies that are JSON of another shape than any route reads.
var misshapen = []string{
	`null`, `true`, `0`, `""`, `[]`, `{}`, `[[]]`, `{"":1}`, `{"items":null}`, `{"items":{}}`, `{"items":[null]}`, `{"items":[[]]}`,
	`{"items":[{}]}`, `{"items":[{"queue":1,"payload":1}]}`, `{"items":[{"queue":null,"payload":1}]}`, `{"items":[{"queue":"q"}]}`,
	`{"items":[],"items":[]}`, `{"acknowledgments":{}}`, `{"acknowledgments":[1,null,[],{}]}`, `{"operations":[]}`,
	`{"operations":[1]}`, `{"operations":[{"type":"ack"}]}`, `{"operations":[{"type":"push"}]}`, `{"operations":[{"type":{}}]}`,
	`{"operations":[{"type":"push","items":[{}]}],"requiredLeases":[1]}`, `{"queue":"q","options":[]}`, `{"queue":"q","options":{"leaseTime":{}}}`,
	`{"queue":{},"group":[],"seconds":{}}`, `{"queue":"q","group":"g","timestamp":{},"toEnd":"x"}`, `{"transactionId":[],"partitionId":{}}`,
	`{"traceNames":5,"data":{}}`, `{"enabled":"x"}`, `{"queue":"q","partitions":[{"offset":"x"}]}`, `{"queue":"q","limit":-1,"offset":-1}`,
}

func TestMisshapenBodiesAreAnsweredInJSON(t *testing.T) {
	t.Parallel()
	n := start(t)
	for _, route := range bodyRoutes {
		for _, body := range misshapen {
			if a := n.do("POST", route, body); !json.Valid(a.body) || a.status >= 500 {
				t.Errorf("POST %s %q: %d %q", route, body, a.status, a.body)
			}
		}
	}
	n.healthy()
}

func TestDeepNestingIsRefusedWithoutAStackOfItsOwn(t *testing.T) {
	t.Parallel()
	n := start(t)
	const most = 64 << 20
	for _, depth := range []int{100_000, most} {
		for _, open := range []string{"[", `{"a":`} {
			text := strings.Repeat(open, depth/len(open))
			for _, route := range []string{"/api/v1/push", "/api/v1/ack/batch", "/api/v1/transaction"} {
				n.do("POST", route, text).refused(t, 400)
			}
			if depth < most {
				n.do("POST", "/api/v1/push", `{"items":[{"queue":"q","payload":`+text).refused(t, 400)
			}
		}
	}
	n.healthy()
	if _, peak := n.memory(); peak > 1<<30 {
		t.Errorf("brackets took %d MiB", peak>>20)
	}
}

func TestObjectsOfMillionsOfKeysAreRefused(t *testing.T) {
	t.Parallel()
	n := start(t)
	var b strings.Builder
	b.WriteString("{")
	for i := 0; b.Len() < 60<<20; i++ {
		fmt.Fprintf(&b, `"%x":0,`, i)
	}
	b.WriteString(`"items":[]}`)
	n.do("POST", "/api/v1/push", b.String()).refused(t, 400)
	n.healthy()
	if _, peak := n.memory(); peak > 300<<20 {
		t.Errorf("keys took %d MiB", peak>>20)
	}
}

// F39: bad bytes in a body ended a worker.
func TestInvalidUTF8IsRefusedAndNeighboursAreServed(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.push("q", "p", "before")
	for _, bad := range []string{"\xff", "\xc3", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80", "\xc0\xaf"} {
		for _, body := range []string{
			`{"items":[{"queue":"q","payload":"` + bad + `"}]}`, `{"items":[{"queue":"` + bad + `","payload":1}]}`,
			`{"items":[{"queue":"q","transactionId":"` + bad + `","payload":1}]}`,
			`{"items":[{"queue":"q","payload":1,"headers":{"k":"` + bad + `"}}]}`,
		} {
			n.do("POST", "/api/v1/push", body).refused(t, 400)
			n.healthy()
		}
	}
	for _, half := range []string{`\ud800`, `\udc00`, `\udc00\ud800`} {
		n.do("POST", "/api/v1/push", `{"items":[{"queue":"`+half+`","payload":1}]}`).refused(t, 400)
		n.do("POST", "/api/v1/push", `{"items":[{"queue":"q","transactionId":"`+half+`","payload":1}]}`).refused(t, 400)
		n.must(201, "POST", "/api/v1/push", `{"items":[{"queue":"halves","payload":"`+half+`"}]}`)
	}
	if got := n.pop("q", "batch=100").txns(); len(got) != 1 || got[0] != "before" {
		t.Errorf("popped %v", got)
	}
	if got := n.pop("halves", "batch=100").Messages; len(got) != 3 || string(got[0].Data) != `"\ud800"` {
		t.Errorf("payloads with half a pair: %v", got)
	}
}

// F38: an overlong id was cut and broke the frame.
func TestOverlongIdsAndNamesLeaveNoTrace(t *testing.T) {
	t.Parallel()
	n := start(t)
	for _, size := range []int{65_536, 1_000_000} {
		n.do("POST", "/api/v1/push", `{"items":[`+item("q", "p", strings.Repeat("x", size), "1")+`]}`).refused(t, 400)
	}
	n.do("POST", "/api/v1/push", `{"items":[`+item(strings.Repeat("q", 1_000_000), "p", "t", "1")+`]}`).refused(t, 413)
	n.do("POST", "/api/v1/push", `{"items":[`+item("q", strings.Repeat("q", 412), "t", "1")+`]}`).refused(t, 413)
	n.push("q", "p", strings.Repeat("x", 65_535), "1", "01", "1 ", "\u00c9", "E\u0301")
	if got := n.pop("q", "batch=100").Messages; len(got) != 6 {
		t.Errorf("popped %d messages, want 6", len(got))
	}
}
