package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// defaults are the options of S5 as configure resolves them.
var defaults = []any{
	"namespace", "", "task", "", "leaseTime", 300, "retryLimit", 3, "deadLetterQueue", true, "dlqAfterMaxRetries", true,
	"delayedProcessing", 0, "windowBuffer", 0, "retentionEnabled", false, "retentionSeconds", 0, "completedRetentionSeconds", 0,
	"maxWaitTimeSeconds", 0, "minPopWaitTime", 0, "encryptionEnabled", false, "dedupWindowSeconds", 3600,
	"priority", 0, "maxSize", 0, "retryDelay", 1000, "ttl", 3600,
}

// others are the same options with values that are no default.
const others = `{"namespace":"nn","task":"tt","leaseTime":7,"retryLimit":9,"deadLetterQueue":false,"dlqAfterMaxRetries":false,
	"delayedProcessing":11,"windowBuffer":12,"retentionEnabled":true,"retentionSeconds":86400,"completedRetentionSeconds":86401,
	"maxWaitTimeSeconds":86402,"minPopWaitTime":16,"encryptionEnabled":false,"dedupWindowSeconds":18,"priority":5,"maxSize":20,"retryDelay":21,"ttl":22}`

var otherValues = []any{
	"namespace", "nn", "task", "tt", "leaseTime", 7, "retryLimit", 9, "deadLetterQueue", false, "dlqAfterMaxRetries", false,
	"delayedProcessing", 11, "windowBuffer", 12, "retentionEnabled", true, "retentionSeconds", 86400, "completedRetentionSeconds", 86401,
	"maxWaitTimeSeconds", 86402, "minPopWaitTime", 16, "encryptionEnabled", false, "dedupWindowSeconds", 18,
	"priority", 5, "maxSize", 20, "retryDelay", 21, "ttl", 22,
}

func TestS5_ConfigureShape(t *testing.T) {
	e := shared(t, "S14")
	q := e.queue()
	n := e.configure(q, `{"leaseTime":120}`)
	n.hasKeys("configured queueId partitionId queue namespace task storage options").lacks("error")
	n.is("configured", true, "partitionId", nil, "queue", q, "namespace", "", "task", "", "storage", "segments")
	n.matches(uuid7, "queueId")
	e.detail(q).is("id", n.str("queueId"))
}

func TestS5_ConfigureResolvesEveryDefault(t *testing.T) {
	e := shared(t)
	options := e.configure(e.queue(), `{}`).at("options")
	options.is(defaults...)
	if got, want := len(options.keys()), len(defaults)/2; got != want {
		t.Errorf("%d options echoed, want %d: %v", got, want, options.keys())
	}
}

func TestS5_ConfigureEchoesEveryOption(t *testing.T) {
	e := shared(t, "S14")
	q := e.queue()
	e.configure(q, others).is("namespace", "nn", "task", "tt").at("options").is(otherValues...)
	e.detail(q).is("namespace", "nn", "task", "tt").at("options").is(otherValues...)
}

func TestS5_ConfigureReplacesEverything(t *testing.T) {
	e := shared(t)
	for _, mode := range []string{"", `"mode":null,`, `"mode":"replace",`} {
		q := e.queue()
		e.configure(q, others)
		n := e.post("/api/v1/configure", `{"queue":`+quote(q)+`,`+mode+`"options":{"retryLimit":4}}`).obj(http.StatusOK)
		n.is("namespace", "").at("options").is("retryLimit", 4, "leaseTime", 300, "dedupWindowSeconds", 3600, "windowBuffer", 0, "namespace", "", "deadLetterQueue", true)
	}
}

func TestS5_ConfigureNullIsTheDefault(t *testing.T) {
	e := shared(t, "S1")
	nulls := `{`
	for i := 0; i < len(defaults); i += 2 {
		nulls += fmt.Sprintf("%q:null,", defaults[i])
	}
	nulls = strings.TrimSuffix(nulls, ",") + "}"
	q := e.queue()
	e.configure(q, others)
	e.configure(q, nulls).at("options").is(defaults...)
	e.configure(q, others)
	e.post("/api/v1/configure", `{"queue":`+quote(q)+`,"mode":"merge","options":`+nulls+`}`).obj(http.StatusOK).at("options").is(defaults...)
}

func TestS5_ConfigureMergeKeepsWhatIsAbsent(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, others)
	n := e.post("/api/v1/configure", `{"queue":`+quote(q)+`,"mode":"merge","options":{"retryLimit":1,"task":null}}`).obj(http.StatusOK)
	n.is("configured", true, "namespace", "nn", "task", "")
	n.at("options").is("retryLimit", 1, "task", "", "leaseTime", 7, "windowBuffer", 12, "deadLetterQueue", false, "dedupWindowSeconds", 18, "priority", 5)
}

func TestS5_ConfigureMergeOfANewQueueIsReplace(t *testing.T) {
	e := shared(t)
	e.post("/api/v1/configure", `{"queue":`+quote(e.queue())+`,"mode":"merge","options":{}}`).obj(http.StatusOK).at("options").is(defaults...)
}

func TestS20_MergeOnAPushCreatedQueueKeeps60(t *testing.T) {
	e := shared(t, "S5")
	q := e.name("n") + ".t"
	e.push(q, "p", "a")
	n := e.post("/api/v1/configure", `{"queue":`+quote(q)+`,"mode":"merge","options":{"retryLimit":1}}`).obj(http.StatusOK)
	n.at("options").is("leaseTime", 60, "retryLimit", 1, "task", "t")
	e.configure(q, `{}`).at("options").is("leaseTime", 300)
}

func TestS5_ConfigureUnknownMode(t *testing.T) {
	e := shared(t)
	q := e.queue()
	for _, mode := range []string{`"patch"`, `""`, `"MERGE"`} {
		got := e.post("/api/v1/configure", `{"queue":`+quote(q)+`,"mode":`+mode+`,"options":{}}`).obj(http.StatusBadRequest).str("error")
		if !strings.HasPrefix(got, `mode must be "merge" or "replace", got `) {
			t.Errorf("error %q", got)
		}
	}
	e.notThere(q)
}

func TestS5_ConfigureTopLevelOptions(t *testing.T) {
	e := shared(t)
	e.post("/api/v1/configure", `{"queue":`+quote(e.queue())+`,"leaseTime":77,"retryLimit":0}`).obj(http.StatusOK).at("options").is("leaseTime", 77, "retryLimit", 0)
	n := e.post("/api/v1/configure", `{"queue":`+quote(e.queue())+`,"leaseTime":77,"options":{"retryLimit":0}}`).obj(http.StatusOK)
	n.at("options").is("leaseTime", 300, "retryLimit", 0)
	e.post("/api/v1/configure", `{"queue":`+quote(e.queue())+`,"options":null,"leaseTime":77}`).obj(http.StatusOK).at("options").is("leaseTime", 77)
}

func TestS5_ConfigureNamespaceOnTop(t *testing.T) {
	e := shared(t, "S20")
	n := e.post("/api/v1/configure", `{"queue":`+quote(e.queue())+`,"namespace":"a","task":"b","options":{}}`).obj(http.StatusOK)
	n.is("namespace", "a", "task", "b").at("options").is("namespace", "a", "task", "b")
	n = e.post("/api/v1/configure", `{"queue":`+quote(e.queue())+`,"namespace":"a","task":"b","options":{"namespace":"c"}}`).obj(http.StatusOK)
	n.is("namespace", "c", "task", "b")
	n = e.post("/api/v1/configure", `{"queue":`+quote(e.queue())+`,"namespace":null,"task":null,"options":{}}`).obj(http.StatusOK)
	n.is("namespace", "", "task", "")
}

func TestS5_ConfigureNeedsAQueue(t *testing.T) {
	e := shared(t)
	for _, body := range []string{`{}`, `{"queue":null}`, `{"queue":5,"options":{}}`, `{"queue":["x"]}`, `[]`, `"x"`, "", "{"} {
		if e.post("/api/v1/configure", body).obj(http.StatusBadRequest).str("error") == "" {
			t.Errorf("%q: empty error", body)
		}
	}
}

func TestS5_ConfigureCreatesNoPartition(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{}`)
	if n := len(e.detail(q).list("partitions")); n != 0 {
		t.Errorf("%d partitions", n)
	}
}

func TestS5_ConfigureKeepsTheIdentity(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	before := e.detail(q)
	e.configure(q, others).is("queueId", before.str("id"))
	e.detail(q).is("id", before.str("id"), "createdAt", before.str("createdAt"))
	e.configure(q, `{}`).is("queueId", before.str("id"))
	e.pop(q).want("a")
}

func TestS20_WrongTypesAreRefusedByName(t *testing.T) {
	e := shared(t, "S5", "F43")
	q := e.queue()
	before := e.configure(q, others).at("options")
	for _, row := range [][2]string{
		{"leaseTime", `"60"`}, {"leaseTime", `true`}, {"leaseTime", `[]`}, {"leaseTime", `-1`}, {"retryLimit", `{}`}, {"retryLimit", `-1`},
		{"deadLetterQueue", `1`}, {"deadLetterQueue", `"true"`}, {"dlqAfterMaxRetries", `0`}, {"delayedProcessing", `"x"`},
		{"delayedProcessing", `-3`}, {"windowBuffer", `-1`}, {"windowBuffer", `false`}, {"retentionEnabled", `"yes"`}, {"retentionSeconds", `-1`},
		{"completedRetentionSeconds", `"1"`}, {"maxWaitTimeSeconds", `-1`}, {"minPopWaitTime", `"5"`}, {"encryptionEnabled", `1`},
		{"dedupWindowSeconds", `"5"`}, {"namespace", `5`}, {"task", `{}`}, {"priority", `"1"`}, {"ttl", `"1"`},
	} {
		body := `{"queue":` + quote(q) + `,"options":{"retryLimit":8,` + quote(row[0]) + `:` + row[1] + `}}`
		if row[0] == "retryLimit" {
			body = `{"queue":` + quote(q) + `,"options":{"leaseTime":8,"retryLimit":` + row[1] + `}}`
		}
		got := e.post("/api/v1/configure", body).obj(http.StatusBadRequest).str("error")
		if !strings.Contains(got, row[0]) {
			t.Errorf("%s: %s: error %q does not name it", row[0], row[1], got)
		}
	}
	if after := e.detail(q).at("options"); after.text() != before.text() {
		t.Errorf("a refused body changed\n%s to\n%s", before.text(), after.text())
	}
}

func TestS5_ConfigureClamps(t *testing.T) {
	e := shared(t, "S20")
	for _, row := range []struct {
		sent string
		key  string
		want int
	}{
		{`{"minPopWaitTime":70000}`, "minPopWaitTime", 60000}, {`{"minPopWaitTime":-1}`, "minPopWaitTime", 0}, {`{"minPopWaitTime":60000}`, "minPopWaitTime", 60000},
		{`{"dedupWindowSeconds":-5}`, "dedupWindowSeconds", 0}, {`{"dedupWindowSeconds":0}`, "dedupWindowSeconds", 0},
		{`{"retentionSeconds":315360000}`, "retentionSeconds", 315360000}, {`{"retryLimit":1000000}`, "retryLimit", 1000000},
	} {
		e.configure(e.queue(), row.sent).at("options").is(row.key, row.want)
	}
}

func TestS5_UnknownOptionsAreIgnored(t *testing.T) {
	e := shared(t, "S1")
	e.configure(e.queue(), `{"nope":1,"leaseTime":9}`).at("options").is("leaseTime", 9).lacks("nope")
}

func TestF43_ConcurrentMergesBothLand(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{}`)
	for i := range 25 {
		var wg sync.WaitGroup
		results := make(chan outcomeOf, 2)
		for _, option := range []string{"leaseTime", "retryLimit"} {
			wg.Go(func() {
				body := fmt.Sprintf(`{"queue":%s,"mode":"merge","options":{%q:%d}}`, quote(q), option, i+10)
				results <- <-e.start("POST", "/api/v1/configure", body).result
			})
		}
		wg.Wait()
		for range 2 {
			if out := <-results; out.err != nil || out.reply.status != http.StatusOK {
				t.Fatalf("%v %s", out.err, out.reply.body)
			}
		}
		e.detail(q).at("options").is("leaseTime", i+10, "retryLimit", i+10)
	}
}

func TestS20_ChangingOptionsTouchesNothingStored(t *testing.T) {
	e := shared(t, "S5")
	q := e.queue()
	e.push(q, "p", "z", "a", "b")
	e.ack("", e.pop(q), "z=dlq")
	e.ack("", e.pop(q), "a=failed")
	b := e.pop(q).want("a", "b")
	e.configure(q, others)
	e.leased(b.lease, true)
	e.depth(q, "").is("pending", 2, "processing", 2)
	if len(e.dlq(q)) != 1 {
		t.Error("the dead letter went away")
	}
	e.configure(q, `{}`)
	e.ack("", b, "a=dlq")
	find(t, e.dlq(q), "transactionId", "a").is("retryCount", 1)
	e.pop(q).want("b")
}

func TestA10_ConfigureEchoesWhatChanged(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.configure(q, `{"leaseTime":10}`).hasKeys("changed warnings")
	changed := func(options string) []string {
		var out []string
		for _, n := range e.configure(q, options).list("changed") {
			out = append(out, n.str())
		}
		slices.Sort(out)
		return out
	}
	if got := changed(`{"leaseTime":10}`); len(got) != 0 {
		t.Errorf("nothing changed, yet %v", got)
	}
	if got := changed(`{"leaseTime":10,"retryLimit":7,"windowBuffer":0}`); !slices.Equal(got, []string{"retryLimit"}) {
		t.Errorf("changed %v", got)
	}
	if got := changed(`{"task":"x"}`); !slices.Equal(got, []string{"leaseTime", "retryLimit", "task"}) {
		t.Errorf("changed %v", got)
	}
}

func TestA10_PlaintextOnAnEncryptedQueueIsAWarning(t *testing.T) {
	e := shared(t, "F44", "R102")
	q := e.queue()
	if w := e.configure(q, `{}`).list("warnings"); len(w) != 0 {
		t.Errorf("%d warnings for a plain queue", len(w))
	}
	if w := e.configure(q, `{"encryptionEnabled":true}`).list("warnings"); len(w) == 0 || w[0].str() == "" {
		t.Error("no warning that payloads stay plaintext")
	}
}

func TestA10_AdditionsAreEchoedOnlyWhenSet(t *testing.T) {
	e := shared(t, "S19")
	q := e.queue()
	additions := []string{"redeliveryDelayMs", "redeliveryDelayMaxMs", "maxDeliveries", "requireLease"}
	e.configure(q, `{}`).at("options").lacks(additions...)
	e.configure(q, `{"redeliveryDelayMs":5,"redeliveryDelayMaxMs":50,"maxDeliveries":6,"requireLease":true}`).at("options").
		is("redeliveryDelayMs", 5, "redeliveryDelayMaxMs", 50, "maxDeliveries", 6, "requireLease", true)
	e.configure(q, `{"maxDeliveries":0}`).at("options").is("maxDeliveries", 0)
}
