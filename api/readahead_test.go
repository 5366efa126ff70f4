package api

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// accepted is a connection as the server has it, and its client.
func accepted(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	l := newListener(listen(t), 10, func() {})
	t.Cleanup(func() { l.Close() })
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*conn), client
}

func TestTheFirstByteBringsTheRestAlong(t *testing.T) {
	c, client := accepted(t)
	if _, err := client.Write([]byte("GET / HTTP")); err != nil {
		t.Fatal(err)
	}
	var first [1]byte
	if n, err := c.Read(first[:]); n != 1 || err != nil || first[0] != 'G' {
		t.Fatalf("%d bytes, %q, %v", n, first, err)
	}
	// Nothing is left in the socket: a read that may not wait still has it all.
	if err := c.Conn.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	rest := make([]byte, 4)
	for _, want := range []string{"ET /", " HTT", "P"} {
		if n, err := c.Read(rest); err != nil || string(rest[:n]) != want {
			t.Fatalf("%q, %v; want %q", rest[:n], err, want)
		}
	}
	if c.ahead.buffer != nil {
		t.Error("a buffer is held though everything was asked for")
	}
	if n, err := c.Read(rest); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestAConnectionThatWaitsHoldsNoBuffer(t *testing.T) {
	c, client := accepted(t)
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	var first [1]byte
	if n, err := c.Read(first[:]); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if c.ahead.buffer != nil {
		t.Error("a buffer is held after a wait for nothing")
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(first[:]); n != 0 || err != io.EOF {
		t.Fatalf("%d bytes, %v after the client has closed", n, err)
	}
	if c.ahead.buffer != nil {
		t.Error("a buffer is held after the end")
	}
}
