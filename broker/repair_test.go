package broker

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree is what a directory holds, by path, without LOCK.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// repaired repairs a directory and checks that it is whole then, and that the
// dry run had changed nothing.
func repaired(t *testing.T, dir string) *Repair {
	t.Helper()
	before := tree(t, dir)
	planned, err := RepairDir(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	after := tree(t, dir)
	for path := range before {
		if before[path] != after[path] {
			t.Fatalf("the dry run changed %s", path)
		}
	}
	if len(before) != len(after) {
		t.Fatal("the dry run made or removed files")
	}
	r, err := RepairDir(dir, true)
	if err != nil {
		t.Fatalf("%v\nsteps: %q", err, planned.Steps)
	}
	if !slices.Equal(r.Steps, planned.Steps) || !slices.Equal(r.Losses, planned.Losses) {
		t.Fatalf("planned %q %q, done %q %q", planned.Steps, planned.Losses, r.Steps, r.Losses)
	}
	if left := live(verified(t, dir)); len(left) != 0 {
		t.Fatalf("after %q: %+v", r.Steps, left)
	}
	return r
}

func TestRepairOfAHealthyDirectoryDoesNothing(t *testing.T) {
	dir, _ := storedWorld(t, newClock())
	if r := repaired(t, dir); len(r.Steps) != 0 || len(r.Losses) != 0 {
		t.Fatalf("%+v", r)
	}
}

// TestRepairLosesOnlyWhatItSays flips a bit anywhere: what comes out is whole,
// starts, and is what it was unless the repair named a loss. Nothing changes
// where no repair is known.
func TestRepairLosesOnlyWhatItSays(t *testing.T) {
	c := newClock()
	dir, want := storedWorld(t, c)
	var names []string
	for path := range tree(t, dir) {
		if rel, err := filepath.Rel(dir, path); err == nil && rel != "LOCK" {
			names = append(names, rel)
		}
	}
	slices.Sort(names)
	r := rand.New(rand.NewPCG(7, 7))
	repairs, losses := 0, 0
	for range 60 {
		copied := copyDir(t, dir)
		name := names[r.IntN(len(names))]
		st, err := os.Stat(filepath.Join(copied, name))
		if err != nil || st.Size() == 0 {
			continue
		}
		flip(t, filepath.Join(copied, name), r.Int64N(st.Size()))
		before := tree(t, copied)
		if _, err := RepairDir(copied, false); errors.Is(err, ErrNoRepair) {
			if _, err := RepairDir(copied, true); !errors.Is(err, ErrNoRepair) || len(tree(t, copied)) != len(before) {
				t.Fatalf("%s: %v", name, err)
			}
			continue
		}
		done := repaired(t, copied)
		b := openTest(t, testConfig(copied, c))
		// Without steps the bytes are those of a write that was never answered.
		if len(done.Steps) > 0 && len(done.Losses) == 0 {
			sameDump(t, "after the repair of "+name, want, dump(t, b))
		}
		kill(t, b)
		repairs++
		losses += len(done.Losses)
	}
	if repairs < 20 || losses < 5 {
		t.Fatalf("only %d repairs with %d losses", repairs, losses)
	}
}

func TestRepairTakesDamagedRunsOutOfService(t *testing.T) {
	for _, how := range []string{"bit", "missing", "trailer"} {
		r := newRig(t)
		r.push("a", "b", "c")
		r.flushed()
		r.push("d")
		r.pushTo("q", "other", "x")
		r.flushed()
		r.close()
		path := filepath.Join(r.cfg.Dir, "segments", "00000000000000000001.seg")
		switch how {
		case "bit":
			flip(t, path, 30)
		case "missing":
			r.must(os.Remove(path))
		case "trailer":
			flip(t, path, -5)
		}
		done := repaired(t, r.cfg.Dir)
		if len(done.Losses) != 1 || done.Losses[0] != `queue "q", partition "p": messages 0 to 2` {
			t.Fatalf("%s: %q", how, done.Losses)
		}
		r.open()
		var got []string
		for _, m := range r.popReq().Messages {
			got = append(got, string(m.TxnID))
		}
		slices.Sort(got)
		if !slices.Equal(got, []string{"d", "x"}) {
			t.Fatalf("%s: %v", how, got)
		}
		if kept := byName(t, filepath.Join(r.cfg.Dir, "quarantine")); how != "missing" && !slices.ContainsFunc(kept, func(s string) bool {
			return strings.HasPrefix(filepath.Base(s), filepath.Base(path))
		}) {
			t.Fatalf("%s: quarantine has %v", how, kept)
		}
		r.close()
	}
}

func TestRepairCutsADamagedLogAndCountsWhatFollows(t *testing.T) {
	r := newRig(t)
	for _, id := range []string{"a", "b", "c", "d"} {
		r.push(id)
		r.must(r.b.settled(t.Context()))
	}
	kill(t, r.b)
	r.b = nil
	path := newestLog(t, r.cfg.Dir)
	at := groupOf(t, path, `"b"`)
	flip(t, path, at+60)
	done := repaired(t, r.cfg.Dir)
	if len(done.Losses) != 1 || !strings.Contains(done.Losses[0], "3 in all; 2 of them can be read") {
		t.Fatalf("%q", done.Losses)
	}
	r.open()
	if m := r.popReq().Messages; len(m) != 1 || string(m[0].TxnID) != "a" {
		t.Fatalf("%+v", m)
	}
	r.push("e")
}

// newestLog is the last file of the log.
func newestLog(t *testing.T, dir string) string {
	t.Helper()
	names := byName(t, filepath.Join(dir, "wal", "*"))
	return names[len(names)-1]
}

// groupOf is where the group with a payload begins.
func groupOf(t *testing.T, path, payload string) (at int64) {
	t.Helper()
	if err := Dump(path, func(i Item) error {
		if i.Kind == "message" && i.Fields[len(i.Fields)-1].Value == payload {
			at = i.Offset
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if at == 0 {
		t.Fatalf("%s is not in %s", payload, path)
	}
	return at
}

func TestRepairRefusesWhenNothingFits(t *testing.T) {
	dir, _ := storedWorld(t, newClock())
	for _, path := range byName(t, filepath.Join(dir, "checkpoints")) {
		flip(t, path, -40)
	}
	before := tree(t, dir)
	for _, write := range []bool{false, true} {
		if _, err := RepairDir(dir, write); !errors.Is(err, ErrNoRepair) {
			t.Fatal(err)
		}
	}
	for path, data := range tree(t, dir) {
		if before[path] != data {
			t.Fatalf("%s changed", path)
		}
	}
}

func TestRepairSetsASpoiledFormatAside(t *testing.T) {
	r := newRig(t)
	r.push("a")
	r.close()
	r.must(os.WriteFile(filepath.Join(r.cfg.Dir, "FORMAT"), []byte("spoiled"), 0o600))
	if done := repaired(t, r.cfg.Dir); len(done.Losses) != 0 {
		t.Fatalf("%+v", done)
	}
	r.open()
}

func TestRepairRefusesADirectoryInUse(t *testing.T) {
	r := newRig(t)
	if _, err := RepairDir(r.cfg.Dir, true); !errors.Is(err, ErrLocked) {
		t.Fatal(err)
	}
}
