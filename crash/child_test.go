package crash

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"queend/broker"
	"queend/log"
)

// childSettings is what a broker's process is told.
type childSettings struct {
	Dir    string
	Manual bool
	Ahead  int64
	Sync   log.SyncMode
	Log    bool
}

// syncInterval is that of log.SyncInterval.
const syncInterval = 30 * time.Millisecond

// How the broker ends when its log fails, and when it does not start.
const (
	exitFailed  = 5
	exitRefused = 1 // it did not start
)

// childMain is the broker's process: calls come from stdin, one a line, and
// replies go to stdout.
func childMain(settings string) int {
	var s childSettings
	if err := json.Unmarshal([]byte(settings), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r := &rig{ahead: &atomic.Int64{}}
	r.ahead.Store(s.Ahead)
	cfg := config(s.Dir, r.ahead)
	cfg.Manual, cfg.Sync, cfg.SyncInterval = s.Manual, s.Sync, syncInterval
	cfg.OnFail = func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailed)
	}
	if s.Log {
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	var err error
	if r.b, err = broker.Open(cfg); err != nil {
		fmt.Fprintf(os.Stderr, "open: %v\n", err)
		return 1
	}
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	answer := func(a reply) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(a) // nobody is there to be told
	}
	answer(reply{})
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var c call
		if in.Decode(&c) != nil {
			return 0
		}
		if c.Op == "close" {
			if err := r.b.Close(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return exitFailed
			}
			answer(reply{ID: c.ID})
			return 0
		}
		go func() { answer(r.do(&c)) }()
	}
}

// child is a broker's process.
type child struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	said bytes.Buffer // what it wrote to stderr, to be read when it is gone
	gone chan struct{}

	mu      sync.Mutex
	next    int
	waiting map[int]chan reply
}

// startLimit bounds a start, and endLimit the end of a killed process.
const (
	startLimit = 30 * time.Second
	endLimit   = 10 * time.Second
)

// startChild starts a broker. ok is false when it ended before it was ready.
func startChild(t *testing.T, s childSettings) (c *child, ok bool) {
	t.Helper()
	text, err := json.Marshal(s)
	must(t, err)
	c = &child{t: t, gone: make(chan struct{}), waiting: map[int]chan reply{}}
	c.cmd = exec.Command("/proc/self/exe")
	c.cmd.Env = childEnv(string(text))
	c.cmd.Stderr = io.MultiWriter(&c.said, childLog())
	c.in, err = c.cmd.StdinPipe()
	must(t, err)
	out, err := c.cmd.StdoutPipe()
	must(t, err)
	ready := c.expect(0)
	must(t, c.cmd.Start())
	t.Cleanup(c.kill)
	go c.listen(out)
	select {
	case _, ok = <-ready:
	case <-time.After(startLimit):
		t.Errorf("the broker is not ready after %v", startLimit)
		c.kill()
	}
	return c, ok
}

// childLog is where brokers write to: nowhere, since those that are to fail
// say a lot.
func childLog() io.Writer {
	if os.Getenv("CRASH_LOG") != "" {
		return os.Stderr
	}
	return io.Discard
}

func (c *child) expect(id int) chan reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan reply, 1)
	if c.waiting == nil {
		close(ch)
		return ch
	}
	c.waiting[id] = ch
	return ch
}

// listen hands replies out until the process is gone.
func (c *child) listen(out io.Reader) {
	dec := json.NewDecoder(bufio.NewReader(out))
	for {
		var r reply
		if dec.Decode(&r) != nil {
			break
		}
		c.mu.Lock()
		ch := c.waiting[r.ID]
		delete(c.waiting, r.ID)
		c.mu.Unlock()
		if ch != nil {
			ch <- r
		}
	}
	c.mu.Lock()
	for _, ch := range c.waiting {
		close(ch)
	}
	c.waiting = nil
	c.mu.Unlock()
	_ = c.cmd.Wait() // it was killed, or its log failed
	close(c.gone)
}

// do makes a call. ok is false when the process ended without an answer.
func (c *child) do(what call) (reply, bool) {
	c.mu.Lock()
	c.next++
	what.ID = c.next
	c.mu.Unlock()
	ch := c.expect(what.ID)
	line, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	_, err = c.in.Write(append(line, '\n'))
	c.mu.Unlock()
	if err != nil {
		return reply{}, false
	}
	select {
	case r, ok := <-ch:
		return r, ok
	case <-time.After(patience + 5*time.Second):
		c.t.Errorf("no answer to %q", what.Op)
		return reply{}, false
	}
}

// ended waits for the end of the process and returns its exit code and what
// it said; code is -1 when it was killed.
func (c *child) ended() (code int, said string) {
	select {
	case <-c.gone:
		return c.cmd.ProcessState.ExitCode(), c.said.String()
	case <-time.After(patience):
		c.t.Errorf("process %d does not end", c.cmd.Process.Pid)
		return -1, ""
	}
}

// kill ends the process.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may be gone
	select {
	case <-c.gone:
	case <-time.After(endLimit):
		c.t.Errorf("process %d does not end", c.cmd.Process.Pid)
	}
}
