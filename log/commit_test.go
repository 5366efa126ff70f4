package log

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"queend"
)

// gate stops the log at a step until it is let go.
type gate struct {
	step    string
	reached chan struct{} // has a value when the log stands at the step
	open    chan error    // lets it go, with an error or nil
}

func newGate(step string) *gate {
	return &gate{step, make(chan struct{}, 1), make(chan error)}
}

func (g *gate) hook(step, path string) error {
	if step != g.step {
		return nil
	}
	select {
	case g.reached <- struct{}{}:
	default:
	}
	return <-g.open
}

// openGated opens a log whose gate is only closed once it is open.
func (d disk) openGated(t *testing.T, g *gate) *Log {
	t.Helper()
	l, _ := d.open(t)
	l.writer.files.hook, l.files.hook = g.hook, g.hook
	return l
}

// F1: answers left before the bytes were synced; power loss took them.
func TestNothingIsDurableBeforeItsSync(t *testing.T) {
	g := newGate("sync")
	l := newDisk(t).openGated(t, g)
	lsn := l.Append(record(1))
	<-g.reached
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Wait(ctx, lsn); !errors.Is(err, context.Canceled) || l.Durable() != 0 {
		t.Fatalf("durable is %d during the sync; Wait: %v", l.Durable(), err)
	}
	close(g.open)
	must(t, l.Wait(t.Context(), lsn))
	if l.Durable() != lsn {
		t.Fatalf("durable is %d", l.Durable())
	}
}

func TestRecordsThatWaitTogetherShareOneGroup(t *testing.T) {
	d := newDisk(t)
	d.c.GroupBytes = 1000
	g := newGate("write")
	l := d.openGated(t, g)
	l.Append(record(1))
	<-g.reached
	for lsn := queend.LSN(2); lsn <= 100; lsn++ {
		if got := l.Append(record(lsn)); got != lsn {
			t.Fatalf("LSN %d for record %d", got, lsn)
		}
	}
	close(g.open)
	must(t, l.Wait(t.Context(), 100))
	groups := d.groups(t)
	for _, g := range groups {
		if size := int(g.length); size > 1000+headerBytes+2 {
			t.Errorf("group of %d bytes", size)
		}
	}
	if n := len(groups); n < 2 || n > 4 {
		t.Errorf("%d groups", n)
	}
}

func TestRecordLargerThanAGroupIsAGroupOfItsOwn(t *testing.T) {
	d := newDisk(t)
	g := newGate("write")
	l := d.openGated(t, g)
	large := bytes.Repeat([]byte("x"), defaultBytes+1)
	l.Append([]byte("a"))
	<-g.reached
	l.Append([]byte("b"))
	l.Append(large)
	l.Append([]byte("c"))
	close(g.open)
	must(t, l.Wait(t.Context(), 4))
	groups := d.groups(t)
	if len(groups) != 4 || groups[2].length < int64(len(large)) {
		t.Fatalf("%d groups", len(groups))
	}
	must(t, l.Close())
	var got [][]byte
	l, _, err := Open(d.c, 0, func(_ queend.LSN, rec []byte) error { got = append(got, rec); return nil })
	must(t, err)
	must(t, l.Close())
	if len(got) != 4 || !bytes.Equal(got[2], large) || string(got[3]) != "c" {
		t.Fatal("replay gave something else")
	}
}

func TestEmptyRecordIsARecord(t *testing.T) {
	d := newDisk(t)
	l, _, err := Open(d.c, 0, nil)
	must(t, err)
	must(t, l.Wait(t.Context(), l.Append(nil)))
	must(t, l.Close())
	n := 0
	l, rec, err := Open(d.c, 0, func(_ queend.LSN, rec []byte) error { n += 1 + len(rec); return nil })
	must(t, err)
	must(t, l.Close())
	if n != 1 || rec.Last != 1 {
		t.Fatalf("%d, %+v", n, rec)
	}
}

func TestConcurrentAppendsAreAllDurableInOrder(t *testing.T) {
	d := newDisk(t)
	d.c.SegmentBytes = 4096
	l, _ := d.open(t)
	const writers, each = 50, 40
	got := make([][]queend.LSN, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				lsn := l.Append([]byte{byte(w), byte(i)})
				got[w] = append(got[w], lsn)
				if i%10 == 5 {
					l.Roll()
				}
				if err := l.Wait(t.Context(), lsn); err != nil || l.Durable() < lsn {
					t.Errorf("Wait: %v, durable %d", err, l.Durable())
				}
			}
		})
	}
	wg.Wait()
	must(t, l.Close())
	stats := l.Stats()
	if stats.Records != writers*each || stats.Groups > stats.Records || stats.Generations < 2 {
		t.Errorf("stats: %+v", stats)
	}
	l, rec, err := Open(d.c, 0, func(lsn queend.LSN, rec []byte) error {
		if got[rec[0]][rec[1]] != lsn {
			t.Errorf("record %v was given LSN %d, has %d", rec, got[rec[0]][rec[1]], lsn)
		}
		return nil
	})
	must(t, err)
	must(t, l.Close())
	if rec.Records != writers*each {
		t.Errorf("recovered %+v", rec)
	}
}

// F6: a file was synced, its name in the directory was not.
func TestNameOfANewSegmentIsSyncedBeforeItsRecords(t *testing.T) {
	var mu sync.Mutex
	var steps []string
	d := newDisk(t)
	d.c.SegmentBytes = 150
	d.c.hook = func(step, path string) error {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, step+" "+filepath.Base(path))
		return nil
	}
	l, _ := d.open(t)
	mu.Lock()
	steps = nil
	mu.Unlock()
	add(t, l, 3)
	mu.Lock()
	defer mu.Unlock()
	one, four := numberName(1), numberName(4)
	want := []string{"write " + one, "sync " + one, "write " + one, "syncdir " + one, "write " + four, "sync " + four}
	if !slices.Equal(steps, want) {
		t.Fatalf("steps %q\nwant %q", steps, want)
	}
}

// F7: a failed sync or a full disk was retried or ignored.
func TestAfterAFailureNothingIsDurable(t *testing.T) {
	for _, step := range []string{"write", "sync", "syncdir", "rename"} {
		t.Run(step, func(t *testing.T) {
			d := newDisk(t)
			d.c.SegmentBytes = 150
			told := make(chan error, 2)
			d.c.OnFail = func(err error) { told <- err }
			g := newGate(step)
			l := d.openGated(t, g)
			var waits []queend.LSN
			for lsn := queend.LSN(1); lsn <= 2; lsn++ {
				waits = append(waits, l.Append(bytes.Repeat([]byte{1}, 200)))
			}
			if step == "sync" {
				l.Append(nil)
			}
			l.Roll()
			<-g.reached
			durable := l.Durable()
			injected := errors.New("disk is gone")
			g.open <- injected
			failed := <-told
			if !errors.Is(failed, injected) {
				t.Fatalf("OnFail got %v", failed)
			}
			waits = append(waits, l.Append(record(9)))
			for _, lsn := range waits {
				err := l.Wait(t.Context(), lsn)
				if lsn <= durable && err != nil || lsn > durable && !errors.Is(err, injected) {
					t.Errorf("Wait for LSN %d, %d durable: %v", lsn, durable, err)
				}
			}
			if err := l.Close(); !errors.Is(err, injected) || l.Durable() != durable {
				t.Errorf("Close: %v, durable %d", err, l.Durable())
			}
			if len(told) != 0 {
				t.Error("OnFail was called twice")
			}
			if _, err := os.Stat(filepath.Join(d.c.Dir, markName)); err == nil {
				t.Error("a failed log left the clean-shutdown mark")
			}
		})
	}
}

func TestSegmentThatCannotBeCreatedStopsTheLog(t *testing.T) {
	d := newDisk(t)
	d.c.SegmentBytes = 150
	told := make(chan error, 1)
	d.c.OnFail = func(err error) { told <- err }
	l, _ := d.open(t)
	must(t, os.Mkdir(d.segmentPath(1, 4), dirPerm)) // in the way of the third group's file
	add(t, l, 1)
	if err := l.Wait(t.Context(), l.Append(record(2))); err == nil {
		t.Fatal("the group is durable though the next file could not be made")
	}
	<-told
	if l.Wait(t.Context(), l.Append(record(3))) == nil || l.Durable() != 1 {
		t.Fatal("the log went on")
	}
	must(t, os.Remove(d.segmentPath(1, 4)))
	if _, rec := d.open(t); rec.Last != 2 {
		t.Fatalf("recovered %+v", rec)
	}
}

func TestGroupsSayWhatWasSyncedInEveryMode(t *testing.T) {
	for _, row := range []struct {
		mode SyncMode
		want []queend.LSN // durable in the header of groups 1 to 4; a tick after 2
	}{
		{SyncAlways, []queend.LSN{0, 1, 2, 3}},
		{SyncInterval, []queend.LSN{0, 0, 2, 2}},
		{SyncNever, []queend.LSN{0, 0, 0, 0}},
	} {
		d := newDisk(t)
		d.c.Sync, d.c.SyncInterval = row.mode, time.Hour
		tick := make(chan time.Time)
		d.c.tick = tick
		l, _ := d.open(t)
		add(t, l, 2)
		if row.mode == SyncInterval {
			tick <- time.Time{}
		}
		add(t, l, 2)
		var got []queend.LSN
		for _, g := range d.groups(t) {
			got = append(got, g.Durable)
		}
		if !slices.Equal(got, row.want) || l.Durable() != 4 {
			t.Errorf("mode %d: headers say %v, want %v; durable %d", row.mode, got, row.want, l.Durable())
		}
		must(t, l.Close())
		if s := l.Stats(); s.Synced != 4 {
			t.Errorf("mode %d: %+v after Close", row.mode, s)
		}
	}
}

func TestFailedBackgroundSyncStopsTheLog(t *testing.T) {
	d := newDisk(t)
	d.c.Sync, d.c.SyncInterval = SyncInterval, time.Hour
	tick := make(chan time.Time)
	d.c.tick = tick
	told := make(chan error, 1)
	d.c.OnFail = func(err error) { told <- err }
	g := newGate("sync")
	l := d.openGated(t, g)
	add(t, l, 1)
	tick <- time.Time{}
	<-g.reached
	g.open <- errors.New("disk is gone")
	<-told
	l.Append(record(2))
	if l.Last() != 2 || l.Wait(t.Context(), l.Last()) == nil {
		t.Fatal("an answer that rests on a dropped record would be given")
	}
}

func TestWaitForWhatWasNeverAppendedIsAnError(t *testing.T) {
	l, _ := newDisk(t).open(t)
	if l.Wait(t.Context(), 1) == nil {
		t.Fatal("no error")
	}
	must(t, l.Close())
	must(t, l.Close())
	if err := l.Wait(t.Context(), l.Append(nil)); err != ErrClosed {
		t.Fatalf("after Close: %v", err)
	}
}

func TestStatsCountGroupsAndTimeSyncs(t *testing.T) {
	d := newDisk(t)
	var now time.Time
	d.c.Now = func() time.Time { now = now.Add(time.Millisecond); return now }
	l, _ := d.open(t)
	before := l.Stats()
	addGroup(t, l, 3)
	addGroup(t, l, 2)
	must(t, l.Close())
	s := l.Stats()
	if s.Groups != 2 || s.Records != 5 || s.Syncs != 2 || s.SyncTotal == 0 || s.SyncMax == 0 || s.Synced != 5 {
		t.Errorf("stats: %+v", s)
	}
	if grown := s.DiskBytes - before.DiskBytes; uint64(grown) != s.Bytes || s.Generations != 1 {
		t.Errorf("disk grew by %d: %+v", grown, s)
	}
}
