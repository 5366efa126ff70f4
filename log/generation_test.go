package log

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"queend"
)

// onDisk are the numbers of the generations there are.
func (d disk) onDisk(t *testing.T) []uint64 {
	t.Helper()
	gens, err := readGenerations(d.c.Dir)
	must(t, err)
	var numbers []uint64
	for _, g := range gens {
		numbers = append(numbers, g.number)
	}
	return numbers
}

// rolled waits until the log is in its n-th generation.
func rolled(t *testing.T, l *Log, n int) {
	t.Helper()
	l.Roll()
	for {
		l.mu.Lock()
		var done chan struct{}
		if len(l.queue) > 0 {
			done = l.queue[len(l.queue)-1].done
		} else if l.taken != nil {
			done = l.taken.done
		}
		l.mu.Unlock()
		if done == nil {
			break
		}
		<-done
	}
	if got := l.Stats().Generations; got != n {
		t.Fatalf("%d generations, want %d", got, n)
	}
}

func TestRollBeginsAGenerationBehindTheLastRecord(t *testing.T) {
	d := newDisk(t)
	l, _ := d.open(t)
	rolled(t, l, 1) // nothing in it yet
	add(t, l, 2)
	g := newGate("write")
	l.Append(record(3))
	must(t, l.Wait(t.Context(), 3))
	l.writer.files.hook = g.hook
	l.Append(record(4))
	<-g.reached
	l.Append(record(5))
	l.Roll()
	l.Roll()
	l.Append(record(6))
	close(g.open)
	must(t, l.Wait(t.Context(), 6))
	for _, g := range d.groups(t) {
		if want := uint64(1 + g.First/6); g.Generation != want {
			t.Errorf("LSN %d is in generation %d, want %d", g.First, g.Generation, want)
		}
	}
	must(t, l.Close())
	if _, rec := d.open(t); rec.Last != 6 || !rec.Clean {
		t.Fatalf("recovered %+v", rec)
	}
}

// A power cut may keep any of the changes of a directory that were not synced:
// two generations renamed before one sync could leave the older one.
func TestDropThroughSyncsEachGenerationBeforeTheNextGoes(t *testing.T) {
	d := newDisk(t)
	l, _ := d.open(t)
	for n := range 3 {
		add(t, l, 1)
		rolled(t, l, n+2)
	}
	var steps []string
	l.files.hook = func(step, _ string) error {
		steps = append(steps, step)
		return nil
	}
	must(t, l.DropThrough(2))
	if want := []string{"rename", "syncdir", "rename", "syncdir", "remove", "remove"}; !slices.Equal(steps, want) {
		t.Fatalf("steps %v, want %v", steps, want)
	}
}

// What a failed sync of a directory was to cover may be lost although a later
// one succeeds: a power cut would keep the older generation and not the next.
func TestAfterAFailedSyncOfTheDirectoryNothingMoreIsDropped(t *testing.T) {
	d := newDisk(t)
	l, _ := d.open(t)
	for n := range 3 {
		add(t, l, 1)
		rolled(t, l, n+2)
	}
	broken := errors.New("broken")
	l.files.hook = func(step, _ string) error {
		if step == "syncdir" {
			return broken
		}
		return nil
	}
	if err := l.DropThrough(1); !errors.Is(err, broken) {
		t.Fatalf("the sync was to fail: %v", err)
	}
	l.files.hook = func(step, path string) error {
		t.Errorf("%s of %s", step, path)
		return nil
	}
	if err := l.DropThrough(2); !errors.Is(err, broken) {
		t.Fatalf("dropping went on: %v", err)
	}
	l.files.hook = nil
	add(t, l, 1)
	must(t, l.Close())
	d.after = 1
	if _, rec := d.open(t); rec.First != 2 || rec.Last != 4 {
		t.Fatalf("recovered %+v", rec)
	}
}

func TestDropThroughDeletesOnlyWholeGenerations(t *testing.T) {
	d := newDisk(t)
	l, _ := d.open(t)
	for n := range 3 {
		add(t, l, 4)
		rolled(t, l, n+2)
	}
	for _, row := range []struct {
		lsn  queend.LSN
		left int
	}{{0, 4}, {3, 4}, {4, 3}, {4, 3}, {11, 2}, {12, 1}, {999, 1}} {
		must(t, l.DropThrough(row.lsn))
		if left := d.onDisk(t); len(left) != row.left || l.Stats().Generations != row.left {
			t.Fatalf("through LSN %d: generations %v left, stats %+v", row.lsn, left, l.Stats())
		}
	}
	add(t, l, 1)
	must(t, l.Close())
	if _, _, err := d.tryOpen(t); !errors.Is(err, ErrDamaged) {
		t.Fatalf("replay from 0 of a log that begins with 13: %v", err)
	}
	d.after = 12
	if _, rec := d.open(t); rec.First != 13 || rec.Last != 13 || rec.Records != 1 {
		t.Fatalf("recovered %+v", rec)
	}
}

func TestDroppedGenerationLosesItsNameFirst(t *testing.T) {
	d := newDisk(t)
	l, _ := d.open(t)
	add(t, l, 4)
	rolled(t, l, 2)
	var steps []string
	l.files.hook = func(step, path string) error {
		steps = append(steps, step+" "+filepath.Base(path))
		return nil
	}
	must(t, l.DropThrough(4))
	name := numberName(1) + droppedSuffix
	if want := []string{"rename " + name, "syncdir wal", "remove " + name}; !slices.Equal(steps, want) {
		t.Fatalf("steps %q, want %q", steps, want)
	}
}

func TestCloseSyncsInEveryModeBeforeTheMark(t *testing.T) {
	for _, mode := range []SyncMode{SyncAlways, SyncInterval, SyncNever} {
		d := newDisk(t)
		d.c.Sync, d.c.SyncInterval = mode, time.Hour
		l, _ := d.open(t)
		add(t, l, 1)
		var steps []string
		hook := func(step, path string) error {
			steps = append(steps, step+" "+filepath.Base(path))
			return nil
		}
		l.files.hook, l.writer.files.hook = hook, hook
		must(t, l.Close())
		want := []string{"sync " + numberName(1), "create clean.tmp", "rename clean", "syncdir wal"}
		if !slices.Equal(steps, want) {
			t.Errorf("mode %d: steps %q, want %q", mode, steps, want)
		}
	}
}

func TestLogWithoutRecordsGoesOnWithItsNumbers(t *testing.T) {
	d := newDisk(t)
	l, _ := d.open(t)
	add(t, l, 4)
	rolled(t, l, 2)
	must(t, l.DropThrough(4))
	d = d.crash(t)
	d.after, d.c.Proven = 4, 4
	for range 2 {
		l, rec, err := d.tryOpen(t)
		must(t, err)
		if rec.Last != 4 || rec.First != 5 || l.Last() != 4 || l.Durable() != 4 {
			t.Fatalf("recovered %+v", rec)
		}
		must(t, l.DropThrough(4))
		must(t, l.Close())
	}
	l, _ = d.open(t)
	if lsn := l.Append(record(5)); lsn != 5 {
		t.Fatalf("LSN %d", lsn)
	}
}

func TestCleanMarkIsThereOnlyWhileTheLogIsClosed(t *testing.T) {
	d := newDisk(t)
	mark := filepath.Join(d.c.Dir, markName)
	for range 2 {
		l, _ := d.open(t)
		if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("mark of an open log: %v", err)
		}
		add(t, l, 1)
		must(t, l.Close())
		if last, clean, err := readMark(d.c.Dir); !clean || err != nil || last != l.Last() {
			t.Fatalf("mark says %d, %v, %v", last, clean, err)
		}
	}
	for at := range markBytes { // a mark that does not verify proves nothing
		crashed := d.crash(t)
		edit(t, filepath.Join(crashed.c.Dir, markName), func(b []byte) []byte { b[at] ^= 1; return b })
		edit(t, crashed.segmentPath(2, 1), func(b []byte) []byte { return b[:len(b)-1] })
		if _, rec := crashed.open(t); rec.Clean || rec.Last != 1 {
			t.Fatalf("flipped at byte %d: %+v", at, rec)
		}
	}
}

func TestClosedLogIsNotCopied(t *testing.T) {
	d := generations(t)
	l, rec := d.open(t)
	if rec.Copied != 0 || !rec.Clean {
		t.Fatalf("recovered %+v", rec)
	}
	crashed := d.crash(t)
	add(t, l, 3)
	if _, rec := crashed.open(t); rec.Copied != 0 || rec.Clean {
		t.Fatalf("a boot without a record: %+v", rec)
	}
	if _, rec := d.crash(t).open(t); rec.Copied != 1 || rec.Last != 15 {
		t.Fatalf("only the last record is not proven: %+v", rec)
	}
}

func TestReplayErrorEndsOpen(t *testing.T) {
	d := generations(t)
	before := readTree(t, d.root)
	bad := errors.New("unknown event")
	_, _, err := Open(d.c, 5, func(lsn queend.LSN, _ []byte) error {
		if lsn == 7 {
			return bad
		}
		return nil
	})
	if !errors.Is(err, bad) || !equalTrees(before, readTree(t, d.root)) {
		t.Fatalf("error: %v", err)
	}
}

func TestDirectoriesArePrivateAndSynced(t *testing.T) {
	d := diskAt(filepath.Join(t.TempDir(), "a", "b"))
	synced := map[string]bool{}
	d.c.hook = func(step, path string) error {
		synced[path] = synced[path] || step == "syncdir"
		return nil
	}
	l, _ := d.open(t)
	must(t, l.Close())
	for _, dir := range []string{d.root, filepath.Dir(d.root), filepath.Dir(filepath.Dir(d.root)), d.c.Dir} {
		if !synced[dir] {
			t.Errorf("%s was not synced", dir)
		}
	}
	for path := range readTree(t, d.root) {
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
	}
}

func TestConfigThatMakesNoSenseIsRefused(t *testing.T) {
	good := newDisk(t).c
	for name, change := range map[string]func(*Config){
		"no directory":        func(c *Config) { c.Dir = "" },
		"no quarantine":       func(c *Config) { c.Quarantine = "" },
		"negative segment":    func(c *Config) { c.SegmentBytes = -1 },
		"huge group":          func(c *Config) { c.GroupBytes = 1 << 30 },
		"unknown mode":        func(c *Config) { c.Sync = 3 },
		"interval of nothing": func(c *Config) { c.Sync = SyncInterval },
	} {
		c := good
		change(&c)
		if _, _, err := Open(c, 0, nil); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	if _, err := os.Stat(good.Dir); err == nil {
		t.Error("a refused configuration made a directory")
	}
}
