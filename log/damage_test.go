package log

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"queend"
)

// small writes 12 records, each a group of its own, three to a segment: entries 1
// to 3 (the first is the generation's own), 4 to 6, 7 to 9, 10 to 12 and 13.
func small(t *testing.T) (disk, []Group) {
	t.Helper()
	d := newDisk(t)
	d.c.SegmentBytes = 150
	l, _ := d.open(t)
	add(t, l, 12)
	d = d.crash(t)
	groups := d.groups(t)
	if len(groups) != 12 || groups[2].File != d.segmentPath(1, 4) || groups[11].File != d.segmentPath(1, 13) {
		t.Fatalf("not the files this test is about: %v", readTree(t, d.root))
	}
	return d, groups
}

func TestBitFlipBeforeTheLastGroupIsRefused(t *testing.T) {
	d := newDisk(t)
	l, _ := d.open(t)
	add(t, l, 3)
	d = d.crash(t)
	for _, g := range d.groups(t)[:2] {
		for at := g.Offset; at < g.Offset+g.length; at++ {
			flip := func(data []byte) []byte { data[at] ^= 1 << (at % 8); return data }
			edit(t, g.File, flip)
			d.refuses(t, g.File, g.Offset)
			edit(t, g.File, flip)
		}
	}
	path := d.segmentPath(1, 1)
	for at := range startEntry {
		flip := func(data []byte) []byte { data[at] ^= 1 << (at % 8); return data }
		edit(t, path, flip)
		d.refuses(t, path, 0)
		edit(t, path, flip)
	}
	d.open(t)
}

// TestDamagedSegments has a row for each damage that the library accepts, and for
// each way in which segments do not join.
func TestDamagedSegments(t *testing.T) {
	remove := func(index uint64) func(*testing.T, disk) {
		return func(t *testing.T, d disk) { must(t, os.Remove(d.segmentPath(1, index))) }
	}
	change := func(index uint64, f func([]byte) []byte) func(*testing.T, disk) {
		return func(t *testing.T, d disk) { edit(t, d.segmentPath(1, index), f) }
	}
	for _, row := range []struct {
		name    string
		damage  func(*testing.T, disk)
		segment uint64 // where the damage is found
		entry   int    // how many groups are before it in that file; -1: at its end
	}{
		{"middle segment missing", remove(7), 10, 0},
		{"middle segment empty", change(7, func(b []byte) []byte { return nil }), 10, 0},
		{"middle segment short at a group's end", change(7, func(b []byte) []byte { return b[:len(b)/3] }), 10, 0},
		{"middle segment torn inside a group", change(7, func(b []byte) []byte { return b[:len(b)-5] }), 7, 2},
		{"middle segment zeroed at the end", change(7, func(b []byte) []byte { clear(b[len(b)-5:]); return b }), 7, 2},
		{"middle segment zeroed", change(7, func(b []byte) []byte { clear(b); return b }), 7, 0},
		{"middle segment with zeros behind", change(7, func(b []byte) []byte { return append(b, 0, 0) }), 7, -1},
		{"middle segment with garbage behind", change(7, func(b []byte) []byte { return append(b, "garbage"...) }), 7, -1},
		{"first segment missing", remove(1), 1, 0},
		{"first segment empty", change(1, func(b []byte) []byte { return nil }), 1, 0},
		{"segments swapped", func(t *testing.T, d disk) { swap(t, d.segmentPath(1, 4), d.segmentPath(1, 7)) }, 4, 0},
		{"first and second swapped", func(t *testing.T, d disk) { swap(t, d.segmentPath(1, 1), d.segmentPath(1, 4)) }, 1, 0},
		{"segment in the place of the last", func(t *testing.T, d disk) { copyFile(t, d.segmentPath(1, 4), d.segmentPath(1, 13)) }, 13, 0},
		{"last segment twice", func(t *testing.T, d disk) { copyFile(t, d.segmentPath(1, 13), d.segmentPath(1, 14)) }, 14, 0},
		{"groups swapped", change(4, func(b []byte) []byte {
			n := len(b) / 3
			return append(append(bytes.Clone(b[n:2*n]), b[:n]...), b[2*n:]...)
		}), 4, 0},
		{"group twice", change(4, func(b []byte) []byte {
			n := len(b) / 3
			return append(bytes.Clone(b[:n]), b...)
		}), 4, 1},
		{"bit flip in a length", change(7, func(b []byte) []byte { b[0] ^= 0x40; return b }), 7, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			d, groups := small(t)
			path := d.segmentPath(1, row.segment)
			offset := int64(row.entry) * groups[3].length
			if info, err := os.Stat(path); err == nil && row.entry < 0 {
				offset = info.Size()
			}
			row.damage(t, d)
			d.refuses(t, path, offset)
		})
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, data, filePerm))
}

// F3: cursors and data came back from different moments: consumers hung, or
// everything came again.
func TestLossOfTheEndIsRefusedWhenSomethingProvesIt(t *testing.T) {
	losses := map[string]func(t *testing.T, d disk, g Group){
		"group cut":  func(t *testing.T, d disk, g Group) { must(t, os.Truncate(g.File, g.Offset)) },
		"group torn": func(t *testing.T, d disk, g Group) { must(t, os.Truncate(g.File, g.Offset+g.length-1)) },
		"group zeroed": func(t *testing.T, d disk, g Group) {
			edit(t, g.File, func(b []byte) []byte { clear(b[g.Offset:]); return b })
		},
		"group flipped": func(t *testing.T, d disk, g Group) {
			edit(t, g.File, func(b []byte) []byte { b[g.Offset+60] ^= 4; return b })
		},
	}
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t)
			l, _ := d.open(t)
			add(t, l, 3)

			proven := d.crash(t)
			g := proven.groups(t)[2]
			lose(t, proven, g)
			proven.c.Proven = 3
			proven.refuses(t, g.File, g.Offset)
			proven.c.Proven = 2
			if _, rec := proven.open(t); rec.Last != 2 {
				t.Errorf("recovered %+v", rec)
			}

			must(t, l.Close())
			g = d.groups(t)[2]
			lose(t, d, g)
			if name == "group cut" {
				// nothing is wrong with the bytes that are there; Scan names the directory
				_, _, err := d.tryOpen(t)
				if !errors.Is(err, ErrDamaged) {
					t.Fatalf("opened: %v", err)
				}
				return
			}
			d.refuses(t, g.File, g.Offset)
		})
	}
}

// generations writes three generations of four records, as if booted twice after
// clean shutdowns.
func generations(t *testing.T) disk {
	t.Helper()
	d := newDisk(t)
	for range 3 {
		l, _ := d.open(t)
		add(t, l, 4)
		must(t, l.Close())
	}
	return d
}

func TestGenerationsThatDoNotJoinAreRefused(t *testing.T) {
	dir := func(d disk, number uint64) string { return filepath.Join(d.c.Dir, numberName(number)) }
	for name, damage := range map[string]func(*testing.T, disk){
		"first missing":  func(t *testing.T, d disk) { must(t, os.RemoveAll(dir(d, 1))) },
		"middle missing": func(t *testing.T, d disk) { must(t, os.RemoveAll(dir(d, 2))) },
		"last missing":   func(t *testing.T, d disk) { must(t, os.RemoveAll(dir(d, 3))) },
		"all missing": func(t *testing.T, d disk) {
			must(t, os.RemoveAll(dir(d, 1)))
			must(t, os.RemoveAll(dir(d, 2)))
			must(t, os.RemoveAll(dir(d, 3)))
		},
		"middle without file": func(t *testing.T, d disk) { must(t, os.Remove(d.segmentPath(2, 1))) },
		"middle zeroed":       func(t *testing.T, d disk) { edit(t, d.segmentPath(2, 1), func(b []byte) []byte { clear(b); return b }) },
		"middle torn": func(t *testing.T, d disk) {
			edit(t, d.segmentPath(2, 1), func(b []byte) []byte { return b[:len(b)-1] })
		},
		"middle cut": func(t *testing.T, d disk) {
			edit(t, d.segmentPath(2, 1), func(b []byte) []byte { return b[:startEntry] })
		},
		"last two swapped": func(t *testing.T, d disk) { swap(t, dir(d, 2), dir(d, 3)) },
		"last renamed":     func(t *testing.T, d disk) { must(t, os.Rename(dir(d, 3), dir(d, 4))) },
		"last twice":       func(t *testing.T, d disk) { must(t, os.CopyFS(dir(d, 4), os.DirFS(dir(d, 3)))) },
		"first twice":      func(t *testing.T, d disk) { must(t, os.CopyFS(dir(d, 4), os.DirFS(dir(d, 1)))) },
	} {
		t.Run(name, func(t *testing.T) {
			d := generations(t)
			damage(t, d)
			before := readTree(t, d.root)
			l, _, err := d.tryOpen(t)
			if err == nil {
				l.Close()
			}
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("opened, or no damage: %v", err)
			}
			if !equalTrees(before, readTree(t, d.root)) {
				t.Fatal("refusing changed the directory")
			}
		})
	}
	d := generations(t)
	if _, rec := d.open(t); rec.Last != 12 {
		t.Fatalf("recovered %+v", rec)
	}
}

func TestNewerVersionIsNotDamage(t *testing.T) {
	d := newDisk(t)
	l, _ := d.open(t)
	add(t, l, 1)
	must(t, l.Close())
	edit(t, d.segmentPath(1, 1), func(b []byte) []byte {
		entry := b[startEntry+1:]
		entry[8] = version + 1
		resum(entry)
		return b
	})
	before := readTree(t, d.root)
	_, _, err := d.tryOpen(t)
	if !errors.Is(err, ErrVersion) || errors.Is(err, ErrDamaged) {
		t.Fatalf("error: %v", err)
	}
	if !equalTrees(before, readTree(t, d.root)) {
		t.Fatal("refusing changed the directory")
	}
}

func TestScanReportsEveryDamageAndReadsOn(t *testing.T) {
	d, groups := small(t)
	for _, i := range []int{1, 5, 11} {
		edit(t, groups[i].File, func(b []byte) []byte { b[groups[i].Offset+20] ^= 1; return b })
	}
	before := readTree(t, d.root)
	var seen []queend.LSN
	report, err := Scan(d.c.Dir, func(g Group) error {
		for lsn, rec := range g.Records() {
			if !bytes.Equal(rec, record(lsn)) {
				t.Errorf("LSN %d: %q", lsn, rec)
			}
			seen = append(seen, lsn)
		}
		return nil
	})
	must(t, err)
	if len(report.Damages) != 2 || len(report.Tail) != 1 || len(seen) != 9 || report.Records != 9 {
		t.Fatalf("%d records seen, %+v", len(seen), report)
	}
	for i, found := range append(report.Damages, report.Tail...) {
		want := groups[[]int{1, 5, 11}[i]]
		if found.File != want.File || found.Offset != want.Offset {
			t.Errorf("damage %d: %v, want %s byte %d", i, found, want.File, want.Offset)
		}
	}
	if !equalTrees(before, readTree(t, d.root)) {
		t.Fatal("Scan changed the directory")
	}
}
