package api

import (
	"io"
	"net"
	"sync"
	"syscall"
)

// readAhead reads the beginning of a request with one system call. fasthttp waits
// for one byte, so that a connection holds no buffer while nothing comes, and then
// asks for the rest. Here a buffer is taken when the socket has something, filled,
// and given back once fasthttp has asked for all of it.
type readAhead struct {
	socket syscall.RawConn
	try    func(fd uintptr) bool // the method of that name, made once
	buffer *[readBufferBytes]byte
	have   []byte // of buffer, not asked for yet
	err    error  // of the last try
}

var readBuffers = sync.Pool{New: func() any { return new([readBufferBytes]byte) }}

// take moves what was read ahead into b.
func (a *readAhead) take(b []byte) int {
	n := copy(b, a.have)
	if a.have = a.have[n:]; len(a.have) == 0 && a.buffer != nil {
		readBuffers.Put(a.buffer)
		a.buffer, a.have = nil, nil
	}
	return n
}

// fill waits until the socket under c has something and reads it, as far as a
// buffer goes. ok is false when there is no socket to read from, as under TLS.
// Errors are those of c.Read; io.EOF when the client has closed its side.
func (a *readAhead) fill(c net.Conn) (ok bool, err error) {
	if a.socket == nil {
		tcp, is := c.(*net.TCPConn)
		if !is {
			return false, nil
		}
		if a.socket, err = tcp.SyscallConn(); err != nil {
			return true, err
		}
		a.try = a.read
	}
	if err := a.socket.Read(a.try); err != nil {
		return true, err
	}
	return true, a.err
}

// read reads from a socket that does not block. It returns false when nothing is
// there yet, and holds no buffer then.
func (a *readAhead) read(fd uintptr) bool {
	buffer := readBuffers.Get().(*[readBufferBytes]byte)
	n, err := syscall.Read(int(fd), buffer[:])
	for err == syscall.EINTR {
		n, err = syscall.Read(int(fd), buffer[:])
	}
	if a.err = err; n > 0 {
		a.buffer, a.have = buffer, buffer[:n]
		return true
	}
	readBuffers.Put(buffer)
	if n == 0 && err == nil {
		a.err = io.EOF
	}
	return err != syscall.EAGAIN
}
