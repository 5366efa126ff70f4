package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// rowLine is one row as a line of JSON: everything the tables and plots are made
// from.
type rowLine struct {
	Kind    string   `json:"type"` // "row"
	Row     string   `json:"row"`
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Command string   `json:"command"`
	Rounds  int      `json:"rounds"`
	Seconds float64  `json:"seconds_per_round,omitempty"`
	Took    float64  `json:"took_s"`
	Results []result `json:"results"`
	Checks  []check  `json:"checks,omitempty"`
}

// result is what one entry of a row has shown.
type result struct {
	Entry   string               `json:"entry"`
	System  string               `json:"system"`
	Shape   shape                `json:"load"`
	Promise string               `json:"acknowledges,omitempty"`
	Missing string               `json:"missing,omitempty"` // why it was not measured
	Void    string               `json:"void,omitempty"`    // why its figures do not count
	Checked int64                `json:"messages_checked"`
	Median  figures              `json:"median,omitempty"`
	Rounds  []figures            `json:"rounds,omitempty"`
	Series  map[string][]figures `json:"series,omitempty"` // by what grows, which is the figure x
	Profile string               `json:"profile,omitempty"`
}

// counts reports whether the result has figures that may be used.
func (r *result) counts() bool { return r.Missing == "" && r.Void == "" && len(r.Rounds) > 0 }

// check is a target and what came of it.
type check struct {
	Claim string  `json:"claim"`
	Got   float64 `json:"got"`
	Want  string  `json:"want"`
	Met   bool    `json:"met"`
	Why   string  `json:"why,omitempty"` // it could not be told
}

// judge compares the results of a row with its targets.
func (l *rowLine) judge(targets []goal) {
	for _, t := range targets {
		c := check{Claim: t.Claim, Want: t.want()}
		of := t.Of
		if of == "" {
			of = l.Results[0].Entry
		}
		if got, err := l.figure(of, t); err != nil {
			c.Why = err.Error()
		} else {
			c.Got = round4(got)
			c.Met = (t.Min == nil || got >= *t.Min) && (t.Max == nil || got <= *t.Max)
		}
		l.Checks = append(l.Checks, c)
	}
}

func (t goal) want() string {
	text := ""
	if t.Min != nil {
		text += fmt.Sprintf(">= %g", *t.Min)
	}
	if t.Max != nil {
		text += fmt.Sprintf("<= %g", *t.Max)
	}
	return text
}

// entry finds a result that counts.
func (l *rowLine) entry(name string) (*result, error) {
	for i := range l.Results {
		r := &l.Results[i]
		switch {
		case r.Entry != name:
		case r.Missing != "":
			return nil, fmt.Errorf("%s is missing: %s", name, r.Missing)
		case !r.counts():
			return nil, fmt.Errorf("%s is void: %s", name, r.Void)
		default:
			return r, nil
		}
	}
	return nil, fmt.Errorf("%s did not run", name)
}

// figure is what a target looks at: the figure itself, or the median over the
// rounds of its ratio to that of the best other entry.
func (l *rowLine) figure(of string, t goal) (float64, error) {
	r, err := l.entry(of)
	if err != nil {
		return 0, err
	}
	if len(t.Against) == 0 {
		v, ok := r.Median[t.Figure]
		if !ok {
			return 0, fmt.Errorf("%s has no %s", of, t.Figure)
		}
		return v, nil
	}
	var ratios []float64
	for _, name := range t.Against {
		other, err := l.entry(name)
		if err != nil {
			return 0, err
		}
		var each []float64
		for i := range min(len(r.Rounds), len(other.Rounds)) {
			a, ok1 := r.Rounds[i][t.Figure]
			b, ok2 := other.Rounds[i][t.Figure]
			if !ok1 || !ok2 || b == 0 {
				return 0, fmt.Errorf("%s or %s has no %s", of, name, t.Figure)
			}
			each = append(each, a/b)
		}
		ratios = append(ratios, median(each))
	}
	if t.Min != nil {
		return slices.Min(ratios), nil
	}
	return slices.Max(ratios), nil
}

// writeLine writes one line of JSON.
func writeLine(out io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", line)
	return err
}
