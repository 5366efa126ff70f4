package linear

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// binary is the broker built for this run.
var binary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	flag.Parse()
	tmp, err := os.MkdirTemp("", "queend-linear-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "linear:", err)
		return 1
	}
	defer os.RemoveAll(tmp)
	binary = filepath.Join(tmp, "queend")
	build := exec.Command("go", "build", "-o", binary, "./cmd/queend")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "linear: building cmd/queend: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// duration is what the environment says under name, else usual.
func duration(t *testing.T, name string, usual time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

// seed is what the environment says under name, else one from the clock. It is
// printed, since a run can only be looked at again with it.
func seed(t *testing.T, name string) uint64 {
	t.Helper()
	n := uint64(time.Now().UnixNano())
	if text := os.Getenv(name); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	t.Logf("%s=%d", name, n)
	return n
}

func random(seed uint64, stream int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(stream))) }

// patience is how long anything may take that should take no time. It is only
// spent when something is broken.
const patience = 30 * time.Second
