package fuzz

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestBrokerFollowsItsRules runs random sequences of commands. Each has one
// seed, which is printed when broker and model disagree, with the shortest
// sequence found that still shows it. Long runs: QUEEND_SEQUENCES, QUEEND_OPS,
// QUEEND_SEED (of the first sequence).
func TestBrokerFollowsItsRules(t *testing.T) {
	t.Parallel()
	sequences, length, seed := setting(t, "QUEEND_SEQUENCES", 1000), setting(t, "QUEEND_OPS", 60), setting(t, "QUEEND_SEED", 1)
	if testing.Short() {
		sequences = min(sequences, 100)
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 3 * runtime.GOMAXPROCS(0) { // they wait for the disk most of the time
		workers.Go(func() {
			for n := next.Add(1) - 1; n < int64(sequences) && !t.Failed(); n = next.Add(1) - 1 {
				check(t, uint64(seed)+uint64(n), length)
			}
		})
	}
	workers.Wait()
}

func setting(t *testing.T, name string, def int) int {
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// check runs the sequence of a seed and reports the first disagreement.
func check(t *testing.T, seed uint64, length int) {
	t.Helper()
	s, ops, err := generate(seed, length)
	if err == nil {
		return
	}
	ops, least := shrink(s, ops, err)
	t.Errorf("seed %d: %v\nshortest sequence: %v\n%s", seed, err, least, trace(s, ops))
}

// TestAWrongRuleShows breaks one rule of the model, so that a comparison that
// compares nothing does not pass for a broker without faults.
func TestAWrongRuleShows(t *testing.T) {
	for seed := range uint64(200) {
		if _, _, err := generate(seed, 60, func(s *setup) { s.Canary = true }); err != nil {
			return
		}
	}
	t.Fatal("200 sequences did not notice that deliveries are not counted")
}

// generate makes and runs a sequence until it ends or fails.
func generate(seed uint64, length int, changes ...func(*setup)) (s setup, ops []op, err error) {
	r := rand.New(rand.NewPCG(seed, 0))
	s = newSetup(r)
	for _, change := range changes {
		change(&s)
	}
	err = with(s, func(h *harness) error {
		g := newGen(r, h)
		for n := range length {
			o := g.next()
			if n < g.early {
				o = g.configure()
			}
			ops = append(ops, o)
			if err := h.do(o); err != nil {
				return fmt.Errorf("command %d: %w", len(ops)-1, err)
			}
		}
		return h.do(logOp{})
	})
	return s, ops, err
}

// replay runs commands that were made before.
func replay(s setup, ops []op) error {
	return with(s, func(h *harness) error {
		for i, o := range ops {
			if err := h.do(o); err != nil {
				return fmt.Errorf("command %d: %w", i, err)
			}
		}
		return h.do(logOp{})
	})
}

// with opens a harness in a directory of its own.
func with(s setup, run func(*harness) error) error {
	dir, err := os.MkdirTemp("", "queend-fuzz-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	h, err := newHarness(dir, s)
	if err != nil {
		return err
	}
	err = run(h)
	if cerr := h.close(); err == nil && cerr != nil {
		err = fmt.Errorf("close: %w", cerr)
	}
	return err
}

// shrinkTime bounds the search for a short sequence.
const shrinkTime = 90 * time.Second

// shrink drops commands for as long as the rest still fails.
func shrink(s setup, ops []op, err error) ([]op, error) {
	end := time.Now().Add(shrinkTime)
	for size := max(len(ops)/2, 1); size > 0 && time.Now().Before(end); {
		before := len(ops)
		for at := 0; at < len(ops) && time.Now().Before(end); {
			fewer := append(append([]op{}, ops[:at]...), ops[min(at+size, len(ops)):]...)
			if lesser := replay(s, fewer); lesser != nil {
				ops, err = fewer, lesser
			} else {
				at += size
			}
		}
		if size > 1 || len(ops) == before {
			size /= 2
		}
	}
	return ops, err
}

// trace prints a sequence as the source of a regression test.
func trace(s setup, ops []op) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", literal(reflect.ValueOf(s)))
	for _, o := range ops {
		fmt.Fprintf(&b, "\t%s,\n", literal(reflect.ValueOf(o)))
	}
	return b.String()
}
