package conformance

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// listed returns the transaction ids of a message listing.
func (e *env) listed(params string) []string {
	e.Helper()
	var out []string
	for _, n := range e.get("/api/v1/messages?" + params).obj(http.StatusOK).list("messages") {
		out = append(out, n.str("transactionId"))
	}
	return out
}

func TestS6_MessageListShape(t *testing.T) {
	e := shared(t)
	q := e.name("n") + ".mail"
	pushed := e.push(q, "p", "a", "b")
	pid := e.pop(q, all(e.name("g"))).pid()
	n := e.get("/api/v1/messages?queue="+q).obj(http.StatusOK).hasKeys("messages mode total").is("total", 2)
	n.at("mode").hasKeys("hasQueueMode busGroupsCount type").is("hasQueueMode", false, "busGroupsCount", 1, "type", "bus")
	m := n.at("messages", 0)
	m.hasKeys("id transactionId txnHash partitionId queuePath queue partition namespace task status queueStatus busStatus traceId producerSub payloadAvailable segment createdAt leaseExpiresAt data payload")
	m.is("id", pushed[1].str("message_id"), "transactionId", "b", "partitionId", pid, "queuePath", q+"/p", "queue", q, "partition", "p",
		"task", "mail", "traceId", nil, "producerSub", nil, "payloadAvailable", true)
	m.at("busStatus").hasKeys("consumedBy totalGroups").is("consumedBy", 0, "totalGroups", 1)
	m.at("segment").hasKeys("seq frameIdx")
	if m.at("data").text() != payloadOf("b") || m.at("payload").text() != payloadOf("b") {
		t.Errorf("data %s, payload %s", m.at("data").text(), m.at("payload").text())
	}
	m.when("createdAt")
}

func TestS6_MessageListOrderAndPages(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p1", "a", "b", "c")
	e.push(q, "p2", "d")
	if got := e.listed("queue=" + q); !slices.Equal(got, []string{"d", "c", "b", "a"}) {
		t.Errorf("order %v", got)
	}
	if got := e.listed("queue=" + q + "&partition=p1&limit=2"); !slices.Equal(got, []string{"c", "b"}) {
		t.Errorf("first page %v", got)
	}
	if got := e.listed("queue=" + q + "&partition=p1&limit=2&offset=2"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("second page %v", got)
	}
	if got := e.listed("queue=" + q + "&from=2999-01-01T00:00:00Z"); len(got) != 0 {
		t.Errorf("future %v", got)
	}
	if got := e.listed("queue=" + q + "&from=2001-01-01T00:00:00Z&to=2001-01-02T00:00:00Z"); len(got) != 0 {
		t.Errorf("past %v", got)
	}
	if got := e.listed("namespace=" + q); len(got) != 4 {
		t.Errorf("namespace: %v", got)
	}
	if got := e.listed("ns=" + q + "&task="); len(got) != 4 {
		t.Errorf("ns: %v", got)
	}
}

func TestS6_MessageListLimitIsClamped(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", series(1, 1005)...)
	for limit, want := range map[string]int{"": 200, "0": 1, "-4": 1, "5000": 1000, "1000": 1000} {
		params := "queue=" + q
		if limit != "" {
			params += "&limit=" + limit
		}
		if got := len(e.listed(params)); got != want {
			t.Errorf("limit=%s gave %d messages, want %d", limit, got, want)
		}
	}
}

func TestS6_MessageListTimeBounds(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	e.push(q, "p", "b")
	msgs := e.pop(q).msgs
	at := msgs[1].when("createdAt").UTC()
	if got := e.listed("queue=" + q + "&from=" + arg(msgs[1].str("createdAt"))); !slices.Equal(got, []string{"b"}) {
		t.Errorf("from is inclusive: %v", got)
	}
	// The minute that to names is included whole.
	minute := at.Truncate(time.Minute)
	if got := e.listed("queue=" + q + "&to=" + arg(minute.Format(time.RFC3339))); !slices.Contains(got, "b") {
		t.Errorf("to=%v: %v", minute, got)
	}
	if got := e.listed("queue=" + q + "&to=" + arg(minute.Add(-time.Minute).Format(time.RFC3339))); slices.Contains(got, "b") {
		t.Errorf("to=a minute earlier: %v", got)
	}
}

func TestS6_MessageStatuses(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "dead", "done", "busy", "idle")
	e.ack("", e.pop(q, "batch=2"), "dead=dlq", "done=completed")
	e.pop(q, "batch=1").want("busy")
	list := e.get("/api/v1/messages?queue=" + q).obj(http.StatusOK).list("messages")
	for id, status := range map[string]string{"dead": "dead_letter", "done": "completed", "busy": "processing", "idle": "pending"} {
		find(t, list, "transactionId", id).is("status", status)
		if got := e.listed("queue=" + q + "&status=" + status); !slices.Equal(got, []string{id}) {
			t.Errorf("status=%s: %v", status, got)
		}
	}
	find(t, list, "transactionId", "busy").when("leaseExpiresAt")
	find(t, list, "transactionId", "idle").is("leaseExpiresAt", nil)
}

func TestS6_MessageDetail(t *testing.T) {
	e := shared(t)
	q, g := e.name("n")+".t", e.name("g")
	id := e.push(q, "p", "a")[0].str("message_id")
	b := e.pop(q)
	e.finish(g, e.pop(q, all(g)))
	n := e.get(address(b.pid(), "a")).obj(http.StatusOK)
	n.hasKeys("id transactionId data payload traceId producerSub createdAt partitionId partition isEncrypted queue queuePath namespace task status errorMessage retryCount leaseExpiresAt consumerGroups mode queueConfig")
	n.is("id", id, "transactionId", "a", "traceId", nil, "producerSub", nil, "partitionId", b.pid(), "partition", "p", "isEncrypted", false, "queue", q, "queuePath", q+"/p",
		"task", "t", "status", "processing", "errorMessage", nil, "retryCount", 0)
	n.at("queueConfig").hasKeys("leaseTime retryLimit retryDelay ttl priority").is("leaseTime", 60, "retryLimit", 3)
	groups := n.list("consumerGroups")
	find(t, groups, "group", g).hasKeys("name group consumed leaseExpiresAt").is("consumed", true)
	find(t, groups, "group", "__QUEUE_MODE__").is("consumed", false)
}

func TestS6_MessageDetailFallsBackToTheNameSplit(t *testing.T) {
	e := shared(t)
	u := e.name("n")
	q := u + ".job.x"
	e.configure(q, `{}`)
	e.push(q, "p", "a")
	e.get(address(e.pop(q).pid(), "a")).obj(http.StatusOK).is("namespace", u, "task", "job")
}

func TestS6_UnknownMessage(t *testing.T) {
	e := shared(t)
	_, b := taken(e, "a")
	e.get(address(b.pid(), "ghost")).refuses(http.StatusNotFound, "Message not found")
	e.get(address("nowhere", "a")).refuses(http.StatusNotFound, "Message not found")
}

func TestS6_ReadsMoveNothing(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a", "b")
	e.listed("queue=" + q)
	e.detail(q)
	e.pop(q).want("a", "b").attempt(1)
}
