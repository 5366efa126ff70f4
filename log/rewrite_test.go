package log

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"queend"
)

// lsns scans one file and returns what is in it, and the damaged places.
func scanned(t *testing.T, path string) (lsns []queend.LSN, places []int64) {
	t.Helper()
	must(t, ScanFile(path, func(g Group) error {
		for lsn := range g.Records() {
			lsns = append(lsns, lsn)
		}
		return nil
	}, func(d *Damage) error {
		places = append(places, d.Offset)
		return nil
	}))
	return lsns, places
}

func TestOneFileIsReadByItselfAroundDamage(t *testing.T) {
	d, groups := small(t)
	path := groups[3].File
	if lsns, places := scanned(t, path); !slices.Equal(lsns, []queend.LSN{3, 4, 5}) && len(places) != 0 {
		t.Fatalf("records %v, damage at %v", lsns, places)
	}
	want, _ := scanned(t, path)
	edit(t, path, func(data []byte) []byte { data[groups[3].Offset+10] ^= 1; return data })
	lsns, places := scanned(t, path)
	if !slices.Equal(places, []int64{groups[3].Offset}) {
		t.Fatalf("damage at %v, want %d", places, groups[3].Offset)
	}
	if wantLeft := slices.DeleteFunc(want, func(l queend.LSN) bool { return l == groups[3].First }); !slices.Equal(lsns, wantLeft) {
		t.Fatalf("records %v, want %v", lsns, wantLeft)
	}
	moved := filepath.Join(t.TempDir(), "elsewhere")
	must(t, os.Rename(d.segmentPath(1, 1), moved))
	if lsns, places := scanned(t, moved); len(lsns) == 0 || len(places) != 0 {
		t.Fatalf("of a moved file: records %v, damage at %v", lsns, places)
	}
	must(t, os.WriteFile(moved, []byte("nothing of a log"), 0o600))
	if lsns, places := scanned(t, moved); len(lsns) != 0 || !slices.Equal(places, []int64{0}) {
		t.Fatalf("of another file: records %v, damage at %v", lsns, places)
	}
}

func TestRewriteKeepsASpanAndSetsTheRestAside(t *testing.T) {
	for _, after := range []queend.LSN{0, 3, 7} {
		d, groups := small(t)
		edit(t, groups[7].File, func(data []byte) []byte { data[groups[7].Offset+10] ^= 1; return data })
		if _, _, err := d.tryOpen(t); !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
		must(t, Rewrite(d.c, Span{after + 1, 7}, [][]byte{record(8)}))
		d.after = after
		if _, rec := d.open(t); rec.Last != 8 || rec.First != after+1 {
			t.Fatalf("after %d: recovered %+v", after, rec)
		}
		if _, err := os.Stat(filepath.Join(d.c.Quarantine, "wal-"+numberName(1))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRewriteRefusesRecordsThatAreNotThere(t *testing.T) {
	d, groups := small(t)
	edit(t, groups[7].File, func(data []byte) []byte { data[groups[7].Offset+10] ^= 1; return data })
	before := readTree(t, d.root)
	if err := Rewrite(d.c, Span{1, 9}, nil); err == nil {
		t.Fatal("record 8 is damaged and was kept")
	}
	must(t, os.RemoveAll(filepath.Join(d.c.Dir, numberName(2)+tmpSuffix)))
	if !equalTrees(before, readTree(t, d.root)) {
		t.Fatal("the log changed")
	}
}

// TestACrashInARewriteLosesNothing stops it before every change of the disk and
// does it again.
func TestACrashInARewriteLosesNothing(t *testing.T) {
	for crash := 0; ; crash++ {
		d, groups := small(t)
		edit(t, groups[7].File, func(data []byte) []byte { data[groups[7].Offset+10] ^= 1; return data })
		steps := 0
		c := d.c
		errCrash := errors.New("crash")
		c.hook = func(string, string) error {
			if steps++; steps > crash {
				return errCrash
			}
			return nil
		}
		d.after = 3
		err := Rewrite(c, Span{4, 7}, nil)
		if err == nil {
			if crash < 10 {
				t.Fatalf("only %d steps", crash)
			}
			return
		}
		if !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		if l, rec, err := d.tryOpen(t); err == nil {
			if rec.Last != 7 {
				t.Fatalf("crash at step %d: recovered %+v", crash, rec)
			}
			must(t, l.Close())
			continue
		}
		must(t, Rewrite(d.c, Span{4, 7}, nil))
		if _, rec := d.open(t); rec.Last != 7 {
			t.Fatalf("crash at step %d: recovered %+v", crash, rec)
		}
	}
}
