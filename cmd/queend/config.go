package main

import (
	"fmt"
	"net/url"
	"path/filepath"
)

// The sources of a value.
const (
	fromDefault     = "default"
	fromEnvironment = "environment"
	fromFlag        = "flag"
)

// value is what a setting came to and where that is from.
type value struct {
	setting
	text   string
	source string
}

// masked is what a secret is shown as.
const masked = "********"

// shown is the text without secrets.
func (v *value) shown() string {
	if v.secret && v.text != "" {
		return masked
	}
	if u, err := url.Parse(v.text); err == nil && u.User != nil {
		return u.Redacted()
	}
	return v.text
}

// showConfig prints what every setting comes to in this environment.
func showConfig(args []string, c *console) int {
	f := newFlags(c, "config", "", "Prints what every setting comes to in this environment, and where that is from:\n"+
		"default, environment or flag. Secrets are masked. Exit code 2: the broker would\n"+
		"not start with them.")
	data := f.String("data", "", "data directory, as when serving")
	asJSON := f.Bool("json", false, "print one JSON object per line")
	changed := f.Bool("changed", false, "only those that are not at their default")
	if code, ok := f.parse(args, 0, 0); !ok {
		return code
	}
	loaded, err := loadConfig(c.environ)
	if err != nil {
		fmt.Fprintf(c.stderr, "queend: %v\n", err)
		return exitUsage
	}
	for _, note := range loaded.notices {
		if note != "" {
			fmt.Fprintf(c.stderr, "queend config: %s\n", note)
		}
	}
	if loaded.keyNote != "" {
		fmt.Fprintf(c.stderr, "queend config: %s\n", loaded.keyNote)
	}
	t := newTable(c.stdout, "SETTING", "VALUE", "FROM")
	for _, v := range loaded.effective(*data) {
		switch {
		case *changed && v.source == fromDefault:
		case *asJSON:
			printJSON(c.stdout, map[string]string{"name": v.name, "value": v.shown(), "from": v.source})
		default:
			t.row(v.name, v.shown(), v.source)
		}
	}
	if !*asJSON {
		t.flush()
	}
	return exitOK
}

// effective are the values with those filled in that follow from others.
func (c *config) effective(data string) []value {
	byName := map[string]*value{}
	for i := range c.values {
		byName[c.values[i].name] = &c.values[i]
	}
	dir := byName["QUEEN_DATA_DIR"]
	if data != "" {
		dir.text, dir.source = data, fromFlag
	}
	fill := func(name, text string) {
		if v := byName[name]; v.text == "" {
			v.text = text
		}
	}
	fill("QUEEN_POP_MAX_BYTES", fmt.Sprint(c.maxBody))
	fill("FILE_BUFFER_DIR", filepath.Join(dir.text, "spool"))
	if old := byName["POP_DEFAULT_TIMEOUT_MS"]; old.source == fromEnvironment {
		byName["DEFAULT_TIMEOUT"].text, byName["DEFAULT_TIMEOUT"].source = old.text, fromEnvironment
	}
	return c.values
}
