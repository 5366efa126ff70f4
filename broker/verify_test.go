package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func verified(t *testing.T, dir string) (all []Damage) {
	t.Helper()
	if err := Verify(dir, func(d Damage) { all = append(all, d) }); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestVerifyFindsNothingWrongWithAHealthyDirectory(t *testing.T) {
	dir, _ := storedWorld(t, newClock())
	if got := verified(t, dir); len(got) != 0 {
		t.Fatalf("%+v", got)
	}
}

func TestVerifyNamesEveryDamagedFile(t *testing.T) {
	dir, _ := storedWorld(t, newClock())
	for _, part := range []string{"checkpoints", "segments", "wal/*"} {
		names, err := filepath.Glob(filepath.Join(dir, part, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range names {
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				t.Fatal(err)
			}
			copied := copyDir(t, dir)
			flip(t, filepath.Join(copied, rel), 60)
			got := verified(t, copied)
			found := false
			for _, d := range got {
				found = found || strings.HasSuffix(d.File, rel)
			}
			if !found {
				t.Fatalf("%s is damaged, reported: %+v", rel, got)
			}
		}
	}
}

// live are the reports about what a broker needs.
func live(all []Damage) (out []Damage) {
	for _, d := range all {
		if !d.Moot {
			out = append(out, d)
		}
	}
	return out
}

func TestVerifySaysWhichMessagesADamagedSegmentHeld(t *testing.T) {
	r := newRig(t)
	r.push("a", "b", "c")
	r.flushed()
	r.close()
	path := filepath.Join(r.cfg.Dir, "segments", "00000000000000000001.seg")
	flip(t, path, 30)
	got := live(verified(t, r.cfg.Dir))
	if len(got) != 2 || got[1].Offset != 24 || got[1].File != path ||
		!strings.HasPrefix(got[1].Text, `queue "q", partition "p", offsets 0 to 2 cannot be read`) {
		t.Fatalf("%+v", got)
	}
	flip(t, path, 30)
}

func TestVerifyReadsTheSpool(t *testing.T) {
	r := newRig(t)
	_, err := r.b.SetMaintenance(t.Context(), true)
	r.must(err)
	if _, err := r.b.Push(t.Context(), DefaultTenant, nil, []PushItem{
		{Queue: "q", Partition: "p", Payload: []byte("1")}, {Queue: "q", Partition: "p", Payload: []byte("2")},
	}); err != nil {
		t.Fatal(err)
	}
	r.close()
	if got := verified(t, r.cfg.Dir); len(got) != 0 {
		t.Fatalf("%+v", got)
	}
	path := filepath.Join(r.cfg.Dir, "spool", "00000000000000000001.spool")
	flip(t, path, 25)
	if got := live(verified(t, r.cfg.Dir)); len(got) != 1 || got[0].File != path || got[0].Offset != 8 {
		t.Fatalf("%+v", got)
	}
	flip(t, path, 25)
}

func TestVerifyTellsWhatAStartCopesWith(t *testing.T) {
	r := newRig(t)
	r.push("a", "b", "c")
	r.flushed()
	r.close()
	stray := filepath.Join(r.cfg.Dir, "segments", "00000000000000000009.seg")
	mark := filepath.Join(r.cfg.Dir, "wal", "clean")
	for _, path := range []string{stray, mark} {
		r.must(os.WriteFile(path, []byte("no such thing"), 0o600))
	}
	got := verified(t, r.cfg.Dir)
	if len(got) != 2 || len(live(got)) != 0 {
		t.Fatalf("%+v", got)
	}
}

func TestVerifyRefusesWhatIsNoDataDirectory(t *testing.T) {
	if err := Verify(t.TempDir(), func(Damage) {}); !errors.Is(err, ErrNoData) {
		t.Fatal(err)
	}
}

func TestDirectoriesThatHoldNothingMayBeMissing(t *testing.T) {
	r := newRig(t)
	r.close()
	for _, name := range []string{"quarantine", "segments"} {
		r.must(os.RemoveAll(filepath.Join(r.cfg.Dir, name)))
	}
	if got := verified(t, r.cfg.Dir); len(got) != 0 {
		t.Fatalf("%+v", got)
	}
}

// TestMissingPartsAreSeenByAStartAndByVerify: what a start refuses is damage to
// verify, and no repair says that there is nothing to do.
func TestMissingPartsAreSeenByAStartAndByVerify(t *testing.T) {
	c := newClock()
	dir, _ := storedWorld(t, c)
	for _, gone := range [][]string{
		{"checkpoints"}, {"checkpoints/*"}, {"checkpoints", "wal"}, {"checkpoints/*", "wal/*"}, {"segments"}, {"segments/*"}, {"wal"}, {"wal/*"},
	} {
		copied := copyDir(t, dir)
		for _, pattern := range gone {
			names, err := filepath.Glob(filepath.Join(copied, pattern))
			if err != nil || len(names) == 0 {
				t.Fatalf("%s: %v, %v", pattern, names, err)
			}
			for _, name := range names {
				if err := os.RemoveAll(name); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := live(verified(t, copied)); len(got) == 0 {
			t.Errorf("without %q verify finds nothing", gone)
		}
		if r, err := RepairDir(copied, false); !errors.Is(err, ErrNoRepair) && (err != nil || len(r.Steps) == 0) {
			t.Errorf("without %q repair plans %+v, %v", gone, r, err)
		}
		b, err := Open(testConfig(copied, c))
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("without %q a start says %v", gone, err)
		}
		if err == nil {
			kill(t, b)
		}
	}
}

func TestVerifyNamesEveryMissingSegmentFile(t *testing.T) {
	r := newRig(t)
	for _, id := range []string{"a", "b", "c"} {
		r.push(id)
		r.flushed()
	}
	r.close()
	names := byName(t, filepath.Join(r.cfg.Dir, "segments"))
	if len(names) != 3 {
		t.Fatalf("%q", names)
	}
	data := map[string][]byte{}
	for _, name := range names {
		var err error
		if data[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	r.must(os.Remove(names[0]))
	r.must(os.Truncate(names[1], 7))
	r.must(os.Remove(names[2]))
	var said []string
	for _, d := range live(verified(t, r.cfg.Dir)) {
		said = append(said, d.File+" "+d.Text)
	}
	for i, name := range names {
		want := name + " segment file is missing"
		if i == 1 {
			want = name + " segment file has 7 bytes"
		}
		if !strings.Contains(strings.Join(said, "\n"), want) {
			t.Errorf("nothing says %q:\n%s", want, strings.Join(said, "\n"))
		}
	}
	_, err := Open(r.cfg)
	want := fmt.Sprintf("%v: segment file %s is missing, and 2 more are missing or have another size", ErrDamaged, names[0])
	if err == nil || err.Error() != want {
		t.Errorf("a start says %v\nwant %s", err, want)
	}
	for name := range data {
		r.must(os.WriteFile(name, data[name], 0o600))
	}
}
