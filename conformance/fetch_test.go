package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// fetch reads by offset; more is further top-level members with a comma.
func (e *env) fetch(more string, entries ...string) []node {
	e.Helper()
	n := e.post("/api/v1/fetch", `{"entries":[`+strings.Join(entries, ",")+`]`+more+`}`).obj(http.StatusOK)
	out := n.list("entries")
	if len(out) != len(entries) {
		e.Fatalf("%d entries for %d", len(out), len(entries))
	}
	return out
}

// entry writes a fetch entry.
func entry(q, p string, offset int, more ...string) string {
	return fmt.Sprintf(`{"queue":%s,"partition":%s,"offset":%d%s}`, quote(q), quote(p), offset, strings.Join(more, ""))
}

func TestS11_FetchShape(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a", "b")
	n := e.fetch("", entry(q, "p", 0))[0]
	n.hasKeys("queue partition records highWatermark logStartOffset").lacks("error")
	n.is("queue", q, "partition", "p", "highWatermark", 2, "logStartOffset", 0)
	recs := n.list("records")
	if len(recs) != 2 {
		t.Fatalf("%d records", len(recs))
	}
	for i, r := range recs {
		r.onlyKeys("offset transactionId payload ts").is("offset", i, "transactionId", []string{"a", "b"}[i])
		r.matches(timeMicro, "ts")
		if got := r.at("payload").text(); got != payloadOf([]string{"a", "b"}[i]) {
			t.Errorf("payload %s", got)
		}
	}
	e.pop(q).msgs[0].is("createdAt", recs[0].str("ts"))
}

func TestS11_FetchMovesNothing(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a", "b", "c")
	b := e.pop(q, all(g), "batch=1")
	if n := len(e.fetch("", entry(q, "p", 0))[0].list("records")); n != 3 {
		t.Errorf("%d records beside a lease", n)
	}
	e.leased(b.lease, true)
	e.depth(q, g).is("pending", 3, "processing", 1)
	e.finish(g, b)
	e.fetch("", entry(q, "p", 0))[0].at("records", 0).is("transactionId", "a")
	e.pop(q, group(g)).want("b", "c").attempt(1)
}

func TestS11_FetchFromTheMiddleAndTheEnd(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a", "b", "c")
	out := e.fetch("", entry(q, "p", 2), entry(q, "p", 3), entry(q, "p", 4), entry(e.queue(), "p", 0), entry(q, "unwritten", 0))
	out[0].at("records", 0).is("offset", 2, "transactionId", "c")
	if len(out[1].lacks("error").list("records")) != 0 {
		t.Error("records at the end")
	}
	out[1].is("highWatermark", 3)
	out[2].is("error", "OFFSET_OUT_OF_RANGE")
	out[3].is("error", "UNKNOWN_TOPIC_OR_PARTITION")
	if len(out[4].lacks("error").list("records")) != 0 {
		t.Error("records in an unwritten partition")
	}
}

func TestS11_FetchBehindTheLogStart(t *testing.T) {
	e := shared(t, "R90")
	q := e.queue()
	expire(e, q, "a", "b")
	e.configure(q, `{}`)
	e.push(q, "p", "c")
	out := e.fetch("", entry(q, "p", 0), entry(q, "p", 2))
	out[0].is("error", "OFFSET_OUT_OF_RANGE", "logStartOffset", 2, "highWatermark", 3)
	out[1].at("records", 0).is("offset", 2, "transactionId", "c")
}

func TestS11_FetchPartitionForms(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "", "d")
	e.push(q, "7", "n")
	out := e.fetch("", `{"queue":`+quote(q)+`,"offset":0}`, `{"queue":`+quote(q)+`,"partition":null,"offset":0}`, `{"queue":`+quote(q)+`,"partition":7,"offset":0}`)
	out[0].at("records", 0).is("transactionId", "d")
	out[1].at("records", 0).is("transactionId", "d")
	out[2].at("records", 0).is("transactionId", "n")
}

func TestS11_FetchRefusesBadShapes(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	var many []string
	for range 1025 {
		many = append(many, entry(q, "p", 0))
	}
	for _, body := range []string{
		"", "{", `{}`, `{"entries":{}}`, `{"entries":[` + entry(q, "p", -1) + `]}`, `{"entries":[{"queue":5,"offset":0}]}`, `{"entries":[{"offset":0}]}`,
		`{"entries":[{"queue":` + quote(q) + `,"partition":{},"offset":0}]}`, `{"entries":[` + strings.Join(many, ",") + `]}`,
	} {
		e.post("/api/v1/fetch", body).obj(http.StatusBadRequest).hasKeys("error")
	}
	if n := len(e.fetch("", many[:1024]...)); n != 1024 {
		t.Errorf("%d entries", n)
	}
}

func TestS11_FetchMaxBytes(t *testing.T) {
	e := shared(t)
	q := e.queue()
	big := `"` + strings.Repeat("x", 3000) + `"`
	e.pushItems(item(q, "p", "a", big), item(q, "p", "b", big), item(q, "p", "c", big))
	if n := len(e.fetch("", entry(q, "p", 0, `,"maxBytes":4000`))[0].list("records")); n < 1 || n > 2 {
		t.Errorf("4000 bytes hold %d records of 3000", n)
	}
	if n := len(e.fetch("", entry(q, "p", 0, `,"maxBytes":1`))[0].list("records")); n > 1 {
		t.Errorf("one byte holds %d records", n)
	}
}

func TestS11_FetchWaits(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	begun := time.Now()
	if n := len(e.fetch(`,"maxWaitMs":800,"minBytes":1`, entry(q, "p", 1))[0].list("records")); n != 0 {
		t.Errorf("%d records", n)
	}
	e.atLeast(begun, 600*time.Millisecond, "empty answer")
	p := e.start("POST", "/api/v1/fetch", `{"entries":[`+entry(q, "p", 1)+`],"maxWaitMs":20000,"minBytes":1}`)
	settle()
	p.stillParked()
	e.push(q, "p", "b")
	p.wait(10*time.Second).obj(http.StatusOK).at("entries", 0, "records", 0).is("transactionId", "b")
}

func TestS11_FetchOffsets(t *testing.T) {
	e := shared(t)
	q := e.queue()
	for _, id := range []string{"a", "b", "c"} {
		e.push(q, "p", id)
	}
	msgs := e.pop(q).msgs
	ask := func(stamp string) node {
		return e.post("/api/v1/fetch/offsets", `{"entries":[{"queue":`+quote(q)+`,"partition":"p","timestamp":`+stamp+`}]}`).obj(http.StatusOK).at("entries", 0)
	}
	n := ask(quote(msgs[1].str("createdAt"))).hasKeys("queue partition offset ts highWatermark logStartOffset")
	n.is("queue", q, "partition", "p", "offset", 1, "ts", msgs[1].str("createdAt"), "highWatermark", 3, "logStartOffset", 0)
	ask("0").is("offset", 0)
	ask(`"2001-01-01T00:00:00Z"`).is("offset", 0, "ts", msgs[0].str("createdAt"))
	ask(`"2999-01-01T00:00:00Z"`).is("offset", nil, "ts", nil, "highWatermark", 3)
	ask(fmt.Sprint(time.Now().Add(time.Hour).UnixMilli())).is("offset", nil)
	e.post("/api/v1/fetch/offsets", `{"entries":[{"queue":"`+e.queue()+`","partition":"p","timestamp":0}]}`).obj(http.StatusOK).
		at("entries", 0).is("error", "UNKNOWN_TOPIC_OR_PARTITION")
}

func TestS11_PartitionsChanged(t *testing.T) {
	e := shared(t)
	q := lanes(e, 5)
	ask := func(more string) node {
		return e.post("/api/v1/partitions/changed", `{"entries":[{"queue":`+quote(q)+more+`}]}`).obj(http.StatusOK)
	}
	n := ask("").hasKeys("safeTime safeTimeDegraded entries").is("safeTimeDegraded", false)
	n.when("safeTime")
	first := n.at("entries", 0).is("queue", q, "next", nil)
	if len(first.list("partitions")) != 5 {
		t.Errorf("%d partitions", len(first.list("partitions")))
	}
	first.at("partitions", 0).onlyKeys("id name lastOffset logStart lastWriteAt").is("lastOffset", 0, "logStart", 0)
	since := n.str("safeTime")
	e.eventually("nothing changed since", func() bool {
		return len(ask(`,"since":`+quote(since)).list("entries", 0, "partitions")) == 0 || since == ask("").str("safeTime")
	})
	e.push(q, "p3", "again")
	changed := ask(`,"since":`+quote(since)).list("entries", 0, "partitions")
	find(t, changed, "name", "p3").is("lastOffset", 1)

	seen := map[string]bool{}
	after := ""
	for range 5 {
		page := ask(`,"limit":2`+after).at("entries", 0)
		for _, p := range page.list("partitions") {
			seen[p.str("name")] = true
		}
		if page.at("next").text() == "null" {
			break
		}
		after = `,"after":` + page.at("next").text()
	}
	if len(seen) != 5 {
		t.Errorf("pages held %d partitions", len(seen))
	}
}

func TestS11_PartitionsChangedErrors(t *testing.T) {
	e := shared(t)
	q := lanes(e, 1)
	n := e.post("/api/v1/partitions/changed", `{"entries":[{"queue":"`+e.queue()+`"},{"queue":`+quote(q)+`,"after":"nonsense"}]}`).obj(http.StatusOK)
	n.at("entries", 0).is("error", "UNKNOWN_TOPIC_OR_PARTITION")
	n.at("entries", 1).is("error", "BAD_CURSOR")
	for _, body := range []string{"", `{}`, `{"entries":[{"queue":""}]}`, `{"entries":[{"queue":` + quote(q) + `,"since":"soon"}]}`} {
		e.post("/api/v1/partitions/changed", body).obj(http.StatusBadRequest).hasKeys("error")
	}
}
