// Package packaging holds what makes queend a service: a unit for systemd, a
// Dockerfile, and what make release needs. Its tests have the real programs
// look at them.
package packaging

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program builds the broker as make build does.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "queend-packaging-")
	if err != nil {
		return "", err
	}
	built = dir
	out, err := exec.Command("make", "-C", "..", "build", "BIN="+dir, "VERSION=v9.8.7-test").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("make build: %w\n%s", err, out)
	}
	return filepath.Join(dir, "queend"), nil
})

var built string // directory of the program, to be removed

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built) // under the system's directory for such
	}
	os.Exit(code)
}

func queend(t *testing.T) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// have returns the path of a program, or skips the test.
func have(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip(name + " is missing")
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheProgramIsStaticAndKnowsItsVersion(t *testing.T) {
	path := queend(t)
	out, err := exec.Command(path, "-version").Output()
	if err != nil || !strings.HasPrefix(string(out), "queend v9.8.7-test ") {
		t.Errorf("%v: %s", err, out)
	}
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if file.Section(".interp") != nil {
		t.Error("the program asks for a dynamic linker")
	}
}

// TestAReleaseIsWhole makes one and looks at every file of it.
func TestAReleaseIsWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds for another machine")
	}
	dist := filepath.Join(t.TempDir(), "dist")
	if out, err := exec.Command("make", "-C", "..", "release", "DIST="+dist, "VERSION=v9.8.7-test").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sums := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	sums.Dir = dist
	if out, err := sums.CombinedOutput(); err != nil || bytes.Count(out, []byte(": OK")) != 6 {
		t.Errorf("%v\n%s", err, out)
	}
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		name := filepath.Join(dist, "queend-linux-"+arch)
		program, err := elf.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if libraries, err := program.ImportedLibraries(); program.Machine != machine || len(libraries) > 0 || err != nil {
			t.Errorf("%s is for %v and needs %v, %v", name, program.Machine, libraries, err)
		}
		program.Close()
		var bom struct {
			Format   string `json:"bomFormat"`
			Metadata struct {
				Component struct{ Name, Version string }
			}
			Components []struct{ Name, Version string }
		}
		if err := json.Unmarshal([]byte(read(t, name+".cdx.json")), &bom); err != nil {
			t.Fatal(err)
		}
		if bom.Format != "CycloneDX" || bom.Metadata.Component.Name != "queend" || bom.Metadata.Component.Version != "v9.8.7-test" || len(bom.Components) < 10 {
			t.Errorf("the bill of materials of %s is %+v", arch, bom)
		}
		list, err := exec.Command("tar", "-tzf", name+".tar.gz").Output()
		want := []string{"", "_queend", "queend", "queend.1", "queend.bash", "queend.service", "queend.sysusers"}
		for i := range want {
			want[i] = "queend-linux-" + arch + "/" + want[i]
		}
		if got := strings.Fields(string(list)); err != nil || !slices.Equal(got, want) {
			t.Errorf("the archive of %s has %v, %v", arch, got, err)
		}
	}
}

// TestSystemdTakesTheUnit has systemd check the unit, with the path of the
// program replaced by one that is there.
func TestSystemdTakesTheUnit(t *testing.T) {
	analyze := have(t, "systemd-analyze")
	unit := filepath.Join(t.TempDir(), "queend.service")
	text := read(t, "queend.service")
	if !strings.Contains(text, "\nExecStart=/usr/local/bin/queend\n") {
		t.Fatal("the unit starts another program")
	}
	text = strings.Replace(text, "ExecStart=/usr/local/bin/queend", "ExecStart="+queend(t), 1)
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("verify: %v\n%s", err, out)
	}
	// In tenths; below 20 is what systemd calls OK.
	if out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", "--threshold=20", unit).CombinedOutput(); err != nil {
		t.Errorf("security: %v\n%s", err, out)
	}
}

// TestTheUnitAllowsWhatTheBrokerCalls compares the system calls of a broker
// that does what brokers do with those that the unit allows.
func TestTheUnitAllowsWhatTheBrokerCalls(t *testing.T) {
	analyze := have(t, "systemd-analyze")
	allowed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^SystemCallFilter=(~?)(.+)$`).FindAllStringSubmatch(read(t, "queend.service"), -1) {
		for _, set := range strings.Fields(m[2]) {
			for _, call := range callsOf(t, analyze, set) {
				allowed[call] = m[1] == ""
			}
		}
	}
	made := traced(t)
	if len(allowed) < 200 || len(made) < 30 {
		t.Fatalf("%d calls allowed, %d made", len(allowed), len(made))
	}
	for call := range made {
		if !allowed[call] {
			t.Errorf("the broker calls %s, which the unit does not allow", call)
		}
	}
}

// callsOf are the system calls of a set and of those within it.
func callsOf(t *testing.T, analyze, set string) (calls []string) {
	t.Helper()
	out, err := exec.Command(analyze, "syscall-filter", "--no-pager", set).Output()
	if err != nil {
		t.Fatalf("%s: %v", set, err)
	}
	for line := range strings.Lines(string(out)) {
		switch word := strings.TrimSpace(line); {
		case !strings.HasPrefix(line, " ") || word == "" || word[0] == '#':
		case word[0] == '@':
			calls = append(calls, callsOf(t, analyze, word)...)
		default:
			calls = append(calls, word)
		}
	}
	return calls
}

// traced runs a broker twice on one directory and returns what it called.
func traced(t *testing.T) map[string]bool {
	t.Helper()
	strace := have(t, "strace")
	dir := t.TempDir()
	calls := map[string]bool{}
	for range 2 {
		trace := filepath.Join(dir, "trace")
		b := start(t, dir, strace, "-f", "-qq", "-o", trace, queend(t))
		b.post("/api/v1/push", `{"items":[{"queue":"q","payload":{"n":1}},{"queue":"q","partition":"p","payload":2}]}`)
		b.get("/api/v1/pop/queue/q?wait=true&timeout=2000&autoAck=true&partitions=9")
		b.get("/api/v1/pop/queue/q?wait=true&timeout=200")
		b.post("/api/v1/system/maintenance", `{"enabled":true}`)
		b.post("/api/v1/push", `{"items":[{"queue":"q","payload":3}]}`)
		b.post("/api/v1/system/maintenance", `{"enabled":false}`)
		b.get("/api/v1/messages?queue=q")
		b.get("/metrics/prometheus")
		b.stop()
		name := regexp.MustCompile(`(?m)^\d+ +([a-z_0-9]+)\(`)
		for _, m := range name.FindAllStringSubmatch(read(t, trace), -1) {
			calls[m[1]] = true
		}
	}
	return calls
}

// running is a broker under test, behind strace or not.
type running struct {
	t    *testing.T
	cmd  *exec.Cmd
	base string
}

func start(t *testing.T, dir string, command ...string) *running {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := &running{t: t, base: "http://127.0.0.1:" + port, cmd: exec.Command(command[0], command[1:]...)}
	b.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "PORT=" + port, "QUEEN_BIND_ADDR=127.0.0.1", "QUEEN_DATA_DIR=" + filepath.Join(dir, "data"),
		"QUEEN_DISK_HIGH_PCT=99", "QUEEN_DISK_LOW_PCT=98",
	}
	log, err := b.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	// Signals must reach the broker behind strace too.
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL) }) // it may be gone
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "msg=ready") {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return b
		}
	}
	t.Fatal("the broker did not start")
	return nil
}

func (b *running) stop() {
	b.t.Helper()
	if err := syscall.Kill(-b.cmd.Process.Pid, syscall.SIGTERM); err != nil {
		b.t.Fatal(err)
	}
	if err := b.cmd.Wait(); err != nil {
		b.t.Fatalf("the broker did not stop well: %v", err)
	}
}

func (b *running) get(path string) { b.do(http.MethodGet, path, "") }

func (b *running) post(path, body string) { b.do(http.MethodPost, path, body) }

func (b *running) do(method, path, body string) {
	b.t.Helper()
	req, err := http.NewRequest(method, b.base+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	client := http.Client{Timeout: 60 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode >= 300 {
		b.t.Fatalf("%s %s: %d %v %s", method, path, resp.StatusCode, err, text)
	}
}

// TestTheImageIsACopyOfAStaticProgram: the Dockerfile runs nothing, begins
// with nothing, and gives the process no rights.
func TestTheImageIsACopyOfAStaticProgram(t *testing.T) {
	may := map[string]bool{"FROM": true, "ARG": true, "COPY": true, "USER": true, "ENV": true, "VOLUME": true, "EXPOSE": true, "ENTRYPOINT": true}
	text := read(t, "Dockerfile")
	for line := range strings.Lines(text) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word != "" && word[0] != '#' && !may[word] {
			t.Errorf("the Dockerfile has %s", line)
		}
	}
	for _, want := range []string{"FROM scratch\n", "\nUSER 65532:65532\n", "\nENTRYPOINT [\"/queend\"]\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the Dockerfile has no %q", want)
		}
	}
}
