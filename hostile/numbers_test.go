package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// extremes are numbers and times at and beyond the ends of every range.
var extremes = []string{
	"0", "-1", "1", "65536", "2147483648", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e400", "-0", "0.5", "NaN", "",
	"0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "0000-01-01", "1677-09-21T00:12:43Z", "2262-04-11T23:47:17Z", "-292277022399-01-01T00:00:00Z",
}

// reads are routes that take numbers and times in their query.
var reads = []string{
	"/api/v1/messages", "/api/v1/dlq?queue=q", "/api/v1/resources/overview", "/api/v1/resources/queues", "/api/v1/resources/namespaces",
	"/api/v1/resources/tasks", "/api/v1/resources/partitions", "/api/v1/resources/queues/q", "/api/v1/resources/queues/q/depth?group=g",
	"/api/v1/consumer-groups", "/api/v1/consumer-groups/lagging", "/api/v1/consumer-groups/g", "/api/v1/traces/names",
	"/api/v1/traces/by-name/x", "/status", "/api/v1/status", "/api/v1/status/queues", "/api/v1/status/queues/q", "/api/v1/status/analytics",
	"/api/v1/analytics/queue-lag", "/api/v1/analytics/queue-ops", "/api/v1/analytics/system-metrics", "/api/v1/analytics/worker-metrics",
	"/api/v1/analytics/queue-parked-replicas", "/api/v1/analytics/retention", "/metrics", "/api/v1/system/shared-state",
}

// parameters are what those routes may read.
var parameters = []string{
	"limit", "offset", "page", "from", "to", "interval", "window", "minLagSeconds", "minutes", "hours", "days", "bucketMinutes", "batch",
}

func TestExtremeNumbersInQueriesAreAnswered(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.push("q", "p", "1", "2", "3")
	n.pop("q", "consumerGroup=g&subscriptionMode=all")
	for _, read := range reads {
		join := "?"
		if strings.Contains(read, "?") {
			join = "&"
		}
		check := func(query string) {
			t.Helper()
			if a := n.do("GET", read+join+query, ""); a.status >= 500 {
				t.Errorf("GET %s%s%s: %d %.200s", read, join, query, a.status, a.body)
			}
		}
		for _, x := range extremes {
			for _, p := range parameters {
				check(p + "=" + url.QueryEscape(x))
			}
			x := url.QueryEscape(x)
			check("limit=" + x + "&offset=" + x)
		}
		check("from=0001-01-01T00:00:00Z&to=9999-12-31T23:59:59Z&interval=1&bucketMinutes=1&limit=9223372036854775807")
		check("from=9999-12-31T23:59:59Z&to=0001-01-01T00:00:00Z&interval=-1")
	}
	n.healthy()
	if _, peak := n.memory(); peak > 600*mebi {
		t.Errorf("numbers took %d MiB", peak/mebi)
	}
}

func TestExtremeNumbersOfPopsAreAnswered(t *testing.T) {
	t.Parallel()
	n := start(t)
	for i, x := range extremes {
		for _, p := range []string{"batch", "partitions", "leaseSeconds", "timeout", "subscriptionFrom"} {
			queue := fmt.Sprintf("%s-%d", p, i)
			n.push(queue, "p", "1")
			a := n.do("GET", "/api/v1/pop/queue/"+queue+"?consumerGroup=g&subscriptionMode=all&"+p+"="+url.QueryEscape(x), "")
			if a.status >= 500 {
				t.Errorf("pop with %s=%s: %d %.200s", p, x, a.status, a.body)
			}
			var lease struct{ LeaseID string }
			if a.status == 200 && json.Unmarshal(a.body, &lease) == nil {
				for _, seconds := range []string{"9223372036854775807", "-9223372036854775808", "1e30", `"x"`} {
					e := n.must(200, "POST", "/api/v1/lease/"+lease.LeaseID+"/extend", `{"seconds":`+seconds+`}`)
					if !strings.Contains(string(e.body), `"success":true`) {
						t.Errorf("extending by %s: %s", seconds, e.body)
					}
				}
				if again := n.do("GET", "/api/v1/pop/queue/"+queue+"?consumerGroup=g", ""); again.status != 204 {
					t.Errorf("a leased message came again after %s=%s: %d", p, x, again.status)
				}
			}
			seek := fmt.Sprintf(`{"timestamp":%s}`, quote(x))
			if a := n.do("POST", "/api/v1/consumer-groups/g/queues/"+queue+"/seek", seek); a.status >= 500 {
				t.Errorf("seek to %q: %d %s", x, a.status, a.body)
			}
			if a := n.do("POST", "/api/v1/consumer-groups/g/subscription", fmt.Sprintf(`{"subscriptionTimestamp":%s}`, quote(x))); a.status >= 500 {
				t.Errorf("subscription from %q: %d %s", x, a.status, a.body)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if a, err := n.try(ctx, "GET", "/api/v1/pop/queue/none?wait=true&timeout=9223372036854775807", nil); err == nil {
		t.Errorf("a pop that waits as long as it may was answered: %d", a.status)
	}
	n.restart()
}

// numberOptions are the options of a queue that are numbers.
var numberOptions = []string{
	"leaseTime", "retryLimit", "delayedProcessing", "windowBuffer", "retentionSeconds", "completedRetentionSeconds", "maxWaitTimeSeconds",
	"minPopWaitTime", "dedupWindowSeconds", "priority", "maxSize", "retryDelay", "ttl", "redeliveryDelayMs", "redeliveryDelayMaxMs", "maxDeliveries",
}

func TestExtremeOptionsAreKeptOrRefusedAndHarmless(t *testing.T) {
	t.Parallel()
	n := start(t, "RETENTION_INTERVAL=50")
	for _, option := range numberOptions {
		for _, x := range []string{"0", "-1", "1", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e30", "0.5", `"1"`, "4611686018427387904"} {
			queue := option + "=" + x
			a := n.do("POST", "/api/v1/configure", fmt.Sprintf(`{"queue":%s,"options":{"retentionEnabled":true,%q:%s}}`, quote(queue), option, x))
			if a.status != 200 && a.status != 400 {
				t.Errorf("%s: %d %s", queue, a.status, a.body)
			}
			path := "/api/v1/pop/queue/" + url.PathEscape(queue)
			for i := range 2 {
				n.must(201, "POST", "/api/v1/push", `{"items":[`+item(queue, "p", fmt.Sprint(i), "1")+`]}`)
				p := parsePop(t, n.must2(200, 204, "GET", path, ""))
				for _, m := range p.Messages {
					n.must(200, "POST", "/api/v1/ack", fmt.Sprintf(`{"transactionId":%s,"partitionId":%s,"leaseId":%s,"status":"failed","delayMs":%s}`,
						quote(m.Txn), quote(m.PartitionID), quote(p.LeaseID), x))
				}
			}
			n.must2(200, 204, "GET", path+"?autoAck=true", "")
		}
	}
	n.healthy()
	n.restart()
	n.healthy()
}

// must2 makes a request that must have one of two statuses.
func (n *node) must2(one, other int, method, path, body string) answer {
	n.t.Helper()
	a := n.do(method, path, body)
	if a.status != one && a.status != other {
		n.t.Fatalf("%s %s: %d, want %d or %d: %.300s", method, path, a.status, one, other, a.body)
	}
	return a
}

func TestATimeThousandsOfYearsAwayCostsNothing(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.must(200, "POST", "/api/v1/configure", `{"queue":"q","options":{"delayedProcessing":1000000000000,"windowBuffer":1000000000000}}`)
	n.push("q", "p", "never")
	if a := n.do("GET", "/api/v1/pop/queue/q?wait=true&timeout=100", ""); a.status != 204 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	idleCost(t, n, "a message that is due in 30,000 years")
}

// idleCost fails the test when the broker does not idle.
func idleCost(t *testing.T, n *node, what string) {
	t.Helper()
	const span = 3 * time.Second
	var used time.Duration
	for range 4 { // what it did before may still be cleaned up
		began := n.cpu()
		time.Sleep(span)
		if used = n.cpu() - began; used <= span*3/100 {
			break
		}
	}
	t.Logf("%s: %v of the processor in %v", what, used, span)
	if used > span*3/100 {
		t.Errorf("%s costs %v of the processor in %v", what, used, span)
	}
}
