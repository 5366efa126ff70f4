package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The results stand between these lines of a page.
const (
	resultsBegin = "<!-- results, written by bench report -->\n"
	resultsEnd   = "<!-- end of results -->\n"
)

// runReport makes tables and plots from the lines of earlier runs.
func runReport(_ context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	flags.SetOutput(out)
	in := flags.String("in", "bench-report/results.jsonl", "results of runs, separated by commas; of a row that is there twice the last counts")
	page := flags.String("page", "", "Markdown page to write the tables into, between its marks; printed if empty")
	plots := flags.String("plots", "", "directory for the plots, below that of the page; none if empty")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return &usageError{err}
	}
	d := &reportData{}
	for path := range strings.SplitSeq(*in, ",") {
		if err := d.read(path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return d.publish(*page, *plots, out)
}

// read adds the lines of a file.
func (d *reportData) read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var kind struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(lines.Bytes(), &kind); err != nil {
			return err
		}
		switch kind.Type {
		case "machine":
			var m machineLine
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				return err
			}
			d.machines = append(d.machines, m)
		case "row":
			var row rowLine
			if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
				return err
			}
			d.put(row)
		default:
			return fmt.Errorf("a line of type %q", kind.Type)
		}
	}
	return lines.Err()
}

// put adds a row, or takes it for one that is there.
func (d *reportData) put(row rowLine) {
	if i := slices.IndexFunc(d.rows, func(r rowLine) bool { return r.Name == row.Name }); i >= 0 {
		d.rows[i] = row
		return
	}
	d.rows = append(d.rows, row)
	slices.SortStableFunc(d.rows, func(a, b rowLine) int { return cmp.Compare(a.number(), b.number()) })
}

// number is the first number of a row, by which rows are listed.
func (l rowLine) number() int {
	n := 0
	for _, c := range l.Row {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// publish writes tables and plots to where they are wanted.
func (d *reportData) publish(page, plots string, out io.Writer) error {
	if plots != "" {
		if err := os.MkdirAll(plots, 0o755); err != nil {
			return err
		}
		if err := d.plot(plots); err != nil {
			return err
		}
	}
	if page == "" {
		_, err := io.WriteString(out, d.markdown(""))
		return err
	}
	link := ""
	if plots != "" {
		var err error
		if link, err = filepath.Rel(filepath.Dir(page), plots); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), resultsBegin)
	_, after, ok2 := strings.Cut(rest, resultsEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no place for results", page)
	}
	return os.WriteFile(page, []byte(before+resultsBegin+d.markdown(link)+resultsEnd+after), 0o644)
}
