package main

import (
	"fmt"
	"io"
	"time"
)

// report prints what a run did, one line a step.
type report struct{ out io.Writer }

// phase runs one step and prints what it did and how long it took.
func (r report) phase(name string, step func() (done string, err error)) error {
	began := time.Now()
	done, err := step()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(r.out, "%-14s %-72s %8s\n", name, done, short(time.Since(began)))
	return nil
}

// note prints a line without a time.
func (r report) note(name, format string, args ...any) {
	fmt.Fprintf(r.out, "%-14s %s\n", name, fmt.Sprintf(format, args...))
}

// short prints a duration with three digits or so.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond / 10).String()
	}
	return d.Round(time.Second / 100).String()
}

// perSecond is a rate as people read it.
func perSecond(n int, d time.Duration) string {
	return fmt.Sprintf("%.0f/s", float64(n)/max(d.Seconds(), 1e-9))
}
