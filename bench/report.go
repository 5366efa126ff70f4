package main

import (
	"fmt"
	"io"
	"slices"
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

// quantile is the value at q of the sorted values, 0 for none.
func quantile(sorted []uint32, q float64) uint32 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// median is the middle value, the mean of the two for an even number.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}
