package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// kill -9 keeps what the system has in memory, so only the order of the system
// calls shows that an answer waits for the disk.

// call is one system call of the broker: begun and ended are its places in the
// trace.
type call struct {
	name         string
	text         string // as strace prints it, with paths
	begun, ended int
	failed       bool
}

// traced starts a broker whose calls about files and sockets are written down,
// and returns what reads them once it has ended.
func traced(t *testing.T, env ...string) (*node, func() []call) {
	t.Helper()
	n := newNode(t, env...)
	out := filepath.Join(n.dir, "trace")
	n.wrap = []string{needStrace(t), "-f", "-y", "-qq", "-s", "2000", "-o", out, "-e",
		"trace=openat,mkdirat,rename,renameat,renameat2,write,pwrite64,writev,pwritev,sendto,fsync,fdatasync,sync_file_range"}
	n.boot()
	return n, func() []call {
		t.Helper()
		n.end(syscall.SIGTERM)
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return calls(string(text))
	}
}

var (
	whole   = regexp.MustCompile(`^(\d+) +(\w+)\((.*) = (-?\d+)`)
	parted  = regexp.MustCompile(`^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$`)
	resumed = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>.* = (-?\d+)`)
)

func calls(trace string) []call {
	var all []call
	open := map[string]int{} // by thread
	for at, line := range strings.Split(trace, "\n") {
		if m := resumed.FindStringSubmatch(line); m != nil {
			if i, ok := open[m[1]]; ok {
				all[i].ended, all[i].failed = at, strings.HasPrefix(m[3], "-")
				delete(open, m[1])
			}
		} else if m := parted.FindStringSubmatch(line); m != nil {
			open[m[1]] = len(all)
			all = append(all, call{name: m[2], text: m[3], begun: at, ended: len(trace)})
		} else if m := whole.FindStringSubmatch(line); m != nil {
			all = append(all, call{name: m[2], text: m[3], begun: at, ended: at, failed: strings.HasPrefix(m[4], "-")})
		}
	}
	return all
}

func (c *call) syncs() bool { return (c.name == "fsync" || c.name == "fdatasync") && !c.failed }

// answers returns the calls that began an answer with the status.
func answers(all []call, status int) []call {
	var out []call
	for _, c := range all {
		if strings.Contains(c.text, fmt.Sprintf(`, "HTTP/1.1 %d `, status)) {
			out = append(out, c)
		}
	}
	return out
}

// F1: answers left before the bytes were synced; power loss took them.
func TestAnAnswerLeavesAfterTheSyncOfItsRecord(t *testing.T) {
	t.Parallel()
	n, read := traced(t)
	wal := filepath.Join(n.data, "wal")
	n.must(201, "POST", "/api/v1/push", `{"items":[`+item("q", "p", "needle-push", "1")+`,`+item("q", "p", "second", "1")+`]}`)
	p := n.pop("q", "batch=2")
	acked := func(i int) string {
		return fmt.Sprintf(`{"transactionId":%s,"partitionId":%s,"leaseId":%s}`, quote(p.Messages[i].Txn), quote(p.Messages[i].PartitionID), quote(p.LeaseID))
	}
	steps := []struct{ method, path, body string }{
		{"POST", "/api/v1/lease/" + p.LeaseID + "/extend", `{"seconds":500}`},
		{"POST", "/api/v1/ack", acked(0)},
		{"POST", "/api/v1/ack", strings.Replace(acked(1), "{", `{"status":"dlq",`, 1)},
		{"POST", "/api/v1/dlq/replay", `{"queue":"q"}`},
		{"POST", "/api/v1/configure", `{"queue":"q","options":{"leaseTime":77}}`},
		{"POST", "/api/v1/consumer-groups/__QUEUE_MODE__/queues/q/seek", `{"timestamp":"2001-01-01T00:00:00Z"}`},
		{"POST", "/api/v1/transaction", `{"operations":[{"type":"push","queue":"q","payload":1}]}`},
		{"GET", "/api/v1/pop/queue/q?batch=1", ""},
		{"DELETE", "/api/v1/resources/queues/q", ""},
	}
	for _, s := range steps {
		// A number that nobody else sends tells the answers apart.
		if a := n.do(s.method, s.path, s.body); a.status != 200 {
			t.Fatalf("%s %s: %d %s", s.method, s.path, a.status, a.body)
		}
	}
	all := read()
	in := func(c *call, dir string) bool { return strings.Contains(c.text, "<"+dir) }
	durable := func(from, to int) bool {
		written := -1
		for i := range all {
			c := &all[i]
			switch {
			case c.begun < from || c.begun >= to:
			case strings.Contains(c.name, "write") && in(c, wal):
				written = c.ended
			case c.syncs() && in(c, wal) && written >= 0 && c.begun >= written && c.ended < to:
				return true
			}
		}
		return false
	}
	created := answers(all, 201)
	if len(created) != 1 {
		t.Fatalf("%d answers 201 in the trace", len(created))
	}
	record := -1
	for i := range all {
		if c := &all[i]; in(c, wal) && strings.Contains(c.text, "needle-push") {
			record = c.begun
		}
	}
	if record < 0 || !durable(record, created[0].begun) {
		t.Errorf("no sync of the log between the record (%d) and its 201 (%d)", record, created[0].begun)
	}
	ok := answers(all, 200)
	ok = ok[len(ok)-len(steps):]
	from := ok[0].begun
	for i := 1; i < len(steps); i++ {
		if !durable(from, ok[i].begun) {
			t.Errorf("%s %s was answered before the log was synced", steps[i].method, steps[i].path)
		}
		from = ok[i].begun
	}
}

// F6: a file was synced, its name in the directory was not.
func TestANewFileIsInItsDirectoryBeforeAnAnswerRestsOnIt(t *testing.T) {
	t.Parallel()
	n, read := traced(t, "QUEEN_TAIL_MB=1", "QUEEN_CHECKPOINT_MB=1", "QUEEN_CHECKPOINT_S=1")
	payload := `"` + strings.Repeat("x", 3*mebi) + `"`
	for i := range 8 {
		n.must(201, "POST", "/api/v1/push", `{"items":[`+item("q", "p", fmt.Sprint(i), payload)+`]}`)
	}
	until(t, "segments and checkpoints were written", func() bool {
		segments, _ := filepath.Glob(filepath.Join(n.data, "segments", "*.seg"))
		checkpoints, _ := os.ReadDir(filepath.Join(n.data, "checkpoints"))
		return len(segments) > 0 && len(checkpoints) > 0
	})
	n.must(201, "POST", "/api/v1/push", `{"items":[`+item("q", "p", "last", "1")+`]}`)
	all := read()
	created := answers(all, 201)
	if len(created) != 9 {
		t.Fatalf("%d answers 201 in the trace", len(created))
	}
	opened := regexp.MustCompile(`"(` + regexp.QuoteMeta(filepath.Join(n.data, "wal")) + `/[^"]+)", [^)]*O_CREAT`)
	files := 0
	for i := range all {
		m := opened.FindStringSubmatch(all[i].text)
		if m == nil || all[i].name != "openat" || all[i].failed {
			continue
		}
		path := m[1]
		if strings.Contains(path, ".tmp") {
			continue // it counts from its renaming on, below
		}
		files++
		first, synced := -1, -1 // the answer after the first record in it, and the sync of its directory
		written := -1
		for k := i + 1; k < len(all); k++ {
			c := &all[k]
			switch {
			case c.syncs() && strings.Contains(c.text, "<"+filepath.Dir(path)+">") && synced < 0:
				synced = c.ended
			case strings.Contains(c.name, "write") && strings.Contains(c.text, "<"+path+">") && written < 0:
				written = c.begun
			case written >= 0 && first < 0 && strings.Contains(c.text, `, "HTTP/1.1 20`):
				first = c.begun
			}
		}
		if first >= 0 && (synced < 0 || synced > first) {
			t.Errorf("%s: an answer left at %d, its directory was synced at %d", path, first, synced)
		}
	}
	renamed := 0
	for i := range all {
		c := &all[i]
		if !strings.HasPrefix(c.name, "rename") || c.failed {
			continue
		}
		renamed++
		m := regexp.MustCompile(`"([^"]+)"[^"]*$`).FindStringSubmatch(c.text)
		parent, synced := filepath.Dir(m[1]), false
		for k := i + 1; k < len(all); k++ {
			if all[k].syncs() && strings.Contains(all[k].text, "<"+parent+">") {
				synced = true
				break
			}
			if strings.Contains(all[k].text, `, "HTTP/1.1 201 `) && strings.HasPrefix(parent, filepath.Join(n.data, "wal")) {
				break
			}
		}
		if !synced {
			t.Errorf("nobody synced %s after %s", parent, c.text)
		}
	}
	t.Logf("%d files of the log, %d renamings", files, renamed)
	if files == 0 || renamed == 0 {
		t.Error("the trace shows no new file")
	}
}
