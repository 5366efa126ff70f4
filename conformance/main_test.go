package conformance

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// binary is the broker built for this run; empty when QUEEND_URL is set.
var binary string

// sharedURL is where the broker that most tests share listens.
var sharedURL string

// parallelTests bounds how many tests run at once. Nearly all of them spend
// their time waiting, so it is far above the number of cores.
const parallelTests = 24

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run prepares the broker, runs the tests and prints the table of rules.
func run(m *testing.M) int {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if given["test.list"] {
		return m.Run()
	}
	if !given["test.parallel"] {
		if err := flag.Set("test.parallel", strconv.Itoa(parallelTests)); err != nil {
			fmt.Fprintln(os.Stderr, "conformance:", err)
			return 1
		}
	}
	tmp, err := os.MkdirTemp("", "queend-conformance-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		return 1
	}
	defer os.RemoveAll(tmp)

	if url := os.Getenv("QUEEND_URL"); url != "" {
		sharedURL = strings.TrimRight(url, "/")
	} else {
		binary = filepath.Join(tmp, "queend")
		build := exec.Command("go", "build", "-o", binary, "./cmd/queend")
		build.Dir = ".."
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "conformance: building cmd/queend: %v\n%s", err, out)
			return 1
		}
		b := newBroker(filepath.Join(tmp, "shared"), "RETENTION_INTERVAL=250", "STATS_INTERVAL_MS=1000", "METRICS_FLUSH_MS=1000")
		if err := b.start(); err != nil {
			fmt.Fprintf(os.Stderr, "conformance: starting the shared broker: %v\n", err)
			return 1
		}
		defer b.end(os.Kill)
		sharedURL = b.url
		defer func() {
			if b.gone() {
				fmt.Printf("the shared broker ended by itself:\n%s\n", b.logTail(40))
			}
		}()
	}
	if document, err = loadContract(sharedURL); err != nil {
		fmt.Fprintln(os.Stderr, "conformance: /openapi.json:", err)
		return 1
	}
	code := m.Run()
	printReport(given["test.run"])
	if document == nil {
		fmt.Println("the broker has no /openapi.json: answers were not held against it")
	} else if left := document.unanswered(); len(left) > 0 && !given["test.run"] {
		fmt.Println("no test had these routes of /openapi.json answered:", strings.Join(left, ", "))
		code = 1
	}
	return code
}

// report collects the outcome of every test by rule.
var report struct {
	sync.Mutex
	tests map[string][]outcome // by rule
}

// outcome is how one test of a rule ended.
type outcome struct {
	test   string
	failed bool
}

// rulePrefix finds the rule in the name of a test.
var rulePrefix = regexp.MustCompile(`^Test([RASF][0-9]+)_`)

// record notes the outcome of t under its own rule and those it also covers.
func record(t *testing.T, also ...string) {
	t.Helper()
	m := rulePrefix.FindStringSubmatch(t.Name())
	if m == nil {
		t.Fatalf("test name %q names no rule", t.Name())
	}
	covers(t, append([]string{m[1]}, also...)...)
}

// covers notes the outcome of t under these rules.
func covers(t *testing.T, rules ...string) {
	t.Cleanup(func() {
		report.Lock()
		defer report.Unlock()
		if report.tests == nil {
			report.tests = map[string][]outcome{}
		}
		for _, r := range rules {
			report.tests[r] = append(report.tests[r], outcome{t.Name(), t.Failed()})
		}
	})
}

// ruleSpans are the numbered rules of docs/rules.md that must have a test.
var ruleSpans = [][3]any{
	{"R", 1, 12}, {"R", 15, 16}, {"R", 20, 34}, {"R", 40, 46}, {"R", 50, 52}, {"R", 70, 73}, {"R", 78, 78},
	{"R", 80, 83}, {"R", 85, 85}, {"R", 90, 94}, {"R", 100, 103}, {"R", 110, 114}, {"R", 120, 121}, {"A", 1, 10},
}

// printReport writes one line per rule, and with a filter only those that ran.
func printReport(filtered bool) {
	report.Lock()
	defer report.Unlock()
	if !filtered {
		for _, s := range ruleSpans {
			for n := s[1].(int); n <= s[2].(int); n++ {
				rule := fmt.Sprintf("%s%d", s[0], n)
				if report.tests[rule] == nil {
					fmt.Printf("%-5s NO TEST\n", rule)
				}
			}
		}
	}
	rules := make([]string, 0, len(report.tests))
	for r := range report.tests {
		rules = append(rules, r)
	}
	slices.SortFunc(rules, func(a, b string) int {
		if a[0] != b[0] {
			return strings.IndexByte("RASF", a[0]) - strings.IndexByte("RASF", b[0])
		}
		x, _ := strconv.Atoi(a[1:])
		y, _ := strconv.Atoi(b[1:])
		return x - y
	})
	total, bad := 0, 0
	fmt.Println("rule  result  tests")
	for _, r := range rules {
		verdict, failed := "pass", []string{}
		for _, o := range report.tests[r] {
			total++
			if o.failed {
				verdict, bad = "FAIL", bad+1
				failed = append(failed, o.test)
			}
		}
		fmt.Printf("%-5s %-6s  %d %s\n", r, verdict, len(report.tests[r]), strings.Join(failed, " "))
	}
	fmt.Printf("%d outcomes, %d failed\n", total, bad)
}
