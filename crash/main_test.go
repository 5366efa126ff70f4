package crash

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Variables that tell a copy of the test binary what it is for.
const (
	childVariable = "QUEEND_CRASH_CHILD" // the broker's process; its settings
	innerVariable = "QUEEND_CRASH_INNER" // the tests, with mounts of their own
)

func TestMain(m *testing.M) {
	if settings := os.Getenv(childVariable); settings != "" {
		os.Exit(childMain(settings))
	}
	if os.Getenv("QUEEND_CRASH") != "" && os.Getenv(innerVariable) == "" {
		if code, ok := runInner(); ok {
			os.Exit(code)
		}
	}
	code := m.Run()
	total.print(os.Stderr)
	os.Exit(code)
}

// runInner runs the tests in a process with a mount table of its own: what it
// mounts is gone with it, however it ends. Where that is not allowed, ok is
// false.
func runInner() (code int, ok bool) {
	runtime.LockOSThread() // Pdeathsig is about the thread
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), innerVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "no mount table of our own: %v\n", err)
		return 0, false
	}
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), true
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

// childEnv is the environment of a broker's process.
func childEnv(settings string) []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "GORACE=") {
			env = append(env, pair)
		}
	}
	return append(env, "GORACE=atexit_sleep_ms=0", childVariable+"="+settings)
}
