package conformance

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// bootLimit is how long a broker may take to become healthy.
const bootLimit = 30 * time.Second

// ownBrokers bounds how many brokers besides the shared one run at once.
var ownBrokers = make(chan struct{}, 6)

// broker is one process of the broker on a directory that outlives it.
type broker struct {
	url    string
	dir    string // holds data, buffers and the log of the process
	env    []string
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
}

// newBroker describes a broker that is not started yet.
func newBroker(dir string, env ...string) *broker { return &broker{dir: dir, env: env} }

// startBroker starts a broker with a directory of its own for one test and
// waits until it is healthy. The environment is empty but for env.
func startBroker(t *testing.T, env ...string) *broker {
	t.Helper()
	needBinary(t)
	ownBrokers <- struct{}{}
	t.Cleanup(func() { <-ownBrokers })
	b := newBroker(t.TempDir(), env...)
	t.Cleanup(func() {
		b.end(os.Kill)
		if t.Failed() {
			t.Logf("log of the broker:\n%s", b.logTail(25))
		}
	})
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	return b
}

// needBinary fails the test when there is no binary to start.
func needBinary(t *testing.T) {
	t.Helper()
	if binary == "" {
		t.Fatal("this test starts a broker of its own, which QUEEND_URL does not allow")
	}
}

// start runs the process and returns when /health answers 200. A port taken
// by somebody else in the meantime is replaced by another one.
func (b *broker) start() error {
	var err error
	for range 4 {
		if err = b.launch(); err == nil {
			return nil
		}
		if !strings.Contains(b.logTail(40), "address already in use") {
			break
		}
	}
	return fmt.Errorf("%w\n%s", err, b.logTail(40))
}

// launch makes one attempt of start.
func (b *broker) launch() error {
	port, err := freePort()
	if err != nil {
		return err
	}
	if err := b.spawn(port); err != nil {
		return err
	}
	b.url = "http://127.0.0.1:" + port
	probe := http.Client{Timeout: 2 * time.Second}
	for end := time.Now().Add(bootLimit); time.Now().Before(end); {
		select {
		case <-b.exited:
			return errors.New("the broker ended during its start")
		case <-time.After(15 * time.Millisecond):
		}
		resp, err := probe.Get(b.url + "/health")
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
	}
	b.end(os.Kill)
	return errors.New("the broker did not become healthy")
}

// spawn starts the process without waiting for anything.
func (b *broker) spawn(port string) error {
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(b.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(binary)
	cmd.Dir = b.dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "TMPDIR=" + os.TempDir(),
		"PORT=" + port, "QUEEN_BIND_ADDR=127.0.0.1", "QUEEN_DATA_DIR=" + b.dataDir(),
		"FILE_BUFFER_DIR=" + filepath.Join(b.dir, "buffers"),
		// The machine that runs the tests may have a full disk of its own.
		"QUEEN_DISK_HIGH_PCT=99", "QUEEN_DISK_LOW_PCT=98",
	}, b.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	b.cmd, b.exited = cmd, make(chan struct{})
	go func(done chan struct{}) {
		defer close(done)
		_ = cmd.Wait() // how it ended is read from ProcessState
	}(b.exited)
	return nil
}

// end sends the signal and waits until the process is gone.
func (b *broker) end(sig os.Signal) {
	if b.cmd == nil || b.gone() {
		return
	}
	_ = b.cmd.Process.Signal(sig) // it may end at this very moment
	select {
	case <-b.exited:
	case <-time.After(20 * time.Second):
		_ = b.cmd.Process.Kill()
		<-b.exited
	}
}

// gone tells whether the process has ended.
func (b *broker) gone() bool {
	select {
	case <-b.exited:
		return true
	default:
		return false
	}
}

// Kill ends the broker as a power cut of the process would.
func (b *broker) Kill() { b.end(os.Kill) }

// Stop asks the broker to end and waits for it.
func (b *broker) Stop() { b.end(syscall.SIGTERM) }

// Restart starts the broker again on the same directory. With vars given they
// replace the environment.
func (b *broker) Restart(t *testing.T, vars ...string) *env {
	t.Helper()
	if len(vars) > 0 {
		b.env = vars
	}
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	return newEnv(t, b.url)
}

// refusesToStart runs the broker with env and expects it to end by itself
// with a failure. It returns the log.
func refusesToStart(t *testing.T, env ...string) string {
	t.Helper()
	needBinary(t)
	b := newBroker(t.TempDir(), env...)
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.spawn(port); err != nil {
		t.Fatal(err)
	}
	defer b.end(os.Kill)
	select {
	case <-b.exited:
	case <-time.After(15 * time.Second):
		t.Fatalf("with %v the broker started", env)
	}
	if b.cmd.ProcessState.ExitCode() == 0 {
		t.Fatalf("with %v the broker ended with code 0", env)
	}
	return b.logText()
}

// dataDir is the data directory of the broker.
func (b *broker) dataDir() string { return filepath.Join(b.dir, "data") }

// logPath is the file that takes standard output and error.
func (b *broker) logPath() string { return filepath.Join(b.dir, "broker.log") }

// logText is everything the process printed, over all its starts.
func (b *broker) logText() string {
	text, err := os.ReadFile(b.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// logTail is the end of the log.
func (b *broker) logTail(lines int) string {
	all := strings.Split(strings.TrimRight(b.logText(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
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
