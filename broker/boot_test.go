package broker

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"queend"
	"queend/log"
)

func TestStateSurvivesAKillAtAnyStepOfTheStorage(t *testing.T) {
	for seed := range uint64(4) {
		c := newClock()
		b := openTest(t, testConfig(t.TempDir(), c))
		w := &world{b: b, r: rand.New(rand.NewPCG(seed, 7))}
		steps, inside := 0, false
		b.storage.onStep = func(name string) {
			if inside {
				return
			}
			inside = true
			defer func() { inside = false }()
			steps++
			// What comes while the storage is at work has to survive too.
			w.acts(w.r.IntN(8))
			if w.r.IntN(4) > 0 {
				return
			}
			want := dump(t, b)
			again := reopened(t, b, c)
			sameDump(t, name, want, dump(t, again))
			kill(t, again)
		}
		for range 30 {
			c.advance(w.r.Int64N(10 * Second))
			w.acts(w.r.IntN(60))
			w.storageWork(t)
		}
		if steps < 100 {
			t.Fatalf("only %d steps", steps)
		}
		kill(t, b)
	}
}

// storageWork does one random piece of background work.
func (w *world) storageWork(t *testing.T) {
	t.Helper()
	b := w.b
	var err error
	switch w.r.IntN(6) {
	case 0:
		_, err = b.flush()
	case 1, 2:
		b.storage.checkpointing.Lock()
		err = b.checkpoint(w.r.IntN(4) == 0, w.r.IntN(2) == 0)
		b.storage.checkpointing.Unlock()
	case 3:
		err = b.mergeIfDue(func(int) {})
	case 4:
		b.retain()
		b.sweepFiles()
	case 5:
		err = b.Maintain()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestStateSurvivesARestart(t *testing.T) {
	for seed := range uint64(6) {
		c := newClock()
		dir := t.TempDir()
		r := rand.New(rand.NewPCG(seed, 11))
		want := ""
		for round := range 8 {
			cfg := testConfig(dir, c)
			cfg.Sync, cfg.SyncInterval = log.SyncMode(round%3), time.Millisecond
			b := openTest(t, cfg)
			if round > 0 {
				sameDump(t, "after a restart", want, dump(t, b))
			}
			w := &world{b: b, r: r, n: 1000 * round}
			for range r.IntN(6) {
				w.acts(r.IntN(80))
				w.storageWork(t)
			}
			w.acts(r.IntN(20))
			if r.IntN(2) == 0 {
				if err := b.Close(context.Background()); err != nil {
					t.Fatal(err)
				}
			} else {
				kill(t, b)
			}
			want = dump(t, b)
		}
	}
}

func TestADeltaAfterAFailedCheckpointHoldsWhatThatOneMissed(t *testing.T) {
	c := newClock()
	cfg := testConfig(t.TempDir(), c)
	cfg.CheckpointBytes = 0 // the default
	b := openTest(t, cfg)
	w := &world{b: b, r: rand.New(rand.NewPCG(3, 3))}
	checkpoint := func(base bool) error {
		b.storage.checkpointing.Lock()
		defer b.storage.checkpointing.Unlock()
		return b.checkpoint(base, false)
	}
	w.acts(2000) // so that the deltas stay small beside it
	if err := checkpoint(true); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.acts(10)
		b.storage.onStep = func(name string) {
			w.acts(1)
			if name == "checkpoint written" {
				for _, path := range filesOf(t, b, "checkpoints") {
					if strings.HasSuffix(path, ".tmp") {
						os.Remove(path)
					}
				}
			}
		}
		if err := checkpoint(false); err == nil {
			t.Fatal("the checkpoint was to fail")
		}
		b.storage.onStep = nil
	}
	w.acts(10)
	if err := checkpoint(false); err != nil {
		t.Fatal(err)
	}
	if newest := b.storage.checkpoints.chains[0].newest(); newest.isBase() {
		t.Fatal("a delta was to be tested")
	}
	w.acts(10)
	sameDump(t, "after failed checkpoints", dump(t, b), dump(t, reopened(t, b, c)))
}

// TestADeltaThatDidNotCountIsNotTakenForItsSuccessor: when the sync behind its
// renaming fails, a checkpoint is made again under the next number, and both
// stand on the same one.
func TestADeltaThatDidNotCountIsNotTakenForItsSuccessor(t *testing.T) {
	c := newClock()
	cfg := testConfig(t.TempDir(), c)
	cfg.CheckpointBytes = 0 // the default
	b := openTest(t, cfg)
	w := &world{b: b, r: rand.New(rand.NewPCG(3, 3))}
	checkpoint := func(base bool) error {
		b.storage.checkpointing.Lock()
		defer b.storage.checkpointing.Unlock()
		return b.checkpoint(base, false)
	}
	w.acts(2000) // so that the deltas stay small beside it
	if err := checkpoint(true); err != nil {
		t.Fatal(err)
	}
	w.acts(10)
	b.storage.onStep = func(name string) {
		if name != "checkpoint written" {
			return
		}
		for _, path := range filesOf(t, b, "checkpoints") {
			if to, temporary := strings.CutSuffix(path, ".tmp"); temporary {
				if err := os.Rename(path, to); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := checkpoint(false); err == nil {
		t.Fatal("the checkpoint was to fail")
	}
	b.storage.onStep = nil
	w.acts(10)
	if err := checkpoint(false); err != nil {
		t.Fatal(err)
	}
	want, newest := dump(t, b), b.storage.checkpoints.chains[0].newest()
	if newest.isBase() || newest.prev != newest.serial-2 {
		t.Fatalf("%+v stands on what failed", newest)
	}
	for range 8 { // the order of a map must not matter
		again := reopened(t, b, c)
		if got := again.storage.checkpoints.chains[0].newest().serial; got != newest.serial {
			t.Fatalf("it starts from checkpoint %d, not from %d", got, newest.serial)
		}
		sameDump(t, "with a checkpoint too many", want, dump(t, again))
		kill(t, again)
	}
}

// TestACheckpointWaitsForAFlushThatIsNotItsOwn: a flush between its cut and its
// own takes the messages out of the tails; the record that says where they are
// is behind the cut, and has to be synced before the checkpoint counts.
func TestACheckpointWaitsForAFlushThatIsNotItsOwn(t *testing.T) {
	for _, mode := range []log.SyncMode{log.SyncInterval, log.SyncNever} {
		cfg := testConfig(t.TempDir(), newClock())
		cfg.Sync, cfg.SyncInterval = mode, time.Hour
		b := openTest(t, cfg)
		w := &world{b: b, r: rand.New(rand.NewPCG(3, 3))}
		w.acts(100)
		var announced queend.LSN
		b.storage.onStep = func(name string) {
			if name != "images" {
				return
			}
			var err error
			if announced, err = b.flush(); err != nil || announced == 0 {
				t.Fatalf("flush: record %d, %v", announced, err)
			}
		}
		b.storage.checkpointing.Lock()
		err := b.checkpoint(true, false)
		b.storage.checkpointing.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if info := b.storage.checkpoints.chains[0].newest(); info.lsn >= announced || info.durable < announced {
			t.Errorf("mode %d: the checkpoint at %d counts record %d as durable, the flush is record %d", mode, info.lsn, info.durable, announced)
		}
		if got := b.log.Stats().Synced; got < announced {
			t.Errorf("mode %d: synced through %d, the flush is record %d", mode, got, announced)
		}
	}
}
