package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// scenarioFiles are the rows that come with the command.
//
//go:embed scenarios/*.json
var scenarioFiles embed.FS

// scenarioFile is one row: a load, the systems it is put on and what is asked of
// the result.
type scenarioFile struct {
	Row     string  `json:"row"`
	Name    string  `json:"name"`
	Title   string  `json:"title"`
	Kind    string  `json:"kind"` // push, consume, both, wake, many, growth, stored, dedup, soak
	Seconds float64 `json:"seconds,omitempty"`
	WarmUp  float64 `json:"warm_up,omitempty"` // seconds
	Rounds  int     `json:"rounds,omitempty"`
	shape
	Entries []rowEntry      `json:"entries"`
	Targets []goal          `json:"targets,omitempty"`
	Quick   json.RawMessage `json:"quick,omitempty"` // replaces fields for a quick run
	Apart   bool            `json:"apart,omitempty"` // runs only when it is asked for by name
}

// rowEntry is one system of a row, perhaps with another load than the others.
type rowEntry struct {
	System string          `json:"system"`
	As     string          `json:"as,omitempty"` // name in the results; that of the system if empty
	Shape  json.RawMessage `json:"shape,omitempty"`
}

// name is how the entry is called in the results.
func (e rowEntry) name() string {
	if e.As != "" {
		return e.As
	}
	return e.System
}

// shapeOf is the load of an entry.
func (f *scenarioFile) shapeOf(e rowEntry) (shape, error) {
	s := f.shape
	s.Env = slices.Clone(s.Env)
	if len(e.Shape) == 0 {
		return s, nil
	}
	err := strict(e.Shape, &s)
	return s, err
}

// goal is what a figure must be: by itself, or as a ratio to that of another
// entry in the same round.
type goal struct {
	Of      string   `json:"of,omitempty"` // entry; the first if empty
	Figure  string   `json:"figure"`
	Against []string `json:"against,omitempty"` // entries; the best of them counts
	Min     *float64 `json:"min,omitempty"`
	Max     *float64 `json:"max,omitempty"`
	Claim   string   `json:"claim"` // in words
}

// strict decodes JSON that may have no unknown field.
func strict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// readScenario decodes one file.
func readScenario(text []byte, quick bool) (*scenarioFile, error) {
	f := &scenarioFile{Rounds: 1}
	if err := strict(text, f); err != nil {
		return nil, err
	}
	if quick && len(f.Quick) > 0 {
		if err := strict(f.Quick, f); err != nil {
			return nil, fmt.Errorf("quick: %w", err)
		}
	}
	f.Quick = nil
	if rowKinds[f.Kind] == nil {
		return nil, fmt.Errorf("no kind %q", f.Kind)
	}
	for _, e := range f.Entries {
		if makers[e.System] == nil {
			return nil, fmt.Errorf("no system %q", e.System)
		}
		if _, err := f.shapeOf(e); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name(), err)
		}
	}
	return f, nil
}

// readScenarios reads all rows of a directory, or those that come with the
// command, in the order of their file names.
func readScenarios(dir string, quick bool) ([]*scenarioFile, error) {
	files, err := fs.Sub(scenarioFiles, "scenarios")
	if err != nil {
		return nil, err
	}
	if dir != "" {
		files = os.DirFS(dir)
	}
	names, err := fs.Glob(files, "*.json")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no *.json in %s", dir)
	}
	var rows []*scenarioFile
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		f, err := readScenario(text, quick)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
		rows = append(rows, f)
	}
	return rows, nil
}

// is reports whether word names the row: 6 stands for 6a and 6b, 8 or 9 for 8+9.
func (f *scenarioFile) is(word string) bool {
	return f.Row == word || f.Name == word || slices.ContainsFunc(strings.Split(f.Row, "+"), func(part string) bool {
		return part == word || strings.TrimRight(part, "ab") == word
	})
}

// pick keeps the rows that are asked for, by number or name; without any those
// that are not apart.
func pick(rows []*scenarioFile, asked string) ([]*scenarioFile, error) {
	if asked == "" {
		return slices.DeleteFunc(rows, func(f *scenarioFile) bool { return f.Apart }), nil
	}
	wanted := map[*scenarioFile]bool{}
	for word := range strings.SplitSeq(asked, ",") {
		found := false
		for _, f := range rows {
			if f.is(word) {
				wanted[f] = true
				found = true
			}
		}
		if !found {
			return nil, fmt.Errorf("no row %q", word)
		}
	}
	return slices.DeleteFunc(rows, func(f *scenarioFile) bool { return !wanted[f] }), nil
}

// only drops the entries of other systems, and the targets that need them.
func (f *scenarioFile) only(systems []string) {
	f.Entries = slices.DeleteFunc(f.Entries, func(e rowEntry) bool {
		return !slices.Contains(systems, e.System) && !slices.Contains(systems, e.name())
	})
	has := func(name string) bool {
		return slices.ContainsFunc(f.Entries, func(e rowEntry) bool { return e.name() == name })
	}
	f.Targets = slices.DeleteFunc(f.Targets, func(t goal) bool {
		return t.Of != "" && !has(t.Of) || slices.ContainsFunc(t.Against, func(name string) bool { return !has(name) })
	})
}
