package broker

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// dumped counts the items of a file by kind.
func dumped(t *testing.T, path string) map[string]int {
	t.Helper()
	kinds := map[string]int{}
	if err := Dump(path, func(i Item) error {
		kinds[i.Kind]++
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return kinds
}

// everyFile lists the files of a closed directory with something in each.
func everyFile(t *testing.T) (files []string) {
	t.Helper()
	c := newClock()
	dir, _ := storedWorld(t, c)
	b := openTest(t, testConfig(dir, c))
	if _, err := b.SetMaintenance(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Push(t.Context(), DefaultTenant, nil, []PushItem{{Queue: "q", Partition: "p", Payload: []byte("1")}}); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"FORMAT", "wal/clean", "wal/*/*", "checkpoints/*", "segments/*", "spool/*"} {
		names, err := filepath.Glob(filepath.Join(dir, part))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", part, names, err)
		}
		files = append(files, names...)
	}
	return files
}

func TestEveryKindOfFileCanBeDumped(t *testing.T) {
	all := map[string]int{}
	for _, path := range everyFile(t) {
		kinds := dumped(t, path)
		if kinds[damageKind] != 0 {
			t.Errorf("%s: %v", path, kinds)
		}
		for kind, n := range kinds {
			all[kind] += n
		}
	}
	for _, kind := range []string{
		"format", "closed", "group", "record", "pushed", "rowSet", "message", "checkpoint", "queueSet", "partition",
		"deadLetter", "numbers", "end", "segment", "run", "spooled",
	} {
		if all[kind] == 0 {
			t.Errorf("no %s anywhere: %v", kind, all)
		}
	}
}

func TestADumpShowsDamageAndGoesOn(t *testing.T) {
	for _, path := range everyFile(t) {
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if st.Size() < 300 {
			continue
		}
		whole := dumped(t, path)
		flip(t, path, st.Size()/2)
		kinds := dumped(t, path)
		if kinds[damageKind] == 0 || len(whole) > 1 && len(kinds) < 2 {
			t.Errorf("%s: %v, whole it was %v", path, kinds, whole)
		}
	}
}

func TestADumpOfAnotherFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(path, []byte("just a text, longer than the head of a record in a log of any kind"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Dump(path, func(Item) error { return nil }); !errors.Is(err, ErrUnknownFile) {
		t.Fatal(err)
	}
}
