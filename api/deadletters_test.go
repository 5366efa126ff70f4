package api

import (
	"fmt"
	"strings"
	"testing"
)

const rowKeys = "id transactionId partitionId queue partition consumerGroup errorMessage retryCount data producerSub createdAt failedAt " +
	"offset enqueuedAt attempts originalProducerSub"

// dead files dead letters for messages of a new queue and returns the rows,
// the oldest first, and the id of their partition.
func (h *house) dead(queue string, ids ...string) (rows []any, partition string) {
	h.t.Helper()
	h.push(queue, ids...)
	popped := h.pop(queue, "batch=100")
	for i := range ids {
		h.fail(popped, i, "", "reason "+ids[i])
		popped = h.repop(queue, popped, i)
	}
	list := at(h.t, h.ask(200, "GET", "/api/v1/dlq?queue="+queue, ""), "messages").([]any)
	for i := range list {
		rows = append(rows, list[len(list)-1-i])
	}
	return rows, fmt.Sprint(at(h.t, rows[0], "partitionId"))
}

// repop takes what is left above message i, in a list where it has the same
// place as before.
func (h *house) repop(queue string, popped any, i int) any {
	all := at(h.t, popped, "messages").([]any)
	if i == len(all)-1 {
		return popped
	}
	next := h.pop(queue, "batch=100")
	rest := at(h.t, next, "messages").([]any)
	return map[string]any{"messages": append(all[:i+1:i+1], rest...)}
}

func TestADeadLetterRowHasItsShape(t *testing.T) {
	h := served(t)
	h.dead("q", "a", "b")
	page := h.ask(200, "GET", "/api/v1/dlq?queue=q&limit=1", "")
	keys(t, page, "messages pagination total totalCount")
	is(t, page, "total", 1, "totalCount", 2)
	is(t, at(t, page, "pagination"), "limit", 1, "offset", 0)
	row := at(t, page, "messages", 0)
	keys(t, row, rowKeys)
	is(t, row, "transactionId", "b", "queue", "q", "partition", "p", "consumerGroup", "__QUEUE_MODE__", "errorMessage", "reason b",
		"retryCount", 0, "producerSub", nil, "originalProducerSub", nil, "offset", 1)
	is(t, at(t, row, "data"), "v", "b")
}

func TestParametersOfDeadLettersAreChecked(t *testing.T) {
	h := served(t)
	h.dead("q", "a")
	for _, query := range []string{"limit=x", "offset=x", "from=yesterday", "to=1"} {
		h.ask(400, "GET", "/api/v1/dlq?"+query, "")
	}
	for query, want := range map[string]int{
		"limit=0": 1, "limit=-1": 1, "limit=99999999999": 1, "offset=-1": 1, "offset=1": 0, "unknown=1": 1, "queue=": 0, "from=": 1,
		"from=2001-01-01T00:00:00+02:00": 1, "from=2001-01-01T00:00:00%2B02:00": 1, "errorContains=reason": 1, "errorContains=no": 0,
	} {
		if got := at(t, h.ask(200, "GET", "/api/v1/dlq?"+query, ""), "total"); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v rows, want %d", query, got, want)
		}
	}
}

func TestAReplayMovesOneDeadLetter(t *testing.T) {
	h := served(t)
	rows, pid := h.dead("q", "a", "b")
	id := at(t, rows[0], "id").(string)
	out := h.ask(200, "POST", "/api/v1/dlq/"+id+"/replay", "")
	keys(t, out, "success queue partition replayedAs dlqRowRemoved result consumerGroup dlqId originalTransactionId")
	is(t, out, "success", true, "queue", "q", "partition", "p", "dlqRowRemoved", true, "result", "moved", "dlqId", id, "originalTransactionId", "a")
	is(t, at(t, out, "replayedAs"), "index", 0, "transaction_id", "dlq:"+id, "queueName", "q", "status", "queued", "offset", 2)
	out = h.ask(200, "POST", "/api/v1/messages/"+pid+"/b/retry", "ignored")
	is(t, at(t, out, "replayedAs"), "transaction_id", at(t, out, "replayedAs", "message_id"), "offset", 3)
	for _, missing := range []string{id, "nonsense", ""} {
		gone := h.ask(404, "POST", "/api/v1/dlq/"+missing+"/replay", "{}")
		keys(t, gone, "success result dlqId error message")
		is(t, gone, "success", false, "result", "gone", "dlqId", missing, "error", "Message not found")
	}
}

func TestAReplayInMaintenanceSaysSo(t *testing.T) {
	h := served(t)
	rows, pid := h.dead("q", "a")
	h.ask(200, "POST", "/api/v1/system/maintenance", `{"enabled":true}`)
	for _, path := range []string{"/api/v1/dlq/" + at(t, rows[0], "id").(string) + "/replay", "/api/v1/messages/" + pid + "/a/retry"} {
		is(t, h.ask(503, "POST", path, ""), "success", false, "result", "maintenance", "dlqRowRemoved", false)
	}
	is(t, h.ask(200, "GET", "/api/v1/dlq", ""), "total", 1)
}

func TestNoDeadLetterAtAnAddress(t *testing.T) {
	h := served(t)
	h.push("q", "live")
	pid := at(t, h.pop("q", ""), "partitionId").(string)
	for _, address := range []string{pid + "/live", pid + "/ghost", "nowhere/x", "/"} {
		for method, message := range map[string]string{"DELETE": liveMessagesStay, "POST": onlyDeadLetters} {
			path := "/api/v1/messages/" + address
			if method == "POST" {
				path += "/retry"
			}
			out := h.ask(404, method, path, "")
			keys(t, out, "success partitionId transactionId error message")
			is(t, out, "success", false, "error", "Message not found", "message", message)
		}
	}
}

func TestDeadLettersAreDeleted(t *testing.T) {
	h := served(t)
	rows, pid := h.dead("q", "a", "b", "c", "d")
	out := h.ask(200, "DELETE", "/api/v1/messages/"+pid+"/a", "")
	keys(t, out, "success partitionId transactionId message")
	is(t, out, "success", true, "message", "Message deleted successfully")
	id := at(t, rows[1], "id").(string)
	is(t, h.ask(200, "DELETE", "/api/v1/dlq/"+id, ""), "success", true, "deleted", 1, "dlqId", id)
	is(t, h.ask(404, "DELETE", "/api/v1/dlq/"+id, ""), "success", false, "error", "Message not found")
	is(t, h.ask(404, "DELETE", "/api/v1/dlq/nonsense", ""), "success", false)
	is(t, h.ask(400, "DELETE", "/api/v1/dlq", ""), "error", "queue is required")
	out = h.ask(200, "DELETE", "/api/v1/dlq?queue=q&errorContains=reason+c", "")
	keys(t, out, "success deleted queue consumerGroup")
	is(t, out, "deleted", 1, "queue", "q", "consumerGroup", nil)
	is(t, h.ask(200, "DELETE", "/api/v1/dlq?queue=q&consumerGroup=__QUEUE_MODE__", ""), "deleted", 1, "consumerGroup", "__QUEUE_MODE__")
}

func TestABulkReplayIsCheckedAndCounted(t *testing.T) {
	h := served(t)
	h.dead("q", "a", "b", "c")
	for _, body := range []string{"", "nope", "[]", "{}", `{"queue":null}`, `{"queue":7}`, `{"queue":"q","limit":-1}`, `{"queue":"q","limit":"x"}`,
		`{"queue":"q","dryRun":1}`, `{"queue":"q","from":"soon"}`, `{"queue":"q"`} {
		h.ask(400, "POST", "/api/v1/dlq/replay", body)
	}
	out := h.ask(200, "POST", "/api/v1/dlq/replay", `{"queue":"q","dryRun":true,"consumerGroup":null}`)
	keys(t, out, "success matched replayed duplicates failed remaining")
	is(t, out, "success", true, "matched", 3, "replayed", 0, "remaining", 3)
	is(t, h.ask(200, "POST", "/api/v1/dlq/replay", `{"queue":"q","limit":2,"errorContains":"reason"}`), "matched", 3, "replayed", 2, "remaining", 1)
}

func TestPayloadsAreShownByteForByte(t *testing.T) {
	h := served(t)
	payload := `{ "b" : 1e3,"a":"<&>\u00e9" , "b":2}`
	h.ask(201, "POST", "/api/v1/push", `{"items":[{"queue":"q","transactionId":"a","payload":`+payload+`}]}`)
	popped := h.pop("q", "")
	pid := at(t, popped, "partitionId").(string)
	h.fail(popped, 0, "", "x")
	for _, path := range []string{"/api/v1/dlq", "/api/v1/messages", "/api/v1/messages/" + pid + "/a"} {
		if got := h.do("GET", path, ""); !strings.Contains(got.body, `"data":`+payload) {
			t.Errorf("%s: %s", path, got.body)
		}
	}
	got := h.do("POST", "/api/v1/fetch", `{"entries":[{"queue":"q","offset":0}]}`)
	if !strings.Contains(got.body, `"payload":`+payload) {
		t.Error(got.body)
	}
}
