package conformance

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// strangeNames are names that must work everywhere.
var strangeNames = []string{
	"with space", "a/b", "/", "//", "a//b", "..", ".", "../x", "a%2Fb", "%", "100%", "a+b", "a?b=c", "a#b", "a&b", `quote"`, `back\slash`, "é", "e\u0301", "日本語", "😀",
	"<b>", "a;b", "a:b", "@", "~", "*", "null", "true", "0", "-1", " lead", "trail ", "CON", "a'b", "{}", "[x]", "a,b", "tab\u00a0", "lagging", "by-name", "names", "depth", "seek",
}

func TestS1_AnyCharacterInAQueueName(t *testing.T) {
	e := shared(t, "F42", "F37")
	for _, name := range strangeNames {
		q := name + e.name("q")
		e.push(q, "p", "a")
		e.pop(q).want("a").is("queue", q)
		e.depth(q, "").is("queue", q, "pending", 1)
		e.detail(q).is("name", q)
		e.get("/api/v1/status/queues/" + seg(q)).obj(http.StatusOK)
		e.del("/api/v1/resources/queues/"+seg(q)).obj(http.StatusOK).is("deleted", true, "queue", q)
	}
}

func TestS1_NamesThatAreAllDots(t *testing.T) {
	e := shared(t, "F42", "S20")
	for _, name := range []string{".", ".."} {
		// The client must not resolve them, so they travel encoded.
		path := strings.ReplaceAll(name, ".", "%2E")
		e.pushItems(item(name, name, "", "1"))
		e.get("/api/v1/pop/queue/"+path+"?autoAck=true").asBatch().is("queue", name, "partition", name)
		e.get("/api/v1/pop/queue/" + path + "/partition/" + path).empty()
	}
}

func TestS1_AnyCharacterInAPartitionAndGroup(t *testing.T) {
	e := shared(t, "F42", "S7")
	for _, name := range strangeNames {
		q, g := e.queue(), name+e.name("g")
		e.push(q, name, "a")
		if name != "." && name != ".." {
			e.pin(q, name, all(g)).want("a").is("partition", name, "consumerGroup", g)
		} else {
			e.pop(q, all(g)).want("a").is("partition", name, "consumerGroup", g)
		}
		e.depth(q, g).is("group", g, "pending", 1)
		e.get("/api/v1/consumer-groups/" + seg(g)).obj(http.StatusOK).at(q)
		e.seek(g, q, `{"toEnd":true}`).obj(http.StatusOK).is("consumerGroup", g)
		e.del("/api/v1/consumer-groups/"+seg(g)+"?deleteMetadata=true").obj(http.StatusOK).is("consumerGroup", g, "deletedPartitions", 1)
	}
}

func TestS1_AnyCharacterInATransactionID(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", strangeNames...)
	b := e.pop(q).want(strangeNames...)
	e.get(address(b.pid(), "a/b")).obj(http.StatusOK).is("transactionId", "a/b")
	var pairs []string
	for _, id := range strangeNames {
		pairs = append(pairs, ackItem(id, b.pid(), b.lease, "completed"))
	}
	accepted(e.ackItems("", pairs...)...)
	e.popNone(q)
}

func TestS1_EscapesInNamesAreDecoded(t *testing.T) {
	e := shared(t, "F37")
	u := e.name("q")
	e.post("/api/v1/push", `{"items":[{"queue":"a\u0026b`+u+`","partition":"2026\/07","transactionId":"\"\\\u00e9","payload":1}]}`).arr(http.StatusCreated)[0].
		is("status", "queued", "queueName", "a&b"+u, "transaction_id", `"\é`)
	e.pin("a&b"+u, "2026/07").want(`"\é`)
}

func TestS1_ControlCharactersAreRefusedOrWork(t *testing.T) {
	e := shared(t, "F37", "F42")
	for _, c := range []string{`\u0000`, `\u001f`, `\n`} {
		u := e.name("q")
		r := e.post("/api/v1/push", `{"items":[{"queue":"a`+c+`b`+u+`","payload":1}]}`)
		if r.status == http.StatusBadRequest {
			r.json().hasKeys("error")
			continue
		}
		plain := map[string]string{`\u0000`: "\x00", `\u001f`: "\x1f", `\n`: "\n"}[c]
		r.arr(http.StatusCreated)[0].is("status", "queued")
		e.pop("a" + plain + "b" + u)
	}
}

func TestS20_EmptyQueueNameWorksEverywhere(t *testing.T) {
	_, e := own(t)
	covers(t, "S1")
	e.pushItems(item("", "p", "a", "1"))[0].is("status", "queued", "queueName", "")
	e.get("/api/v1/pop/queue/").asBatch().want("a").is("queue", "")
	e.get("/api/v1/pop/queue//partition/p?" + all("g")).asBatch().want("a")
	e.get("/api/v1/resources/queues//depth").obj(http.StatusOK).is("queue", "", "pending", 1)
	e.get("/api/v1/resources/queues/").obj(http.StatusOK).is("name", "")
	e.configure("", `{"leaseTime":9}`).is("queue", "")
	e.seek("g", "", `{"toEnd":true}`).obj(http.StatusOK).is("queueName", "")
	e.pinSeek("g", "", "p", farPast).obj(http.StatusOK).is("queueName", "", "partitionName", "p")
	e.transact(txPush(item("", "p", "b", "1"))).is("success", true)
	e.get("/api/v1/dlq?queue=").obj(http.StatusOK)
	e.del("/api/v1/resources/queues/").obj(http.StatusOK).is("deleted", true, "queue", "")
}

func TestS20_EmptyPartitionInThePathIsTheDefault(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "Default", "a")
	e.get("/api/v1/pop/queue/"+q+"/partition/").asBatch().want("a").is("partition", "Default")
}

func TestS20_NoSlashCleaning(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	for _, path := range []string{"/api//v1/pop/queue/" + q, "/api/v1/pop/queue/" + q + "/", "/api/v1/resources/queues/" + q + "/depth/"} {
		if r := e.get(path); r.status != http.StatusNotFound {
			t.Errorf("%s: status %d", path, r.status)
		}
	}
}

func TestS20_NameLimits(t *testing.T) {
	e := shared(t, "S1")
	u := e.name("q")
	pad := func(s string, n int) string { return s + strings.Repeat("x", n-len(s)) }
	tooLong := func(r reply) {
		t.Helper()
		r.obj(http.StatusRequestEntityTooLarge).is("code", "name_too_long")
	}
	// queue + the longer of partition and group is what counts.
	q := pad(u, 200)
	e.push(q, pad("p", 211), "a")
	e.pop(q, group(pad("g", 211))+"&subscriptionMode=all").want("a")
	tooLong(e.post("/api/v1/push", `{"items":[`+item(q, pad("p", 212), "b", "1")+`]}`))
	e.push(pad(u+"-1", 404), "", "a") // 404 + len("Default")
	tooLong(e.post("/api/v1/push", `{"items":[`+item(pad(u+"-2", 405), "", "a", "1")+`]}`))
	// In queue mode the reserved group does not count.
	long := pad(u+"-3", 410)
	e.push(long, "p", "a")
	e.pop(long).want("a")
	tooLong(e.post("/api/v1/push", `{"items":[`+item(long, "pp", "a", "1")+`]}`))
	tooLong(e.post("/api/v1/configure", `{"queue":`+quote(pad(u+"-4", 412))+`,"options":{}}`))
	// Bytes count, not letters.
	e.push(q, strings.Repeat("é", 105), "a")
	tooLong(e.post("/api/v1/push", `{"items":[`+item(q, strings.Repeat("é", 106), "a", "1")+`]}`))
}

func TestS20_GroupNameLimitOnPop(t *testing.T) {
	e := shared(t, "S1")
	q := e.queue()
	e.push(q, "p", "a")
	g := strings.Repeat("g", 411-len(q))
	e.pop(q, all(g)).want("a")
	e.get(popPath(q, all(g+"g"))).obj(http.StatusRequestEntityTooLarge).is("code", "name_too_long")
}

func TestF42_NothingIsCreatedOutsideTheDirectory(t *testing.T) {
	b, e := own(t)
	for _, name := range []string{"..", "../x", "../../x", "/tmp/x", "a/../../x"} {
		e.push(name, name, "a")
		e.pushItems(item("q", name, name, "1"))
	}
	b.Stop()
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		switch entry.Name() {
		case filepath.Base(b.dataDir()), filepath.Base(b.logPath()), "buffers":
		default:
			t.Errorf("%s was created beside the data directory", entry.Name())
		}
	}
	e = b.Restart(t)
	e.pop("../x").want("a")
}
