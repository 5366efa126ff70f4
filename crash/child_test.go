package crash

import (
	"bufio"
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
)

// childSettings is what a broker's process is told.
type childSettings struct {
	Dir    string
	Manual bool
	Ahead  int64
	Log    bool
}

// exitFailed is how the broker ends when its log fails.
const exitFailed = 5

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
	cfg.Manual = s.Manual
	cfg.OnFail = func(error) { os.Exit(exitFailed) }
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
				answer(reply{ID: c.ID, Err: err.Error()})
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
	c.cmd.Stderr = os.Stderr
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

// kill ends the process.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may be gone
	select {
	case <-c.gone:
	case <-time.After(endLimit):
		c.t.Errorf("process %d does not end", c.cmd.Process.Pid)
	}
}
