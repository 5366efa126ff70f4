package main

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// figures are what was measured, by name. The unit is the end of the name: _us
// and _ms and _s are times, _mb are 2^20 bytes, _pct are hundredths. Without one
// it is a count or a ratio.
type figures map[string]float64

// medians has the median of every figure over the rounds.
func medians(rounds []figures) figures {
	all := map[string][]float64{}
	for _, r := range rounds {
		for name, v := range r {
			all[name] = append(all[name], v)
		}
	}
	found := figures{}
	for name, values := range all {
		found[name] = round4(median(values))
	}
	return found
}

// round4 keeps four digits or so: the rest is noise.
func round4(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-3)
	if unit >= 1 {
		return math.Round(v)
	}
	return math.Round(v/unit) / math.Round(1/unit)
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

// latencies collects durations of many goroutines, from 1 us to 2 minutes with
// three digits.
type latencies struct {
	mu   sync.Mutex
	hist *hdrhistogram.Histogram
}

func newLatencies() *latencies {
	return &latencies{hist: hdrhistogram.New(1, (2 * time.Minute).Microseconds(), 3)}
}

// add notes that d was seen n times.
func (l *latencies) add(d time.Duration, n int64) {
	us := min(max(d.Microseconds(), 1), l.hist.HighestTrackableValue())
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.hist.RecordValues(us, n) // us is within the range
}

// into writes the percentiles under names that begin with prefix.
func (l *latencies) into(f figures, prefix string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hist.TotalCount() == 0 {
		return
	}
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p999", 99.9}, {"max", 100}} {
		f[prefix+"_"+q.name+"_us"] = float64(l.hist.ValueAtQuantile(q.at))
	}
}

// reset forgets everything.
func (l *latencies) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hist.Reset()
}
