package api

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// bodies bounds the memory of request bodies. Room for one is allocated by its
// announced length before any of it has come, so it is that length that has to
// fit, until the request is answered. Who does not fit waits, and in the end
// gets 429. Small bodies are free: the limit of connections bounds them. Large
// ones are counted apart from the others, so that they cannot keep those out.
type bodies struct {
	most  int           // larger ones are refused anyway
	hold  time.Duration // how long a body waits for room
	large budget
	other budget
	items budget        // of what bodies are made into
	stop  chan struct{} // closed when the server shuts down
	once  sync.Once

	mu     sync.Mutex
	shares map[*fasthttp.RequestHeader]*share // of requests that are being read
}

const (
	smallBody = 64 << 10 // up to it a body is not counted
	largeBody = 4 << 20  // above it a body counts as large

	largeBodies = 4         // of the highest size that fit at a time
	otherBytes  = 128 << 20 // all others together

	itemBytes  = 1 << 10 // that an item takes while it is carried out, beyond its body
	itemsBytes = 1 << 30 // of all requests together
)

// share is the room that one body has.
type share struct {
	of      *budget
	bytes   int64
	in      chan struct{} // closed when there was room
	refused bool          // there was none in time
	expiry  *time.Timer   // while the body is read
}

func newBodies(most int, hold time.Duration) *bodies {
	return &bodies{
		most: most, hold: hold, stop: make(chan struct{}), shares: map[*fasthttp.RequestHeader]*share{},
		large: budget{free: int64(most) * largeBodies}, other: budget{free: otherBytes}, items: budget{free: itemsBytes},
	}
}

// received is called when the header of a request has been read and before its
// body is. A client that asks for leave to send is answered by expect.
func (b *bodies) received(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	b.done(header) // the one before it on this connection, if its reading broke off
	if string(header.Peek("Expect")) == "100-continue" || b.enter(header) {
		// The time that was spent waiting is not the client's.
		return fasthttp.RequestConfig{ReadTimeout: readTimeout}
	}
	return fasthttp.RequestConfig{MaxRequestBodySize: 1} // malformed answers
}

// enter waits for room; false when there is none in time.
func (b *bodies) enter(header *fasthttp.RequestHeader) bool {
	length := header.ContentLength()
	switch {
	case length == chunkedLength:
		length = b.most
	case length <= smallBody || length > b.most:
		return true
	}
	s := b.room(int64(length))
	b.wait(s)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shares[header] = s
	// Until then the body has come or its reading has ended, of which nobody
	// may be told.
	s.expiry = time.AfterFunc(readTimeout+time.Second, func() { b.expire(header, s) })
	return !s.refused
}

// chunkedLength is what fasthttp gives as the length of a body in chunks.
const chunkedLength = -1

// room joins the line for so many bytes.
func (b *bodies) room(bytes int64) *share {
	if bytes > largeBody {
		return b.large.enter(bytes)
	}
	return b.other.enter(bytes)
}

// unpack waits for room for the items of a body, which take many times what
// they take in it when they are small; false when there is none in time. There
// are at most as many as opening braces. The caller must release the share.
func (b *bodies) unpack(body []byte) (s *share, ok bool) {
	if len(body) <= smallBody {
		return nil, true
	}
	items := int64(bytes.Count(body, []byte("{")))
	s = b.items.enter(min(items*itemBytes, itemsBytes))
	return s, b.wait(s)
}

// wait returns false, and marks the share, when there was no room in time.
func (b *bodies) wait(s *share) bool {
	select {
	case <-s.in:
		return true
	default:
	}
	hold := time.NewTimer(b.hold)
	defer hold.Stop()
	select {
	case <-s.in:
		return true
	case <-hold.C:
	case <-b.stop:
	}
	s.of.leave(s)
	s.refused = true
	return false
}

// take returns the share of a request that is being read, nil if it has none.
// Whoever takes it must release it.
func (b *bodies) take(header *fasthttp.RequestHeader) *share {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shares[header]
	if s != nil {
		s.expiry.Stop()
		delete(b.shares, header)
	}
	return s
}

// done ends the reading of a request, and reports whether it was refused.
func (b *bodies) done(header *fasthttp.RequestHeader) (refused bool) {
	s := b.take(header)
	s.release()
	return s != nil && s.refused
}

func (b *bodies) expire(header *fasthttp.RequestHeader, s *share) {
	b.mu.Lock()
	held := b.shares[header] == s
	if held {
		delete(b.shares, header)
	}
	b.mu.Unlock()
	if held {
		s.release()
	}
}

// close lets nobody wait any longer.
func (b *bodies) close() { b.once.Do(func() { close(b.stop) }) }

// release gives the room back. A nil share has none.
func (s *share) release() {
	if s != nil && !s.refused {
		s.of.leave(s)
	}
}

// shrink gives back what a body of so many bytes does not need.
func (s *share) shrink(bytes int) {
	if s != nil && int64(bytes) < s.bytes {
		s.of.shrink(s, int64(bytes))
	}
}

// budget hands out bytes, first come first served.
type budget struct {
	mu   sync.Mutex
	free int64
	line []*share
}

func (b *budget) enter(bytes int64) *share {
	s := &share{of: b, bytes: bytes, in: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.line = append(b.line, s)
	b.advance()
	return s
}

// leave takes a share out, whether it came in or not.
func (b *budget) leave(s *share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.line, s); i >= 0 {
		b.line = slices.Delete(b.line, i, i+1)
	} else {
		b.free += s.bytes
	}
	b.advance()
}

func (b *budget) shrink(s *share, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += s.bytes - bytes
	s.bytes = bytes
	b.advance()
}

func (b *budget) advance() {
	for len(b.line) > 0 && b.line[0].bytes <= b.free {
		b.free -= b.line[0].bytes
		close(b.line[0].in)
		b.line = slices.Delete(b.line, 0, 1)
	}
}
