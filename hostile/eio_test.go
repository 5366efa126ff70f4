package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// failSyncs makes every sync of the process fail from now on.
func failSyncs(t *testing.T, n *node) {
	t.Helper()
	cmd := exec.Command(needStrace(t), "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync",
		"-e", "inject=fsync,fdatasync:error=EIO", "-p", fmt.Sprint(n.pid()))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.kill()
		_ = cmd.Wait() // it ends with the process it traces
	})
	until(t, "every thread is traced", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", n.pid()))
		if err != nil || len(threads) == 0 {
			t.Fatalf("no threads: %v", err)
		}
		for _, file := range threads {
			text, err := os.ReadFile(file)
			if err == nil && strings.Contains(string(text), "TracerPid:\t0\n") {
				return false
			}
		}
		return true
	})
}

func TestASyncThatFailsEndsTheProcessAndNothingAnsweredIsLost(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.push("q", "p", "1", "2")
	failSyncs(t, n)
	resp, err := n.client.Post(n.url+"/api/v1/push", "", strings.NewReader(`{"items":[`+item("q", "p", "3", "1")+`]}`))
	if err == nil {
		resp.Body.Close()
		if resp.StatusCode < 500 {
			t.Errorf("a push that could not be synced was answered %d", resp.StatusCode)
		}
	}
	if code := n.ended(patience); code != 5 {
		t.Errorf("exit code %d, want 5", code)
	}
	if !strings.Contains(n.logText(), "input/output error") {
		t.Errorf("the log does not say why:\n%s", n.logTail(10))
	}
	n.boot()
	if got := n.drain("q"); got["1"] != 1 || got["2"] != 1 {
		t.Errorf("drained %v", got)
	}
}

func TestASyncThatFailsAtTheStopEndsWithCode5(t *testing.T) {
	t.Parallel()
	n := start(t, "QUEEN_FSYNC=never")
	n.push("q", "p", "1", "2")
	failSyncs(t, n)
	n.signal(syscall.SIGTERM)
	if code := n.ended(patience); code != 5 {
		t.Errorf("exit code %d, want 5\n%s", code, n.logTail(10))
	}
	n.boot()
	if got := n.drain("q"); len(got) != 2 {
		t.Errorf("drained %v", got)
	}
}
