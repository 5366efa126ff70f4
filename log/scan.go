package log

import (
	"errors"
	"fmt"

	"queend"
)

// Report is what Scan found.
type Report struct {
	First, Last queend.LSN // of the records in the log; First is Last+1 when there are none
	Generations int
	Groups      int
	Records     int64
	Bytes       int64      // of all segment files
	Clean       bool       // the log was closed
	Proven      queend.LSN // the highest LSN that something says was durable
	Damages     []*Damage  // Open would refuse, by place
	Tail        []*Damage  // Open would cut here: nothing says these bytes were durable
}

// Scan verifies every generation in dir and changes nothing. Each group goes to
// visit in order, also those behind damage; an error of visit ends the scan. What
// a later generation stands in for is left out, as in Open.
//
// A directory that does not exist is an empty log. In a log that is being written
// the newest group may look torn.
func Scan(dir string, visit func(Group) error) (Report, error) {
	return ScanProven(dir, 0, visit)
}

// ScanProven is Scan for who knows that the log was durable through an LSN: what
// is missing up to there is damage, not a tail.
func ScanProven(dir string, proven queend.LSN, visit func(Group) error) (Report, error) {
	var r Report
	c, err := readChain(dir)
	if err != nil {
		return r, fmt.Errorf("log: scan %s: %w", dir, err)
	}
	r.Clean, r.Generations = c.clean, len(c.gens)+len(c.hollow)
	proven = max(proven, c.mark)
	for _, g := range c.gens {
		r.Bytes += g.size()
		proven = max(proven, g.durable)
	}
	next, err := c.follow(func(g Group) error {
		r.Groups++
		r.Records += int64(g.Last - g.First + 1)
		proven = max(proven, g.Durable)
		return visit(g)
	}, func(i int, w *walker, d *Damage) error {
		return r.judge(d, w, proven, i < len(c.gens)-1)
	})
	if err != nil && err != errTail {
		return r, fmt.Errorf("log: scan %s: %w", dir, err)
	}
	r.end(c, next, proven, dir)
	return r, nil
}

// judge puts a bad spot where it belongs. Whatever follows damage is damage; at
// the tail the scan ends, as the log does.
func (r *Report) judge(d *Damage, w *walker, proven queend.LSN, certain bool) error {
	certain = certain || d.certain || w.expect == 0 || proven >= w.expect
	if !certain {
		place := *w
		later, err := place.durableLater()
		if err != nil {
			return err
		}
		certain = later >= w.expect
	}
	if !certain {
		r.Tail = append(r.Tail, d)
		return errTail
	}
	r.Damages = append(r.Damages, d)
	return nil
}

// end judges the end of the log.
func (r *Report) end(c *chain, next, proven queend.LSN, dir string) {
	for _, g := range c.hollow {
		r.Bytes += g.size()
		d := newWalker(g).damage("%v", g.bad)
		r.Tail = append(r.Tail, d)
	}
	if len(c.gens) == 0 {
		next = 1
	} else {
		r.First = c.gens[0].first
	}
	r.Last = max(next, 1) - 1
	r.First = max(r.First, 1)
	if r.Proven = proven; r.Last < proven {
		r.Damages = append(r.Damages, &Damage{File: dir, Reason: fmt.Sprintf("log ends with LSN %d, but %d was durable", r.Last, proven)})
	}
}

// Err is nil for a log without damage, and wraps ErrDamaged otherwise.
func (r Report) Err() error {
	var errs []error
	for _, d := range r.Damages {
		errs = append(errs, d)
	}
	return errors.Join(errs...)
}
