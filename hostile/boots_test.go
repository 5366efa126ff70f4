package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// F12: a start took as long as the history, and pops meanwhile were told that
// there is nothing.
func TestABrokerThatStartsSaysSoAndNeverThatAQueueIsEmpty(t *testing.T) {
	t.Parallel()
	// Without checkpoints all of it is in the log, as long as it fits.
	n := newNode(t, quickSync, "QUEEN_CHECKPOINT_S=3600", "QUEEN_CHECKPOINT_MB="+fmt.Sprint(scaled(1024, 128)), "QUEEN_TAIL_MB=256")
	n.boot()
	count := scaled(200_000, 10_000_000)
	const queues = 1000
	n.pushAll(count, 5000, func(i int) string {
		return item(fmt.Sprint("q", i/5%queues), "p", fmt.Sprint(i), fmt.Sprintf(`{"n":%d}`, i))
	})
	n.kill()
	if err := n.spawn(); err != nil {
		t.Fatal(err)
	}
	began, starting, served := time.Now(), 0, time.Duration(0)
	for i := 0; served == 0; i++ {
		if time.Since(began) > 2*patience {
			t.Fatal("the broker does not become ready")
		}
		query := []string{"autoAck=true", "autoAck=true&wait=true&timeout=50"}[i%2]
		health, healthErr := n.try(context.Background(), "GET", "/health", nil)
		a, err := n.try(context.Background(), "GET", fmt.Sprint("/api/v1/pop/queue/q", i%queues, "?", query), nil)
		switch {
		case err != nil: // it does not listen yet
			time.Sleep(2 * time.Millisecond)
		case a.status == 503:
			starting++
			if !json.Valid(a.body) || a.header.Get("Retry-After") == "" {
				t.Errorf("503 without a Retry-After or with %q", a.body)
			}
			if healthErr == nil && (health.status != 503 || !strings.Contains(string(health.body), `"progress"`)) {
				t.Errorf("before that /health said %d %s", health.status, health.body)
			}
		case a.status == 200 && bytes.Contains(a.body, []byte(`"transactionId"`)):
			served = time.Since(began)
		default:
			t.Fatalf("during the start a pop got %d %.200s", a.status, a.body)
		}
	}
	n.healthy()
	worked := n.cpu()
	t.Logf("%d messages: ready after %v and %v of work, %d pops were told to wait", count, served, worked, starting)
	// On a machine that has other things to do the work says more.
	if served > 10*time.Second && worked > 10*time.Second {
		t.Errorf("the start took %v, of them %v of work", served, worked)
	}
	a := n.must(200, "GET", "/api/v1/resources/queues/q999/depth", "")
	var depth struct{ Pending int }
	if err := json.Unmarshal(a.body, &depth); err != nil || depth.Pending < count/queues-1 {
		t.Errorf("after the start q999 has %s", a.body)
	}
}

// halfAcked is a stopped broker with two chains of checkpoints and messages of
// which half are acked; pending are those that are not. stale holds the
// checkpoints as they were halfway.
func halfAcked(t *testing.T) (n *node, pending []string, stale string) {
	t.Helper()
	n = start(t, quickSync, "QUEEN_CHECKPOINT_MB=1", "QUEEN_CHECKPOINT_S=1", "QUEEN_SEAL_AGE_S=1")
	stale = filepath.Join(n.dir, "stale")
	for round := range 6 {
		var txns []string
		for i := range 20 {
			txns = append(txns, fmt.Sprint(round, "-", i))
		}
		n.push("q", "p", txns...)
		p := n.pop("q", "batch=10")
		n.ack(p)
		n.end(os.Interrupt) // a clean end writes a checkpoint
		if round == 1 {
			if err := os.CopyFS(stale, os.DirFS(filepath.Join(n.data, "checkpoints"))); err != nil {
				t.Fatal(err)
			}
		}
		n.boot()
	}
	n.kill()
	for i := 60; i < 120; i++ {
		pending = append(pending, fmt.Sprint(i/20, "-", i%20))
	}
	return n, pending, stale
}

// on starts the broker on a copy of what n has, changed by tamper.
func (n *node) on(name string, tamper func(data string)) *node {
	n.t.Helper()
	c := newNode(n.t, n.env...)
	if err := os.CopyFS(c.data, os.DirFS(n.data)); err != nil {
		n.t.Fatal(err)
	}
	tamper(c.data)
	if err := c.spawn(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Logf("%s: on %s", name, c.data)
	return c
}

// ready waits for the end of a start; false is an end of the process.
func (n *node) ready() bool {
	n.t.Helper()
	up := false
	until(n.t, "the start ends", func() bool {
		if n.gone() {
			return true
		}
		resp, err := n.client.Get(n.url + "/health")
		if err != nil {
			return false
		}
		resp.Body.Close()
		up = resp.StatusCode == 200
		return up
	})
	return up
}

// holds checks that the broker has exactly these messages to give, in order,
// and knows the ids of all that were ever pushed.
func (n *node) holds(what string, pending []string) {
	n.t.Helper()
	for _, txn := range []string{"0-0", "5-19"} {
		a := n.must(201, "POST", "/api/v1/push", `{"items":[`+item("q", "p", txn, `{"n":1}`)+`]}`)
		if !bytes.Contains(a.body, []byte(`"duplicate"`)) {
			n.t.Errorf("%s: %s again is %s", what, txn, a.body)
		}
	}
	got := n.pop("q", "batch=1000&"+url.Values{"leaseSeconds": {"60"}}.Encode()).txns()
	if !slices.Equal(got, pending) {
		n.t.Errorf("%s: popped %v, want %v", what, got, pending)
	}
}

// checkpointsOf lists those of a data directory, oldest first.
func checkpointsOf(t *testing.T, data string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(data, "checkpoints", "*"))
	if err != nil || len(names) < 2 {
		t.Fatalf("checkpoints %v, %v", names, err)
	}
	slices.Sort(names)
	return names
}

// spoil changes a byte in the middle of a file.
func spoil(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 0x40
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// F2: a derived file was believed over the data. F3: cursors came back from
// another moment than the data.
func TestACheckpointThatIsNotTheRightOneMovesNothingBack(t *testing.T) {
	t.Parallel()
	n, pending, stale := halfAcked(t)
	unchanged := n.on("nothing changed", func(string) {})
	if !unchanged.ready() {
		t.Fatal(unchanged.logText())
	}
	unchanged.holds("nothing changed", pending)

	newest := n.on("the newest damaged", func(data string) {
		all := checkpointsOf(t, data)
		spoil(t, all[len(all)-1])
	})
	if !newest.ready() {
		t.Fatal(newest.logText())
	}
	newest.holds("the newest damaged", pending)

	var names []string
	every := n.on("all damaged", func(data string) {
		names = checkpointsOf(t, data)
		for _, path := range names {
			spoil(t, path)
		}
	})
	if code := every.ended(patience); code != 3 {
		t.Errorf("with all checkpoints damaged it ended with %d", code)
	}
	if text := every.logText(); !slices.ContainsFunc(names, func(path string) bool { return strings.Contains(text, path) }) {
		t.Errorf("no checkpoint is named in\n%s", text)
	}

	old := n.on("an old one put back", func(data string) {
		dir := filepath.Join(data, "checkpoints")
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(dir, os.DirFS(stale)); err != nil {
			t.Fatal(err)
		}
	})
	if old.ready() {
		old.holds("an old one put back", pending)
	} else if code := old.cmd.ProcessState.ExitCode(); code != 3 {
		t.Errorf("with an old checkpoint it ended with %d", code)
	}
}

// newestLog is the last file of the log.
func newestLog(t *testing.T, data string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(data, "wal", "*", "*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("files of the log: %v, %v", names, err)
	}
	slices.Sort(names)
	return names[len(names)-1]
}

// F4: a torn last record kept the server from starting. F5: so did a newest
// file that had no whole header yet.
func TestWhatAKillLeavesOfTheLogNeverStopsAStart(t *testing.T) {
	t.Parallel()
	n := start(t, quickSync)
	var pushed []string
	for i := range 60 {
		pushed = append(pushed, fmt.Sprint(i))
		n.push("q", "p", pushed[i])
	}
	n.kill()
	for _, cut := range []int64{1, 7, 4096} {
		c := n.on(fmt.Sprint("cut by ", cut), func(data string) {
			path := newestLog(t, data)
			st, err := os.Stat(path)
			if err == nil {
				err = os.Truncate(path, st.Size()-cut)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
		if !c.ready() {
			t.Fatalf("cut by %d: %s", cut, c.logText())
		}
		got := c.pop("q", "batch=1000").txns()
		// A message takes a hundred bytes or so with its group.
		if !slices.Equal(got, pushed[:len(got)]) || len(got) == len(pushed) || int64(len(pushed)-len(got)) > 1+cut/60 {
			t.Errorf("cut by %d: %d of %d are left: %v", cut, len(got), len(pushed), got)
		}
		c.push("q", "p", "after")
	}
	for _, header := range []int{0, 1, 20} {
		c := n.on(fmt.Sprint("a next file of ", header, " bytes"), func(data string) {
			last := newestLog(t, data)
			var number int
			if _, err := fmt.Sscan(strings.TrimLeft(filepath.Base(last), "0"), &number); err != nil {
				t.Fatalf("%s: %v", last, err)
			}
			b, err := os.ReadFile(last)
			if err != nil {
				t.Fatal(err)
			}
			next := filepath.Join(filepath.Dir(last), fmt.Sprintf("%0*d", len(filepath.Base(last)), number+1000))
			if err := os.WriteFile(next, b[:header], 0o600); err != nil {
				t.Fatal(err)
			}
		})
		if !c.ready() {
			t.Fatalf("with a next file of %d bytes: %s", header, c.logText())
		}
		if got := c.pop("q", "batch=1000").txns(); !slices.Equal(got, pushed) {
			t.Errorf("with a next file of %d bytes: %d of %d are left", header, len(got), len(pushed))
		}
		c.push("q", "p", "after")
	}
}
