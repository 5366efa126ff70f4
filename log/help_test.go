package log

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"queend"
)

// disk is a data directory of one test.
type disk struct {
	root  string
	c     Config
	after queend.LSN // what Open replays from
}

func newDisk(t *testing.T) disk { return diskAt(t.TempDir()) }

func diskAt(root string) disk {
	return disk{root: root, c: Config{Dir: filepath.Join(root, "wal"), Quarantine: filepath.Join(root, "quarantine")}}
}

// record is what the test log holds at lsn.
func record(lsn queend.LSN) []byte { return fmt.Appendf(nil, "record-%d", lsn) }

// open opens the log, checks that it replays the records to Recovery.Last, and
// closes it with the test.
func (d disk) open(t *testing.T) (*Log, Recovery) {
	t.Helper()
	l, rec, err := d.tryOpen(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, rec
}

func (d disk) tryOpen(t *testing.T) (*Log, Recovery, error) {
	t.Helper()
	next := d.after + 1
	l, rec, err := Open(d.c, d.after, func(lsn queend.LSN, got []byte) error {
		if lsn != next || !bytes.Equal(got, record(lsn)) {
			t.Fatalf("replay gave LSN %d %q, want LSN %d", lsn, got, next)
		}
		next++
		return nil
	})
	if err == nil && (rec.Last != next-1 || rec.Records != int(next-1-d.after)) {
		t.Fatalf("%d records replayed, recovery says %+v", next-1, rec)
	}
	return l, rec, err
}

// refuses checks that Open finds damage at this place and changes nothing.
func (d disk) refuses(t *testing.T, file string, offset int64) {
	t.Helper()
	before := readTree(t, d.root)
	l, _, err := d.tryOpen(t)
	if err == nil {
		l.Close()
		t.Fatal("a damaged log was opened")
	}
	var damage *Damage
	if !errors.Is(err, ErrDamaged) || !errors.As(err, &damage) {
		t.Fatalf("error is no damage: %v", err)
	}
	if damage.File != file || damage.Offset != offset {
		t.Fatalf("%v, want %s byte %d", err, file, offset)
	}
	for _, say := range []string{file, fmt.Sprintf("byte %d:", offset), "queend verify"} {
		if !bytes.Contains([]byte(err.Error()), []byte(say)) {
			t.Fatalf("error does not say %q: %v", say, err)
		}
	}
	if !equalTrees(before, readTree(t, d.root)) {
		t.Fatal("refusing changed the directory")
	}
	report, scanErr := Scan(d.c.Dir, func(Group) error { return nil })
	if d.c.Proven == 0 && (scanErr != nil || !errors.Is(report.Err(), ErrDamaged)) {
		t.Fatalf("Scan does not report the damage: %+v, %v", report, scanErr)
	}
}

// add appends n records, each a group of its own.
func add(t *testing.T, l *Log, n int) {
	t.Helper()
	for range n {
		addGroup(t, l, 1)
	}
}

// addGroup appends one group of n records.
func addGroup(t *testing.T, l *Log, n int) {
	t.Helper()
	l.mu.Lock() // so the committer cannot take a part
	g := &group{first: l.last + 1}
	l.push(g)
	for range n {
		l.last++
		g.recs = append(g.recs, record(l.last))
	}
	last := l.last
	l.mu.Unlock()
	l.signal()
	if err := l.Wait(context.Background(), last); err != nil {
		t.Fatal(err)
	}
}

// crash returns a copy of the directory as a killed process would leave it.
func (d disk) crash(t *testing.T) disk {
	t.Helper()
	to := newDisk(t)
	d.copyTo(t, to.root)
	to.c = d.like(to.root)
	return to
}

// like is the configuration of d for another root, without its hooks.
func (d disk) like(root string) Config {
	c := diskAt(root).c
	c.SegmentBytes, c.GroupBytes, c.Sync, c.SyncInterval, c.Proven = d.c.SegmentBytes, d.c.GroupBytes, d.c.Sync, d.c.SyncInterval, d.c.Proven
	return c
}

func (d disk) copyTo(t *testing.T, root string) {
	t.Helper()
	if err := os.CopyFS(root, os.DirFS(d.root)); err != nil {
		t.Fatal(err)
	}
}

// groups are the groups that Scan finds.
func (d disk) groups(t *testing.T) []Group {
	t.Helper()
	var groups []Group
	report, err := Scan(d.c.Dir, func(g Group) error {
		groups = append(groups, g)
		return nil
	})
	if err != nil || report.Err() != nil {
		t.Fatal(err, report.Err())
	}
	return groups
}

// edit changes the bytes of a file.
func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(data), filePerm); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// swap exchanges two files or directories.
func swap(t *testing.T, a, b string) {
	t.Helper()
	must(t, os.Rename(a, a+"-away"))
	must(t, os.Rename(b, a))
	must(t, os.Rename(a+"-away", b))
}

// readTree maps each path under root to its content.
func readTree(t *testing.T, root string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	must(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		tree[path] = ""
		if e.Type().IsRegular() {
			data, err := os.ReadFile(path)
			tree[path] = string(data)
			return err
		}
		return nil
	}))
	return tree
}

func equalTrees(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for path, data := range a {
		if other, ok := b[path]; !ok || other != data {
			return false
		}
	}
	return true
}

// segmentPath is the path of a segment by generation and index.
func (d disk) segmentPath(number, index uint64) string {
	return filepath.Join(d.c.Dir, numberName(number), numberName(index))
}

// resum makes the checksum of a group match its bytes.
func resum(entry []byte) {
	binary.LittleEndian.PutUint32(entry[4:], crc32.Checksum(entry[8:], castagnoli))
}
