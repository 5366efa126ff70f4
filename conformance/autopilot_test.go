package conformance

import (
	"strings"
	"testing"
)

func TestR78_AutopilotResolvesTheOmittedKnobs(t *testing.T) {
	e := shared(t, "S4")
	q, g := lanes(e, 4), e.name("g")
	b := e.pop(q, all(g), "autopilot=true")
	b.onlyKeys(popKeys + " autopilot")
	a := b.at("autopilot").onlyKeys("partitions batch waitMs").is("partitions", 4, "batch", 100)
	if a.num("waitMs") < 0 {
		t.Errorf("autopilot %s", a.text())
	}
	b.is("partitionsClaimed", 4)
}

func TestR78_AutopilotInQueueMode(t *testing.T) {
	e := shared(t)
	b := e.pop(lanes(e, 3), "autopilot=true")
	b.is("partitionsClaimed", 3).at("autopilot").is("partitions", 3, "batch", 100)
}

func TestR78_SentValuesAreNeverChanged(t *testing.T) {
	e := shared(t)
	b := e.pop(lanes(e, 4), "autopilot=true", "partitions=2", "batch=1")
	b.is("partitionsClaimed", 1).lacks("autopilot")
	b = e.pop(lanes(e, 4), "autopilot=true", "partitions=2")
	b.is("partitionsClaimed", 2).at("autopilot").is("batch", 100)
	b = e.pop(lanes(e, 4), "autopilot=true", "batch=3")
	b.is("partitionsClaimed", 3).at("autopilot").is("partitions", 4)
}

func TestR78_NoAutopilotUnlessAsked(t *testing.T) {
	e := shared(t)
	e.pop(lanes(e, 2)).is("partitionsClaimed", 1).lacks("autopilot")
	e.pop(lanes(e, 2), "autopilot=false").is("partitionsClaimed", 1).lacks("autopilot")
}

func TestR78_OnlyOnTheQueueRoute(t *testing.T) {
	e := shared(t)
	q := lanes(e, 3)
	e.pin(q, "p0", "autopilot=true").lacks("autopilot")
	ns := e.name("n")
	e.push(ns+".a", "p1", "a")
	e.push(ns+".a", "p2", "b")
	e.get(discPath("namespace="+ns, "autopilot=true")).asBatch().is("partitionsClaimed", 1).lacks("autopilot")
}

func TestR78_InertWithConflation(t *testing.T) {
	e := shared(t)
	q, g := lanes(e, 3), e.name("g")
	e.pop(q, newest(g), "autopilot=true").is("partitionsClaimed", 3, "conflation", true).lacks("autopilot")
}

func TestR78_NoMoreThan64Partitions(t *testing.T) {
	e := shared(t)
	q := lanes(e, 70)
	e.pop(q, "autopilot=true").is("partitionsClaimed", 64).at("autopilot").is("partitions", 64)
}

func TestR78_OffAndShadowGivePlainDefaults(t *testing.T) {
	for _, mode := range []string{"off", "shadow"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, "QUEEN_POP_AUTOPILOT="+mode)
			e := newEnv(t, b.url)
			e.pop(lanes(e, 3), "autopilot=true").is("partitionsClaimed", 1).lacks("autopilot")
		})
	}
	record(t)
}

func TestS13_UnknownAutopilotModeIsFatal(t *testing.T) {
	t.Parallel()
	record(t)
	if log := refusesToStart(t, "QUEEN_POP_AUTOPILOT=sometimes"); !strings.Contains(log, "QUEEN_POP_AUTOPILOT") {
		t.Errorf("the log does not name the variable:\n%s", log)
	}
}

func TestS13_BadBooleanIsFatal(t *testing.T) {
	t.Parallel()
	record(t)
	if log := refusesToStart(t, "QUEEN_HOTLIST=maybe"); !strings.Contains(log, "QUEEN_HOTLIST") {
		t.Errorf("the log does not name the variable:\n%s", log)
	}
}

func TestS13_BadSettingsAreFatal(t *testing.T) {
	t.Parallel()
	record(t)
	refusesToStart(t, "QUEEN_TLS_CERT=/nonexistent/cert.pem")
	refusesToStart(t, "QUEEN_TENANCY_HEADER=true")
	refusesToStart(t, "JWT_ENABLED=true", "JWT_ALGORITHM=HS256")
	refusesToStart(t, "JWT_ENABLED=true", "JWT_ALGORITHM=XX1", "JWT_SECRET=s")
	refusesToStart(t, "QUEEN_ENCRYPTION_REQUIRED=true")
	refusesToStart(t, "QUEEN_ENCRYPTION_REQUIRED=true", "QUEEN_ENCRYPTION_KEY=abc")
}

func TestS13_BadNumberFallsBackToTheDefault(t *testing.T) {
	_, e := own(t, "RETENTION_INTERVAL=abc", "QUEEN_HOTLIST_WINDOW_BATCH=x", "QUEEN_HOTLIST= Yes ", "QUEEN_LOG_JSON=")
	q := e.queue()
	e.configure(q, `{"windowBuffer":600}`)
	e.push(q, "p", series(1, 99)...)
	e.popNone(q)
	e.push(q, "p", "m100")
	if n := len(e.pop(q).msgs); n != 100 {
		t.Errorf("%d messages", n)
	}
}
