// Command bench drives a broker by its public door: HTTP on loopback, one
// process started from -binary on a data directory of its own, which is removed
// in the end. It knows nothing of the broker's insides.
//
//	bench              lists the scenarios
//	bench real -help   shows the flags of one
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// scenario is one thing the command can do.
type scenario struct {
	name    string
	summary string
	run     func(ctx context.Context, args []string, out io.Writer) error
}

// scenarios in the order they are listed. One without a summary is not listed:
// it is how the command starts itself.
func scenarios() []scenario {
	return []scenario{
		{"real", "push the records of iso-codes, consume, dead-letter and replay them, and check every one", runReal},
		{"crash", "the same records with kill -9 at random moments, then an audit of everything answered", runCrash},
		{"run", "measure the rows of docs/benchmarks.md, the broker and its peers in turn, and write a report", runRows},
		{"report", "make tables and plots from the results of earlier runs", runReport},
		{"ratio", "rounds of broker and floor in turn, and how far the broker is from the floor", runRatio},
		{"floor", "what this machine can do: the same HTTP and the same fdatasync, and no broker", runFloor},
		{serveFloorName, "", runServeFloor},
		{serveNATSName, "", runServeNATS},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main with everything passed in; it returns the exit code: 0 for a run
// that found nothing wrong, 1 for one that did, 2 for bad usage.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	if len(args) == 0 {
		printUsage(out)
		return 0
	}
	for _, s := range scenarios() {
		if s.name != args[0] {
			continue
		}
		err := s.run(ctx, args[1:], out)
		var bad *usageError
		switch {
		case err == nil, errors.Is(err, flag.ErrHelp):
			return 0
		case errors.As(err, &bad):
			fmt.Fprintf(errOut, "bench %s: %v\n", s.name, err)
			return 2
		}
		fmt.Fprintf(errOut, "bench %s: FAILED: %v\n", s.name, err)
		return 1
	}
	fmt.Fprintf(errOut, "bench: no scenario %q\n", args[0])
	printUsage(errOut)
	return 2
}

func printUsage(w io.Writer) {
	fmt.Fprint(w, "usage: bench <scenario> [flags]\n\n")
	for _, s := range scenarios() {
		if s.summary != "" {
			fmt.Fprintf(w, "  %-7s %s\n", s.name, s.summary)
		}
	}
}

// usageError is a flag that cannot be taken.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

// common are the flags that every scenario has.
type common struct {
	binary string
	dir    string
	limit  time.Duration
}

// parse reads the flags of a scenario, its own and the common ones.
func (c *common) parse(flags *flag.FlagSet, args []string, out io.Writer) error {
	flags.SetOutput(out)
	flags.StringVar(&c.binary, "binary", "bin/queend", "the broker to start")
	flags.StringVar(&c.dir, "dir", os.TempDir(), "where the data directory is made, and removed in the end")
	flags.DurationVar(&c.limit, "limit", cmp.Or(c.limit, 10*time.Minute), "give up after this long")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return &usageError{err}
	case flags.NArg() > 0:
		return &usageError{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	}
	return nil
}

// workspace makes a directory for one run; remove takes it away again.
func (c *common) workspace() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(c.dir, "queend-bench-")
	if err != nil {
		return "", nil, err
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}
