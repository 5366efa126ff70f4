package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// cutter passes requests on, and ends answers after so many bytes; 0: never.
type cutter struct {
	limit, passed atomic.Int64
}

func (c *cutter) front(t *testing.T, to string) string {
	t.Helper()
	behind, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(behind)
	proxy.ModifyResponse = func(resp *http.Response) error {
		c.passed.Store(0)
		resp.Body = &cut{resp.Body, c}
		return nil
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil { // the proxy's way to end an answer in the middle
				panic(http.ErrAbortHandler)
			}
		}()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL
}

type cut struct {
	io.ReadCloser
	c *cutter
}

func (b *cut) Read(p []byte) (int, error) {
	if limit := b.c.limit.Load(); limit > 0 && b.c.passed.Load() >= limit {
		return 0, io.ErrUnexpectedEOF
	} else if limit > 0 {
		p = p[:min(int64(len(p)), limit-b.c.passed.Load())]
	}
	n, err := b.ReadCloser.Read(p)
	b.c.passed.Add(int64(n))
	return n, err
}

// fill pushes some messages that do not compress.
func (s *served) fill(rnd *rand.Rand, queue string) {
	args := []string{"push", queue}
	for range 30 {
		text := make([]byte, 1500)
		for i := range text {
			text[i] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/"[rnd.IntN(64)]
		}
		args = append(args, fmt.Sprintf("%q", text))
	}
	s.says(exitOK, args...)
}

func TestABackupThatBrokeOffGoesOn(t *testing.T) {
	s, rnd := newServed(t), rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	var c cutter
	front := c.front(t, s.url)
	for _, queue := range []string{"a", "b", "c"} { // each in a segment of its own
		s.fill(rnd, queue)
		s.says(exitOK, "backup", s.url, filepath.Join(dir, "of-"+queue))
	}
	whole, err := os.Stat(filepath.Join(dir, "of-c"))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	for _, limit := range []int64{whole.Size() * 6 / 10, whole.Size() * 5 / 10} {
		c.limit.Store(limit)
		if _, stderr := s.run(exitFailure, "", "backup", front, out); !strings.Contains(stderr, "segment files are kept in "+out+".part") {
			t.Fatalf("cut at %d of %d bytes: %s", limit, whole.Size(), stderr)
		}
		if _, err := os.Stat(out); err == nil {
			t.Fatal("a backup that is not whole has the name of one")
		}
	}
	c.limit.Store(0)
	if said := s.says(exitOK, "backup", front, out); !strings.Contains(said, "fetched before") {
		t.Errorf("%s", said)
	}
	if passed := c.passed.Load(); passed > whole.Size()*7/10 {
		t.Errorf("%d of %d bytes were fetched once more", passed, whole.Size())
	}
	left, err := filepath.Glob(filepath.Join(dir, "out*"))
	if err != nil || len(left) != 1 {
		t.Errorf("%v left, %v", left, err)
	}
	s.says(exitOK, "restore", "-check", out)
	restored := filepath.Join(dir, "restored")
	s.says(exitOK, "restore", out, restored)
	b := openBroker(t, restored)
	defer b.Close(t.Context())
	if n := b.Stats().Storage.SegmentFiles; n != 3 {
		t.Errorf("%d segment files", n)
	}
}

func TestWhatIsKeptOfAnotherBrokerIsRefused(t *testing.T) {
	one, other, rnd := newServed(t), newServed(t), rand.New(rand.NewPCG(3, 4))
	var c cutter
	front := c.front(t, one.url)
	one.fill(rnd, "a")
	other.fill(rnd, "a")
	out := filepath.Join(t.TempDir(), "out")
	one.says(exitOK, "backup", front, out)
	c.limit.Store(c.passed.Load() - 1500)
	if err := os.Remove(out); err != nil {
		t.Fatal(err)
	}
	one.run(exitFailure, "", "backup", front, out)
	if _, stderr := one.run(exitFailure, "", "backup", other.url, out); !strings.Contains(stderr, "another broker: delete "+out+".part") {
		t.Errorf("%s", stderr)
	}
	if err := os.Remove(out + ".part"); err != nil {
		t.Fatal(err)
	}
	one.says(exitOK, "backup", other.url, out)
}
