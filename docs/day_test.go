package docs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dayTime bounds the whole of a day.
const dayTime = 3 * time.Minute

// dayScript is the block of the page under the heading of the day.
func dayScript(t *testing.T) string {
	t.Helper()
	_, rest, found := strings.Cut(read(t, "operations.md"), "\n## A day, as a script\n")
	_, rest, begun := strings.Cut(rest, "\n```sh\n")
	script, _, ended := strings.Cut(rest, "\n```\n")
	if !found || !begun || !ended {
		t.Fatal("operations.md has no script of a day")
	}
	return script
}

// TestADayOfOperations runs the script of operations.md as an operator would.
func TestADayOfOperations(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"curl", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	queend, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "ops"), os.DirFS("ops")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(queend, filepath.Join(dir, "bin", "queend")); err != nil {
		t.Fatal(err)
	}
	want := `without a token: 401
roles hold
up again
the alert fires
nothing that was answered is lost
the backup has what was answered before it
identical
`
	if out := runDay(t, dir); out != want {
		t.Errorf("it says\n%s\nnot\n%s", out, want)
	}
	for _, log := range []string{"vm/log", "elsewhere/log"} {
		for _, secret := range []string{"Bearer", "eyJ", `"n":1`, "day-0", "late"} {
			if strings.Contains(read(t, filepath.Join(dir, log)), secret) {
				t.Errorf("%s has %q in it", log, secret)
			}
		}
	}
}

// runDay runs the script in a directory and returns what it printed.
func runDay(t *testing.T, dir string) string {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	other, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), dayTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "--norc", "--noprofile", "-c", dayScript(t))
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C", "TZ=UTC", "PORT=" + port, "OTHER_PORT=" + other,
		"QUEEN_BIND_ADDR=127.0.0.1", "QUEEN_DISK_HIGH_PCT=99", "QUEEN_DISK_LOW_PCT=98",
	}
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	complaints, err := os.Create(filepath.Join(dir, "err"))
	if err != nil {
		t.Fatal(err)
	}
	defer complaints.Close()
	// Files, and no pipes, which what the script has started would keep open.
	cmd.Stdout, cmd.Stderr = out, complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endAll := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = endAll
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = endAll() }() // nothing is left of it after a good day
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s%s\nthe broker's log:\n%.4000s", err, read(t, out.Name()), read(t, complaints.Name()), read(t, filepath.Join(dir, "vm/log")))
	}
	return read(t, out.Name())
}
