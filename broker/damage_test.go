package broker

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"queend"
)

// storedWorld is a closed directory with two chains, log and segments, and
// what it holds.
func storedWorld(t *testing.T, c *clock) (dir, want string) {
	t.Helper()
	dir = t.TempDir()
	b := openTest(t, testConfig(dir, c))
	w := &world{b: b, r: rand.New(rand.NewPCG(5, 5))}
	for _, base := range []bool{true, false, true, false, false} {
		w.acts(150)
		b.storage.checkpointing.Lock()
		err := b.checkpoint(base, false)
		b.storage.checkpointing.Unlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	w.acts(50)
	kill(t, b)
	return dir, dump(t, b)
}

// byName lists the files of a directory, sorted.
func byName(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func flip(t *testing.T, path string, at int64) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if at < 0 {
		at += int64(len(data))
	}
	data[at] ^= 0x20
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// F2: a stale index or checkpoint was believed over the data.
func TestAnyDamagedCheckpointIsDoneWithout(t *testing.T) {
	c := newClock()
	dir, want := storedWorld(t, c)
	names := byName(t, filepath.Join(dir, "checkpoints"))
	if len(names) < 3 {
		t.Fatalf("checkpoints: %v", names)
	}
	for i := range names {
		for _, at := range []int64{0, 9, 50, 70, -5} {
			copied := copyDir(t, dir)
			path := byName(t, filepath.Join(copied, "checkpoints"))[i]
			flip(t, path, at)
			b := openTest(t, testConfig(copied, c))
			sameDump(t, "without "+path, want, dump(t, b))
			kill(t, b)
			if got := byName(t, filepath.Join(copied, "quarantine")); !slices.ContainsFunc(got, func(s string) bool {
				return filepath.Base(s) == filepath.Base(path)
			}) {
				t.Fatalf("%s is not in quarantine: %v", path, got)
			}
		}
	}
}

// F2: a stale index or checkpoint was believed over the data.
func TestDamageOfBothChainsIsRefusedByName(t *testing.T) {
	c := newClock()
	dir, _ := storedWorld(t, c)
	var bases []string
	for _, path := range byName(t, filepath.Join(dir, "checkpoints")) {
		if strings.HasSuffix(path, ".base") {
			bases = append(bases, path)
			flip(t, path, -40)
		}
	}
	before := byName(t, filepath.Join(dir, "checkpoints"))
	_, err := Open(testConfig(dir, c))
	if !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	for _, path := range bases {
		if !strings.Contains(err.Error(), path) {
			t.Fatalf("%v does not name %s", err, path)
		}
	}
	if after := byName(t, filepath.Join(dir, "checkpoints")); !slices.Equal(before, after) {
		t.Fatalf("files changed: %v", after)
	}
}

// F2: a stale index or checkpoint was believed over the data.
// F3: cursors and data came back from different moments: consumers hung, or
// everything came again.
func TestAnOldCheckpointPutBackNeverMovesAnythingBack(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	b := openTest(t, testConfig(dir, c))
	w := &world{b: b, r: rand.New(rand.NewPCG(5, 5))}
	w.acts(100)
	old := filepath.Join(t.TempDir(), "old")
	for i := range 5 {
		b.storage.checkpointing.Lock()
		if err := b.checkpoint(true, false); err != nil {
			t.Fatal(err)
		}
		b.storage.checkpointing.Unlock()
		if i == 0 {
			if err := os.CopyFS(old, os.DirFS(filepath.Join(dir, "checkpoints"))); err != nil {
				t.Fatal(err)
			}
		}
		w.acts(100)
	}
	kill(t, b)
	if err := os.RemoveAll(filepath.Join(dir, "checkpoints")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(old, filepath.Join(dir, "checkpoints")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(testConfig(dir, c)); !errors.Is(err, ErrDamaged) {
		t.Fatalf("opened with a checkpoint from long ago: %v", err)
	}
}

func TestMissingOrShortFilesAreRefusedByName(t *testing.T) {
	c := newClock()
	dir, _ := storedWorld(t, c)
	damage := map[string]func(path string) error{
		"missing": os.Remove,
		"short": func(path string) error {
			st, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, st.Size()-1)
		},
	}
	for name, do := range damage {
		for i := range byName(t, filepath.Join(dir, "segments")) {
			copied := copyDir(t, dir)
			path := byName(t, filepath.Join(copied, "segments"))[i]
			if err := do(path); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(testConfig(copied, c)); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
				t.Fatalf("%s %s: %v", name, path, err)
			}
		}
	}
	copied := copyDir(t, dir)
	if err := os.RemoveAll(filepath.Join(copied, "wal")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(testConfig(copied, c)); !errors.Is(err, ErrDamaged) {
		t.Fatalf("without a log: %v", err)
	}
}

func TestASegmentNobodyNamesIsSetAsideAndItsNumberNotUsedAgain(t *testing.T) {
	c := newClock()
	dir, want := storedWorld(t, c)
	stray := filepath.Join(dir, "segments", "00000000000000000999.seg")
	if err := os.WriteFile(stray, []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b := openTest(t, testConfig(dir, c))
		sameDump(t, "with a stray file", want, dump(t, b))
		if _, err := os.Stat(stray); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the file is still there: %v", err)
		}
		if b.storage.nextFile < 999 {
			t.Fatalf("the next number is %d", b.storage.nextFile+1)
		}
		kill(t, b)
	}
}

func TestASecondProcessIsRefused(t *testing.T) {
	c := newClock()
	b := openTest(t, testConfig(t.TempDir(), c))
	if _, err := Open(b.cfg); !errors.Is(err, ErrLocked) {
		t.Fatal(err)
	}
	kill(t, b)
	openTest(t, b.cfg)
}

// F9: idle or consumed data stayed on disk for ever; idling wrote.
func TestAnIdleBrokerEmptiesItsLog(t *testing.T) {
	c := newClock()
	b := openTest(t, testConfig(t.TempDir(), c))
	w := &world{b: b, r: rand.New(rand.NewPCG(5, 5))}
	w.acts(200)
	for range 3 {
		if err := b.Maintain(); err != nil {
			t.Fatal(err)
		}
		c.advance(11 * Second)
	}
	last := b.log.Last()
	for _, chain := range b.storage.checkpoints.chains {
		if chain.lsn() != last {
			t.Fatalf("a chain ends at %d, the log at %d", chain.lsn(), last)
		}
	}
	serial := b.storage.checkpoints.serial
	c.advance(Hour)
	if err := b.Maintain(); err != nil {
		t.Fatal(err)
	}
	if b.storage.checkpoints.serial != serial {
		t.Fatal("an idle broker with an empty log made a checkpoint")
	}
	again := reopened(t, b, c)
	if got := again.log.Stats(); got.Records != 0 {
		t.Fatalf("%+v", got)
	}
	sameDump(t, "idle", dump(t, b), dump(t, again))
}

func TestIDsInTheTailAreFoundAfterARestart(t *testing.T) {
	c := newClock()
	b := openTest(t, testConfig(t.TempDir(), c))
	l := newLane(t, b, c, DefaultOptions())
	l.push(10, "a", "b")
	l.flush()
	l.push(10, "c", "b")
	l.b = reopened(t, b, c)
	for txn, want := range map[string]queend.Offset{"a": 0, "b": 1, "c": 2} {
		if m := l.lookup(txn, 0, 0, 3); !m.found || m.off != want {
			t.Fatalf("%s: %+v", txn, m)
		}
	}
}

func TestClosingLeavesNothingToReplay(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	b := openTest(t, testConfig(dir, c))
	w := &world{b: b, r: rand.New(rand.NewPCG(5, 5))}
	w.acts(200)
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if newest := b.storage.checkpoints.chains[0].newest(); newest.lsn != b.log.Last() {
		t.Fatalf("the checkpoint ends at %d, the log at %d", newest.lsn, b.log.Last())
	}
}
