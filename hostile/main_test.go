package hostile

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// binary is the broker built for this run.
var binary string

// parallelTests bounds how many tests run at once: most of them wait, and each
// has a broker of its own.
const parallelTests = 6

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	chosen := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { chosen[f.Name] = true })
	if chosen["test.list"] {
		return m.Run()
	}
	if !chosen["test.parallel"] {
		if err := flag.Set("test.parallel", strconv.Itoa(parallelTests)); err != nil {
			fmt.Fprintln(os.Stderr, "hostile:", err)
			return 1
		}
	}
	tmp, err := os.MkdirTemp("", "queend-hostile-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		return 1
	}
	defer os.RemoveAll(tmp)
	binary = filepath.Join(tmp, "queend")
	build := exec.Command("go", "build", "-o", binary, "./cmd/queend")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "hostile: building cmd/queend: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// noteSources looks at every source file of the broker. The go command sees
// which files a test looks at, and so runs it again when one has changed.
var noteSources = sync.OnceFunc(func() {
	_ = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".go" {
			_, _ = os.Stat(path)
		}
		return nil
	})
})
