package broker

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"queend"
)

// folder is a sink that writes into a directory.
type folder struct {
	dir    string
	moment Moment
	begun  func()
}

func (f *folder) Begin(m Moment) error {
	f.moment = m
	if f.begun != nil {
		f.begun()
	}
	return nil
}

func (f *folder) Add(name string, size int64, r io.Reader) error {
	path := filepath.Join(f.dir, filepath.FromSlash(name))
	data, err := io.ReadAll(r)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	return errors.Join(err, os.WriteFile(path, data, 0o600))
}

// TestALiveBackupIsTheStateAtItsMoment goes on changing everything, also the
// files, while the backup is sent.
func TestALiveBackupIsTheStateAtItsMoment(t *testing.T) {
	c := newClock()
	b := openTest(t, testConfig(t.TempDir(), c))
	w := &world{b: b, r: rand.New(rand.NewPCG(9, 9))}
	for range 3 {
		w.acts(150)
		if _, err := b.SetMaintenance(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		want := ""
		to := &folder{dir: t.TempDir()}
		var lsn queend.LSN
		to.begun = func() {
			want, lsn = dump(t, b), b.log.Last()
			w.acts(150)
			b.storage.checkpointing.Lock()
			defer b.storage.checkpointing.Unlock()
			for range 3 {
				if err := b.checkpoint(true, true); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := b.Backup(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		if to.moment.LSN != lsn {
			t.Fatalf("backup through %d, it was %d", to.moment.LSN, lsn)
		}
		if got := verified(t, to.dir); len(got) != 0 {
			t.Fatalf("%+v", got)
		}
		restored := openTest(t, testConfig(to.dir, c))
		sameDump(t, "restored", want, dump(t, restored))
		kill(t, restored)
	}
	if _, err := os.Stat(filepath.Join(b.cfg.Dir, "backup.tmp")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the copied log is left: %v", err)
	}
	if len(b.storage.files.pins) != 0 {
		t.Fatalf("pinned: %v", b.storage.files.pins)
	}
	kill(t, b)
}

func TestALiveBackupIsRefusedWhenItCouldMissSomething(t *testing.T) {
	r := newRig(t)
	r.push("a")
	if _, err := r.b.SetMaintenance(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	to := &folder{dir: t.TempDir()}
	r.wantCode(r.b.Backup(t.Context(), to), CodeMaintenance)
	if _, err := r.b.SetMaintenance(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	to.begun = func() { r.wantCode(r.b.Backup(t.Context(), to), CodeRetry) }
	r.must(r.b.Backup(t.Context(), to))
}

// broken is a sink that fails at its first file.
type broken struct{}

var errSink = errors.New("the sink is full")

func (broken) Begin(Moment) error                 { return nil }
func (broken) Add(string, int64, io.Reader) error { return errSink }

func TestABrokenBackupHoldsNothing(t *testing.T) {
	r := newRig(t)
	r.push("a")
	r.flushed()
	if err := r.b.Backup(t.Context(), broken{}); !errors.Is(err, errSink) {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(r.cfg.Dir, "backup.tmp")); len(r.b.storage.files.pins) != 0 || !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("pinned %v, %v", r.b.storage.files.pins, err)
	}
	r.must(r.b.Backup(t.Context(), &folder{dir: t.TempDir()}))
}
