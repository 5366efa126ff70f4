package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"

	"queend/api"
	"queend/broker"
)

// served is a broker with its HTTP front, and a shell in which it is the one
// that commands talk to.
type served struct {
	*testing.T
	url string
}

func newServed(t *testing.T) *served {
	t.Helper()
	now := newClock()
	b, err := broker.Open(broker.Config{Dir: t.TempDir(), Now: now, DiskHighPct: 99, DiskLowPct: 98})
	if err != nil {
		t.Fatal(err)
	}
	server, err := api.New(api.Config{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server.Attach(b)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	t.Cleanup(func() {
		b.StopWaiting()
		_ = server.Shutdown(context.Background())
		<-ended
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &served{t, "http://" + ln.Addr().String()}
}

// says runs a command and checks its exit code.
func (s *served) says(code int, args ...string) (stdout string) {
	s.Helper()
	return s.reads(code, "", args...)
}

// reads is says with something on the standard input.
func (s *served) reads(code int, stdin string, args ...string) (stdout string) {
	s.Helper()
	stdout, _ = s.run(code, stdin, args...)
	return stdout
}

// complains is says for what goes to the standard error.
func (s *served) complains(code int, args ...string) (stderr string) {
	s.Helper()
	_, stderr = s.run(code, "", args...)
	return stderr
}

func (s *served) run(code int, stdin string, args ...string) (stdout, stderr string) {
	s.Helper()
	var out, errs bytes.Buffer
	c := &console{environ: []string{"QUEEND_URL=" + s.url}, stdout: &out, stderr: &errs, in: strings.NewReader(stdin)}
	for _, command := range commands() {
		if command.name != args[0] {
			continue
		}
		if got := command.run(args[1:], c); got != code {
			s.Fatalf("%v: exit %d, want %d\n%s%s", args, got, code, out.String(), errs.String())
		}
		return out.String(), errs.String()
	}
	s.Fatalf("no command %s", args[0])
	return "", ""
}

// lines decodes one JSON object per line.
func (s *served) lines(text string) (out []map[string]any) {
	s.Helper()
	for line := range strings.Lines(text) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			s.Fatalf("%q: %v", line, err)
		}
		out = append(out, v)
	}
	return out
}

func (s *served) has(text string, parts ...string) {
	s.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			s.Errorf("no %q in:\n%s", part, text)
		}
	}
}

func TestPushedMessagesAreSeenByEveryCommand(t *testing.T) {
	s := newServed(t)
	s.has(s.says(exitOK, "push", "-partition", "p", "-id", "t", "-header", "a=b", "q", `{"n":1}`, `2`), "2 queued")
	s.has(s.says(exitOK, "push", "-partition", "p", "-id", "t", "q", `1`, `2`), "2 duplicate")
	s.has(s.reads(exitOK, "one\n\ntwo", "push", "-text", "other"), "2 queued")
	s.has(s.says(exitOK, "queues"), "QUEUE", "q ", "other")
	s.has(s.says(exitOK, "queues", "q"), "PARTITION", "p ")
	if got := s.lines(s.says(exitOK, "queues", "-json")); len(got) != 2 || got[0]["messages"] != 2.0 {
		t.Errorf("%v", got)
	}
	if got := s.lines(s.says(exitOK, "peek", "-json", "q")); len(got) != 2 || got[0]["transactionId"] != "t-2" || got[0]["status"] != "pending" {
		t.Errorf("%v", got)
	}
	s.has(s.says(exitOK, "tail", "-once", "q"), "p/0 t-1 {\"n\":1}\n", "p/1 t-2 2\n")
	if got := s.lines(s.says(exitOK, "tail", "-count", "1", "-n", "1", "-json", "q")); len(got) != 1 || got[0]["offset"] != 1.0 {
		t.Errorf("%v", got)
	}
	s.has(s.says(exitOK, "pop", "-n", "5", "q"), "t-1", "t-2", "lease ")
	s.says(exitEmpty, "pop", "q")
	s.has(s.says(exitOK, "pop", "-group", "g", "-mode", "all", "-ack", "q"), "t-1")
	s.has(s.says(exitOK, "groups", "-queue", "q"), "g ", "__QUEUE_MODE__")
	if got := s.lines(s.says(exitOK, "groups", "-group", "g", "-json")); len(got) != 1 || got[0]["lag"] != 1.0 {
		t.Errorf("%v", got)
	}
	s.has(s.says(exitOK, "top", "-n", "1"), "2 queues", "q ", "other")
}

func TestManyMessagesArePushedInOrder(t *testing.T) {
	s := newServed(t)
	var in strings.Builder
	for range pushItems*2 + 1 {
		in.WriteString("1\n")
	}
	results := s.lines(s.reads(exitOK, in.String(), "push", "-json", "q"))
	if len(results) != pushItems*2+1 {
		t.Fatalf("%d results", len(results))
	}
	for i, r := range results {
		if r["offset"] != float64(i) {
			t.Fatalf("message %d: %v", i, r)
		}
	}
}

func TestPushRefusesWhatIsNoJSON(t *testing.T) {
	s := newServed(t)
	s.says(exitFailure, "push", "q", "1", "no json")
	s.says(exitFailure, "queues", "q")
}

// deadLetter makes one in q, with an error.
func (s *served) deadLetter(why string) {
	s.Helper()
	s.says(exitOK, "push", "-partition", "p", "q", "1")
	r := newRemote(&console{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}, "test", "", "")
	if _, ok := r.connect([]string{"-url", s.url}, 0, 0); !ok {
		s.Fatal("no connection")
	}
	m := s.lines(s.says(exitOK, "pop", "-json", "q"))[0]
	var out []any
	if err := r.Post(s.Context(), "/api/v1/ack", map[string]any{
		"transactionId": m["transactionId"], "partitionId": m["partitionId"], "leaseId": m["leaseId"], "status": "dlq", "error": why,
	}, &out); err != nil {
		s.Fatal(err)
	}
}

func TestDeadLettersAreListedReplayedAndPurged(t *testing.T) {
	s := newServed(t)
	s.says(exitEmpty, "dlq", "list", "q")
	s.deadLetter("bad x")
	s.has(s.says(exitOK, "dlq", "list", "q"), "bad x", "__QUEUE_MODE__")
	s.says(exitEmpty, "dlq", "list", "-contains", "good", "q")
	s.has(s.says(exitOK, "dlq", "replay", "-dry-run", "q"), "1 match")
	s.has(s.says(exitOK, "dlq", "replay", "q"), "1 replayed, 0 duplicates, 0 failed, 0 remain")
	s.deadLetter("bad y")
	s.has(s.says(exitOK, "dlq", "purge", "q"), "1 would be deleted")
	for _, line := range []string{
		"purge -limit 1 -yes q", "purge -dry-run -yes q", "replay -yes q", "list -yes q", "list -dry-run q",
	} {
		args := strings.Fields("dlq " + line)
		s.has(s.complains(exitUsage, args...), " is no flag of "+args[1])
	}
	if got := s.lines(s.says(exitOK, "dlq", "list", "-json", "q")); len(got) != 1 {
		t.Fatalf("%v", got)
	}
	s.has(s.says(exitOK, "dlq", "purge", "-yes", "q"), "1 deleted")
	s.says(exitUsage, "dlq")
	s.says(exitUsage, "dlq", "list")
}

func TestFlagsWinOverTheEnvironment(t *testing.T) {
	s := newServed(t)
	good := s.url
	s.url = "http://127.0.0.1:1"
	s.says(exitOK, "queues", "-url", good)
	s.says(exitFailure, "queues")
	s.url = "nonsense"
	s.says(exitUsage, "queues")
}

func TestNamesCannotDisturbTheTerminal(t *testing.T) {
	for text, want := range map[string]string{"red\x1b[31m": "red?[31m", "a\tb\n": "a?b?", "\u009b": "?", "größe": "größe"} {
		if got := clean(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestFlagsThatCannotBeAreRefused: the broker would take them for something
// else, or find nothing.
func TestFlagsThatCannotBeAreRefused(t *testing.T) {
	s := newServed(t)
	s.says(exitOK, "push", "q", "1")
	for _, line := range []string{
		"pop -group g -mode alll q", "pop -n 0 q", "pop -n 100001 q", "pop -partitions 65 q", "pop -lease -1 q",
		"peek -n 1001 q", "peek -n 0 q", "peek -status done q", "tail -once -n -1 q", "tail -once -count -1 q",
		"top -n -1", "top -n 1 -lines 0", "top -n 1 -interval 0s", "dlq list -limit -1 q",
	} {
		args := strings.Fields(line)
		s.has(s.complains(exitUsage, args...), "queend "+args[0]+": -", " is no")
	}
	s.has(s.complains(exitUsage, "queues", "q", "-json"), "-json stands behind an argument", "usage: queend queues [flags] [QUEUE];")
	s.has(s.complains(exitUsage, "queues", "-jsn"), "-jsn", "usage: queend queues [flags] [QUEUE];")
	s.has(s.complains(exitUsage, "dlq"), "usage: queend dlq list|replay|purge [flags] QUEUE;")
	s.has(s.says(exitOK, "dlq", "-help"), "Usage: queend dlq list|replay|purge [flags] QUEUE\n")
	s.has(s.says(exitOK, "groups", "-help"), "Usage: queend groups [flags]\n")
	s.has(s.says(exitOK, "pop", "q"), "lease ")
}
