package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// pushKeys are the members of every accepted push result.
const pushKeys = "index message_id transaction_id queueName status offset"

func TestS4_PushResultShape(t *testing.T) {
	e := shared(t)
	q := e.queue()
	out := e.pushItems(item(q, "p", "a", `{"eur":12}`), item(q, "p", "b", `1`))
	for i, n := range out {
		n.onlyKeys(pushKeys).is("index", i, "transaction_id", []string{"a", "b"}[i], "queueName", q, "status", "queued", "offset", i)
		n.matches(uuid7, "message_id")
	}
}

func TestS4_PushOfNoItemsIsAnEmptyArray(t *testing.T) {
	e := shared(t)
	if got := e.post("/api/v1/push", `{"items":[]}`).arr(http.StatusCreated); len(got) != 0 {
		t.Errorf("%d results for no items", len(got))
	}
}

func TestS4_PushRefusesAShapeThatIsNoPush(t *testing.T) {
	e := shared(t)
	for _, body := range []string{`{}`, `{"items":null}`, `{"items":{}}`, `{"items":"x"}`, `[]`, `{"items":[1]}`, `"x"`, `null`, `{"items":[null]}`} {
		if e.post("/api/v1/push", body).obj(http.StatusBadRequest).str("error") == "" {
			t.Errorf("%s: empty error", body)
		}
	}
}

func TestS4_PushOfBadJSONSaysBadBody(t *testing.T) {
	e := shared(t)
	for _, body := range []string{"", "{", `{"items":[`, `{"items":[]}x`, "not json"} {
		n := e.post("/api/v1/push", body).obj(http.StatusBadRequest)
		if got := n.str("error"); !strings.HasPrefix(got, "bad body: ") {
			t.Errorf("%q: error %q", body, got)
		}
		n.is("code", "bad_body")
	}
}

// refusedWhole pushes a good item beside a bad one and checks that the
// request is refused and nothing of it is stored.
func refusedWhole(e *env, bad string) {
	e.Helper()
	q := e.queue()
	body := `{"items":[` + item(q, "p", "good", "1") + "," + bad + `]}`
	if e.post("/api/v1/push", body).obj(http.StatusBadRequest).str("error") == "" {
		e.Errorf("%s: empty error", bad)
	}
	e.get("/api/v1/resources/queues/"+seg(q)).refuses(http.StatusNotFound, "Queue not found")
}

func TestS20_PushWithoutQueueRefusesTheWholeRequest(t *testing.T) {
	e := shared(t, "S4")
	refusedWhole(e, `{"payload":1}`)
	refusedWhole(e, `{"queue":null,"payload":1}`)
	refusedWhole(e, `{"queue":7,"payload":1}`)
}

func TestS20_PushWithoutPayloadRefusesTheWholeRequest(t *testing.T) {
	e := shared(t, "S4")
	refusedWhole(e, `{"queue":"x"}`)
}

func TestS4_PushDoesNotTakeDataForPayload(t *testing.T) {
	refusedWhole(shared(t), `{"queue":"x","data":1}`)
}

func TestS20_PushWithAnIDOf65536BytesRefusesTheWholeRequest(t *testing.T) {
	e := shared(t, "S1", "F38")
	refusedWhole(e, item("x", "", strings.Repeat("i", 65536), "1"))
	q := e.queue()
	n := e.post("/api/v1/push", `{"items":[`+item(q, "", strings.Repeat("i", 65536), "1")+`]}`).obj(http.StatusBadRequest)
	n.is("code", "bad_request")
	long := strings.Repeat("i", 65535)
	e.push(q, "", long)
	e.pop(q).want(long)
}

func TestS4_PushMintsTheTransactionID(t *testing.T) {
	e := shared(t)
	q := e.queue()
	n := e.pushItems(item(q, "", "", "1"))[0]
	id := n.matches(uuid7, "message_id")
	n.is("transaction_id", id)
	e.pop(q).msgs[0].is("id", id, "transactionId", id)
}

func TestS4_PushDefaultPartition(t *testing.T) {
	e := shared(t, "S20")
	q := e.queue()
	e.pushItems(item(q, "", "a", "1"), `{"queue":`+quote(q)+`,"partition":null,"transactionId":"b","payload":1}`,
		`{"queue":`+quote(q)+`,"partition":"","transactionId":"c","payload":1}`, item(q, "Default", "d", "1"))
	b := e.pin(q, "Default").want("a", "b", "c", "d")
	b.is("partition", "Default")
}

func TestS4_PayloadIsStoredByteForByte(t *testing.T) {
	e := shared(t, "F40")
	payloads := []string{
		`null`, `true`, `false`, `0`, `-0`, `1.0`, `1e3`, `1E+03`, `0.10`, `9007199254740993`, `123456789012345678901234567890`,
		`""`, `"é"`, `"\u00e9"`, `"\/"`, `"/"`, `"\ud83d\ude00"`, `"<&>"`, `"\u003c"`, `[]`, `{}`, `[ 1,  2 ]`,
		`{"n":9007199254740993}`, `{"b":1,"a":2}`, `{"a":1,"a":2}`, `{ "a" : { "b" : [ null , true ] } }`, "{\n\t\"a\": 1\r\n}",
		`{"":""}`, `"` + strings.Repeat("x", 200000) + `"`,
	}
	q := e.queue()
	var items []string
	for i, p := range payloads {
		items = append(items, item(q, "", fmt.Sprint(i), p))
	}
	e.pushItems(items...)
	b := e.pop(q, "batch=100")
	if len(b.msgs) != len(payloads) {
		t.Fatalf("%d messages, want %d", len(b.msgs), len(payloads))
	}
	for i, m := range b.msgs {
		if got := m.at("data").text(); got != payloads[i] {
			t.Errorf("payload %s came back as %s", clip(payloads[i]), clip(got))
		}
	}
}

func TestS4_PushIgnoresTraceID(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.pushItems(`{"queue":` + quote(q) + `,"payload":1,"traceId":"6fa459ea-ee8a-4ca4-894e-db77e160355e"}`)
	e.pop(q).msgs[0].is("traceId", nil)
}

func TestS4_PushIgnoresProducerSubInTheBody(t *testing.T) {
	e := shared(t, "F36", "S2")
	q := e.queue()
	e.pushItems(`{"queue":` + quote(q) + `,"payload":1,"producerSub":"mallory"}`)
	e.pop(q).msgs[0].is("producerSub", nil)
}

func TestS4_PushAnswersInRequestOrder(t *testing.T) {
	e := shared(t)
	q1, q2 := e.queue(), e.queue()
	var items []string
	for i := range 40 {
		items = append(items, item([]string{q1, q2}[i%2], fmt.Sprint("p", i%3), fmt.Sprint(i), "1"))
	}
	next := map[string]int{}
	for i, n := range e.pushItems(items...) {
		lane := fmt.Sprint(i%2, i%3)
		n.is("index", i, "transaction_id", fmt.Sprint(i), "queueName", []string{q1, q2}[i%2], "offset", next[lane])
		next[lane]++
	}
}

func TestS4_PushCreatesTheQueueWithLeaseTime60(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	n := e.detail(q).is("name", q)
	n.matches(uuid7, "id")
	n.at("options").is("leaseTime", 60, "retryLimit", 3, "dedupWindowSeconds", 3600)
}

func TestS4_PushDerivesNamespaceAndTask(t *testing.T) {
	e := shared(t)
	u := e.name("n")
	for _, row := range [][3]string{
		{u + "a", u + "a", ""}, {u + "b.new", u + "b", "new"}, {u + "c.x.y", u + "c", "x"}, {u + "d.", u + "d", ""}, {u + "e..z", u + "e", ""}, {"." + u, "", u},
	} {
		e.push(row[0], "", "m")
		e.detail(row[0]).is("namespace", row[1], "task", row[2])
	}
}

func TestS4_PopDerivesNamespaceAndTask(t *testing.T) {
	e := shared(t)
	u := e.name("n")
	e.popNone(u + ".mail.x")
	e.detail(u+".mail.x").is("namespace", u, "task", "mail")
	e.popNone(u)
	e.detail(u).is("namespace", u, "task", "")
}

func TestS4_NamespaceIsNeverRecomputed(t *testing.T) {
	e := shared(t)
	q := e.name("n") + ".t"
	e.configure(q, `{}`).is("namespace", "", "task", "")
	e.push(q, "", "a")
	e.popNone(q, group(e.name("g")))
	e.detail(q).is("namespace", "", "task", "")
}

func TestR1_OffsetsStartAtZeroWithoutGaps(t *testing.T) {
	e := shared(t)
	q := e.queue()
	for i := range 5 {
		e.push(q, "p", fmt.Sprint(i))[0].is("offset", i)
	}
	e.push(q, "other", "x")[0].is("offset", 0)
	for i, m := range e.pin(q, "p").want("0", "1", "2", "3", "4").msgs {
		m.is("offset", i)
	}
}

func TestR1_DuplicatesTakeNoOffset(t *testing.T) {
	e := shared(t, "R80")
	q := e.queue()
	e.push(q, "p", "a")
	e.pushItems(item(q, "p", "a", "1"), item(q, "p", "b", "1"))[1].is("offset", 1)
	e.push(q, "p", "c")[0].is("offset", 2)
}

func TestR1_ConcurrentPushesLeaveNoGap(t *testing.T) {
	e := shared(t, "F17")
	q := e.queue()
	const writers, each = 12, 15
	var wg sync.WaitGroup
	replies := make(chan outcomeOf, writers*each)
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%d-%d", w, i)
				replies <- <-e.start("POST", "/api/v1/push", `{"items":[`+item(q, "p", id, "1")+`]}`).result
			}
		})
	}
	wg.Wait()
	close(replies)
	at := map[int64]string{}
	for out := range replies {
		if out.err != nil {
			t.Fatal(out.err)
		}
		n := out.reply.arr(http.StatusCreated)[0]
		at[n.num("offset")] = n.str("transaction_id")
	}
	b := e.pin(q, "p", "batch=1000")
	if len(b.msgs) != writers*each {
		t.Fatalf("%d messages, want %d", len(b.msgs), writers*each)
	}
	last := map[string]int{}
	for i, m := range b.msgs {
		m.is("offset", i, "transactionId", at[int64(i)])
		var w string
		var n int
		if _, err := fmt.Sscanf(strings.Replace(m.str("transactionId"), "-", " ", 1), "%s %d", &w, &n); err != nil {
			t.Fatal(err)
		}
		if old, ok := last[w]; ok && n != old+1 {
			t.Errorf("writer %s: %d follows %d", w, n, old)
		}
		last[w] = n
	}
}

func TestS4_CreatedAtNeverGoesBack(t *testing.T) {
	e := shared(t, "F26")
	q := e.queue()
	for range 6 {
		e.pushItems(item(q, "p", "", "1"), item(q, "p", "", "2"))
	}
	var stamps []string
	for _, m := range e.pin(q, "p").msgs {
		stamps = append(stamps, m.matches(timeMicro, "createdAt"))
	}
	if !slices.IsSorted(stamps) {
		t.Errorf("createdAt goes back: %v", stamps)
	}
}

func TestS4_PushOfAThousandItems(t *testing.T) {
	e := shared(t)
	q := e.queue()
	var items []string
	for i := range 1000 {
		items = append(items, item(q, "p", "", fmt.Sprint(i)))
	}
	for i, n := range e.pushItems(items...) {
		if n.num("offset") != int64(i) {
			t.Fatalf("item %d got offset %s", i, n.at("offset").text())
		}
	}
	for i, m := range e.pin(q, "p", "batch=1000").msgs {
		if m.at("data").text() != fmt.Sprint(i) {
			t.Fatalf("message %d holds %s", i, m.at("data").text())
		}
	}
}

func TestS13_ItemsOverTheEntryLimitFailAlone(t *testing.T) {
	_, e := own(t, "QUEEN_ENTRY_MAX_BYTES=20000")
	q := e.queue()
	out := e.pushItems(item(q, "big", "a", `"`+strings.Repeat("x", 50000)+`"`), item(q, "small", "b", "1"))
	out[0].is("index", 0, "status", "failed")
	if out[0].str("error") == "" {
		t.Error("a failed item needs an error text")
	}
	out[1].is("index", 1, "status", "queued", "offset", 0)
	e.pop(q, "partitions=5").want("b")
	// The refused item leaves no trace: the same id is new.
	e.pushItems(item(q, "big", "a", "1"))[0].is("status", "queued", "offset", 0)
}
