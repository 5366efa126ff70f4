package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

// rowKinds are the ways to measure a row.
var rowKinds = map[string]func(ctx context.Context, r *runner, f *scenarioFile) ([]result, error){
	"push":    measureRounds,
	"consume": measureRounds,
	"both":    measureRounds,
	"wake":    runWake,
	"many":    runMany,
	"growth":  runGrowth,
	"stored":  runStored,
	"dedup":   runDedup,
	"soak":    runSoak,
}

// runner is one run of the command run.
type runner struct {
	common
	workshop
	out      string // directory of the report
	files    string // directory of scenario files; empty is those that come along
	rows     string
	systems  string
	quick    bool
	rounds   int
	seconds  float64
	progress *progressLine
	at       string // which row it is, for the progress
}

// runRows measures rows and writes a report.
func runRows(ctx context.Context, args []string, out io.Writer) error {
	return (&runner{}).main(ctx, "run", args, out)
}

// runRatio is the short comparison of the broker with the floor.
func runRatio(ctx context.Context, args []string, out io.Writer) error {
	return (&runner{rows: "1,2", systems: "queend,floor", seconds: 3, rounds: 5}).main(ctx, "ratio", args, out)
}

// runFloor measures the floor alone.
func runFloor(ctx context.Context, args []string, out io.Writer) error {
	return (&runner{rows: "1,2", systems: "floor", seconds: 3, rounds: 1}).main(ctx, "floor", args, out)
}

// main reads the flags, measures and reports. What r has already are the defaults.
func (r *runner) main(ctx context.Context, name string, args []string, out io.Writer) error {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.StringVar(&r.out, "out", "", "directory for the report: results.jsonl, report.md and plots; none if empty")
	flags.StringVar(&r.files, "scenarios", "", "directory of scenario files instead of those that come along")
	flags.StringVar(&r.rows, "rows", r.rows, "only these rows, by number or name, separated by commas")
	flags.StringVar(&r.systems, "systems", r.systems, "only these systems, separated by commas")
	flags.StringVar(&r.profile, "profile", "", "fetch a profile of the broker for every row: cpu, mem, mutex, block or trace; needs -out")
	flags.BoolVar(&r.quick, "quick", false, "small loads: does it work, and roughly how fast")
	flags.IntVar(&r.rounds, "rounds", r.rounds, "rounds of each row instead of what its file says")
	flags.Float64Var(&r.seconds, "seconds", r.seconds, "length of a round instead of what its file says")
	if err := r.parse(flags, args, out); err != nil {
		return err
	}
	if r.profile != "" && r.out == "" {
		return &usageError{errors.New("-profile needs -out")}
	}
	rows, err := r.read()
	if err != nil {
		return &usageError{err}
	}
	if _, err := newBroker(r.common.binary, r.dir); err != nil {
		return err
	}
	r.workshop.binary = r.common.binary
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	debug.SetGCPercent(400) // the load generator shares the cores with what it measures
	r.progress = newProgress(os.Stderr)
	defer r.progress.end()
	return r.measure(ctx, rows, args, out)
}

// read reads the scenario files and applies the flags to them.
func (r *runner) read() ([]*scenarioFile, error) {
	rows, err := readScenarios(r.files, r.quick)
	if err != nil {
		return nil, err
	}
	if rows, err = pick(rows, r.rows); err != nil {
		return nil, err
	}
	for _, f := range rows {
		if r.rounds > 0 {
			f.Rounds = r.rounds
		}
		if r.seconds > 0 {
			f.Seconds = r.seconds
		}
		if r.systems != "" {
			f.only(strings.Split(r.systems, ","))
		}
	}
	return rows, nil
}

// measure runs the rows one after the other and reports each as it is done.
func (r *runner) measure(ctx context.Context, rows []*scenarioFile, args []string, out io.Writer) error {
	dir, remove, err := r.workspace()
	if err != nil {
		return err
	}
	defer remove()
	machine := lookAround(dir, r.common.binary, args, r.quick)
	lines := io.Discard
	if r.out != "" {
		if err := os.MkdirAll(r.out, 0o755); err != nil {
			return err
		}
		file, err := os.Create(filepath.Join(r.out, "results.jsonl"))
		if err != nil {
			return err
		}
		defer file.Close()
		lines = file
	}
	if err := writeLine(io.MultiWriter(lines, out), machine); err != nil {
		return err
	}
	found := &reportData{machines: []machineLine{machine}}
	for i, f := range rows {
		line, err := r.row(ctx, f, filepath.Join(dir, f.Name), fmt.Sprintf("row %d/%d %s", i+1, len(rows), f.Name))
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if err := writeLine(io.MultiWriter(lines, out), line); err != nil {
			return err
		}
		found.rows = append(found.rows, line)
	}
	r.progress.end()
	fmt.Fprintf(out, "\n%s", found.markdown(""))
	if r.out != "" {
		if err := found.write(r.out); err != nil {
			return err
		}
	}
	return found.void()
}

// row measures one row in a directory of its own.
func (r *runner) row(ctx context.Context, f *scenarioFile, dir, at string) (rowLine, error) {
	began := time.Now()
	line := rowLine{Kind: "row", Row: f.Row, Name: f.Name, Title: f.Title, Rounds: f.Rounds, Seconds: f.Seconds, Command: "bench run -rows " + f.Row}
	if r.quick {
		line.Command += " -quick"
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return line, err
	}
	defer os.RemoveAll(dir)
	step := *r
	step.dir, step.progress = dir, r.progress
	step.at = at
	results, err := rowKinds[f.Kind](ctx, &step, f)
	if err != nil {
		return line, err
	}
	line.Results = results
	line.judge(f.Targets)
	line.Took = round4(time.Since(began).Seconds())
	return line, nil
}

// say shows what the row is doing.
func (r *runner) say(format string, args ...any) {
	r.progress.say("%s: %s", r.at, fmt.Sprintf(format, args...))
}

// keepProfile copies what the broker wrote about itself and returns its name in
// the report.
func (r *runner) keepProfile(p *process, row, entry string) (string, error) {
	if r.profile == "" || len(p.flags) == 0 {
		return "", nil
	}
	found, err := filepath.Glob(filepath.Join(p.dataDir()+"-profile", "*"))
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("the broker has left no profile (%v)", err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		return "", err
	}
	name := row + "-" + entry + "-" + filepath.Base(found[0])
	return name, os.WriteFile(filepath.Join(r.out, name), text, 0o644)
}

// setUp makes a bed for an entry. What is missing is said in the result, and so is
// what does not start.
func (r *runner) setUp(ctx context.Context, f *scenarioFile, e rowEntry) (*bed, result, error) {
	s, err := f.shapeOf(e)
	if err != nil {
		return nil, result{}, err
	}
	found := result{Entry: e.name(), System: e.System, Shape: s}
	b, err := newBed(ctx, &r.workshop, e.System, filepath.Join(r.dir, e.name()), s)
	var missing *missingError
	switch {
	case errors.As(err, &missing):
		found.Missing = missing.why
		return nil, found, nil
	case err != nil:
		return nil, found, fmt.Errorf("%s: %w", e.name(), err)
	}
	found.Promise = b.promise()
	return b, found, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
