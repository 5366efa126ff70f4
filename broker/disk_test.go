package broker

import (
	"context"
	"errors"
	"testing"
)

// refused fails unless err is a refusal with the code.
func refusedWith(t *testing.T, code ErrorCode, err error) {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) || r.Code != code {
		t.Fatalf("%v, want %s", err, code)
	}
}

func TestPushesAreRefusedWhileTheDiskIsNearlyFull(t *testing.T) {
	used := uint64(50)
	cfg := testConfig(t.TempDir(), newClock())
	cfg.StatDisk = func(string) (uint64, uint64, error) { return used, 100, nil }
	b := openTest(t, cfg)
	for _, step := range []struct {
		used uint64
		full bool
	}{{50, false}, {84, false}, {85, true}, {99, true}, {82, true}, {80, true}, {79, false}, {84, false}} {
		used = step.used
		b.checkDisk()
		if full, _ := b.DiskFull(); full != step.full {
			t.Fatalf("at %d percent full is %v", used, full)
		}
		release, err := b.admit(context.Background(), 10)
		if step.full {
			refusedWith(t, CodeStorageFull, err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		release()
	}
}

// TestAHighMarkBelowTheLowOneIsBoth: who sets only the high one, lower than the
// default of the low one, does not get a gate that opens and closes in turn.
func TestAHighMarkBelowTheLowOneIsBoth(t *testing.T) {
	used := uint64(40)
	cfg := testConfig(t.TempDir(), newClock())
	cfg.DiskHighPct, cfg.DiskLowPct = 50, 80
	cfg.StatDisk = func(string) (uint64, uint64, error) { return used, 100, nil }
	b := openTest(t, cfg)
	for _, step := range []struct {
		used uint64
		full bool
	}{{49, false}, {60, true}, {60, true}, {60, true}, {50, true}, {49, false}, {49, false}} {
		used = step.used
		b.checkDisk()
		if full, _ := b.DiskFull(); full != step.full {
			t.Fatalf("at %d percent full is %v", used, full)
		}
	}
}

func TestTheWriteBudgetLetsInFirstWhoCameFirst(t *testing.T) {
	over := int64(0)
	a := &admission{budget: 100, over: func() int64 { return over }}
	in := func(w *admitted) bool {
		select {
		case <-w.in:
			return true
		default:
			return false
		}
	}
	check := func(what string, want string, all ...*admitted) {
		t.Helper()
		got := ""
		for _, w := range all {
			if in(w) {
				got += "y"
			} else {
				got += "n"
			}
		}
		if got != want {
			t.Fatalf("%s: %s, want %s", what, got, want)
		}
	}
	first, second, third := a.enter(60), a.enter(60), a.enter(10)
	check("a small one does not overtake", "ynn", first, second, third)
	a.leave(first)
	check("room for both", "yyy", first, second, third)
	big := a.enter(1000)
	small := a.enter(1)
	a.leave(second)
	check("too large while others are in", "nn", big, small)
	a.leave(third)
	check("the largest comes through alone", "yn", big, small)
	a.leave(big)
	check("then the next", "y", small)
	over = 100
	waits := a.enter(5)
	check("the tail takes the budget", "n", waits)
	over = 0
	a.changed()
	check("a flush gives it back", "y", waits)
	waits, gone := a.enter(94), a.enter(50)
	a.leave(gone)
	a.leave(waits)
	a.leave(small)
	if len(a.waiters) > 0 {
		t.Fatal("someone still waits")
	}
}

func TestAPushThatFindsNoRoomIsRefusedAfterTheHold(t *testing.T) {
	cfg := testConfig(t.TempDir(), newClock())
	cfg.AdmitBytes, cfg.AdmitHoldMS = 100, 1
	b := openTest(t, cfg)
	release, err := b.admit(context.Background(), 80)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.admit(context.Background(), 80)
	refusedWith(t, CodeOverloaded, err)
	release()
	if release, err = b.admit(context.Background(), 80); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	b.storage.admit.enter(1) // so that the next one has to wait
	_, err = b.admit(ctx, 80)
	refusedWith(t, CodeTimeout, err)
	release()
}
