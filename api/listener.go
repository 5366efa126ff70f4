package api

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// maxReserved is how many file descriptors are kept for files at most.
const maxReserved = 1000

// connectionLimit is how many connections the process may have open: what the
// system allows in file descriptors, less those kept for files.
func connectionLimit() (int, error) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	allowed := int(min(files.Cur, 1<<20))
	return allowed - min(maxReserved, allowed/2), nil
}

// listener accepts connections until it is closed. It waits when the system is
// out of descriptors or memory, which passes, rather than give up, and answers
// 503 itself above the limit of connections.
type listener struct {
	net.Listener
	limit   int64
	open    atomic.Int64
	refused func() // told of every connection above the limit
	closed  chan struct{}
	once    sync.Once
}

func newListener(ln net.Listener, limit int, refused func()) *listener {
	return &listener{Listener: ln, limit: int64(limit), refused: refused, closed: make(chan struct{})}
}

const (
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
)

// Accept returns the next connection within the limit.
func (l *listener) Accept() (net.Conn, error) {
	pause := firstPause
	for {
		c, err := l.Listener.Accept()
		switch {
		case err == nil && l.open.Add(1) > l.limit:
			l.open.Add(-1)
			l.refused()
			refuse(c)
		case err == nil:
			return &conn{Conn: c, open: &l.open}, nil
		case !passes(err):
			return nil, err
		default:
			if !l.wait(pause) {
				return nil, net.ErrClosed
			}
			pause = min(2*pause, longestPause)
		}
	}
}

// passes reports whether accepting may work again later.
func passes(err error) bool {
	for _, shortage := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, shortage) {
			return true
		}
	}
	return false
}

// wait returns false when the listener was closed meanwhile.
func (l *listener) wait(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.closed:
		return false
	}
}

// Close ends Accept.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

const overloaded = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n" +
	"Retry-After: 1\r\nContent-Length: 47\r\n\r\n" + `{"error":"too many connections","code":"retry"}`

// refuse answers 503 and closes. It must not hold up Accept: a fresh TCP
// connection has room for the answer, but TLS would wait for the client first.
func refuse(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteDeadline(time.Now().Add(firstPause))
		_, _ = io.WriteString(tcp, overloaded)
	}
	_ = c.Close()
}

// conn is an accepted connection. It is counted until it is closed.
type conn struct {
	net.Conn
	open   *atomic.Int64
	closed atomic.Bool
	linger atomic.Bool
	undo   func()    // see unwritten; used by the connection's goroutine only
	ahead  readAhead // likewise
}

// NetConn returns the connection below, as tls.Conn does.
func (c *conn) NetConn() net.Conn { return c.Conn }

// lingerTime and lingerBytes bound what a refused request may go on sending.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 256 << 20
)

// lingerOn makes Close read on for a while. A request that was refused before
// it was read to its end leaves bytes behind, and closing over unread bytes
// resets the connection, by which the client may lose the answer.
func lingerOn(c net.Conn) {
	if c, ok := c.(*conn); ok {
		c.linger.Store(true)
	}
}

// Close closes the connection.
func (c *conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return net.ErrClosed
	}
	defer c.open.Add(-1)
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && c.linger.Load() && half.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
	}
	return c.Conn.Close()
}
