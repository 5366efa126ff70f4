package linear

import (
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// tight makes a small load meet flushes, merges and checkpoints.
var tight = []string{
	"QUEEN_CHECKPOINT_S=1", "QUEEN_CHECKPOINT_MB=1", "QUEEN_TAIL_MB=1", "QUEEN_SEAL_AGE_S=1", "QUEEN_SEGMENT_BYTES=1048576",
}

// node is one broker process on a directory that outlives it.
type node struct {
	t      *testing.T
	dir    string
	env    []string
	cmd    *exec.Cmd
	exited chan struct{}
	target target
}

// target is where clients find the broker: nowhere while it is down.
type target struct {
	mu   sync.Mutex
	addr string
	life int // counts the starts
}

func (t *target) set(addr string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.addr = addr; addr != "" {
		t.life++
	}
}

func (t *target) get() (addr string, life int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addr, t.life
}

// startNode starts a broker for one test. It is killed when the test ends.
func startNode(t *testing.T, env ...string) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir(), env: env}
	t.Cleanup(func() {
		n.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("log of the broker:\n%s", n.logTail(25))
		}
	})
	if err := n.boot(); err != nil {
		t.Fatal(err)
	}
	return n
}

// boot starts the process and returns when /health answers 200. A port that
// somebody took in the meantime is replaced by another one.
func (n *node) boot() error {
	var err error
	for range 4 {
		if err = n.launch(); err == nil || !strings.Contains(n.logTail(10), "address already in use") {
			return err
		}
	}
	return err
}

func (n *node) launch() error {
	addr, err := n.spawn()
	if err != nil {
		return err
	}
	c := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	for end := time.Now().Add(2 * patience); time.Now().Before(end); {
		select {
		case <-n.exited:
			return errors.New("the broker ended during its start:\n" + n.logTail(25))
		case <-time.After(3 * time.Millisecond):
		}
		resp, err := c.Get("http://" + addr + "/health")
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			n.target.set(addr)
			return nil
		}
	}
	n.end(syscall.SIGKILL)
	return errors.New("the broker did not become healthy")
}

// spawn starts the process without waiting for anything.
func (n *node) spawn() (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	addr = l.Addr().String()
	_ = l.Close()
	out, err := os.OpenFile(n.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer out.Close()
	_, port, _ := net.SplitHostPort(addr) // it is one
	cmd := exec.Command(binary)
	cmd.Dir = n.dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir, "TMPDIR=" + os.TempDir(),
		"PORT=" + port, "QUEEN_BIND_ADDR=127.0.0.1", "QUEEN_DATA_DIR=" + filepath.Join(n.dir, "data"), "LOG_LEVEL=warn",
		// The machine that runs the tests may have a full disk of its own.
		"QUEEN_DISK_HIGH_PCT=99", "QUEEN_DISK_LOW_PCT=98",
	}, n.env...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	n.cmd, n.exited = cmd, make(chan struct{})
	go func(done chan struct{}) {
		defer close(done)
		_ = cmd.Wait() // how it ended is read from ProcessState
	}(n.exited)
	return addr, nil
}

// end sends a signal that ends the process and waits until it is gone.
func (n *node) end(sig syscall.Signal) {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Signal(sig) // it may have ended already
	select {
	case <-n.exited:
	case <-time.After(patience):
		_ = n.cmd.Process.Kill()
		<-n.exited
	}
	n.target.set("")
}

// signal sends a signal that does not end the process.
func (n *node) signal(sig syscall.Signal) {
	n.t.Helper()
	if err := n.cmd.Process.Signal(sig); err != nil {
		n.t.Fatal(err)
	}
}

// gone reports whether the process has ended by itself.
func (n *node) gone() bool {
	select {
	case <-n.exited:
		return true
	default:
		return false
	}
}

func (n *node) logPath() string { return filepath.Join(n.dir, "broker.log") }

// logTail is the end of what the process printed, over all its starts.
func (n *node) logTail(lines int) string {
	text, err := os.ReadFile(n.logPath())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
