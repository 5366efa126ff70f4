package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"queend/broker"
)

// backedUp is a data directory and a backup of it.
func backedUp(t *testing.T) (dir, file string) {
	t.Helper()
	dir, _ = dataDir(t)
	file = filepath.Join(t.TempDir(), "backup")
	code, out, stderr := start(t, nil, "backup", dir, file)
	if code != exitOK || !strings.Contains(out, "through record ") {
		t.Fatalf("exit %d, %s%s", code, out, stderr)
	}
	return dir, file
}

func TestARestoredBackupServesWhatWasThere(t *testing.T) {
	_, file := backedUp(t)
	to := filepath.Join(t.TempDir(), "restored")
	if code, out, stderr := start(t, nil, "restore", file, to); code != exitOK || !strings.Contains(out, "through record ") {
		t.Fatalf("exit %d, %s%s", code, out, stderr)
	}
	b := openBroker(t, to)
	defer b.Close(context.Background())
	res, err := b.Pop(t.Context(), broker.PopRequest{Tenant: broker.DefaultTenant, Queue: "q", Batch: 10, Partitions: 1})
	if err != nil || len(res.Messages) != 1 || string(res.Messages[0].TxnID) != "t1" {
		t.Fatalf("%+v, %v", res, err)
	}
}

func TestNothingIsWrittenOver(t *testing.T) {
	dir, file := backedUp(t)
	if code, _, stderr := start(t, nil, "backup", dir, file); code != exitFailure || !strings.Contains(stderr, "there already") {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	if code, _, stderr := start(t, nil, "restore", file, dir); code != exitFailure || !strings.Contains(stderr, "there already") {
		t.Fatalf("exit %d, %s", code, stderr)
	}
}

func TestADamagedBackupIsNotRestored(t *testing.T) {
	_, file := backedUp(t)
	if code, _, _ := start(t, nil, "restore", "-check", file); code != exitOK {
		t.Fatalf("exit %d", code)
	}
	st, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, st.Size()-2048); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "restored")
	for _, args := range [][]string{{"restore", file, to}, {"restore", "-check", file}} {
		if code, _, stderr := start(t, nil, args...); code != exitDamaged {
			t.Fatalf("%v: exit %d, %s", args, code, stderr)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(to)); err != nil || len(left) != 0 {
		t.Fatalf("%v left, %v", left, err)
	}
}

func TestADamagedDirectoryIsNotBackedUp(t *testing.T) {
	dir, segment := dataDir(t)
	spoil(t, segment, 30)
	file := filepath.Join(t.TempDir(), "backup")
	if code, _, stderr := start(t, nil, "backup", dir, file); code != exitDamaged || !strings.Contains(stderr, segment) {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 0 {
		t.Fatalf("%v left, %v", left, err)
	}
}

func TestADirectoryInUseIsNotBackedUp(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, dir)
	defer b.Close(context.Background())
	if code, _, stderr := start(t, nil, "backup", dir, filepath.Join(t.TempDir(), "b")); code != exitLocked {
		t.Fatalf("exit %d, %s", code, stderr)
	}
}

func TestARunningBrokerIsBackedUp(t *testing.T) {
	s := newServed(t)
	s.says(exitOK, "push", "-id", "t", "q", "1", "2")
	file := filepath.Join(t.TempDir(), "backup")
	s.has(s.says(exitOK, "backup", s.url, file), "through record ")
	s.says(exitOK, "push", "q", "3")
	to := filepath.Join(t.TempDir(), "restored")
	s.says(exitOK, "restore", file, to)
	b := openBroker(t, to)
	defer b.Close(context.Background())
	res, err := b.Pop(t.Context(), broker.PopRequest{Tenant: broker.DefaultTenant, Queue: "q", Batch: 10, Partitions: 1})
	if err != nil || len(res.Messages) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	s.says(exitFailure, "backup", "http://127.0.0.1:1", filepath.Join(t.TempDir(), "none"))
}
