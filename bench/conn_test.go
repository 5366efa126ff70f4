package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestFloorKeepsWhatItAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	a, err := openAppender(path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for j := range 4 {
				if err := a.append(fmt.Appendf(nil, "<%02d.%d>", i, j)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	a.close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		for j := range 4 {
			if strings.Count(string(text), fmt.Sprintf("<%02d.%d>", i, j)) != 1 {
				t.Errorf("%d.%d is not there once", i, j)
			}
		}
	}
}

// served answers one request with text and returns what the client makes of it.
func served(t *testing.T, text string) (int, string, error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for in := bufio.NewReader(c); ; {
			if line, err := in.ReadString('\n'); err != nil || line == "\r\n" {
				break
			}
		}
		_, _ = c.Write([]byte(text))
	}()
	c, err := dial(context.Background(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	status, body, err := c.call("GET", "/", nil)
	return status, string(body), err
}

func TestClientReadsAnswers(t *testing.T) {
	for _, row := range []struct {
		text   string
		status int
		body   string
	}{
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, "hi"},
		{"HTTP/1.1 201 Created\r\ncontent-length:3\r\nX: y\r\n\r\n[1]", 201, "[1]"},
		{"HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
	} {
		status, body, err := served(t, row.text)
		if status != row.status || body != row.body || err != nil {
			t.Errorf("%q: %d %q %v", row.text, status, body, err)
		}
	}
}

func TestClientTellsALostAnswerFromABadOne(t *testing.T) {
	for text, lost := range map[string]bool{
		"":                              true,
		"HTTP/1.1 200 OK\r\nContent-Le": true,
		"HTTP/1.1 200 OK\r\n\r\n":       false,
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi": true,
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n":   false,
		"SSH-2.0-OpenSSH\r\n":                            false,
	} {
		if _, _, err := served(t, text); err == nil || errors.Is(err, errLost) != lost {
			t.Errorf("%q: %v", text, err)
		}
	}
}
