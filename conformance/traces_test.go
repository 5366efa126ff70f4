package conformance

import (
	"net/http"
	"testing"
)

// trace records a trace and returns its id.
func (e *env) trace(pid, txn, more string) string {
	e.Helper()
	n := e.post("/api/v1/traces", `{"partitionId":`+quote(pid)+`,"transactionId":`+quote(txn)+more+`}`).obj(http.StatusCreated)
	return n.onlyKeys("success traceId").is("success", true).matches(uuid7, "traceId")
}

func TestS8_RecordAndReadATrace(t *testing.T) {
	e := shared(t)
	txn, name := e.name("txn"), e.name("trace")
	first := e.trace("12", txn, `,"data":{"text":"one"},"traceNames":[`+quote(name)+`,"other"],"eventType":"step","consumerGroup":"g"`)
	second := e.trace("12", txn, `,"data":"two"`)
	list := e.get("/api/v1/traces/12/" + txn).obj(http.StatusOK).onlyKeys("traces").list("traces")
	if len(list) != 2 {
		t.Fatalf("%d traces", len(list))
	}
	list[0].hasKeys("id event_type data consumer_group worker_id created_at trace_names").is("id", first, "event_type", "step", "consumer_group", "g", "worker_id", "")
	list[0].when("created_at")
	if got := list[0].at("data").text(); got != `{"text":"one"}` {
		t.Errorf("data %s", got)
	}
	if got := list[0].list("trace_names"); len(got) != 2 || got[0].str() != name {
		t.Errorf("trace_names %s", list[0].at("trace_names").text())
	}
	list[1].is("id", second, "event_type", "info", "consumer_group", "__QUEUE_MODE__")
	if n := len(list[1].list("trace_names")); n != 0 {
		t.Errorf("%d names", n)
	}
}

func TestS8_TraceRefusals(t *testing.T) {
	e := shared(t)
	for _, body := range []string{`{"data":1}`, `{"transactionId":"a","data":1}`, `{"partitionId":"1","data":1}`, `{"transactionId":"","partitionId":"1","data":1}`} {
		e.post("/api/v1/traces", body).refuses(http.StatusBadRequest, "transactionId and partitionId are required")
	}
	e.post("/api/v1/traces", `{"transactionId":"a","partitionId":"1"}`).refuses(http.StatusBadRequest, "data is required")
}

func TestS8_TraceNames(t *testing.T) {
	e := shared(t)
	name := e.name("trace")
	txn := e.name("txn")
	e.trace("7", txn, `,"data":1,"traceNames":`+quote(name))
	e.trace("7", txn+"b", `,"data":2,"traceNames":[`+quote(name)+`]`)
	e.trace("7", txn+"c", `,"data":3,"traceNames":5`)
	n := e.get("/api/v1/traces/by-name/"+name).obj(http.StatusOK).hasKeys("traces total pagination").is("total", 2)
	list := n.list("traces")
	if len(list) != 2 {
		t.Fatalf("%d traces", len(list))
	}
	find(t, list, "transaction_id", txn+"b")
	find(t, list, "transaction_id", txn).is("partition_id", "7", "message_payload", nil).
		hasKeys("id event_type data consumer_group worker_id created_at trace_names transaction_id partition_id queue_name partition_name message_payload")
	page := e.get("/api/v1/traces/by-name/"+name+"?limit=1&offset=1").obj(http.StatusOK).is("total", 2)
	if len(page.list("traces")) != 1 {
		t.Errorf("%d traces on the page", len(page.list("traces")))
	}
	if n := len(e.get("/api/v1/traces/by-name/" + e.name("none")).obj(http.StatusOK).list("traces")); n != 0 {
		t.Errorf("%d traces of nothing", n)
	}
}

func TestS8_ListOfNames(t *testing.T) {
	e := shared(t)
	name, txn := e.name("trace"), e.name("txn")
	e.trace("7", txn, `,"data":1,"traceNames":`+quote(name))
	e.trace("7", txn, `,"data":2,"traceNames":`+quote(name))
	n := e.get("/api/v1/traces/names?limit=1000").obj(http.StatusOK).hasKeys("trace_names total pagination")
	one := find(t, n.list("trace_names"), "trace_name", name).onlyKeys("trace_name trace_count message_count last_seen")
	one.is("trace_count", 2, "message_count", 1).when("last_seen")
}

func TestS8_UnknownMessageHasNoTraces(t *testing.T) {
	e := shared(t)
	if n := len(e.get("/api/v1/traces/12/" + e.name("txn")).obj(http.StatusOK).list("traces")); n != 0 {
		t.Errorf("%d traces", n)
	}
}
