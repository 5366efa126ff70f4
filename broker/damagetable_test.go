package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"queend"
)

// everyKind is a stopped directory with a file of every kind, several where
// there can be: two chains with deltas, segments, log files behind them that
// are known to be whole, and a spool that was not drained.
func everyKind(t *testing.T) (r *rig, want string) {
	t.Helper()
	r = newRig(t)
	r.close()
	r.cfg.LogSegmentBytes = 4 << 10
	r.open()
	cut := func(base bool) {
		r.b.storage.checkpointing.Lock()
		defer r.b.storage.checkpointing.Unlock()
		r.must(r.b.checkpoint(base, false))
	}
	n := 0
	push := func(count int) {
		for range count {
			n++
			r.pushTo("q", fmt.Sprint("p", n%3), fmt.Sprint("m", n))
		}
	}
	push(300) // so that the deltas stay small beside it
	cut(true)
	for range 3 {
		push(6)
		cut(false)
	}
	push(6)
	cut(true)
	push(6)
	cut(false)
	r.pushTo("ended", "p", "last")
	push(40)
	r.maintenance(true)
	r.spoolTo("later", "p", "s1", "s2", "s3")
	kill(t, r.b) // closes the log, with its mark
	want = dump(t, r.b)
	r.b = nil
	return r, want
}

// harm is one kind of damage to a file; others are more of its kind. It reports
// whether it changed anything.
type harm struct {
	name string
	do   func(t *testing.T, path string, others []string) bool
}

// rewrite changes the bytes of a file.
func rewrite(change func(data []byte) []byte) func(*testing.T, string, []string) bool {
	return func(t *testing.T, path string, _ []string) bool {
		t.Helper()
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		after := change(slices.Clone(before))
		if err := os.WriteFile(path, after, 0o600); err != nil {
			t.Fatal(err)
		}
		return !bytes.Equal(before, after)
	}
}

// harms are all kinds of damage; of an empty file some change nothing.
func harms() []harm {
	all := []harm{
		{"missing", func(t *testing.T, path string, _ []string) bool { return os.Remove(path) == nil }},
		{"emptied", rewrite(func([]byte) []byte { return nil })},
		{"zeroed", rewrite(func(data []byte) []byte { return make([]byte, len(data)) })},
		{"end zeroed", rewrite(func(data []byte) []byte { clear(data[len(data)/2:]); return data })},
		{"a block zeroed", rewrite(func(data []byte) []byte { clear(data[len(data)/3 : len(data)/2]); return data })},
		{"longer", rewrite(func(data []byte) []byte { return append(data, 1) })},
		{"cut by a byte", rewrite(func(data []byte) []byte { return data[:max(len(data)-1, 0)] })},
		{"cut in half", rewrite(func(data []byte) []byte { return data[:len(data)/2] })},
		{"duplicated", duplicate},
		{"swapped", swap},
	}
	for i := range 12 {
		all = append(all, harm{fmt.Sprintf("bit flipped at %d/11", i), rewrite(func(data []byte) []byte {
			if len(data) > 0 {
				data[i*(len(data)-1)/11] ^= 1 << (i % 8)
			}
			return data
		})})
	}
	return all
}

// duplicate puts a copy of a file beside it under a number that is free.
func duplicate(t *testing.T, path string, _ []string) bool {
	t.Helper()
	if name := filepath.Base(path); name[0] != '0' {
		return false // it has no number
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(filepath.Dir(path), "00000000000000009999"+filepath.Ext(path))
	if err := os.WriteFile(copied, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return true
}

// swap exchanges a file with the next one of its kind.
func swap(t *testing.T, path string, others []string) bool {
	t.Helper()
	if len(others) == 0 {
		return false
	}
	temp := path + ".x"
	for _, move := range [][2]string{{path, temp}, {others[0], path}, {temp, others[0]}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			t.Fatal(err)
		}
	}
	return true
}

// kinds are the files of a data directory, by pattern.
var kinds = []string{"FORMAT", "LOCK", "wal/clean", "wal/0*/*", "segments/*", "checkpoints/*.base", "checkpoints/*.delta", "spool/*.spool"}

// TestEveryDamageOfEveryFile: a start finds all of it and names the file, or
// has everything, or serves all but what it cannot read and says so. verify
// reports it, verify and a dry repair change nothing; a repair loses what it
// says.
func TestEveryDamageOfEveryFile(t *testing.T) {
	r, want := everyKind(t)
	outcomes := map[string]int{}
	for _, kind := range kinds {
		files, err := filepath.Glob(filepath.Join(r.cfg.Dir, kind))
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s", kind)
		}
		slices.Sort(files)
		for i, file := range files {
			if len(files) > 4 && i > 0 && i != len(files)/2 && i < len(files)-1 {
				continue // the first, one between and the last
			}
			for _, h := range harms() {
				rel, err := filepath.Rel(r.cfg.Dir, file)
				r.must(err)
				dir := copyDir(t, r.cfg.Dir)
				touched := []string{filepath.Join(dir, rel)}
				others := slices.Concat(files[i+1:], files[:i])
				if h.name == "swapped" && len(others) > 0 {
					touched = append(touched, strings.Replace(others[0], r.cfg.Dir, dir, 1))
				}
				if !h.do(t, touched[0], touched[1:]) {
					continue
				}
				c := damageCase{t: t, name: rel + " " + h.name, kind: kind, harm: h.name, dir: dir, files: touched}
				outcomes[kind+": "+c.check(r.cfg, want)]++
				r.must(os.RemoveAll(dir))
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(outcomes)) {
		t.Logf("%s: %d", text, outcomes[text])
	}
}

// damageCase is one directory with one damage.
type damageCase struct {
	t                *testing.T
	name, kind, harm string
	dir              string
	files            []string // what was damaged
	reported         bool     // by verify
}

// unseen is damage that nothing can tell from what is right, or that costs
// nothing: LOCK holds nothing, a line end in FORMAT counts for nothing, nobody
// misses the mark or the end of a chain, and a copy under another name is only
// one more file. A crash leaves bytes behind the last group of a generation and
// spool files without a byte, so these are no damage either.
func (c *damageCase) unseen() bool {
	unseen := map[string][]string{
		"wal/0*/*": {"longer"}, "checkpoints/*.delta": {"missing"}, "spool/*.spool": {"missing", "emptied"},
	}
	switch c.kind {
	case "LOCK", "FORMAT", "wal/clean":
		return true
	}
	return c.harm == "duplicated" || slices.Contains(unseen[c.kind], c.harm)
}

// check looks at the directory with everything that reads it, and says what a
// start makes of it.
func (c *damageCase) check(cfg Config, want string) string {
	before := contents(c.t, c.dir)
	delete(before, filepath.Join(c.dir, "LOCK"))
	unchanged := func(by string) {
		c.t.Helper()
		after := contents(c.t, c.dir)
		delete(after, filepath.Join(c.dir, "LOCK"))
		if !maps.Equal(before, after) {
			c.t.Errorf("%s: %s changed something", c.name, by)
		}
	}
	err := Verify(c.dir, func(d Damage) { c.reported = true })
	c.reported = c.reported || err != nil
	unchanged("verify")
	if !c.reported && !c.unseen() {
		c.t.Errorf("%s: verify reports nothing", c.name)
	}
	_, err = RepairDir(c.dir, false)
	if err != nil && !errors.Is(err, ErrNoRepair) && !errors.Is(err, ErrFormat) {
		c.t.Errorf("%s: repair: %v", c.name, err)
	}
	unchanged("a dry repair")

	var said bytes.Buffer
	cfg.Dir, cfg.Log = c.dir, slog.New(slog.NewTextHandler(&said, nil))
	b, err := Open(cfg)
	if err != nil {
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) {
			c.t.Errorf("%s: %v", c.name, err)
		}
		if !c.names(err.Error()) {
			c.t.Errorf("%s: the error names no file: %v", c.name, err)
		}
		unchanged("a refused start")
		return "refused, " + c.repair(cfg, want)
	}
	defer kill(c.t, b)
	return c.served(b, want, &said)
}

// repair repairs the directory for good: it starts then, without anything
// changed or lost but what was said, and what was damaged is kept.
func (c *damageCase) repair(cfg Config, want string) string {
	damaged := map[string][]byte{}
	for _, path := range c.files {
		if data, err := os.ReadFile(path); err == nil && len(data) > 0 {
			damaged[path] = data
		}
	}
	done, err := RepairDir(c.dir, true)
	if err != nil {
		return "no repair"
	}
	after := slices.Collect(maps.Values(contents(c.t, c.dir)))
	for path, data := range damaged {
		if !slices.Contains(after, string(data)) {
			c.t.Errorf("%s: after %q nothing has the bytes of %s", c.name, done.Steps, path)
		}
	}
	b, err := Open(cfg)
	if err != nil {
		c.t.Errorf("%s: after %q: %v", c.name, done.Steps, err)
		return "wrong"
	}
	defer kill(c.t, b)
	for p := range b.state.partitions.all() {
		if !c.readable(b, p) {
			c.t.Errorf("%s: after %q partition %s cannot be read", c.name, done.Steps, p.name)
		}
	}
	if len(done.Losses) > 0 {
		return "repaired with a loss"
	}
	if got := dump(c.t, b); got != want {
		c.t.Errorf("%s: %q lost something and did not say so", c.name, done.Steps)
	}
	return "repaired"
}

// names reports whether a text names a damaged file, or the directory in which
// one is missing; of the log it may name the file before the gap.
func (c *damageCase) names(text string) bool {
	if c.kind == "wal/0*/*" && strings.Contains(text, filepath.Join(c.dir, "wal")+"/") {
		return true
	}
	return slices.ContainsFunc(c.files, func(path string) bool {
		return strings.Contains(text, path) || strings.Contains(text, filepath.Dir(path)) ||
			c.kind == "FORMAT" && strings.Contains(text, "FORMAT")
	})
}

// served reads everything that the broker has.
func (c *damageCase) served(b *Broker, want string, said *bytes.Buffer) string {
	unreadable := 0
	for p := range b.state.partitions.all() {
		if !c.readable(b, p) {
			unreadable++
		}
	}
	if unreadable > 0 {
		if len(b.Health().Damaged) == 0 || !strings.HasPrefix(b.Health().Damaged[0], c.files[0]) {
			c.t.Errorf("%s: health names %q", c.name, b.Health().Damaged)
		}
		return "served around"
	}
	if got := dump(c.t, b); got != want {
		c.t.Errorf("%s: started with something else than there was; its log:\n%s", c.name, said)
	}
	if c.kind == "spool/*.spool" {
		return c.spool(b)
	}
	return "nothing lost"
}

// readable reads a partition, and makes sure that every message has the payload
// that its id stands for.
func (c *damageCase) readable(b *Broker, p *partition) bool {
	for from := p.start; from < p.end; {
		out, err := b.Fetch(context.Background(), FetchRequest{Tenant: DefaultTenant, Entries: []FetchEntry{{
			Queue: p.q.name, Partition: p.name, Offset: from, MaxBytes: 1 << 20,
		}}})
		if err != nil {
			if !isDamage(err) {
				c.t.Errorf("%s: %v", c.name, err)
			}
			return false
		}
		if out[0].Error != "" || len(out[0].Records) == 0 {
			c.t.Errorf("%s: fetch from %d: %+v", c.name, from, out[0])
			return false
		}
		for _, m := range out[0].Records {
			if m.Offset != from || string(m.Payload) != `"`+string(m.TxnID)+`"` {
				c.t.Errorf("%s: offset %d has %s with payload %s", c.name, m.Offset, m.TxnID, m.Payload)
			}
			from = m.Offset + queend.Offset(1)
		}
	}
	return true
}

// spool drains the spool: each message is stored once, or set aside and
// counted. Nothing else says that there was a file.
func (c *damageCase) spool(b *Broker) string {
	if _, err := b.SetMaintenance(context.Background(), false); err != nil {
		c.t.Fatal(err)
	}
	if err := b.DrainSpool(); err != nil {
		c.t.Errorf("%s: drain: %v", c.name, err)
	}
	found := 0
	for p := range b.state.partitions.all() {
		if p.q.name == "later" {
			found += int(p.end - p.start)
			c.readable(b, p)
		}
	}
	s, err := b.MaintenanceStatus(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	switch {
	case found == 3:
		return "nothing lost"
	case found < 3 && s.FailedFiles > 0:
		return "set aside"
	case c.harm == "missing", c.harm == "emptied":
		return "not noticed"
	}
	c.t.Errorf("%s: %d of 3 messages, %+v", c.name, found, s)
	return "wrong"
}
