package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"queend"
	"queend/index"
)

// positions is a broker that has messages 0 to 19 in two runs of segment files,
// 20 to 29 in the log behind a checkpoint, and an older checkpoint.
func positions(t *testing.T) *rig {
	r := newRig(t)
	var ids []string
	for i := range 30 {
		ids = append(ids, fmt.Sprintf("%02d", i))
	}
	cut := func() {
		r.b.storage.checkpointing.Lock()
		defer r.b.storage.checkpointing.Unlock()
		r.must(r.b.checkpoint(true, false))
	}
	r.push(ids[:10]...)
	r.flushed()
	cut()
	r.push(ids[10:20]...)
	r.flushed()
	cut()
	for _, id := range ids[20:] {
		r.push(id)
	}
	kill(t, r.b)
	r.b = nil
	return r
}

// copied is the same on a copy of the directory.
func (r *rig) copied(t *testing.T) *rig {
	c := &rig{T: t, cfg: r.cfg, now: r.now}
	c.cfg.Dir = copyDir(t, r.cfg.Dir)
	return c
}

// newest is the last checkpoint.
func (r *rig) newest() string {
	paths := byName(r.T, filepath.Join(r.cfg.Dir, "checkpoints"))
	return paths[len(paths)-1]
}

// rewriteRun changes a run in the newest checkpoint, which is written anew.
func (r *rig) rewriteRun(change func(*index.Run)) {
	r.Helper()
	b := &Broker{state: newState()}
	b.cfg.fill()
	b.storage.init(b, &dataDir{path: r.cfg.Dir})
	b.tracker.epoch = loadedEpoch
	info, err := readChainFile(r.newest(), b.load)
	r.must(err)
	b.tracker.loaded()
	for p := range b.state.partitions.all() {
		if len(p.runs()) != 2 {
			r.Fatalf("%d runs", len(p.runs()))
		}
		change(&p.runs()[1])
	}
	b.tracker.cut()
	b.state.miscImage(&b.tracker.images)
	for _, q := range b.state.queues {
		q.image(&b.tracker.images) // before what refers to it
	}
	(&walk{b: b, every: 1 << 30}).everything()
	f, err := os.Create(r.newest())
	r.must(err)
	defer f.Close()
	w, err := newChainWriter(f, info.chainLink)
	r.must(err)
	r.must(w.add(b.tracker.take(nil)))
	r.must(w.finish(info.durable))
}

// same checks that a start is refused, or that what is delivered afterwards is
// what was pushed, as far as it is delivered. No segment file may be gone.
func (r *rig) same() (opened, whole bool) {
	r.Helper()
	before := byName(r.T, filepath.Join(r.cfg.Dir, "segments"))
	b, err := Open(r.cfg)
	if err != nil {
		if !errors.Is(err, ErrDamaged) {
			r.Errorf("refused, but not as damaged: %v", err)
		}
		return false, false
	}
	r.b = b
	got := ""
	for range 10 {
		res, err := b.Pop(r.Context(), PopRequest{Tenant: DefaultTenant, Queue: "q", Batch: 7, Partitions: 1, Mode: "all", AutoAck: true})
		if err != nil || len(res.Messages) == 0 {
			break
		}
		for _, m := range res.Messages {
			if string(m.Payload) != `"`+string(m.TxnID)+`"` {
				r.Errorf("message %s has the payload %s", m.TxnID, m.Payload)
			}
			got += " " + string(m.TxnID)
		}
	}
	want := ""
	for i := range 30 {
		want += fmt.Sprintf(" %02d", i)
	}
	if !strings.HasPrefix(want, got) {
		r.Errorf("delivered%s", got)
	}
	after := append(byName(r.T, filepath.Join(r.cfg.Dir, "segments")), byName(r.T, filepath.Join(r.cfg.Dir, "quarantine"))...)
	for _, path := range before {
		if !slices.ContainsFunc(after, func(s string) bool { return filepath.Base(s) == filepath.Base(path) }) {
			r.Errorf("%s is gone", path)
		}
	}
	kill(r.T, b)
	r.b = nil
	return true, got == want
}

// F8: a position that was stored wrongly was followed, and what lay there taken
// for a length. Here the checkpoint is right by its checksums and has a wrong
// place of a run.
func TestF8AWrongPlaceOfARunIsNeverReadAsMessages(t *testing.T) {
	r := positions(t)
	for name, change := range map[string]func(*index.Run){
		"nothing": func(*index.Run) {},
		"pos +3":  func(r *index.Run) { r.Pos += 3 }, "pos 0": func(r *index.Run) { r.Pos = 0 }, "pos far": func(r *index.Run) { r.Pos = 1 << 62 },
		"size +3": func(r *index.Run) { r.Size += 3 }, "size 0": func(r *index.Run) { r.Size = 0 }, "size huge": func(r *index.Run) { r.Size = 1<<32 - 1 },
		"first +3": func(r *index.Run) { r.First += 3 }, "first 0": func(r *index.Run) { r.First = 0 },
		"last +3": func(r *index.Run) { r.Last += 3 }, "last 0": func(r *index.Run) { r.Last = 0 },
		"payload +3": func(r *index.Run) { r.PayloadFrom += 3 }, "payload 0": func(r *index.Run) { r.PayloadFrom = 0 },
		"file": func(r *index.Run) { r.File-- },
	} {
		t.Run(name, func(t *testing.T) {
			r := r.copied(t)
			r.rewriteRun(change)
			opened, whole := r.same()
			t.Logf("opened %v, everything delivered %v", opened, whole)
			if name == "nothing" && !whole {
				t.Error("a checkpoint written anew does not do")
			}
		})
	}
}

// F8: numbers in the newest checkpoint's header and trailer are moved; with the
// wrong checksum the older checkpoint has everything, with the right one it is
// a refusal or everything.
func TestF8AWrongPlaceOfACheckpointLosesNothing(t *testing.T) {
	r := positions(t)
	fields := map[string]int{"serial": 12, "base": 20, "prev": 28, "lsn": 36, "durable": -20, "size": -12}
	for name, at := range fields {
		for _, by := range []uint64{3, 30, 0} {
			for _, sealed := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " by ", by, " sealed ", sealed), func(t *testing.T) {
					r := r.copied(t)
					moveField(t, r.newest(), at, by, sealed)
					if opened, whole := r.same(); opened && !whole || !opened && !sealed {
						t.Errorf("opened %v, everything delivered %v", opened, whole)
					}
				})
			}
		}
	}
}

// moveField raises a number of 64 bits of a checkpoint, or makes it 0; its place
// is counted from the end when at is negative.
func moveField(t *testing.T, path string, at int, by uint64, sealed bool) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := b[:chainHeader]
	if at < 0 {
		whole = b[len(b)-chainTrailer:]
		at += chainTrailer
	}
	field := whole[at : at+8]
	n := binary.LittleEndian.Uint64(field) + by
	if by == 0 {
		n = 0
	}
	if binary.LittleEndian.Uint64(field) == n {
		t.Skip("it has this value")
	}
	binary.LittleEndian.PutUint64(field, n)
	if sealed {
		end := len(whole) - 4
		binary.LittleEndian.PutUint32(whole[end:], crc32.Checksum(whole[:end], crcTable))
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// F45: what is due after a start went one message per cycle, or partition by
// partition, and a cycle looked at every partition that was idle.
func TestF45AStartRemovesAllThatIsOldWithinTwoCycles(t *testing.T) {
	const old, idle = 20_000, 5000
	r := newRig(t)
	r.options(func(o *Options) { o.RetentionEnabled, o.RetentionSeconds = true, 60 })
	for i := range 200 {
		r.pushTo("q", fmt.Sprint("old", i), series("m", old/200)...)
	}
	var items []PushItem
	for i := range idle {
		items = append(items, PushItem{Queue: "kept", Partition: fmt.Sprint("idle", i), TxnID: []byte("t"), Payload: []byte("1")})
	}
	_, err := r.b.Push(r.Context(), DefaultTenant, nil, items)
	r.must(err)
	r.flushed()
	r.pushTo("q", "hot", "young")
	kill(t, r.b)
	r.later(59 * Second)
	r.open()
	r.pushTo("q", "hot", "younger")
	r.later(2 * Second)
	r.b.Tick()
	if n := len(r.b.storage.retention.due); n > 201 {
		t.Errorf("%d partitions are listed beside %d idle ones", n, idle)
	}
	for range 2 {
		r.must(r.b.Maintain())
		r.pass(Second)
	}
	for p := range r.b.state.partitions.all() {
		want := int64(0)
		switch {
		case p.name == "hot" || p.q.name == "kept":
			want = 1
		}
		if p.retained() != want {
			t.Errorf("%s of %s retains %d messages", p.name, p.q.name, p.retained())
		}
	}
	if got := r.part("hot").start; got != queend.Offset(1) {
		t.Errorf("hot begins at %d", got)
	}
}

// A checkpoint that is right but for its place in the log stops the start, and
// repair does without it: the older one and the log have everything.
func TestF8RepairDoesWithoutAMisplacedCheckpoint(t *testing.T) {
	r := positions(t)
	moveField(t, r.newest(), 36, 3, true)
	if _, err := Open(r.cfg); !errors.Is(err, ErrDamaged) {
		t.Fatalf("the start says %v", err)
	}
	damaged := 0
	r.must(Verify(r.cfg.Dir, func(d Damage) {
		if !d.Moot {
			damaged++
		}
	}))
	if damaged == 0 {
		t.Error("verify finds nothing")
	}
	repair, err := RepairDir(r.cfg.Dir, true)
	r.must(err)
	if len(repair.Losses) > 0 {
		t.Errorf("it costs %v", repair.Losses)
	}
	if opened, whole := r.same(); !opened || !whole {
		t.Errorf("after the repair: opened %v, everything delivered %v", opened, whole)
	}
}
