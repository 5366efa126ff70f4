package crash

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// seed is where chance begins: CRASH_SEED, or else one from the clock.
var seed = sync.OnceValue(func() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("CRASH_SEED"), 10, 64); err == nil {
		return n
	}
	return uint64(time.Now().UnixNano())
})

// span is how long each test that could go on for ever does: CRASH_TIME.
func span(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("CRASH_TIME")
	if text == "" {
		return time.Minute
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("CRASH_TIME: %v", err)
	}
	return d
}

// tally counts what all tests of a run did.
type tally struct {
	mu     sync.Mutex
	counts map[string]map[string]int // by heading and kind
}

var total = tally{counts: map[string]map[string]int{}}

// What is counted.
const (
	tallyRounds     = "rounds"
	tallyCuts       = "cuts behind"
	tallyVariants   = "images of cuts"
	tallyFaults     = "faults"
	tallyEnds       = "processes with a fault"
	tallyCalls      = "calls"
	tallyImages     = "images"
	tallyViolations = "violations"
)

func (c *tally) add(heading, kind string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts[heading] == nil {
		c.counts[heading] = map[string]int{}
	}
	c.counts[heading][kind] += n
}

// print shows a line per heading.
func (c *tally) print(to io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.counts) == 0 {
		return
	}
	fmt.Fprintf(to, "seed %d (CRASH_SEED)\n", seed())
	for _, heading := range []string{tallyRounds, tallyCuts, tallyVariants, tallyFaults, tallyEnds, tallyCalls, tallyImages, tallyViolations} {
		all, parts := 0, []string{}
		for _, kind := range slices.Sorted(maps.Keys(c.counts[heading])) {
			n := c.counts[heading][kind]
			all += n
			parts = append(parts, fmt.Sprintf("%s %d", kind, n))
		}
		fmt.Fprintf(to, "%s: %d", heading, all)
		if len(parts) > 0 {
			fmt.Fprintf(to, " (%s)", strings.Join(parts, ", "))
		}
		fmt.Fprintln(to)
	}
}

// calls counts what a history says was answered.
func (c *tally) calls(h *history) {
	for _, e := range h.events {
		if e.done == never {
			c.add(tallyCalls, "without an answer", 1)
		} else if e.done >= 0 { // of this disk
			c.add(tallyCalls, "answered", 1)
		}
	}
}

// filesOf says what kind of file is at a path of a disk.
func filesOf(p string) string {
	dir, name := path.Split(strings.TrimSuffix(p, ".tmp"))
	switch parts := strings.Split(p, "/"); {
	case len(parts) > 4 && parts[2] == "wal":
		return "log file"
	case len(parts) == 4 && parts[2] == "wal" && name == "clean":
		return "clean mark"
	case len(parts) == 4 && parts[2] == "wal":
		return "log generation"
	case strings.HasSuffix(name, ".base"):
		return "base"
	case strings.HasSuffix(name, ".delta"):
		return "delta"
	case strings.HasSuffix(name, ".seg"):
		return "segment"
	case strings.HasSuffix(name, ".spool"):
		return "spool"
	case strings.HasPrefix(dir, "/data/quarantine/"):
		return "quarantine"
	case dir == "/data/" && name == "FORMAT", dir == "/data/" && name == "LOCK":
		return name
	}
	return "directory"
}

// kindOf says what a step did to which kind of file.
func (o *op) kindOf() string {
	what, _, _ := strings.Cut(o.where(), " of ")
	kind := filesOf(o.path)
	if o.kind == opSync || o.kind == opSyncFailed {
		if o.isDir {
			kind = "directory"
		}
	}
	return what + " of " + kind
}
