package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// reportData is what a report is made from: the lines of a run.
type reportData struct {
	machines []machineLine
	rows     []rowLine
}

// void is an error when figures of a row do not count.
func (d *reportData) void() error {
	var errs []error
	for _, row := range d.rows {
		for _, r := range row.Results {
			if r.Void != "" {
				errs = append(errs, fmt.Errorf("row %s is void for %s: %s", row.Row, r.Entry, r.Void))
			}
		}
	}
	return errors.Join(errs...)
}

// write writes the page and its plots into dir.
func (d *reportData) write(dir string) error {
	if err := d.plot(dir); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "report.md"), []byte(d.markdown(".")), 0o644)
}

// plot writes the plots of all rows into dir.
func (d *reportData) plot(dir string) error {
	for _, row := range d.rows {
		if err := plotRow(dir, row); err != nil {
			return fmt.Errorf("plot of row %s: %w", row.Row, err)
		}
	}
	return nil
}

// column is one figure of a table.
type column struct {
	title, figure string
	unit          float64 // what the figure is divided by
	digits        int
}

var columns = []column{
	{"msg/s", "msg_per_s", 1, 0},
	{"push p50 ms", "push_p50_us", 1000, 2},
	{"push p99 ms", "push_p99_us", 1000, 2},
	{"end to end p50 ms", "e2e_p50_us", 1000, 2},
	{"end to end p99 ms", "e2e_p99_us", 1000, 2},
	{"pop p50 ms", "take_p50_us", 1000, 2},
	{"pop p99 ms", "take_p99_us", 1000, 2},
	{"server CPU us/msg", "server_cpu_us_per_msg", 1, 2},
	{"loader CPU us/msg", "loader_cpu_us_per_msg", 1, 2},
	{"RSS MB", "rss_mb", 1, 0},
	{"written B/msg", "written_bytes_per_msg", 1, 0},
	{"disk MB", "disk_mb", 1, 0},
	{"files", "files", 1, 0},
}

// markdown is the report as a page; plots are linked below dir, unless it is empty.
func (d *reportData) markdown(dir string) string {
	var b strings.Builder
	for _, m := range d.machines {
		m.markdown(&b)
	}
	d.summary(&b)
	for _, row := range d.rows {
		row.markdown(&b, dir)
	}
	d.promises(&b)
	return b.String()
}

// markdown says where and with what a run was made.
func (m machineLine) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "Run of %s, `bench run %s`: %s, %d cores, %d MB, Linux %s, %s; one append of 4 KiB with fdatasync takes %.0f us (p50); load average before the run %s. ",
		m.Time, strings.Join(m.Args, " "), m.CPU, m.Cores, m.MemoryMB, m.Kernel, m.FileSys, m.SyncUS, m.Load)
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
		versions = append(versions, name+" "+strings.TrimPrefix(m.Versions[name], name+" "))
	}
	fmt.Fprintf(b, "Versions: %s.", strings.Join(versions, "; "))
	if m.Quick {
		b.WriteString(" `-quick` means small loads that show whether it works, not how fast.")
	}
	b.WriteString("\n\n")
}

// summary lists all targets.
func (d *reportData) summary(b *strings.Builder) {
	b.WriteString("| Row | Target | Wanted | Measured | |\n| --- | --- | --- | --- | --- |\n")
	for _, row := range d.rows {
		for _, c := range row.Checks {
			got, mark := fmt.Sprintf("%g", c.Got), "missed"
			switch {
			case c.Why != "":
				got, mark = c.Why, "not known"
			case c.Met:
				mark = "met"
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", row.Row, c.Claim, c.Want, got, mark)
		}
	}
	b.WriteString("\n")
}

// markdown writes the row with its figures.
func (l *rowLine) markdown(b *strings.Builder, dir string) {
	fmt.Fprintf(b, "### Row %s: %s\n\n`%s`: medians of %d rounds", l.Row, l.Title, l.Command, l.Rounds)
	if l.Seconds > 0 {
		fmt.Fprintf(b, " of %g s", l.Seconds)
	}
	fmt.Fprintf(b, ", %.0f s in all.\n\n", l.Took)
	l.table(b)
	l.others(b)
	if dir != "" {
		for _, name := range plotNames(*l) {
			fmt.Fprintf(b, "![%s](%s)\n\n", l.Title, filepath.ToSlash(filepath.Join(dir, name)))
		}
	}
}

// table has a line per entry and the columns that some entry has.
func (l *rowLine) table(b *strings.Builder) {
	var shown []column
	for _, c := range columns {
		if slices.ContainsFunc(l.Results, func(r result) bool { _, ok := r.Median[c.figure]; return ok }) {
			shown = append(shown, c)
		}
	}
	b.WriteString("| |")
	for _, c := range shown {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString(" checked |\n| --- |" + strings.Repeat(" ---: |", len(shown)+1) + "\n")
	for _, r := range l.Results {
		fmt.Fprintf(b, "| %s |", r.Entry)
		switch {
		case r.Missing != "":
			fmt.Fprintf(b, " missing: %s |%s\n", r.Missing, strings.Repeat(" |", len(shown)))
			continue
		case r.Void != "":
			text, _, _ := strings.Cut(r.Void, "\n")
			fmt.Fprintf(b, " void: %s |%s\n", text, strings.Repeat(" |", len(shown)))
			continue
		}
		for _, c := range shown {
			if v, ok := r.Median[c.figure]; ok {
				fmt.Fprintf(b, " %.*f |", c.digits, v/c.unit)
			} else {
				b.WriteString(" |")
			}
		}
		fmt.Fprintf(b, " %d |\n", r.Checked)
	}
	b.WriteString("\n")
}

// others lists the figures that have no column.
func (l *rowLine) others(b *strings.Builder) {
	for _, r := range l.Results {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(r.Median)) {
			known := slices.ContainsFunc(columns, func(c column) bool { return c.figure == name })
			if !known && !slices.ContainsFunc(everywhere, func(s string) bool { return strings.HasSuffix(name, s) }) {
				parts = append(parts, fmt.Sprintf("%s %g", name, r.Median[name]))
			}
		}
		if len(parts) > 0 && r.counts() {
			fmt.Fprintf(b, "%s: %s.\n\n", r.Entry, strings.Join(parts, ", "))
		}
	}
}

// everywhere are the ends of figures that are in the lines of JSON only.
var everywhere = []string{"_p90_us", "_p999_us", "_max_us", "_cpu_s", "seconds", "messages"}

// promises says of every system what it acknowledges.
func (d *reportData) promises(b *strings.Builder) {
	said := map[string]bool{}
	b.WriteString("### What each system acknowledges, and how it was set up\n\n")
	for _, row := range d.rows {
		for _, r := range row.Results {
			if r.Promise != "" && !said[r.System] {
				said[r.System] = true
				fmt.Fprintf(b, "- **%s**: %s.\n", r.System, r.Promise)
			}
		}
	}
	b.WriteString("\n")
}
