package api

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// poorListener fails with the errors given before it does its work.
type poorListener struct {
	net.Listener
	errs []error
}

func (l *poorListener) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
	}
	return l.Listener.Accept()
}

func TestAShortageOfDescriptorsPasses(t *testing.T) {
	inner := listen(t)
	l := newListener(&poorListener{inner, []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}}, 10, func() {})
	defer l.Close()
	client, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestAnotherErrorOfAcceptIsReturned(t *testing.T) {
	l := newListener(&poorListener{listen(t), []error{syscall.EINVAL}}, 10, func() {})
	defer l.Close()
	if _, err := l.Accept(); !errors.Is(err, syscall.EINVAL) {
		t.Fatal(err)
	}
}

func TestCloseEndsAnAcceptThatWaits(t *testing.T) {
	shortage := make([]error, 1000)
	for i := range shortage {
		shortage[i] = syscall.EMFILE
	}
	l := newListener(&poorListener{listen(t), shortage}, 10, func() {})
	ended := make(chan error)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}

func TestAConnectionAboveTheLimitGets503InJSON(t *testing.T) {
	inner := listen(t)
	o := newObserver(0)
	l := newListener(inner, 1, o.refusedConnection)
	defer l.Close()
	accepted := make(chan net.Conn)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	first := <-accepted
	got := readAnswer(t, bufio.NewReader(dial()))
	expectError(t, got, 503, "retry")
	if got.header.Get("Retry-After") != "1" {
		t.Errorf("%v", got.header)
	}
	first.Close()
	first.Close() // counts once
	dial()
	(<-accepted).Close()
	var m dto.Metric
	if err := o.refused.WithLabelValues("connect", "retry").Write(&m); err != nil || m.GetCounter().GetValue() != 1 {
		t.Errorf("refused: %v, %v", &m, err)
	}
}

// The client sends much more than the socket's buffers hold before it reads.
func TestAClientStillSendingReadsItsRefusal(t *testing.T) {
	h := open(t, nil)
	for range 5 {
		c := h.dial()
		const megabytes = 20
		_, _ = io.WriteString(c, "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 20971520\r\n\r\n")
		chunk := strings.Repeat("x", 1<<20)
		for range megabytes {
			if _, err := io.WriteString(c, chunk); err != nil {
				t.Fatal(err)
			}
		}
		expectError(t, readAnswer(t, bufio.NewReader(c)), 413, "too_large")
		c.Close()
	}
}
