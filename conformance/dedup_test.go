package conformance

import (
	"net/http"
	"sync"
	"testing"
	"time"
)

// again pushes one message and returns its result.
func (e *env) again(q, p, id string) node {
	e.Helper()
	return e.pushItems(item(q, p, id, `"again"`))[0]
}

func TestR80_DuplicateShape(t *testing.T) {
	e := shared(t, "S4")
	q := e.queue()
	e.push(q, "p", "x")
	id := e.push(q, "p", "a")[0].str("message_id")
	n := e.again(q, "p", "a").onlyKeys(pushKeys)
	n.is("index", 0, "message_id", id, "transaction_id", "a", "queueName", q, "status", "duplicate", "offset", 1)
	b := e.pop(q).want("x", "a")
	if got := b.msgs[1].at("data").text(); got != payloadOf("a") {
		t.Errorf("data %s", got)
	}
}

func TestR80_ScopeIsOnePartition(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	e.push(q, "p2", "a")
	e.push(e.queue(), "p", "a")
}

func TestR80_IDsAreComparedExactly(t *testing.T) {
	e := shared(t, "F41")
	q := e.queue()
	ids := []string{"1", "01", "1 ", " 1", "\u00c9", "E\u0301", "a", "A", "1.0", ""}
	for _, id := range ids[:len(ids)-1] {
		e.push(q, "p", id)
	}
	for _, id := range ids[:len(ids)-1] {
		e.again(q, "p", id).is("status", "duplicate", "transaction_id", id)
	}
}

func TestR80_DuplicateOfAConsumedMessage(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a")
	e.finish("", b)
	e.again(q, "p", "a").is("status", "duplicate", "message_id", b.msgs[0].str("id"), "offset", 0)
	e.popNone(q)
}

func TestR80_ZeroWindowTurnsItOff(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"dedupWindowSeconds":0}`)
	e.push(q, "p", "a")
	e.push(q, "p", "a")[0].is("offset", 1)
	e.pop(q).want("a", "a")
}

func TestR80_ConcurrentEqualPushesQueueOne(t *testing.T) {
	e := shared(t)
	for range 5 {
		q := e.queue()
		var wg sync.WaitGroup
		results := make(chan outcomeOf, 12)
		for range 12 {
			wg.Go(func() {
				results <- <-e.start("POST", "/api/v1/push", `{"items":[`+item(q, "p", "a", "1")+`]}`).result
			})
		}
		wg.Wait()
		close(results)
		count := map[string]int{}
		ids := map[string]bool{}
		for out := range results {
			if out.err != nil {
				t.Fatal(out.err)
			}
			n := out.reply.arr(http.StatusCreated)[0].is("offset", 0)
			count[n.str("status")]++
			ids[n.str("message_id")] = true
		}
		if count["queued"] != 1 || count["duplicate"] != 11 || len(ids) != 1 {
			t.Errorf("%v with %d message ids", count, len(ids))
		}
	}
}

func TestR81_TwiceInOneRequest(t *testing.T) {
	e := shared(t)
	for _, window := range []string{"3600", "0"} {
		q := e.queue()
		e.configure(q, `{"dedupWindowSeconds":`+window+`}`)
		out := e.pushItems(item(q, "p", "a", "1"), item(q, "p2", "a", "2"), item(q, "p", "a", "3"), item(q, "p", "b", "4"), item(q, "p", "a", "5"))
		first := out[0].is("status", "queued", "offset", 0).str("message_id")
		out[1].is("status", "queued", "offset", 0)
		out[2].is("status", "duplicate", "message_id", first, "offset", 0, "index", 2)
		out[3].is("status", "queued", "offset", 1)
		out[4].is("status", "duplicate", "message_id", first, "offset", 0)
		b := e.pin(q, "p").want("a", "b")
		if got := b.msgs[0].at("data").text(); got != "1" {
			t.Errorf("the first did not win: %s", got)
		}
	}
}

func TestR81_WinnerThatIsADuplicateItself(t *testing.T) {
	e := shared(t)
	q := e.queue()
	id := e.push(q, "p", "a")[0].str("message_id")
	for _, n := range e.pushItems(item(q, "p", "a", "1"), item(q, "p", "a", "2")) {
		n.is("status", "duplicate", "message_id", id, "offset", 0)
	}
}

func TestR82_AfterTheWindowItIsANewMessage(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"dedupWindowSeconds":2}`)
	begun := time.Now()
	e.push(q, "p", "a")
	if n := e.again(q, "p", "a"); time.Since(begun) < 2*time.Second {
		n.is("status", "duplicate")
	}
	e.eventually("the window passes", func() bool { return e.again(q, "p", "a").str("status") == "queued" })
	e.atLeast(begun, 1900*time.Millisecond, "accepted")
	e.pop(q).want("a", "a")
}

func TestR82_LowestOffsetOfSeveral(t *testing.T) {
	e := shared(t, "R83")
	q := e.queue()
	e.configure(q, `{"dedupWindowSeconds":0}`)
	id := e.push(q, "p", "a")[0].str("message_id")
	e.push(q, "p", "a", "b")
	e.configure(q, `{"dedupWindowSeconds":3600}`)
	e.again(q, "p", "a").is("status", "duplicate", "message_id", id, "offset", 0)
}

func TestR82_OriginalRemovedByRetention(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"retentionEnabled":true,"retentionSeconds":1}`)
	e.push(q, "p", "a")
	e.eventually("retention removes the message", func() bool { return e.retained(q) == 0 })
	e.again(q, "p", "a").is("status", "duplicate", "message_id", zeroID, "transaction_id", "a")
	e.push(q, "p", "b")[0].is("offset", 1)
}

func TestR83_NarrowingActsAtOnce(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	e.configure(q, `{"dedupWindowSeconds":0}`)
	e.push(q, "p", "a")
}

func TestR83_WideningBringsIDsBack(t *testing.T) {
	e := shared(t, "S20")
	q := e.queue()
	e.configure(q, `{"dedupWindowSeconds":1}`)
	begun := time.Now()
	e.push(q, "p", "a")
	e.eventually("the window passes", func() bool { return time.Since(begun) > 1200*time.Millisecond })
	e.configure(q, `{"dedupWindowSeconds":3600}`)
	e.again(q, "p", "a").is("status", "duplicate", "offset", 0)
}

func TestR85_IDsStayResolvableWithoutDedup(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"dedupWindowSeconds":0}`)
	e.push(q, "p", "a", "b")
	b := e.pop(q, "leaseSeconds=1")
	e.eventually("the lease ends", func() bool { return e.depth(q, "").num("processing") == 0 })
	accepted(e.ackAs("", b, "", "a=completed")...)
	e.ackAs("", b, "", "a=completed")[0].is("success", true, "noop", true)
	e.depth(q, "").is("pending", 1)
}

func TestR85_ShortDedupWindowDoesNotShortenTheAckWindow(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"dedupWindowSeconds":1}`)
	begun := time.Now()
	e.push(q, "p", "a", "b")
	b := e.pop(q)
	e.ack("", b, "a=completed")
	e.eventually("the window passes", func() bool { return time.Since(begun) > 1500*time.Millisecond })
	e.ack("", b, "a=completed")[0].is("success", true, "noop", true)
	accepted(e.ack("", b, "b=completed")...)
}

func TestS20_OwnLeaseResolvesHoweverOld(t *testing.T) {
	_, e := own(t, "QUEEN_TXN_WINDOW_MIN_S=1")
	q := e.queue()
	e.configure(q, `{"dedupWindowSeconds":0}`)
	begun := time.Now()
	e.push(q, "p", "a", "b")
	b := e.pop(q)
	e.eventually("the ack window passes", func() bool { return time.Since(begun) > 2500*time.Millisecond })
	accepted(e.ack("", b, "b=completed")...)
	e.popNone(q)
}

func TestS20_DeletedQueueHasEmptyDedup(t *testing.T) {
	e := shared(t, "S5")
	q := e.queue()
	e.push(q, "p", "a")
	old := e.detail(q).str("id")
	e.deadLetter(q, "x", "dead")
	e.del("/api/v1/resources/queues/"+seg(q)).obj(http.StatusOK).is("deleted", true)
	e.push(q, "p", "a")[0].is("offset", 0)
	if e.detail(q).str("id") == old {
		t.Error("the queue kept its id")
	}
	if len(e.dlq(q)) != 0 {
		t.Error("dead letters survived the queue")
	}
	e.pop(q).want("a").attempt(1)
}
