package broker

import (
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
