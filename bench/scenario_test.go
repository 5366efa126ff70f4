package main

import (
	"strings"
	"testing"
)

func TestScenarioFilesAreWhole(t *testing.T) {
	for _, quick := range []bool{false, true} {
		rows, err := readScenarios("", quick)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range rows {
			names := map[string]bool{}
			for _, e := range f.Entries {
				names[e.name()] = true
			}
			for _, goal := range f.Targets {
				for _, name := range append([]string{f.Entries[0].name(), goal.Of}, goal.Against...) {
					if name != "" && !names[name] {
						t.Errorf("row %s: %q looks at %s, which does not run", f.Row, goal.Claim, name)
					}
				}
				if (goal.Min == nil) == (goal.Max == nil) {
					t.Errorf("row %s: %q has no bound, or two", f.Row, goal.Claim)
				}
			}
		}
	}
}

func TestBadScenariosAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind":"push","nosuchfield":1}`:                                       "nosuchfield",
		`{"kind":"nosuchkind"}`:                                                 "nosuchkind",
		`{"kind":"push","entries":[{"system":"nosuchsystem"}]}`:                 "nosuchsystem",
		`{"kind":"push","entries":[{"system":"queend","shape":{"bathc":1}}]}`:   "bathc",
		`{"kind":"push","entries":[{"system":"queend"}],"quick":{"secnods":1}}`: "secnods",
	} {
		if _, err := readScenario([]byte(text), true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestTargetsAreJudged(t *testing.T) {
	half, two := 0.5, 2.0
	l := rowLine{Results: []result{
		{Entry: "a", Rounds: []figures{{"x": 1}, {"x": 9}, {"x": 2}}, Median: figures{"x": 2}},
		{Entry: "b", Rounds: []figures{{"x": 2}, {"x": 2}, {"x": 2}}, Median: figures{"x": 2}},
		{Entry: "c", Missing: "not installed"},
		{Entry: "d", Void: "gap"},
	}}
	l.judge([]goal{
		{Figure: "x", Max: &two}, {Figure: "x", Max: &half}, {Figure: "x", Against: []string{"b"}, Min: &two},
		{Figure: "x", Of: "b", Against: []string{"a"}, Min: &half}, {Figure: "x", Against: []string{"c"}, Min: &half},
		{Figure: "x", Against: []string{"d"}, Min: &half}, {Figure: "y", Max: &two},
	})
	want := []string{"2 true", "2 false", "1 false", "1 true", "missing", "void", "no y"}
	for i, c := range l.Checks {
		got := strings.TrimSpace(c.Why + " " + map[bool]string{true: "true", false: "false"}[c.Met])
		if c.Why == "" && (got != strings.Fields(want[i])[1] || strings.Fields(want[i])[0] != map[float64]string{1: "1", 2: "2"}[c.Got]) ||
			c.Why != "" && (c.Met || !strings.Contains(c.Why, want[i])) {
			t.Errorf("target %d: %+v, want %s", i, c, want[i])
		}
	}
}

func TestRowsArePickedByNumberAndName(t *testing.T) {
	for asked, want := range map[string]string{
		"6": "both-20k both-50k", "9": "many", "12,1": "push-1 stored growth", "6b": "both-50k", "soak": "soak", "11": "dedup-one dedup-wide",
	} {
		rows, err := readScenarios("", false)
		if err != nil {
			t.Fatal(err)
		}
		if rows, err = pick(rows, asked); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range rows {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", asked, got, want)
		}
	}
	rows, err := readScenarios("", false)
	if err != nil {
		t.Fatal(err)
	}
	if rows, err = pick(rows, ""); err != nil || len(rows) == 0 || rows[len(rows)-1].Name == "soak" {
		t.Errorf("all rows: %d, %v", len(rows), err)
	}
}
