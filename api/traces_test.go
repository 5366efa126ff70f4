package api

import (
	"fmt"
	"testing"
)

const traceKeys = "id event_type data consumer_group worker_id created_at trace_names"

func TestTracesAreRecordedAndRead(t *testing.T) {
	h := served(t)
	h.push("q", "a")
	pid := fmt.Sprint(at(t, h.pop("q", ""), "partitionId"))
	out := h.ask(201, "POST", "/api/v1/traces", `{"transactionId":"a","partitionId":"`+pid+`","data":{"n":1},"traceNames":["x","y",7],"worker_id":"mine"}`)
	keys(t, out, "success traceId")
	h.ask(201, "POST", "/api/v1/traces", `{"transactionId":"a","partitionId":"`+pid+`","data":"text","traceNames":"x","eventType":"step","consumerGroup":"g"}`)
	h.ask(201, "POST", "/api/v1/traces", `{"transactionId":"ghost","partitionId":"nowhere","data":[],"traceNames":{"not":"names"}}`)
	list := at(t, h.ask(200, "GET", "/api/v1/traces/"+pid+"/a", ""), "traces")
	keys(t, at(t, list, 0), traceKeys)
	is(t, at(t, list, 0), "id", at(t, out, "traceId"), "event_type", "info", "consumer_group", "__QUEUE_MODE__", "trace_names", "[x y]")
	if at(t, list, 0, "worker_id") == "" {
		t.Error("the live lease is not shown")
	}
	is(t, at(t, list, 1), "event_type", "step", "data", "text", "consumer_group", "g", "worker_id", "", "trace_names", "[x]")
	is(t, at(t, h.ask(200, "GET", "/api/v1/traces/nowhere/ghost", ""), "traces", 0), "trace_names", "[]")
	is(t, h.ask(200, "GET", "/api/v1/traces/"+pid+"/unknown", ""), "traces", "[]")
	page := h.ask(200, "GET", "/api/v1/traces/by-name/x?limit=1", "")
	keys(t, page, "traces total pagination")
	is(t, page, "total", 2)
	is(t, at(t, page, "pagination"), "limit", 1, "offset", 0)
	keys(t, at(t, page, "traces", 0), traceKeys+" transaction_id partition_id queue_name partition_name message_payload")
	is(t, at(t, page, "traces", 0), "transaction_id", "a", "partition_id", pid, "queue_name", "q", "partition_name", "p", "message_payload", nil)
	names := h.ask(200, "GET", "/api/v1/traces/names", "")
	keys(t, names, "trace_names total pagination")
	is(t, names, "total", 2)
	keys(t, at(t, names, "trace_names", 0), "trace_name trace_count message_count last_seen")
	is(t, at(t, names, "trace_names", 0), "trace_name", "x", "trace_count", 2, "message_count", 1)
	is(t, at(t, names, "pagination"), "limit", 50)
}

func TestATraceNeedsAnAddressAndData(t *testing.T) {
	h := served(t)
	for _, body := range []string{"", "{}", `{"transactionId":"","partitionId":"p","data":1}`, `{"transactionId":"a","partitionId":null,"data":1}`} {
		is(t, h.ask(400, "POST", "/api/v1/traces", body), "error", "transactionId and partitionId are required")
	}
	for _, body := range []string{`{"transactionId":"a","partitionId":"p"}`, `{"transactionId":"a","partitionId":"p","data":null}`} {
		is(t, h.ask(400, "POST", "/api/v1/traces", body), "error", "data is required")
	}
	for _, body := range []string{"nope", "[]", `{"transactionId":7,"partitionId":"p","data":1}`} {
		h.ask(400, "POST", "/api/v1/traces", body)
	}
	h.ask(400, "GET", "/api/v1/traces/names?limit=x", "")
}
