package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// clientID is an id as the SDKs make it: a UUIDv7 of the client.
func clientID(i int) string { return fmt.Sprintf("0199aa00-0000-7000-8000-%012x", i) }

func TestS14_JSPushAlwaysSendsPartitionAndID(t *testing.T) {
	e := shared(t)
	q := e.queue()
	out := e.post("/api/v1/push", `{"items":[{"queue":`+quote(q)+`,"partition":"Default","payload":{"a":1},"transactionId":`+quote(clientID(1))+`,"traceId":"6fa459ea-ee8a-4ca4-894e-db77e160355e"}]}`).arr(http.StatusCreated)
	out[0].is("status", "queued", "transaction_id", clientID(1)).lacks("error")
	if out[0].str("message_id") == clientID(1) {
		t.Error("the message id is the client's")
	}
}

func TestS14_JSPopSendsEveryParameter(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a")
	b := e.pop(q, "batch=1", "wait=true", "timeout=30000", "partitions=2", group(g), "subscriptionMode=all", "subscriptionFrom=", "autoAck=false", "conflation=false", "autopilot=false")
	b.want("a").msgs[0].hasKeys("transactionId id partitionId leaseId partition consumerGroup data createdAt queue producerSub")
}

func TestS14_JSPopPathsAreNotEscaped(t *testing.T) {
	e := shared(t, "S1")
	q := e.name("q") + "@x:y"
	e.push(q, "p:1@z", "a")
	e.get("/api/v1/pop/queue/" + q + "/partition/p:1@z").asBatch().want("a")
	// Message routes carry ids as they are, too.
	pid := e.get("/api/v1/pop/queue/" + q + "?" + all(e.name("g"))).asBatch().pid()
	e.get("/api/v1/messages/"+pid+"/a").obj(http.StatusOK).is("transactionId", "a")
}

func TestS14_GoEscapesNames(t *testing.T) {
	e := shared(t, "S1")
	q := e.name("q") + "/a b+c%d?e#f&g=h"
	e.push(q, "x/y z", "a")
	e.pin(q, "x/y z").want("a").is("queue", q, "partition", "x/y z")
}

func TestS14_JSConsumeLoop(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "Default", series(1, 7)...)
	for seen := 0; seen < 7; {
		b := e.popSoon(q, "batch=3", all(g))
		for _, m := range b.msgs {
			out := e.post("/api/v1/ack", `{"transactionId":`+quote(m.str("transactionId"))+`,"partitionId":`+quote(m.str("partitionId"))+
				`,"status":"completed","error":null,"consumerGroup":`+quote(g)+`,"leaseId":`+quote(m.str("leaseId"))+`}`).arr(http.StatusOK)
			if len(out) != 1 {
				t.Fatalf("%d results", len(out))
			}
			accepted(out...)
			seen++
		}
	}
	e.depth(q, g).is("pending", 0, "processing", 0)
}

func TestS14_EmptyObjectBodies(t *testing.T) {
	e := shared(t)
	q, b := taken(e, "a")
	n := e.post("/api/v1/lease/"+b.lease+"/extend", "{}").obj(http.StatusOK)
	n.is("success", true, "leaseId", b.lease).hasKeys("newExpiresAt lease_expires_at")
	e.ack("", b, "a=dlq")
	e.post(address(b.pid(), "a")+"/retry", "{}").obj(http.StatusOK).is("success", true)
	e.post("/api/v1/stats/refresh", "{}").want(http.StatusOK)
	e.get("/api/v1/consumer-groups/lagging?minLagSeconds=60").arr(http.StatusOK)
	e.popSoon(q)
}

func TestS14_JSConfigureSendsItsNineDefaults(t *testing.T) {
	e := shared(t)
	sent := []any{"leaseTime", 300, "retryLimit", 3, "priority", 0, "delayedProcessing", 0, "windowBuffer", 0, "maxSize", 0,
		"retentionSeconds", 0, "completedRetentionSeconds", 0, "encryptionEnabled", false}
	var parts []string
	for i := 0; i < len(sent); i += 2 {
		parts = append(parts, fmt.Sprintf("%q:%v", sent[i], sent[i+1]))
	}
	q := e.queue()
	n := e.post("/api/v1/configure", `{"queue":`+quote(q)+`,"namespace":null,"task":null,"options":{`+strings.Join(parts, ",")+`}}`).obj(http.StatusOK)
	n.is("configured", true).lacks("error").at("options").is(sent...)
}

func TestS14_JS1TransactionWithRequiredLeasesOnly(t *testing.T) {
	e := shared(t, "R113")
	src, b := taken(e, "a")
	out := e.queue()
	body := `{"operations":[{"type":"ack","transactionId":"a","partitionId":` + quote(b.pid()) + `,"status":"completed","consumerGroup":null},` +
		`{"type":"push","items":[{"queue":` + quote(out) + `,"payload":{"x":1}}]}],"requiredLeases":[` + quote(b.lease) + `]}`
	e.post("/api/v1/transaction", body).obj(http.StatusOK).is("success", true).lacks("error")
	e.popNone(src)
	e.pop(out)
}

func TestS14_DeleteQueueHasNoErrorKey(t *testing.T) {
	e := shared(t, "S5")
	q := e.queue()
	e.push(q, "p", "a")
	e.del("/api/v1/resources/queues/"+q).obj(http.StatusOK).lacks("error").is("deleted", true)
	e.del("/api/v1/resources/queues/"+q).obj(http.StatusOK).lacks("error").is("deleted", false)
}

func TestS14_DlqWithTheParametersOfTheSDK(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.deadLetter(q, "p", "a")
	n := e.get("/api/v1/dlq?queue=" + q + "&limit=10&offset=0&consumerGroup=__QUEUE_MODE__&partition=p&from=2020-01-01T00:00:00.000Z&to=2999-01-01T00:00:00.000Z").obj(http.StatusOK)
	n.is("total", 1).at("messages", 0).hasKeys("data errorMessage retryCount id transactionId partitionId failedAt")
}

func TestS14_PinnedAndDiscoveryPopsParkToo(t *testing.T) {
	e := shared(t, "R46")
	q := e.queue()
	for _, path := range []string{pinPath(q, "p", patiently(20000)), discPath("namespace="+arg(q), patiently(20000), group(e.name("g")))} {
		p := e.start("GET", path, "")
		settle()
		p.stillParked()
		e.push(q, "p", e.name("m"))
		p.wakes()
	}
}

func TestS14_GoPartitionSeekSendsAnEmptyObject(t *testing.T) {
	e := shared(t, "S7")
	q, b := taken(e, "a")
	e.pinSeek("__QUEUE_MODE__", q, "p", "{}").obj(http.StatusOK).is("updated", true)
	e.leased(b.lease, false)
	e.popNone(q)
}
