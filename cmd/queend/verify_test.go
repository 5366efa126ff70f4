package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"queend/broker"
)

// dataDir is a closed data directory with a message in a segment file.
func dataDir(t *testing.T) (dir, segment string) {
	t.Helper()
	dir = t.TempDir()
	b := openBroker(t, dir)
	item := broker.PushItem{Queue: "q", Partition: "p", TxnID: []byte("t1"), Payload: []byte(`{"n":1}`)}
	if _, err := b.Push(t.Context(), broker.DefaultTenant, nil, []broker.PushItem{item}); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(dir, "segments", "00000000000000000001.seg")
}

func openBroker(t *testing.T, dir string) *broker.Broker {
	t.Helper()
	b, err := broker.Open(broker.Config{Dir: dir, Manual: true, Now: newClock()})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// spoil flips a bit of a file.
func spoil(t *testing.T, path string, at int64) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[at] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyNamesFileByteAndDamage(t *testing.T) {
	dir, segment := dataDir(t)
	if code, out, _ := start(t, nil, "verify", dir); code != exitOK || out != "no damage\n" {
		t.Fatalf("exit %d, %q", code, out)
	}
	spoil(t, segment, 30)
	code, out, _ := start(t, nil, "verify", dir)
	if code != exitDamaged || !strings.Contains(out, "damage: "+segment+", byte 24: ") {
		t.Fatalf("exit %d, %q", code, out)
	}
	code, out, _ = start(t, nil, "verify", "-json", dir)
	var p place
	line, _, _ := strings.Cut(out, "\n")
	if err := json.Unmarshal([]byte(line), &p); code != exitDamaged || err != nil || p.File != segment || *p.Offset != 24 {
		t.Fatalf("exit %d, %q, %v", code, out, err)
	}
}

func TestADirectoryInUseIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, dir)
	defer b.Close(context.Background())
	for _, name := range []string{"verify", "repair"} {
		if code, _, err := start(t, nil, name, dir); code != exitLocked || !strings.Contains(err, "in use") {
			t.Errorf("%s: exit %d, %q", name, code, err)
		}
	}
}

func TestWhatIsNoDataDirectoryIsAFailure(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		for _, name := range []string{"verify", "repair"} {
			if code, _, err := start(t, nil, name, dir); code != exitFailure || err == "" {
				t.Errorf("%s %s: exit %d, %q", name, dir, code, err)
			}
		}
	}
}

func TestRepairIsDryUntilToldToWrite(t *testing.T) {
	dir, segment := dataDir(t)
	spoil(t, segment, 30)
	code, out, _ := start(t, nil, "repair", dir)
	if code != exitDamaged || !strings.Contains(out, `lost: queue "q", partition "p": messages 0 to 0`) || !strings.Contains(out, "nothing was changed") {
		t.Fatalf("exit %d, %q", code, out)
	}
	if code, _, _ := start(t, nil, "verify", dir); code != exitDamaged {
		t.Fatalf("verify after a dry run: exit %d", code)
	}
	if code, out, err := start(t, nil, "repair", "-write", dir); code != exitOK || !strings.Contains(out, "done: ") {
		t.Fatalf("exit %d, %q, %q", code, out, err)
	}
	if code, out, _ := start(t, nil, "verify", dir); code != exitOK {
		t.Fatalf("verify after the repair: exit %d, %q", code, out)
	}
	if code, out, _ := start(t, nil, "repair", dir); code != exitOK || !strings.Contains(out, "nothing to do") {
		t.Fatalf("exit %d, %q", code, out)
	}
}

func TestDumpPrintsMessagesAsTextAndJSON(t *testing.T) {
	_, segment := dataDir(t)
	code, out, _ := start(t, nil, "dump", segment)
	if code != exitOK || !strings.Contains(out, `transactionId="t1"`) || !strings.Contains(out, `payload="{\"n\":1}"`) {
		t.Fatalf("exit %d, %q", code, out)
	}
	code, out, _ = start(t, nil, "dump", "-json", segment)
	kinds := map[string]map[string]any{}
	for line := range strings.Lines(out) {
		var item map[string]any
		if err := json.Unmarshal([]byte(line), &item); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		kinds[item["kind"].(string)] = item
	}
	if code != exitOK || kinds["message"]["transactionId"] != "t1" || kinds["run"]["last"] != 0.0 {
		t.Fatalf("exit %d, %v", code, kinds)
	}
	spoil(t, segment, 30)
	if code, out, _ := start(t, nil, "dump", segment); code != exitDamaged || !strings.Contains(out, "damage") {
		t.Fatalf("exit %d, %q", code, out)
	}
}

// TestEveryFileDumpsAsJSON is about the shapes of values, nested ones too.
func TestEveryFileDumpsAsJSON(t *testing.T) {
	dir, _ := dataDir(t)
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "LOCK" {
			return err
		}
		code, out, text := start(t, nil, "dump", "-json", path)
		if code != exitOK {
			t.Errorf("%s: exit %d, %s", path, code, text)
		}
		for line := range strings.Lines(out) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s: %s", path, line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCommandsSayHowTheyAreCalled(t *testing.T) {
	for _, c := range commands() {
		if code, out, _ := start(t, nil, c.name, "-help"); code != exitOK || !strings.Contains(out, "Usage: queend "+c.name) {
			t.Errorf("%s: exit %d, %q", c.name, code, out)
		}
		if code, out, err := start(t, nil, c.name, "-nonsense"); code != exitUsage || out != "" || !strings.Contains(err, "nonsense") {
			t.Errorf("%s: exit %d, %q, %q", c.name, code, out, err)
		}
	}
}
