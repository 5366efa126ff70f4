package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// binary is the broker built for these tests.
var binary string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == serveFloorName || os.Args[1] == serveNATSName) {
		main() // this process was started to be a floor or a peer
	}
	os.Exit(build(m))
}

// build makes the binary, runs the tests and removes it.
func build(m *testing.M) int {
	tmp, err := os.MkdirTemp("", "queend-bench-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	defer os.RemoveAll(tmp)
	binary = filepath.Join(tmp, "queend")
	command := exec.Command("go", "build", "-o", binary, "./cmd/queend")
	command.Dir = ".."
	if text, err := command.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "bench: building cmd/queend: %v\n%s", err, text)
		return 1
	}
	return m.Run()
}

// bench runs the command and fails the test unless it ends with code 0.
func bench(t *testing.T, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	args = append(args, "-binary", binary, "-dir", t.TempDir())
	if code := run(t.Context(), args, &out, &errOut); code != 0 {
		t.Fatalf("bench %s ended with code %d\n%s%s", strings.Join(args, " "), code, out.String(), errOut.String())
	}
	return out.String()
}

// needRecords skips the test where the files of iso-codes are missing.
func needRecords(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(recordsDir); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("SKIPPED, NOT TESTED: %s does not exist; make deps installs it (Debian package iso-codes)", recordsDir)
	}
}

func TestRealRecordsComeBackWholeInOrderAndOnce(t *testing.T) {
	needRecords(t)
	t.Log("\n" + bench(t, "real"))
}

func TestTwentyKillsLoseNothing(t *testing.T) {
	needRecords(t)
	t.Log("\n" + bench(t, "crash", "-kills", "20", "-count", "2000", "-rate", "2500", "-up", "500ms", "-limit", "60s"))
}

// cutTail takes the last bytes off the newest file of the log.
func cutTail(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "data", "wal", "*", "*"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no log in %s (%v)", dir, err)
	}
	newest := files[len(files)-1]
	info, err := os.Stat(newest)
	if err != nil {
		return err
	}
	return os.Truncate(newest, max(0, info.Size()-3000))
}

// A broker that forgets what it has answered must be found out: here the end of
// its log is cut off after each kill.
func TestAForgetfulBrokerIsFoundOut(t *testing.T) {
	needRecords(t)
	records, err := readRecords(recordsDir)
	if err != nil {
		t.Fatal(err)
	}
	c := crashConfig{common: common{binary: binary, dir: t.TempDir(), limit: 30 * time.Second}, kills: 5, seed: 1, rate: 3000,
		workers: 2, lease: 1, up: 300 * time.Millisecond, drain: 5 * time.Second, harm: cutTail}
	var out bytes.Buffer
	err = c.kill(t.Context(), thin(records, 500), &out)
	if err == nil {
		t.Fatalf("nothing was found\n%s", out.String())
	}
	t.Log(err)
}

func TestRatioComparesWithTheFloor(t *testing.T) {
	out := bench(t, "ratio", "-rounds", "1", "-seconds", "0.2")
	for _, name := range []string{"push-1", "push-100"} {
		if !strings.Contains(out, `"name":"`+name+`"`) {
			t.Errorf("no row %s in\n%s", name, out)
		}
	}
}

// Rows of pushes, and of both at once, work on the broker and on all peers that are
// installed. They check their messages themselves; a void one is an error. make
// bench-quick does all of them.
func TestRowsOnEverySystem(t *testing.T) {
	dir := t.TempDir()
	out := bench(t, "run", "-quick", "-rows", "2,6a", "-out", dir)
	if strings.Contains(out, `"void"`) {
		t.Errorf("a row is void:\n%s", out)
	}
	again := filepath.Join(dir, "page.md")
	if err := os.WriteFile(again, []byte("before\n"+resultsBegin+"old\n"+resultsEnd+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var errOut bytes.Buffer
	if code := run(t.Context(), []string{"report", "-in", filepath.Join(dir, "results.jsonl"), "-page", again}, &errOut, &errOut); code != 0 {
		t.Fatalf("report ended with code %d\n%s", code, errOut.String())
	}
	page, err := os.ReadFile(again)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(page), "before\n") || !strings.HasSuffix(string(page), "after\n") || strings.Contains(string(page), "old\n") {
		t.Errorf("the page around the results is not as it was:\n%s", page)
	}
	for _, want := range []string{"| queend |", "| floor |", "| nats-always |", "| redis-always |", "| postgres |", "fdatasync"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in the report:\n%s", want, page)
		}
	}
}

// Rows about the broker alone draw their plots.
func TestRowsOfTheBrokerAlone(t *testing.T) {
	dir := t.TempDir()
	out := bench(t, "run", "-quick", "-rows", "4,8,12,13", "-systems", "queend", "-out", dir)
	if strings.Contains(out, `"void"`) {
		t.Errorf("a row is void:\n%s", out)
	}
	for _, name := range []string{"push-spread-rate.svg", "many-take.svg", "growth-partitions.svg", "soak-memory.svg"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Contains(text, []byte("</svg>")) {
			t.Errorf("%s is no plot (%v)", name, err)
		}
	}
}

func TestProfilesAreFetched(t *testing.T) {
	for _, mode := range []string{"cpu", "trace"} {
		dir := t.TempDir()
		bench(t, "run", "-quick", "-rows", "2", "-systems", "queend", "-profile", mode, "-out", dir)
		found, err := filepath.Glob(filepath.Join(dir, "2-queend-*"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v, %v", mode, found, err)
		}
		if info, err := os.Stat(found[0]); err != nil || info.Size() == 0 {
			t.Errorf("%s: an empty profile (%v)", found[0], err)
		}
	}
}

func TestUsageListsTheScenarios(t *testing.T) {
	var out, errOut bytes.Buffer
	if code := run(context.Background(), nil, &out, &errOut); code != 0 {
		t.Errorf("code %d", code)
	}
	for _, name := range []string{"real", "crash", "run", "report", "floor", "ratio"} {
		if !strings.Contains(out.String(), "  "+name+" ") {
			t.Errorf("%s is not listed in\n%s", name, out.String())
		}
	}
	if strings.Contains(out.String(), "serve") {
		t.Error("the process of a server is listed")
	}
}

func TestBadUsageIsCode2(t *testing.T) {
	for _, args := range [][]string{{"nothing"}, {"real", "-nosuchflag"}, {"real", "extra"}, {"ratio", "-binary", "/nonexistent"}, {"run", "-rows", "nothing"}, {"run", "-profile", "cpu"}} {
		var out bytes.Buffer
		if code := run(context.Background(), args, &out, &out); code != 2 {
			t.Errorf("%v: code %d\n%s", args, code, out.String())
		}
	}
}

func TestMissingRecordsAreNamed(t *testing.T) {
	_, err := readRecords(t.TempDir())
	if !errors.Is(err, errNoRecords) {
		t.Fatalf("got %v", err)
	}
}

func TestRecordsKeepTheBytesOfTheirFile(t *testing.T) {
	needRecords(t)
	records, err := readRecords(recordsDir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(recordsDir, "iso_3166-2.json"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range records {
		if r.queue != "iso_3166-2" {
			continue
		}
		n++
		if !bytes.Contains(text, r.payload) || !bytes.Contains(r.payload, []byte("\n")) {
			t.Fatalf("%s is not as it stands in the file:\n%s", r.id, r.payload)
		}
	}
	if n < 1000 || len(records) < 10000 {
		t.Errorf("%d records, %d of iso_3166-2", len(records), n)
	}
}
