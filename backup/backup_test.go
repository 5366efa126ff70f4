package backup

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// written is a backup of two files.
func written(t *testing.T) ([]byte, Point) {
	t.Helper()
	var out bytes.Buffer
	p := Point{LSN: 7, Time: time.Unix(1700000000, 0).UTC()}
	w, err := NewWriter(&out, p)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a/one": "first", "two": strings.Repeat("second", 1000)} {
		if err := w.Add(name, int64(len(text)), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), p
}

func read(data []byte) (map[string]string, Point, error) {
	files := map[string]string{}
	p, err := Read(bytes.NewReader(data), func(name string, size int64, r io.Reader) error {
		text, err := io.ReadAll(r)
		files[name] = string(text)
		return err
	})
	return files, p, err
}

func TestABackupIsReadAsItWasWritten(t *testing.T) {
	data, want := written(t)
	files, p, err := read(data)
	if err != nil || p != want || len(files) != 2 || files["a/one"] != "first" || len(files["two"]) != 6000 {
		t.Fatalf("%v %v, %v", files, p, err)
	}
}

func TestADamagedOrShortBackupIsRefused(t *testing.T) {
	data, _ := written(t)
	for _, at := range []int{2*512 + 600, len(data) - 2000} {
		bad := bytes.Clone(data)
		bad[at] ^= 1
		if files, _, err := read(bad); err == nil && files["a/one"]+files["two"] != "first"+strings.Repeat("second", 1000) {
			t.Errorf("byte %d: changed bytes passed", at)
		}
	}
	for n := 1024; n < len(data)-2048; n += 512 {
		if _, _, err := read(data[:n]); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes of %d: %v", n, len(data), err)
		}
	}
}

func TestAShortFileIsNotTaken(t *testing.T) {
	w, err := NewWriter(io.Discard, Point{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add("a", 10, strings.NewReader("short")); err == nil {
		t.Fatal("5 bytes passed for 10")
	}
}

func TestNamesStayBelowTheDirectory(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, Point{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Add("../evil", 1, strings.NewReader("x")), w.Close()); err != nil {
		t.Fatal(err)
	}
	if files, _, err := read(out.Bytes()); !errors.Is(err, ErrDamaged) || len(files) != 0 {
		t.Fatalf("%v, %v", files, err)
	}
}

func TestAnotherFileIsNoBackup(t *testing.T) {
	if _, _, err := read([]byte("something else")); err == nil || !strings.Contains(err.Error(), "no backup") {
		t.Fatal(err)
	}
}

func TestWhatAReaderHasIsNamedAndNotSent(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, Point{LSN: 3})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(w.Keep("segments/1", 5, strings.NewReader("known")), w.Add("two", 3, strings.NewReader("new")), w.Close())
	if err != nil || strings.Contains(out.String(), "known") {
		t.Fatalf("%v, %q", err, out.String())
	}
	var kept []string
	_, err = ReadTo(bytes.NewReader(out.Bytes()), Sink{
		File: func(_ string, _ int64, r io.Reader) error { _, err := io.Copy(io.Discard, r); return err },
		Kept: func(name string, size int64, sum string) error { kept = append(kept, name, sum[:8]); return nil },
	})
	if err != nil || len(kept) != 2 || kept[0] != "segments/1" || kept[1] != fmt.Sprintf("%x", sha256.Sum256([]byte("known")))[:8] {
		t.Errorf("%v, %v", kept, err)
	}
	if _, _, err := read(out.Bytes()); !errors.Is(err, ErrDamaged) {
		t.Errorf("a backup without all files passed for one: %v", err)
	}
}

// Wherever an attempt broke off, the whole segment files before that place are
// found, once more in what is kept of them, and nothing else.
func TestPartsAreTheWholeSegmentFilesBeforeTheEnd(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, Point{LSN: 3})
	if err != nil {
		t.Fatal(err)
	}
	ends := []int{}
	for _, name := range []string{"FORMAT", "segments/1", "wal/1", "segments/2"} {
		if err := w.Add(name, 700, strings.NewReader(strings.Repeat(name[:4]+name[len(name)-1:], 140))); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "segments/") {
			ends = append(ends, out.Len())
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for n := 0; n <= out.Len(); n += 100 {
		path := filepath.Join(t.TempDir(), "part")
		parts := partsOf(t, path, out.Bytes()[:n])
		want := 0
		for _, end := range ends {
			if n >= end {
				want++
			}
		}
		if len(parts) != want {
			t.Fatalf("%d bytes: %d parts, want %d", n, len(parts), want)
		}
		var again bytes.Buffer
		if err := WriteParts(&again, parts); err != nil {
			t.Fatal(err)
		}
		if got := partsOf(t, path+"2", again.Bytes()); len(got) != want || want > 0 && got[0].SHA256 != parts[0].SHA256 {
			t.Fatalf("%d bytes: %d parts are kept of %d", n, len(got), want)
		}
	}
}

func partsOf(t *testing.T, path string, data []byte) []Part {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	parts, err := Parts(f)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}
