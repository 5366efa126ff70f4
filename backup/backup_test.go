package backup

import (
	"bytes"
	"errors"
	"io"
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
