package api

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"
)

// pair returns the two ends of a TCP connection.
func pair(t *testing.T) (server, client *net.TCPConn) {
	t.Helper()
	ln := listen(t)
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		s.Close()
	})
	return s.(*net.TCPConn), c.(*net.TCPConn)
}

func watcher(t *testing.T) *hangups {
	t.Helper()
	h, err := newHangups()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func expectGone(t *testing.T, gone <-chan struct{}) {
	t.Helper()
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatal("nobody noticed")
	}
}

func expectThere(t *testing.T, gone <-chan struct{}) {
	t.Helper()
	select {
	case <-gone:
		t.Fatal("taken for gone")
	default:
	}
}

func TestEveryWayOfHangingUpIsNoticed(t *testing.T) {
	h := watcher(t)
	for name, hangUp := range map[string]func(c *net.TCPConn){
		"close": func(c *net.TCPConn) { c.Close() },
		"reset": func(c *net.TCPConn) {
			_ = c.SetLinger(0)
			c.Close()
		},
		"half":              func(c *net.TCPConn) { _ = c.CloseWrite() },
		"after bytes ahead": func(c *net.TCPConn) { _, _ = io.WriteString(c, "GET /"); c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			server, client := pair(t)
			gone, stop := h.Watch(server)
			defer stop()
			expectThere(t, gone)
			hangUp(client)
			expectGone(t, gone)
		})
	}
}

func TestAClientThatWasGoneBeforeTheWatchIsNoticed(t *testing.T) {
	h := watcher(t)
	server, client := pair(t)
	client.Close()
	gone, stop := h.Watch(server)
	defer stop()
	expectGone(t, gone)
}

func TestBytesSentAheadAreNoHangup(t *testing.T) {
	h := watcher(t)
	server, client := pair(t)
	gone, stop := h.Watch(server)
	defer stop()
	_, _ = io.WriteString(client, "GET / HTTP/1.1\r\n\r\n")
	// A second client whose hanging up is seen proves that the watcher looked.
	other, otherClient := pair(t)
	otherGone, otherStop := h.Watch(other)
	defer otherStop()
	otherClient.Close()
	expectGone(t, otherGone)
	expectThere(t, gone)
	text := make([]byte, 18)
	if _, err := io.ReadFull(server, text); err != nil {
		t.Fatalf("the bytes are lost: %v", err)
	}
}

func TestAConnectionCanBeWatchedAgain(t *testing.T) {
	h := watcher(t)
	server, client := pair(t)
	for range 3 {
		gone, stop := h.Watch(server)
		expectThere(t, gone)
		stop()
		stop()
	}
	first, stopFirst := h.Watch(server)
	stopFirst()
	second, stopSecond := h.Watch(server)
	stopFirst()
	defer stopSecond()
	client.Close()
	expectGone(t, second)
	expectThere(t, first)
	if len(h.waiting) != 0 {
		t.Errorf("%d watches are left", len(h.waiting))
	}
}

func TestManyHangupsAtOnceAreAllNoticed(t *testing.T) {
	h := watcher(t)
	const n = 400 // more than one batch of events
	var gones []<-chan struct{}
	var clients []net.Conn
	for range n {
		server, client := pair(t)
		gone, stop := h.Watch(server)
		defer stop()
		gones, clients = append(gones, gone), append(clients, client)
	}
	for _, c := range clients {
		c.Close()
	}
	for _, gone := range gones {
		expectGone(t, gone)
	}
}

func TestAClosedConnectionIsGone(t *testing.T) {
	h := watcher(t)
	server, _ := pair(t)
	server.Close()
	gone, stop := h.Watch(server)
	defer stop()
	expectGone(t, gone)
	if !Gone(server) {
		t.Error("Gone does not see it")
	}
}

func TestGoneTakesNoBytes(t *testing.T) {
	server, client := pair(t)
	if Gone(server) {
		t.Fatal("gone at once")
	}
	_, _ = io.WriteString(client, "x")
	client.Close()
	one := make([]byte, 1)
	Gone(server)
	if n, err := server.Read(one); n != 1 || err != nil || one[0] != 'x' {
		t.Fatalf("read %q, %v", one[:n], err)
	}
	if _, err := server.Read(one); err != io.EOF {
		t.Fatal(err)
	}
	if !Gone(server) {
		t.Error("not gone after the end")
	}
}

func TestTheSocketIsFoundUnderTLSAndOurOwnLayer(t *testing.T) {
	server, _ := pair(t)
	if descriptorOf(&conn{Conn: tls.Client(server, &tls.Config{})}) == nil {
		t.Error("not found")
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	h := watcher(t)
	gone, stop := h.Watch(a)
	defer stop()
	expectThere(t, gone)
	if Gone(a) {
		t.Error("a pipe has no socket and cannot be gone")
	}
}
