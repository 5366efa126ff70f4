package conformance

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// maintenance switches one of the two modes.
func (e *env) maintenance(path string, on bool) node {
	e.Helper()
	body := `{"enabled":false}`
	if on {
		body = `{"enabled":true}`
	}
	return e.post("/api/v1/system/"+path, body).obj(http.StatusOK)
}

func TestS10_MaintenanceShapes(t *testing.T) {
	_, e := own(t)
	covers(t, "R120", "R121")
	n := e.get("/api/v1/system/maintenance").obj(http.StatusOK)
	n.hasKeys("maintenanceMode popMaintenanceMode bufferedMessages bufferHealthy bufferStats")
	n.is("maintenanceMode", false, "popMaintenanceMode", false, "bufferedMessages", 0, "bufferHealthy", true)
	n.at("bufferStats").hasKeys("pendingCount failedCount dbHealthy failedFiles").is("pendingCount", 0, "failedCount", 0, "dbHealthy", true).
		at("failedFiles").hasKeys("count totalBytes totalMB failoverCount qos0Count")
	n = e.maintenance("maintenance", true).hasKeys("maintenanceMode bufferedMessages bufferHealthy message")
	n.is("maintenanceMode", true, "message", "Maintenance mode ENABLED. All PUSHes routing to file buffer.")
	n = e.maintenance("maintenance", false)
	n.is("maintenanceMode", false, "message", "Maintenance mode DISABLED. Background processor will drain buffer to DB.")
	for _, path := range []string{"maintenance", "maintenance/pop"} {
		for _, body := range []string{"{}", `{"enabled":"true"}`, `{"enabled":1}`, `{"enabled":null}`} {
			e.post("/api/v1/system/"+path, body).refuses(http.StatusBadRequest, "enabled (boolean) is required")
		}
	}
	e.get("/api/v1/system/maintenance/pop").obj(http.StatusOK).is("popMaintenanceMode", false, "message", "Pop maintenance mode is OFF. Normal operation.")
	e.maintenance("maintenance/pop", true).is("popMaintenanceMode", true, "message", "Pop maintenance mode ENABLED. All POP operations will return empty arrays.")
	e.get("/api/v1/system/maintenance/pop").obj(http.StatusOK).is("popMaintenanceMode", true)
	e.get("/api/v1/system/maintenance").obj(http.StatusOK).is("popMaintenanceMode", true)
	e.get("/api/v1/system/shared-state").obj(http.StatusOK).
		is("enabled", false, "reason", "single_node_segments_broker", "maintenance_mode", false, "pop_maintenance_mode", true)
	e.maintenance("maintenance/pop", false).is("popMaintenanceMode", false)
}

func TestR120_PushesAreSpooledAndDrained(t *testing.T) {
	_, e := own(t)
	covers(t, "S4", "S10")
	q := e.queue()
	e.push(q, "p", "known")
	e.maintenance("maintenance", true)
	out := e.pushItems(item(q, "p", "a", "1"), item(q, "p", "", "2"), item(q, "p", "known", "3"), item(q, "p2", "b", "4"), item(q, "p", "c", "5"))
	for i, n := range out {
		n.is("index", i, "status", "buffered", "queueName", q)
	}
	out[0].is("transaction_id", "a")
	minted := out[1].str("transaction_id")
	if minted == "" {
		t.Error("no id was minted")
	}
	e.pop(q).want("known")
	e.get("/api/v1/system/maintenance").obj(http.StatusOK).is("maintenanceMode", true, "bufferedMessages", 5)
	p := e.start("GET", popPath(q, all(e.name("g")), "partitions=1", patiently(20000)), "")
	p.wakes().want("known") // what is stored is served meanwhile
	e.maintenance("maintenance", false)
	e.eventually("the spool drains", func() bool {
		return e.get("/api/v1/system/maintenance").obj(http.StatusOK).num("bufferedMessages") == 0 && e.retained(q) == 5
	})
	b := e.pin(q, "p", all(e.name("g"))).want("known", "a", minted, "c")
	if got := b.msgs[1].at("data").text(); got != "1" {
		t.Errorf("data %s", got)
	}
	e.pin(q, "p2", all(e.name("g"))).want("b")
	e.push(q, "p", "after")[0].is("offset", 4)
}

func TestR120_DrainWakesAParkedPop(t *testing.T) {
	_, e := own(t)
	covers(t, "F18", "R12")
	q := e.queue()
	p := e.park(q)
	e.maintenance("maintenance", true)
	e.pushItems(item(q, "p", "a", "1"))[0].is("status", "buffered")
	p.stillParked()
	e.maintenance("maintenance", false)
	p.wakes().want("a")
}

func TestR120_ReplaysAndTransactionsAreRefused(t *testing.T) {
	_, e := own(t)
	covers(t, "S6", "S20")
	q := e.queue()
	row := e.deadLetter(q, "p", "a")
	src, b := taken(e, "x", "y")
	e.maintenance("maintenance", true)
	for _, path := range []string{"/api/v1/dlq/" + row.str("id") + "/replay", address(row.str("partitionId"), "a") + "/retry"} {
		e.post(path, "").obj(http.StatusServiceUnavailable).is("success", false, "result", "maintenance")
	}
	if len(e.dlq(q)) != 1 {
		t.Error("the row went away")
	}
	r := e.post("/api/v1/transaction", `{"operations":[`+txAck("", "x", b.pid(), b.lease, "completed")+","+txPush(item(q, "p", "n", "1"))+`]}`)
	r.obj(http.StatusServiceUnavailable).is("code", "maintenance")
	e.depth(src, "").is("pending", 2)
	e.transact(txAck("", "x", b.pid(), b.lease, "completed")).is("success", true)
	e.depth(src, "").is("pending", 1)
	accepted(e.ack("", b, "y=completed")...)
}

func TestR120_TheFlagAndTheSpoolSurviveARestart(t *testing.T) {
	b, e := own(t)
	covers(t, "S10")
	q := e.queue()
	e.maintenance("maintenance", true)
	e.maintenance("maintenance/pop", true)
	e.pushItems(item(q, "p", "a", "1"), item(q, "p", "b", "2"))[1].is("status", "buffered")
	b.Kill()
	e = b.Restart(t)
	e.get("/api/v1/system/maintenance").obj(http.StatusOK).is("maintenanceMode", true, "popMaintenanceMode", true, "bufferedMessages", 2)
	e.pushItems(item(q, "p", "c", "3"))[0].is("status", "buffered")
	e.maintenance("maintenance/pop", false)
	e.maintenance("maintenance", false)
	e.eventually("the spool drains", func() bool {
		return e.get("/api/v1/system/maintenance").obj(http.StatusOK).num("bufferedMessages") == 0
	})
	e.popSoon(q).want("a", "b", "c")
}

func TestR121_PopsAreEmptyUnderPopMaintenance(t *testing.T) {
	_, e := own(t)
	covers(t, "S4", "A8")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a")
	p := e.park(e.queue())
	e.maintenance("maintenance/pop", true)
	begun := time.Now()
	for _, path := range []string{popPath(q), popPath(q, patiently(20000)), pinPath(q, "p", patiently(20000)), discPath("namespace=" + arg(q)), popPath(q, "autoAck=true")} {
		r := e.start("GET", path, "").wait(15 * time.Second).empty()
		if got := r.header.Get("X-Queen-Empty"); got != "paused" {
			t.Errorf("X-Queen-Empty %q", got)
		}
	}
	if time.Since(begun) > 15*time.Second {
		t.Error("a pop waited in maintenance")
	}
	n := e.get(popPath(q, newest(g))).obj(http.StatusOK).onlyKeys("messages paused conflation").is("paused", true, "conflation", true)
	if len(n.list("messages")) != 0 {
		t.Error("messages is not empty")
	}
	p.wait(22 * time.Second).empty()
	e.maintenance("maintenance/pop", false)
	e.pop(q).want("a").attempt(1)
}

func TestS10_PushesGoOnUnderPopMaintenance(t *testing.T) {
	_, e := own(t)
	covers(t, "R121")
	q := e.queue()
	e.push(q, "p", "z")
	b := e.pop(q)
	e.maintenance("maintenance/pop", true)
	e.push(q, "p", "a")
	accepted(e.ack("", b, "z=completed")...)
	e.maintenance("maintenance/pop", false)
	e.pop(q).want("a")
}

func TestS3_TheDocumentAndABackupAreServed(t *testing.T) {
	_, e := own(t)
	if document != nil {
		e.get("/openapi.json").obj(http.StatusOK).str("openapi")
	}
	got := e.post("/internal/backup", "").want(http.StatusOK)
	if len(got.body) == 0 || got.header.Get("Content-Type") != "application/x-tar" {
		t.Errorf("%v, %d bytes", got.header, len(got.body))
	}
}

// TestS2_NothingSecretIsLogged makes a broker that logs all it can meet every
// kind of secret, in what is answered and in what is refused.
func TestS2_NothingSecretIsLogged(t *testing.T) {
	key := strings.Repeat("5ec2e7c0", 8)
	b, e := own(t, "LOG_LEVEL=debug", "QUEEN_SLOW_REQUEST_MS=1", "JWT_ENABLED=true", "JWT_SECRET="+jwtSecret, "JWT_ALGORITHM=auto",
		"JWT_JWKS_URL=http://user:opensesame@127.0.0.1:1/keys", "QUEEN_ENCRYPTION_KEY="+key)
	good := token(`{"role":"admin","sub":"alice"}`)
	const payload = "the-payload-of-nobody-else"
	user := e.with("Authorization", "Bearer "+good)
	q := e.queue()
	user.post("/api/v1/configure", `{"queue":`+quote(q)+`,"options":{"encryptionEnabled":true,"deadLetterQueue":true}}`).want(http.StatusOK)
	user.pushItems(item(q, "p", "a", quote(payload)))
	user.ack("", user.pop(q), "a=dlq")
	user.post("/api/v1/push", `{"items":[`+quote(payload)).want(http.StatusBadRequest)
	user.post("/api/v1/fetch", `{"entries":[{"queue":`+quote(q)+`,"offset":0}],"maxWaitMs":0}`).want(http.StatusOK)
	user.get("/api/v1/pop/queue/" + q + "?wait=true&timeout=20&access_token=" + good).want(http.StatusNoContent)
	bad := good[:len(good)-6] + "AAAAAA"
	e.with("Authorization", bad).get("/api/v1/dlq").want(http.StatusUnauthorized)
	// A key that is not known makes the broker ask for the published ones.
	unknown := signed(`{"alg":"RS256","kid":"who"}`, `{"role":"admin"}`, jwtSecret)
	e.with("Authorization", unknown).get("/api/v1/dlq").want(http.StatusUnauthorized)
	rawExchange(e, "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+good+"\r\nContent-Length: "+payload+"\r\n\r\n")
	b.Stop()
	log := b.logText()
	for _, want := range []string{"JWKS could not be fetched", "stopped"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not say %q", want)
		}
	}
	for what, secret := range map[string]string{
		"token": good, "signature": good[strings.LastIndexByte(good, '.')+1:], "bad token": bad, "token of another kind": unknown,
		"payload": payload, "encryption key": key, "JWT secret": jwtSecret, "password of a URL": "opensesame",
	} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has the %s", what)
		}
	}
}

// TestS3_AnImportIsThereForItsGroups imports what a push cannot make and looks
// at it as any client does.
func TestS3_AnImportIsThereForItsGroups(t *testing.T) {
	_, e := own(t)
	q := e.queue()
	e.push(q, "p", "a", "b", "c")
	body := `{"queue":` + quote(q) + `,"groups":[{"name":"g","mode":"all","cursors":[{"partition":"p","next":2}]}],` +
		`"deadLetters":[{"partition":"p","consumerGroup":"g","transactionId":"x","payload":{"n":1},"errorMessage":"no","retryCount":3}]}`
	e.post("/internal/import", body).obj(http.StatusOK).is("success", true, "groups", 1, "cursors", 1, "deadLetters", 1, "known", 0)
	e.pop(q, "consumerGroup=g").want("c")
	if letters := e.dlq(q); len(letters) != 1 {
		t.Errorf("%d dead letters", len(letters))
	} else {
		letters[0].is("transactionId", "x", "errorMessage", "no", "retryCount", 3)
	}
	e.post("/internal/import", `{"queue":`+quote(e.queue())+`}`).want(http.StatusNotFound)
}
