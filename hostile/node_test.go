package hostile

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long anything may take that should take no time. It is only
// spent when something is broken.
const patience = 30 * time.Second

// node is one process of the broker on a directory that outlives it.
type node struct {
	t      *testing.T
	url    string
	addr   string
	dir    string // holds data, buffers and the log of the process
	data   string
	env    []string
	wrap   []string // command in front of the binary
	files  int      // ulimit -n, 0: as it is
	cmd    *exec.Cmd
	exited chan struct{}
	client *http.Client
}

// newNode describes a broker that is not started yet.
func newNode(t *testing.T, env ...string) *node {
	t.Helper()
	noteSources()
	dir := t.TempDir()
	n := &node{t: t, dir: dir, data: filepath.Join(dir, "data"), env: env}
	n.client = &http.Client{Timeout: 2 * patience, Transport: &http.Transport{
		MaxIdleConnsPerHost: 64, DisableCompression: true,
	}}
	t.Cleanup(func() {
		n.client.CloseIdleConnections()
		n.end(os.Kill)
		if t.Failed() {
			t.Logf("log of the broker:\n%s", n.logTail(25))
		}
	})
	return n
}

// start starts a broker for one test and waits until it is healthy. Its
// environment is empty but for env.
func start(t *testing.T, env ...string) *node {
	t.Helper()
	n := newNode(t, env...)
	n.boot()
	return n
}

// boot starts the process and returns when /health answers 200.
func (n *node) boot() {
	n.t.Helper()
	var err error
	for range 4 {
		if err = n.launch(); err == nil {
			return
		}
		if !strings.Contains(n.logTail(40), "address already in use") {
			break
		}
	}
	n.t.Fatalf("%v\n%s", err, n.logTail(40))
}

func (n *node) launch() error {
	if err := n.spawn(); err != nil {
		return err
	}
	for end := time.Now().Add(2 * patience); time.Now().Before(end); {
		select {
		case <-n.exited:
			return errors.New("the broker ended during its start")
		case <-time.After(10 * time.Millisecond):
		}
		resp, err := n.client.Get(n.url + "/health")
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
	}
	n.end(os.Kill)
	return errors.New("the broker did not become healthy")
}

// spawn starts the process without waiting for anything.
func (n *node) spawn() error {
	port, err := freePort()
	if err != nil {
		return err
	}
	n.addr = "127.0.0.1:" + port
	n.url = "http://" + n.addr
	out, err := os.OpenFile(n.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	argv := append(append([]string{}, n.wrap...), binary)
	if n.files > 0 {
		argv = append([]string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$@"`, n.files), "sh"}, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = n.dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir, "TMPDIR=" + os.TempDir(),
		"PORT=" + port, "QUEEN_BIND_ADDR=127.0.0.1", "QUEEN_DATA_DIR=" + n.data,
		"FILE_BUFFER_DIR=" + filepath.Join(n.dir, "buffers"),
		// The machine that runs the tests may have a full disk of its own.
		"QUEEN_DISK_HIGH_PCT=99", "QUEEN_DISK_LOW_PCT=98",
	}, n.env...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return err
	}
	n.cmd, n.exited = cmd, make(chan struct{})
	go func(done chan struct{}) {
		defer close(done)
		_ = cmd.Wait() // how it ended is read from ProcessState
	}(n.exited)
	return nil
}

// end sends the signal and waits until the process is gone.
func (n *node) end(sig os.Signal) {
	if n.cmd == nil || n.gone() {
		return
	}
	if len(n.wrap) > 0 {
		// The tracer ends with what it traces, not the other way round.
		_ = syscall.Kill(n.pid(), sig.(syscall.Signal))
	} else {
		_ = n.cmd.Process.Signal(sig) // it may end at this very moment
	}
	select {
	case <-n.exited:
	case <-time.After(patience):
		_ = n.cmd.Process.Kill()
		<-n.exited
	}
}

// ended waits until the process ends by itself and returns its exit code.
func (n *node) ended(within time.Duration) int {
	n.t.Helper()
	select {
	case <-n.exited:
	case <-time.After(within):
		n.t.Fatalf("the process did not end within %v", within)
	}
	return n.cmd.ProcessState.ExitCode()
}

func (n *node) gone() bool {
	select {
	case <-n.exited:
		return true
	default:
		return false
	}
}

// kill ends the process at once, and boot starts the next one.
func (n *node) kill() { n.end(os.Kill) }

func (n *node) restart() {
	n.t.Helper()
	n.kill()
	n.boot()
}

func (n *node) logPath() string { return filepath.Join(n.dir, "broker.log") }

func (n *node) logText() string {
	text, err := os.ReadFile(n.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (n *node) logTail(lines int) string {
	all := strings.Split(strings.TrimRight(n.logText(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// pid is the number of the broker itself, which strace may have started.
func (n *node) pid() int {
	n.t.Helper()
	if len(n.wrap) == 0 {
		return n.cmd.Process.Pid
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", n.cmd.Process.Pid))
	if err != nil {
		n.t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		n.t.Fatalf("children of the tracer: %q", text)
	}
	return child
}

// memory returns the resident bytes of the process and their highest value.
func (n *node) memory() (now, peak int64) {
	n.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.pid()))
	if err != nil {
		n.t.Fatal(err)
	}
	field := func(name string) int64 {
		_, rest, _ := strings.Cut(string(text), name+":")
		words := strings.Fields(rest)
		if len(words) == 0 {
			n.t.Fatalf("no %s in the status of the process", name)
		}
		kb, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			n.t.Fatal(err)
		}
		return kb << 10
	}
	return field("VmRSS"), field("VmHWM")
}

// cpu returns the processor time the process has used.
func (n *node) cpu() time.Duration {
	n.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.pid()))
	if err != nil {
		n.t.Fatal(err)
	}
	// The second field is the command in parentheses; utime and stime are the
	// 14th and 15th, in hundredths of a second.
	_, rest, _ := strings.Cut(string(text), ") ")
	words := strings.Fields(rest)
	user, _ := strconv.ParseInt(words[11], 10, 64)
	system, _ := strconv.ParseInt(words[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// signal sends a signal to the process.
func (n *node) signal(sig syscall.Signal) {
	n.t.Helper()
	if err := syscall.Kill(n.pid(), sig); err != nil {
		n.t.Fatal(err)
	}
}

// freePort asks the system for a port nobody listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// until polls a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("in vain: %s", what)
}
