package docs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// bootTime bounds a start, runTime one command.
const (
	bootTime = 30 * time.Second
	runTime  = 30 * time.Second
)

// program builds the broker once for all tests.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "queend-docs-")
	if err != nil {
		return "", err
	}
	cleanups = append(cleanups, func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "queend")
	build := exec.Command("go", "build", "-o", path, "./cmd/queend")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building cmd/queend: %w\n%s", err, out)
	}
	return path, nil
})

var cleanups []func()

func TestMain(m *testing.M) {
	code := m.Run()
	for _, f := range cleanups {
		f()
	}
	os.Exit(code)
}

// broker is the broker of one page.
type broker struct {
	program string
	dir     string // where the page's shell is; holds queen-data
	port    string
	env     []string
	cmd     *exec.Cmd
	exited  chan struct{}
}

func startBroker(t *testing.T, env []string) *broker {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{program: path, dir: t.TempDir(), env: env}
	if err := os.Mkdir(filepath.Join(b.dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(b.dir, "bin", "queend")); err != nil {
		t.Fatal(err)
	}
	// A port may be taken between asking for it and using it.
	for range 4 {
		if b.port, err = freePort(); err != nil {
			t.Fatal(err)
		}
		if err = b.start(); err == nil {
			break
		}
	}
	t.Cleanup(b.kill)
	if err != nil {
		t.Fatalf("%v\n%s", err, b.log())
	}
	return b
}

func freePort() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return strconv.Itoa(ln.Addr().(*net.TCPAddr).Port), nil
}

func (b *broker) address() string { return "127.0.0.1:" + b.port }

// start runs the broker and returns when it is healthy.
func (b *broker) start() error {
	log, err := os.OpenFile(b.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(b.program)
	cmd.Dir = b.dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "PORT=" + b.port, "QUEEN_BIND_ADDR=127.0.0.1",
		// The machine that runs the tests may have a full disk of its own.
		"QUEEN_DISK_HIGH_PCT=99", "QUEEN_DISK_LOW_PCT=98",
	}, b.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	b.cmd, b.exited = cmd, make(chan struct{})
	go func(exited chan struct{}) {
		_ = cmd.Wait() // pages end brokers in every way
		close(exited)
	}(b.exited)
	for end := time.Now().Add(bootTime); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if b.ended() {
			return errors.New("the broker ended during its start")
		}
		resp, err := http.Get("http://" + b.address() + "/health")
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
	}
	return errors.New("the broker did not become healthy")
}

func (b *broker) ended() bool {
	select {
	case <-b.exited:
		return true
	default:
		return false
	}
}

func (b *broker) kill() {
	if b.cmd != nil {
		_ = b.cmd.Process.Kill() // it may have ended
		<-b.exited
	}
}

func (b *broker) logPath() string { return filepath.Join(b.dir, "..", filepath.Base(b.dir)+".log") }

func (b *broker) log() string {
	text, err := os.ReadFile(b.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// shell is the bash that runs the commands of one page.
type shell struct {
	b   *broker
	in  io.Writer
	out *bufio.Reader
	cmd *exec.Cmd
}

// mark ends the output of every command.
const mark = "--end of output--"

func startShell(t *testing.T, b *broker) *shell {
	t.Helper()
	cmd := exec.Command("bash", "--norc", "--noprofile")
	cmd.Dir = b.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "LC_ALL=C", "TZ=UTC",
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &shell{b: b, in: in, out: bufio.NewReader(out), cmd: cmd}
}

// run runs one command and returns what it printed, without the last newline.
func (s *shell) run(script string) (string, error) {
	talks := strings.Contains(script, "localhost:6632") || strings.Contains(script, "$api/")
	if talks && s.b.ended() {
		if err := s.b.start(); err != nil {
			return "", err
		}
	}
	script = strings.ReplaceAll(script, "localhost:6632", s.b.address())
	pid := s.b.cmd.Process.Pid
	if _, err := fmt.Fprintf(s.in, "pidof() { echo %d; }\n%s\necho; echo '%s'\n", pid, script, mark); err != nil {
		return "", err
	}
	late := time.AfterFunc(runTime, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	var text strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			return text.String(), fmt.Errorf("the shell ended: %w", err)
		}
		if line == mark+"\n" {
			break
		}
		text.WriteString(line)
	}
	if strings.Contains(script, "kill") {
		select {
		case <-s.b.exited:
		case <-time.After(runTime):
			return text.String(), errors.New("the broker did not end")
		}
	}
	out := strings.TrimSuffix(strings.TrimSuffix(text.String(), "\n"), "\n")
	return strings.ReplaceAll(out, s.b.address(), "localhost:6632"), nil
}
