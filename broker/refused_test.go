package broker

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// contents maps every path below a directory to what it holds.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			all[path] = "directory"
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestARefusedStartChangesNothingOnDisk(t *testing.T) {
	c := newClock()
	dir, _ := storedWorld(t, c)
	for i, path := range byName(t, filepath.Join(dir, "segments")) {
		copied := copyDir(t, dir)
		if err := os.Remove(filepath.Join(copied, "segments", filepath.Base(path))); err != nil {
			t.Fatal(err)
		}
		before := contents(t, copied)
		if _, err := Open(testConfig(copied, c)); !errors.Is(err, ErrDamaged) {
			t.Fatalf("file %d: %v", i, err)
		}
		if after := contents(t, copied); !maps.Equal(before, after) {
			for path := range after {
				if before[path] != after[path] {
					t.Errorf("%s was changed", path)
				}
			}
			t.Fatalf("%d paths before, %d after", len(before), len(after))
		}
	}
}
