package broker

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"queend"
)

// testdata/formats has, for every version that FORMAT has named, archives of
// a data directory that a broker of that version wrote, killed and closed, and
// the list of what is in it:
//
//	<version>/killed.tar.gz closed.tar.gz contents.txt
//
// They are written once and never again. With -update those of formatVersion
// are made when there are none.
const formats = "testdata/formats"

// formatClock is when populate begins.
const formatClock = 1_700_000_000 * Second

// formatRig opens a directory with the settings those in formats were written
// with.
func formatRig(t *testing.T, dir string) *rig {
	return newRig(t, func(c *Config) {
		c.Dir, c.EncryptionKey, c.TraceRetentionSeconds, c.HistoryDays = dir, bytes.Repeat([]byte{7}, 32), 30*24*3600, 90
	})
}

// inventory lists what a broker holds, one fact a line, in names and numbers
// that mean the same in every format. Nothing of where the bytes are is in it.
func (r *rig) inventory() []string {
	r.Helper()
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	s := &r.b.state
	for _, q := range s.queues {
		add("queue %q of %v id %v namespace %q task %q created %d implicit %v dead letters %d",
			q.name, q.tenant, q.uuid, q.namespace, q.task, q.created, q.implicit, len(q.letters))
		for _, o := range optionTable {
			add("%s", optionLine(q.name, &o, &q.opts))
		}
		for _, g := range q.groups {
			add("group %q on %q created %d mode %q conflation %v seed %d start %d popped %v",
				g.name, q.name, g.created, g.mode, g.conflation, g.seed, g.start, g.popped)
		}
	}
	for p := range s.partitions.all() {
		at := fmt.Sprintf("%q/%q", p.q.name, p.name)
		add("partition %s id %v internal %v created %d last push %d last use %d from %d to %d",
			at, p.uuid, p.ord < 0, p.created, p.lastTime, p.lastUse, p.start, p.end)
		for _, m := range readAll(r.T, r.b, p) {
			add("message %s/%d id %v txn %q trace %v producer %v %q headers %q encrypted %v pushed %d payload %q",
				at, m.Offset, m.ID, m.TxnID, m.TraceID, m.HasProducer, m.Producer, m.Headers, m.Encrypted, m.Time, m.Payload)
		}
		for row := range p.rows.all() {
			if g := s.groups[row.group]; g != nil {
				add("%s", rowLine(fmt.Sprintf("%s of %q", at, g.name), row))
			}
		}
	}
	for _, l := range s.labels {
		add("label %v %q %q %q mode %q conflation %v seed %d", l.tenant, l.namespace, l.task, l.group, l.mode, l.conflation, l.seed)
	}
	for _, l := range s.dead {
		add("dead letter %v of %q/%q offset %d group %q failed %d, stored at %d",
			l.id, l.q.name, s.partitions.get(l.part).name, l.offset, l.group, l.failedAt, l.at)
	}
	add("switches: pushes %v pops %v, spooled %d", s.maintenance, s.popMaintenance, r.b.spoolStatus().Buffered)
	t := s.totals
	add("totals push %d %d pop %d %d ack %d %d failed %d transactions %d dead letters %d", t.PushRequests, t.PushMessages,
		t.PopRequests, t.PopMessages, t.AckRequests, t.AckMessages, t.AckFailed, t.Transactions, t.DeadLetters)
	own := strings.NewReplacer(fmt.Sprintf("%q", tracesQueue), "traces", fmt.Sprintf("%q", historyQueue), "history")
	for i := range lines {
		lines[i] = own.Replace(lines[i])
	}
	slices.Sort(lines)
	return lines
}

func optionLine(queue string, o *option, in *Options) string {
	if o.number != nil {
		return fmt.Sprintf("option %q %s=%d", queue, o.name, *o.number(in))
	}
	return fmt.Sprintf("option %q %s=%v", queue, o.name, *o.toggle(in))
}

func rowLine(of string, r *row) string {
	line := fmt.Sprintf("cursor %s at %d delivered %d settled %v %d %d", of, r.committed, r.lastDelivery, r.settled, r.settledFrom, r.settledTo)
	if l := r.lane; l != nil {
		line += fmt.Sprintf(" lease %v until %d since %d end %d conflated %v retry %d not before %d attempt %d to %d: %d isolate %d head %d: %d",
			l.lease, l.leaseUntil, l.claimed, l.batchEnd, l.conflated, l.retry, l.notBefore, l.attemptStart, l.attemptEnd, l.attempts,
			l.isolate, l.headOffset, l.headAttempts)
	}
	return line
}

// missing are the lines of want that got has not, and surplus those that only
// got has. A queue of an earlier version may have options it knew nothing of,
// at what they were by default.
func compareInventories(want, got []string) (missing, surplus []string) {
	for _, line := range want {
		if !slices.Contains(got, line) {
			missing = append(missing, line)
		}
	}
	defaults := DefaultOptions()
	for _, line := range got {
		later := slices.ContainsFunc(optionTable, func(o option) bool {
			at, now, _ := strings.Cut(line, " "+o.name+"=")
			known := slices.ContainsFunc(want, func(w string) bool { return strings.HasPrefix(w, at+" "+o.name+"=") })
			_, standard, _ := strings.Cut(optionLine("", &o, &defaults), "=")
			return strings.HasPrefix(line, "option ") && !known && now == standard
		})
		if !later && !slices.Contains(want, line) {
			surplus = append(surplus, line)
		}
	}
	return missing, surplus
}

func (r *rig) wantInventory(when string, want []string) {
	r.Helper()
	if missing, surplus := compareInventories(want, r.inventory()); len(missing)+len(surplus) > 0 {
		r.Fatalf("%s: missing:\n%s\nsurplus:\n%s", when, strings.Join(missing, "\n"), strings.Join(surplus, "\n"))
	}
}

// populate makes a directory with everything a format has to carry: in a base,
// in a delta behind it, and in the log behind that.
func (r *rig) populate() {
	r.settings("q", "leaseTime=120", "retryLimit=1", "completedRetentionSeconds=60", "retentionEnabled=true", "maxDeliveries=9")
	r.settings("secret", "encryptionEnabled=true", "dedupWindowSeconds=0")
	r.settings("brief", "maxWaitTimeSeconds=60")
	r.pushTo("brief", "p", "b1", "b2")
	r.described("q", "p", "a")
	r.push("b", "c", "d", "e", "f")
	r.pushTo("q", "other", "o1", "o2")
	r.pushTo("secret", "p", "hidden")
	r.pushTo("shop.orders.eu", "p", "s1")
	r.pushTo("shop.orders.us", "p", "s2")
	r.pushTo("short", "p", "gone")
	r.popP("audit", 2).ack("a=completed b=completed")
	r.popReq(func(q *PopRequest) {
		q.Discovery, q.Queue, q.Namespace, q.Task, q.Group = true, "", "shop", "orders", "router"
	})
	r.popReq(func(q *PopRequest) { q.Group, q.Conflation, q.Pinned, q.Partition = "latest", true, true, "other" })
	r.popP("", 3).ack("a=completed b=failed:no-such-customer c=completed")
	r.said(r.popP("", 3).ack("b=failed:still-none"), "dlq")
	r.trace(r.part("p").uuid.String(), "a", `{"step":1}`, "order-7")
	r.flushed()
	r.checkpointed(true)

	r.later(61 * Second)
	r.b.saveHistory(false)
	r.b.retain()
	r.pushTo("brief", "p", "b3")
	r.push("g", "h")
	r.said(r.popP("audit", 4).ack("c=dlq:poison d=retry~60000"), "dlq ok")
	r.pushTo("late", "p", "l1")
	r.popReq(func(q *PopRequest) { q.Queue, q.Group, q.Mode = "late", "live", "new" })
	_, err := r.b.DeleteQueue(r.Context(), DefaultTenant, "short")
	r.must(err)
	r.checkpointed(false)

	r.described("q", "tail", "t1")
	r.pushTo("secret", "p", "hidden too")
	r.popP("", 2).ack("c=completed")
	r.said(r.popP("side", 1).ack("a=dlq:side"), "dlq")
	r.trace(r.part("p").uuid.String(), "b", `{"step":2}`, "order-7", "order-8")
	_, err = r.b.SetSubscription(r.Context(), DefaultTenant, "live", formatClock)
	r.must(err)
	r.maintenance(true)
	r.spoolTo("q", "spooled", "s1", "s2")
	r.b.saveHistory(true)
}

// popP claims messages of partition p of q.
func (r *rig) popP(group string, n int) *popped {
	r.Helper()
	return &popped{r, r.popReq(func(q *PopRequest) { q.Pinned, q.Partition, q.Group, q.Batch = true, "p", group, n })}
}

// described pushes a message with everything a message may have.
func (r *rig) described(queue, part, id string) {
	r.Helper()
	producer := "someone"
	_, err := r.b.Push(r.Context(), DefaultTenant, &producer, []PushItem{{
		Queue: queue, Partition: part, TxnID: []byte(id), TraceID: queend.ID{0: 9, 15: 1}, Headers: []byte(`{"source":"shop"}`), Payload: []byte(`{"id": "` + id + `"}`),
	}})
	r.must(err)
}

// settings configures a queue with options of the form name=value.
func (r *rig) settings(queue string, options ...string) {
	r.Helper()
	c := Configure{Tenant: DefaultTenant, Queue: queue}
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		s := Setting{Name: name}
		if KindOf(name) == OptionBool {
			s.Bool = value == "true"
		} else if _, err := fmt.Sscan(value, &s.Int); err != nil {
			r.Fatal(err)
		}
		c.Settings = append(c.Settings, s)
	}
	_, err := r.b.Configure(r.Context(), c)
	r.must(err)
}

func (r *rig) checkpointed(base bool) {
	r.Helper()
	r.b.storage.checkpointing.Lock()
	defer r.b.storage.checkpointing.Unlock()
	r.must(r.b.checkpoint(base, false))
}

// writeFormat makes the archives of the format of this program.
func writeFormat(t *testing.T, to string) {
	r := formatRig(t, filepath.Join(t.TempDir(), "data"))
	r.populate()
	want := r.inventory()
	settled(t, r.b)
	killed := copyDir(t, r.cfg.Dir)
	r.close()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"killed": killed, "closed": r.cfg.Dir} {
		pack(t, filepath.Join(to, name+".tar.gz"), dir)
	}
	if err := os.WriteFile(filepath.Join(to, "contents.txt"), []byte(strings.Join(want, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func pack(t *testing.T, path, dir string) {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	w := tar.NewWriter(z)
	err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), z.Close(), os.WriteFile(path, buf.Bytes(), 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, path string) (dir string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "data")
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return dir
		}
		if err != nil || !filepath.IsLocal(h.Name) {
			t.Fatal(h, err)
		}
		to := filepath.Join(dir, h.Name)
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(to, 0o700)
		} else {
			body, rerr := io.ReadAll(r)
			err = errors.Join(rerr, os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, body, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestDirectoriesOfEveryFormatOpenWithAllThatIsInThem(t *testing.T) {
	for version := 1; version <= formatVersion; version++ {
		dir := filepath.Join(formats, fmt.Sprint(version))
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && *update && version == formatVersion {
			writeFormat(t, dir)
		}
		archives, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
		if err != nil || len(archives) == 0 {
			t.Fatalf("format %d has no directory in %s: %v", version, dir, err)
		}
		for _, path := range archives {
			t.Run(strings.TrimSuffix(path[len(formats)+1:], ".tar.gz"), func(t *testing.T) { opensWhole(t, path) })
		}
	}
}

// opensWhole opens a directory of a format and lets the broker work on it.
func opensWhole(t *testing.T, path string) {
	list, err := os.ReadFile(filepath.Join(filepath.Dir(path), "contents.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(list)), "\n")
	dir := unpack(t, path)
	if all := live(verified(t, dir)); len(all) > 0 {
		t.Fatalf("verify finds %v", all)
	}
	r := formatRig(t, dir)
	r.wantInventory("opened", want)
	if got := r.tracesOf(r.part("p").uuid.String(), "b"); len(got) != 1 || string(got[0].Data) != `{"step":2}` || got[0].Queue != "q" {
		t.Errorf("traces of b: %+v", got)
	}
	if got := r.traceNames(); !strings.Contains(got, "order-7:2/2") || !strings.HasSuffix(got, "of 2") {
		t.Errorf("names of traces: %s", got)
	}
	if got, want := r.letters(), "a:side c:poison b:still-none"; got != want {
		t.Errorf("dead letters %q, want %q", got, want)
	}
	if got := r.traffic(); got.PushMessages != 19 || got.AckFailed != 4 {
		t.Errorf("figures: %+v", got)
	}
	r.flushed()
	r.checkpointed(true)
	r.reopen()
	r.wantInventory("opened again", want)

	r.maintenance(false)
	r.must(r.b.DrainSpool())
	spooled := r.popReq(func(q *PopRequest) { q.Pinned, q.Partition, q.Group = true, "spooled", "g" })
	(&popped{r, spooled}).want("s1 s2")
	r.b.saveHistory(true)
	later := r.inventory()
	r.reopen()
	r.wantInventory("after some work", later)
}

func TestALaterFormatIsRefusedSayingSoAndNothingIsChanged(t *testing.T) {
	c := newClock()
	dir, _ := storedWorld(t, c)
	text := fmt.Sprintf("queend %d\n", formatVersion+1)
	if err := os.WriteFile(filepath.Join(dir, "FORMAT"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	_, err := Open(testConfig(dir, c))
	if !errors.Is(err, ErrFormat) || errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	want := fmt.Sprintf("newer version of queend: %s: format %d, this program knows up to %d", dir, formatVersion+1, formatVersion)
	if !strings.HasSuffix(err.Error(), want) {
		t.Errorf("it says %q", err)
	}
	if !maps.Equal(before, contents(t, dir)) {
		t.Error("the directory was changed")
	}
	if err := os.WriteFile(filepath.Join(dir, "FORMAT"), []byte(fmt.Sprintf("queend %d\n", formatVersion)), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Open(testConfig(dir, c))
	if err != nil {
		t.Fatal("the directory itself does not open:", err)
	}
	if err := r.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}
