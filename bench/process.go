package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// bootLimit is how long a process may take to become healthy.
const bootLimit = 2 * time.Minute

// process is one server on a directory that outlives it. It is started again
// under another port each time.
type process struct {
	dir    string
	target *target
	args   func(port string) (path string, args, env []string)
	flags  []string                                    // of a broker, beside its environment
	health string                                      // path that answers 200 when it is ready, for a server of HTTP
	ready  func(ctx context.Context, addr string) bool // for another one
	user   *syscall.Credential                         // who runs it; nil is whoever runs this
	stopBy syscall.Signal                              // what asks it to end; 0 is SIGTERM
	killBy syscall.Signal                              // what ends it at once; 0 is SIGKILL
	tree   bool                                        // it starts processes of its own that do the work

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
	ending atomic.Bool   // we asked for the end
}

// newBroker describes a broker on dir that is not started yet.
func newBroker(binary, dir string, env ...string) (*process, error) {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(binary); err != nil {
		return nil, &usageError{fmt.Errorf("-binary: %w (make build makes one)", err)}
	}
	env = append([]string{
		"QUEEN_BIND_ADDR=127.0.0.1", "QUEEN_DATA_DIR=" + filepath.Join(dir, "data"), "LOG_LEVEL=warn",
		// The machine may have a full disk of its own.
		"QUEEN_DISK_HIGH_PCT=99", "QUEEN_DISK_LOW_PCT=98",
	}, env...)
	p := &process{dir: dir, target: newTarget(), health: "/health"}
	p.args = func(port string) (string, []string, []string) { return binary, p.flags, append(env, "PORT="+port) }
	return p, nil
}

// start runs the process and returns when it is healthy. A port that somebody
// took in the meantime is replaced by another one.
func (p *process) start(ctx context.Context) error {
	var err error
	for range 4 {
		if err = p.launch(ctx); err == nil {
			return nil
		}
		if !strings.Contains(p.logTail(5), "address already in use") {
			break
		}
	}
	return fmt.Errorf("starting %s: %w\n%s", p.dir, err, p.logTail(20))
}

// launch makes one attempt of start.
func (p *process) launch(ctx context.Context) error {
	addr, err := p.spawn()
	if err != nil {
		return err
	}
	for end := time.Now().Add(bootLimit); time.Now().Before(end); {
		select {
		case <-p.exited:
			return fmt.Errorf("the process ended during its start: %v", p.cmd.ProcessState)
		case <-ctx.Done():
			p.kill()
			return context.Cause(ctx)
		case <-time.After(2 * time.Millisecond):
		}
		if p.healthy(ctx, addr) {
			p.target.set(addr)
			return nil
		}
	}
	p.kill()
	return errors.New("the process did not become healthy")
}

// healthy asks once.
func (p *process) healthy(ctx context.Context, addr string) bool {
	if p.ready != nil {
		return p.ready(ctx, addr)
	}
	c, err := dial(ctx, addr)
	if err != nil {
		return false
	}
	defer c.close()
	_ = c.net.SetDeadline(time.Now().Add(2 * time.Second))
	status, _, err := c.call("GET", p.health, nil)
	return err == nil && status == 200
}

// spawn starts the process without waiting for anything.
func (p *process) spawn() (addr string, err error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return "", err
	}
	log, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer log.Close()
	path, args, env := p.args(port)
	cmd := exec.Command(path, args...)
	cmd.Dir = p.dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir}, env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.user}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	p.cmd, p.exited = cmd, make(chan struct{})
	p.ending.Store(false)
	go func(done chan struct{}) {
		defer close(done)
		_ = cmd.Wait() // how it ended is read from ProcessState
	}(p.exited)
	return "127.0.0.1:" + port, nil
}

// kill ends the process as kill -9 does.
func (p *process) kill() { p.end(cmp.Or(p.killBy, syscall.SIGKILL)) }

// stop asks the process to end and waits for it.
func (p *process) stop() { p.end(cmp.Or(p.stopBy, syscall.SIGTERM)) }

// end sends the signal, tells the clients, and waits until the process is gone.
func (p *process) end(sig syscall.Signal) {
	if p.cmd == nil {
		return
	}
	p.ending.Store(true)
	_ = p.cmd.Process.Signal(sig) // it may end at this very moment
	_ = p.resume()                // a paused process would not hear it
	p.target.set("")
	select {
	case <-p.exited:
	case <-time.After(15 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// pause stops the process in its tracks, so that what it does in the background
// is not done at somebody else's cost; resume lets it go on.
func (p *process) pause() error { return p.signal(syscall.SIGSTOP) }

func (p *process) resume() error { return p.signal(syscall.SIGCONT) }

// signal tells all processes of the server.
func (p *process) signal(sig syscall.Signal) error {
	for _, pid := range p.pids() {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

func (p *process) logPath() string { return filepath.Join(p.dir, "process.log") }

// logTail is the end of what the process printed, over all its starts.
func (p *process) logTail(lines int) string {
	text, err := os.ReadFile(p.logPath())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
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
