package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"time"
)

// redisPeer is Redis with a stream per lane.
type redisPeer struct{ process *process }

func newRedis(dir string) (system, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, &missingError{"redis-server is not installed (make deps-bench installs it)"}
	}
	return &redisPeer{&process{dir: dir, target: newTarget(), ready: redisReady, args: func(port string) (string, []string, []string) {
		return path, []string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--daemonize", "no",
			"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--auto-aof-rewrite-percentage", "0"}, nil
	}}}, nil
}

func redisReady(ctx context.Context, addr string) bool {
	c, err := dialRESP(ctx, addr)
	if err != nil {
		return false
	}
	defer c.close()
	_ = c.net.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := c.net.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := c.line()
	return err == nil && string(line) == "+PONG"
}

func (r *redisPeer) promise() string {
	return "an XADD is answered after the append-only file is synced (appendonly yes, appendfsync always), once for all commands that one turn of the event loop has read; a batch is one pipeline, not atomic; consumers have streams of their own, one XREADGROUP over all of them, its messages acknowledged by XACK in the same pipeline as the next read; no snapshots, no rewrite of the file; no detection of duplicates"
}

func (r *redisPeer) server() *process { return r.process }

func (r *redisPeer) ordered() bool { return true }

func (r *redisPeer) close() {}

func (r *redisPeer) dial(ctx context.Context) (*respConn, error) {
	addr, err := r.process.target.wait(ctx)
	if err != nil {
		return nil, err
	}
	return dialRESP(ctx, addr)
}

// open makes the streams with their group.
func (r *redisPeer) open(ctx context.Context, lanes int) error {
	c, err := r.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	for first := 0; first < lanes; first += 1000 {
		var out []byte
		n := min(1000, lanes-first)
		for lane := first; lane < first+n; lane++ {
			out = appendCommand(out, "XGROUP", "CREATE", laneName(lane), loadGroup, "0", "MKSTREAM")
		}
		if _, err := c.net.Write(out); err != nil {
			return err
		}
		for range n {
			if _, err := c.line(); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendCommand appends a command in the protocol of Redis.
func appendCommand(dst []byte, words ...string) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(words))
	for _, w := range words {
		dst = fmt.Appendf(dst, "$%d\r\n%s\r\n", len(w), w)
	}
	return dst
}

func (r *redisPeer) producer(ctx context.Context, batch int) (producer, error) {
	c, err := r.dial(ctx)
	if err != nil {
		return nil, err
	}
	p := &redisProducer{conn: c}
	for range batch {
		p.request = appendCommand(p.request, "XADD", laneName(0), "*", "d", string(payloadText))
		p.payloads = append(p.payloads, len(p.request)-payloadBytes-2)
		p.lanes = append(p.lanes, bytes.LastIndex(p.request, []byte(laneName(0)+"\r\n"))+1)
	}
	return p, nil
}

// redisProducer sends a pipeline with holes for what changes.
type redisProducer struct {
	conn            *respConn
	request         []byte
	lanes, payloads []int
}

func (p *redisProducer) close() { p.conn.close() }

func (p *redisProducer) push(items []slot, at int64) error {
	for i, s := range items {
		putDecimal(p.request[p.lanes[i]:p.lanes[i]+laneDigits], s.lane)
		fillPayload(p.request[p.payloads[i]:], s, at)
	}
	_ = p.conn.net.SetDeadline(time.Now().Add(callLimit)) // fails on a closed connection only, as the write then does
	if _, err := p.conn.net.Write(p.request); err != nil {
		return err
	}
	for range items {
		if err := p.conn.skipBulk(); err != nil { // the id of the entry
			return err
		}
	}
	return nil
}

func (r *redisPeer) consumer(ctx context.Context, n int, how consumption) (consumer, error) {
	c, err := r.dial(ctx)
	if err != nil {
		return nil, err
	}
	var keys []string
	for lane, step := how.own(n); lane < how.lanes; lane += step {
		keys = append(keys, laneName(lane))
	}
	words := []string{"XREADGROUP", "GROUP", loadGroup, "c" + strconv.Itoa(n), "COUNT", strconv.Itoa(max(1, (how.batch+len(keys)-1)/len(keys)))}
	if how.wait > 0 {
		words = append(words, "BLOCK", strconv.FormatInt(how.wait.Milliseconds(), 10))
	}
	words = append(append(words, "STREAMS"), keys...)
	for range keys {
		words = append(words, ">")
	}
	return &redisConsumer{conn: c, read: appendCommand(nil, words...), limit: callLimit + how.wait}, nil
}

// redisConsumer reads the streams that are its own.
type redisConsumer struct {
	conn  *respConn
	read  []byte
	out   []byte // acks of the last read
	acks  int    // commands in out
	limit time.Duration
}

func (c *redisConsumer) close() { c.conn.close() }

func (c *redisConsumer) take(in *intake) error {
	_ = c.conn.net.SetDeadline(time.Now().Add(c.limit)) // fails on a closed connection only, as the write then does
	began := in.clock.now()
	if _, err := c.conn.net.Write(append(c.out, c.read...)); err != nil {
		return err
	}
	for range c.acks {
		if _, err := c.conn.number(':'); err != nil {
			return err
		}
	}
	c.out, c.acks = c.out[:0], 0
	streams, err := c.conn.number('*')
	if err != nil || streams < 0 {
		return err
	}
	in.arrived(began)
	for range streams {
		if err := c.stream(in); err != nil {
			return err
		}
	}
	in.flush()
	return nil
}

// settle sends the acks that no further read has taken along.
func (c *redisConsumer) settle() error {
	if c.acks == 0 {
		return nil
	}
	if _, err := c.conn.net.Write(c.out); err != nil {
		return err
	}
	for range c.acks {
		if _, err := c.conn.number(':'); err != nil {
			return err
		}
	}
	c.out, c.acks = c.out[:0], 0
	return nil
}

// stream takes the messages of one stream of an answer and prepares their ack.
func (c *redisConsumer) stream(in *intake) error {
	if n, err := c.conn.number('*'); err != nil || n != 2 {
		return errors.Join(err, errRESP)
	}
	key, err := c.conn.bulk(nil)
	if err != nil {
		return err
	}
	entries, err := c.conn.number('*')
	if err != nil {
		return err
	}
	c.out = fmt.Appendf(c.out, "*%d\r\n", entries+3)
	c.out = fmt.Appendf(c.out, "$4\r\nXACK\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(key), key, len(loadGroup), loadGroup)
	c.acks++
	for range entries {
		if n, err := c.conn.number('*'); err != nil || n != 2 {
			return errors.Join(err, errRESP)
		}
		size, err := c.conn.number('$')
		if err != nil {
			return err
		}
		c.out = append(strconv.AppendInt(append(c.out, '$'), int64(size), 10), "\r\n"...)
		if c.out, err = c.conn.appendBytes(c.out, size); err != nil {
			return err
		}
		c.out = append(c.out, "\r\n"...)
		if n, err := c.conn.number('*'); err != nil || n != 2 {
			return errors.Join(err, errRESP)
		}
		if err := c.conn.skipBulk(); err != nil {
			return err
		}
		if err := c.conn.payload(in.message); err != nil {
			return err
		}
	}
	return nil
}

// audit reads every stream with XRANGE.
func (r *redisPeer) audit(ctx context.Context, lanes int, message func([]byte) error) error {
	c, err := r.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	for lane := range lanes {
		from := "-"
		for from != "" {
			if from, err = c.rangeFrom(laneName(lane), from, message); err != nil {
				return fmt.Errorf("stream %s: %w", laneName(lane), err)
			}
		}
	}
	return nil
}

// rangeFrom reads a page of a stream and returns where the next one begins.
func (c *respConn) rangeFrom(key, from string, message func([]byte) error) (next string, err error) {
	if _, err := c.net.Write(appendCommand(nil, "XRANGE", key, from, "+", "COUNT", "1000")); err != nil {
		return "", err
	}
	entries, err := c.number('*')
	if err != nil {
		return "", err
	}
	var last []byte
	for range entries {
		if n, err := c.number('*'); err != nil || n != 2 {
			return "", errors.Join(err, errRESP)
		}
		if last, err = c.bulk(last[:0]); err != nil {
			return "", err
		}
		if n, err := c.number('*'); err != nil || n != 2 {
			return "", errors.Join(err, errRESP)
		}
		if err := c.skipBulk(); err != nil {
			return "", err
		}
		if err := c.payload(message); err != nil {
			return "", err
		}
	}
	if entries == 0 {
		return "", nil
	}
	return "(" + string(last), nil
}

// respConn is one connection to Redis. Like conn it is written by hand, so that
// both cost the load generator about as much.
type respConn struct {
	net net.Conn
	in  *bufio.Reader
}

var errRESP = errors.New("an answer of Redis has another shape")

func dialRESP(ctx context.Context, addr string) (*respConn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &respConn{net: c, in: bufio.NewReaderSize(c, 64<<10)}, nil
}

func (c *respConn) close() { _ = c.net.Close() }

// line reads one line; an error that Redis answers is an error.
func (c *respConn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	line = bytes.TrimRight(line, "\r\n")
	if len(line) == 0 || line[0] == '-' {
		return nil, fmt.Errorf("an answer of Redis: %q", line)
	}
	return line, nil
}

// number reads a line of the given kind; no array is one of -1.
func (c *respConn) number(kind byte) (int, error) {
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("%w: %q", errRESP, line)
	}
	return strconv.Atoi(string(line[1:]))
}

// appendBytes appends n bytes and drops the end of the line behind them.
func (c *respConn) appendBytes(dst []byte, n int) ([]byte, error) {
	text, err := c.in.Peek(n + 2)
	if err != nil {
		return dst, err
	}
	dst = append(dst, text[:n]...)
	_, err = c.in.Discard(n + 2)
	return dst, err
}

// bulk appends a string.
func (c *respConn) bulk(dst []byte) ([]byte, error) {
	n, err := c.number('$')
	if err != nil {
		return dst, err
	}
	return c.appendBytes(dst, n)
}

func (c *respConn) skipBulk() error {
	n, err := c.number('$')
	if err != nil {
		return err
	}
	_, err = c.in.Discard(n + 2)
	return err
}

// payload gives a string to message without copying it.
func (c *respConn) payload(message func([]byte) error) error {
	n, err := c.number('$')
	if err != nil {
		return err
	}
	text, err := c.in.Peek(n + 2)
	if err != nil {
		return err
	}
	if err := message(text[:n]); err != nil {
		return err
	}
	_, err = c.in.Discard(n + 2)
	return err
}
