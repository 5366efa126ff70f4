package api

import (
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
)

// hangups tells handlers that are parked when their clients hang up: one epoll
// instance for all connections, no goroutine for each. A client that closes
// only its sending side counts as gone. A host that vanishes without a word is
// found by TCP keep-alive.
type hangups struct {
	epoll   *os.File
	raw     syscall.RawConn // of epoll
	mu      sync.Mutex
	last    uint64                   // token given last
	waiting map[uint64]chan struct{} // by token
}

// hangupEvents asks for one event per watch. Bytes that the client has sent
// ahead do not hide its hanging up.
const hangupEvents = syscall.EPOLLRDHUP | syscall.EPOLLHUP | syscall.EPOLLONESHOT

// newHangups starts the watcher. Close ends it.
func newHangups() (*hangups, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create: %w", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd)
		return nil, fmt.Errorf("epoll instance: %w", err)
	}
	// An epoll instance can itself be polled, so its goroutine waits in the
	// runtime like one that reads a socket, and Close wakes it.
	h := &hangups{epoll: os.NewFile(uintptr(fd), "hangups"), waiting: map[uint64]chan struct{}{}}
	if h.raw, err = h.epoll.SyscallConn(); err != nil {
		_ = h.epoll.Close()
		return nil, fmt.Errorf("epoll instance: %w", err)
	}
	go h.run()
	return h, nil
}

// Close ends the watcher. Channels that are open then stay so.
func (h *hangups) Close() { _ = h.epoll.Close() }

func (h *hangups) run() {
	events := make([]syscall.EpollEvent, 128)
	for {
		n := 0
		err := h.raw.Read(func(fd uintptr) bool {
			n, _ = syscall.EpollWait(int(fd), events, 0)
			return n > 0
		})
		if err != nil {
			return // closed
		}
		for _, event := range events[:n] {
			h.fire(tokenOf(event))
		}
	}
}

// Watch returns a channel that is closed when the peer of c hangs up, or has
// already. stop must be called before c is closed or watched again; it may be
// called twice. Where watching is not possible, the peer is never gone.
func (h *hangups) Watch(c net.Conn) (gone <-chan struct{}, stop func()) {
	raw := descriptorOf(c)
	ch := make(chan struct{})
	if raw == nil {
		return ch, func() {}
	}
	h.mu.Lock()
	h.last++
	token := h.last
	h.waiting[token] = ch
	h.mu.Unlock()
	if !h.control(raw, syscall.EPOLL_CTL_ADD, token) {
		h.fire(token)
	}
	return ch, sync.OnceFunc(func() {
		h.forget(token)
		// It fails if c was never added, or is closed, and so removed.
		_ = h.control(raw, syscall.EPOLL_CTL_DEL, token)
	})
}

func (h *hangups) fire(token uint64) {
	if ch := h.forget(token); ch != nil {
		close(ch)
	}
}

// forget takes a watch out; it returns nil for one that has fired.
func (h *hangups) forget(token uint64) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.waiting[token]
	delete(h.waiting, token)
	return ch
}

// control changes the instance, holding both descriptors so that neither can be
// closed, and its number used again, meanwhile. It returns false if the
// connection is closed. That the system refuses a watch, for want of memory, or
// that the watcher is closed, is no sign of a client that has gone.
func (h *hangups) control(raw syscall.RawConn, op int, token uint64) (open bool) {
	event := syscall.EpollEvent{Events: hangupEvents, Fd: int32(token), Pad: int32(token >> 32)}
	err := raw.Control(func(fd uintptr) {
		_ = h.raw.Control(func(epoll uintptr) {
			_ = syscall.EpollCtl(int(epoll), op, int(fd), &event)
		})
	})
	return err == nil
}

func tokenOf(event syscall.EpollEvent) uint64 {
	return uint64(uint32(event.Fd)) | uint64(uint32(event.Pad))<<32
}

// Gone reports whether the peer of c has hung up, without taking any byte. It
// cannot see past bytes that were sent ahead; Watch can.
func Gone(c net.Conn) bool {
	raw := descriptorOf(c)
	if raw == nil {
		return false
	}
	gone := false
	err := raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = err == nil && n == 0 || err != nil && err != syscall.EAGAIN && err != syscall.EINTR
	})
	return gone || err != nil
}

// descriptorOf finds the socket under the layers of c, nil if there is none.
func descriptorOf(c net.Conn) syscall.RawConn {
	for {
		switch layer := c.(type) {
		case interface{ NetConn() net.Conn }:
			c = layer.NetConn()
		case syscall.Conn:
			raw, err := layer.SyscallConn()
			if err != nil {
				return nil
			}
			return raw
		default:
			return nil
		}
	}
}
