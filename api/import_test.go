package api

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestAnImportMakesWhatAListingShows(t *testing.T) {
	h := served(t)
	h.push("q", "a", "b")
	answer := h.ask(200, "POST", "/internal/import", `{"queue":"q",
		"groups":[{"name":"g","mode":"timestamp","start":"2026-01-02T03:04:05Z","cursors":[{"partition":"p","next":1},{"next":0}]},{"conflation":null}],
		"deadLetters":[{"id":"01a22ebf-cd51-75e1-be2e-6c3ac62626a9","partition":"p","consumerGroup":"g","offset":0,"transactionId":"a","payload":null,
			"producerSub":"shop","headers":{"h":"v"},"errorMessage":"boom","retryCount":3,"attempts":4,"enqueuedAt":"2026-01-02T03:04:05.678Z"},
			{"transactionId":"","payload":{}}]}`)
	is(t, answer, "success", true, "groups", 2, "cursors", 2, "deadLetters", 2, "known", 0)
	page := h.ask(200, "GET", "/api/v1/dlq?queue=q&consumerGroup=g", "")
	is(t, at(t, page, "messages", 0), "id", "01a22ebf-cd51-75e1-be2e-6c3ac62626a9", "transactionId", "a", "partition", "p", "offset", 0, "errorMessage", "boom",
		"retryCount", 3, "attempts", 4, "enqueuedAt", "2026-01-02T03:04:05.678Z", "originalProducerSub", "shop", "data", nil)
	is(t, at(t, page, "messages", 0, "headers"), "h", "v")
	group := at(t, h.ask(200, "GET", "/api/v1/consumer-groups", ""), 1)
	is(t, group, "name", "g", "subscriptionMode", "timestamp", "subscriptionTimestamp", "2026-01-02T03:04:05.000Z", "totalLag", 1)
}

func TestAnImportThatIsRefusedSaysWhy(t *testing.T) {
	h := served(t)
	h.push("q", "a")
	for body, want := range map[string]string{
		``:                                       "bad body: unexpected end at byte 0",
		`[]`:                                     "bad body: must be an object",
		`{}`:                                     "bad body: queue is required",
		`{"queue":"q","groups":{}}`:              "bad body: groups must be an array",
		`{"queue":"q","groups":[1]}`:             "bad body: groups[0]: must be an object",
		`{"queue":"q","groups":[{"name":1}]}`:    "bad body: groups[0]: name is not a string",
		`{"queue":"q","groups":[{"start":"x"}]}`: "bad body: groups[0]: start is not an ISO-8601 time with a zone",
		`{"queue":"q","groups":[{"cursors":[{"partition":"p"}]}]}`:                "bad body: groups[0]: cursors[0]: next is required and not negative",
		`{"queue":"q","groups":[{"cursors":[{"partition":"p","next":2}]}]}`:       `partition "p" has no place 2 for a cursor, it ends at 1`,
		`{"queue":"q","deadLetters":[{"transactionId":"t"}]}`:                     "bad body: deadLetters[0]: payload is required",
		`{"queue":"q","deadLetters":[{"payload":1}]}`:                             "bad body: deadLetters[0]: transactionId is required",
		`{"queue":"q","deadLetters":[{"payload":1,"transactionId":"","id":"x"}]}`: "bad body: deadLetters[0]: id is not a UUID",
	} {
		if got := at(t, h.ask(400, "POST", "/internal/import", body), "error"); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	is(t, h.ask(404, "POST", "/internal/import", `{"queue":"none"}`), "error", "Queue not found")
	is(t, h.ask(200, "GET", "/api/v1/dlq?queue=q", ""), "totalCount", 0)
}

func TestAnImportLeavesNothingOfItselfInTheLog(t *testing.T) {
	text := &lockedBuffer{}
	h := served(t, func(c *Config) {
		c.SlowRequest, c.Log = time.Microsecond, slog.New(slog.NewTextHandler(text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	for _, body := range []string{
		`{"queue":"q","deadLetters":[{"transactionId":"sesame","payload":"sesame","headers":{"k":"sesame"},"errorMessage":"sesame"}]}`,
		`{"queue":"q","deadLetters":[{"transactionId":"sesame","payload":"sesame","id":"sesame"}]}`, `{"sesame`,
	} {
		h.do("POST", "/internal/import", body, "Authorization", "Bearer sesame")
	}
	if got := text.String(); strings.Contains(got, "sesame") || !strings.Contains(got, "/internal/import") {
		t.Errorf("the log says %s", got)
	}
}
