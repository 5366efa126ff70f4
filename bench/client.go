package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// errLost means that no whole answer came: the request may have been carried
// out or not.
var errLost = errors.New("the answer was lost")

// callLimit bounds one request of a caller.
const callLimit = 20 * time.Second

// conn is one HTTP/1.1 connection with one request in flight. It is written by
// hand because the load generator shares the cores with the broker.
type conn struct {
	net  net.Conn
	in   *bufio.Reader
	out  []byte // the request being built
	body []byte // the last answer
	last bool   // the server will close after the last answer
}

// dial connects to addr.
func dial(ctx context.Context, addr string) (*conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLost, err)
	}
	// A dial to a free port of this host can, rarely, meet itself.
	if c.LocalAddr().String() == c.RemoteAddr().String() {
		_ = c.Close()
		return nil, fmt.Errorf("%w: nobody listens at %s", errLost, addr)
	}
	return &conn{net: c, in: bufio.NewReaderSize(c, 16<<10)}, nil
}

func (c *conn) close() { _ = c.net.Close() }

// call sends a request and returns the answer. The body is valid until the
// next call.
func (c *conn) call(method, path string, body []byte) (int, []byte, error) {
	c.out = appendRequest(c.out[:0], method, path, body)
	return c.roundTrip(c.out)
}

// appendRequest appends a whole request to dst.
func appendRequest(dst []byte, method, path string, body []byte) []byte {
	dst = append(dst, method...)
	dst = append(dst, ' ')
	dst = append(dst, path...)
	dst = append(dst, " HTTP/1.1\r\nHost: queend\r\n"...)
	if body != nil {
		dst = append(dst, "Content-Type: application/json\r\nContent-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(body)), 10)
		dst = append(dst, "\r\n"...)
	}
	dst = append(dst, "\r\n"...)
	return append(dst, body...)
}

// roundTrip sends prepared bytes and returns the answer. The body is valid
// until the next call.
func (c *conn) roundTrip(request []byte) (status int, body []byte, err error) {
	if err := c.send(request); err != nil {
		return 0, nil, err
	}
	return c.receive()
}

// send sends prepared bytes; the answer is to be received before the next ones.
func (c *conn) send(request []byte) error {
	if _, err := c.net.Write(request); err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return nil
}

// receive returns the answer to what was sent. The body is valid until the next
// one.
func (c *conn) receive() (status int, body []byte, err error) {
	status, length, err := c.head()
	if err != nil {
		return 0, nil, err
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	c.body = c.body[:length]
	if _, err := io.ReadFull(c.in, c.body); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errLost, err)
	}
	return status, c.body, nil
}

var (
	lengthName = []byte("content-length:")
	closeLine  = []byte("connection: close")
)

// head reads the status line and the headers of an answer.
func (c *conn) head() (status, length int, err error) {
	line, err := c.line()
	if err != nil {
		return 0, 0, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, 0, fmt.Errorf("not a status line: %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, fmt.Errorf("not a status line: %q", line)
	}
	length = -1
	for {
		line, err := c.line()
		switch {
		case err != nil:
			return 0, 0, err
		case len(line) > 0:
			if err := c.header(line, &length); err != nil {
				return 0, 0, err
			}
		case length >= 0:
			return status, length, nil
		case status == 204:
			return status, 0, nil
		default:
			return 0, 0, fmt.Errorf("an answer of status %d without Content-Length", status)
		}
	}
}

// header takes one header line.
func (c *conn) header(line []byte, length *int) error {
	if len(line) >= len(lengthName) && bytes.EqualFold(line[:len(lengthName)], lengthName) {
		n, err := strconv.Atoi(string(bytes.TrimSpace(line[len(lengthName):])))
		if err != nil || n < 0 {
			return fmt.Errorf("not a length: %q", line)
		}
		*length = n
	}
	if bytes.EqualFold(line, closeLine) {
		c.last = true
	}
	return nil
}

// line reads one header line, without its end.
func (c *conn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, errors.New("a header line is too long")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLost, err)
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// target is the broker as its clients see it: an address that is another one
// after every start, and none while it is down.
type target struct {
	mu   sync.Mutex
	addr string
	up   chan struct{} // closed while there is an address
}

func newTarget() *target { return &target{up: make(chan struct{})} }

// set gives the address; an empty one says that the broker is down.
func (t *target) set(addr string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.addr == "" && addr != "":
		close(t.up)
	case t.addr != "" && addr == "":
		t.up = make(chan struct{})
	}
	t.addr = addr
}

// wait returns the address as soon as there is one.
func (t *target) wait(ctx context.Context) (string, error) {
	for {
		t.mu.Lock()
		addr, up := t.addr, t.up
		t.mu.Unlock()
		if addr != "" {
			return addr, nil
		}
		select {
		case <-up:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// caller sends one request at a time to the target, wherever it is now.
type caller struct {
	target *target
	conn   *conn
	addr   string // of conn
}

// call sends a request, over a new connection if need be, and never twice.
// The body is valid until the next call.
func (c *caller) call(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	addr, err := c.target.wait(ctx)
	if err != nil {
		return 0, nil, err
	}
	if c.conn != nil && (c.addr != addr || c.conn.last) {
		c.close()
	}
	if c.conn == nil {
		if c.conn, err = dial(ctx, addr); err != nil {
			return 0, nil, err
		}
		c.addr = addr
	}
	_ = c.conn.net.SetDeadline(time.Now().Add(callLimit)) // fails on a closed connection only, as the call then does
	status, answer, err := c.conn.call(method, path, body)
	if err != nil {
		c.close()
	}
	return status, answer, err
}

// close ends the connection; the next call makes another one.
func (c *caller) close() {
	if c.conn != nil {
		c.conn.close()
		c.conn = nil
	}
}
