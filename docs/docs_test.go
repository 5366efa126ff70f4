// Package docs holds the documentation. Its tests run what the pages show: a
// fenced block tagged "console" is a terminal session against a broker.
//
//	$ curl -s localhost:6632/health
//	{"status":"healthy",...}
//
// Lines that begin with "$ " are commands for bash, "> " continues one, the
// rest is what the command printed. Every page has a fresh broker with an
// empty data directory and one shell for all of its blocks, in which
// localhost:6632 is that broker, pidof queend its process, queen-data its
// directory and bin/queend its program. A broker that a page has ended is
// started again for the next command that talks to it, by that name or $api/.
// A comment
//
//	<!-- broker: NAME=value NAME=value -->
//
// sets environment variables of the broker. What differs from run to run is
// masked on both sides, see masks. With -update the pages get the real output.
package docs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write real output and the generated tables into the pages")

// pages are the files with sessions, relative to this directory.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{"../README.md"}, found...)
}

// masks hide what differs from run to run: ids but the zero one, times, and
// the values of members that measure the machine or the clock.
var masks = []struct {
	pattern *regexp.Regexp
	mask    string
}{
	{regexp.MustCompile(`00000000-0000-0000-0000-000000000000`), "ZERO"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`"(usedPct|retainedBytes|txnHash|uptime|maxTimeLag|timeLagSeconds|time_lag_seconds|lagSeconds)":"?[0-9.]+"?`), `"$1":N`},
}

func masked(text string) string {
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.mask)
	}
	return text
}

// page is a file cut into lines that stay as they are and commands.
type page struct {
	path  string
	parts []part
	env   []string
}

// part is either text or a command with its output.
type part struct {
	text    []string
	command []string // as in the page, with "$ " and "> "
	output  []string
	line    int // of the command, from 1
}

var brokerComment = regexp.MustCompile(`^<!-- broker: (.*) -->$`)

func readPage(path string) (*page, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &page{path: path}
	inside := false
	for i, line := range strings.Split(string(data), "\n") {
		last := len(p.parts) - 1
		isCommand := inside && strings.HasPrefix(line, "$ ")
		switch {
		case isCommand:
			p.parts = append(p.parts, part{command: []string{line}, line: i + 1})
			continue
		case inside && line != "```" && last >= 0 && p.parts[last].command != nil:
			c := &p.parts[last]
			if strings.HasPrefix(line, "> ") && len(c.output) == 0 {
				c.command = append(c.command, line)
			} else {
				c.output = append(c.output, line)
			}
			continue
		case inside && line != "```":
			return nil, fmt.Errorf("%s:%d: a console block begins with a command", path, i+1)
		case line == "```console":
			inside = true
		case line == "```":
			inside = false
		}
		if m := brokerComment.FindStringSubmatch(line); m != nil {
			p.env = append(p.env, strings.Fields(m[1])...)
		}
		if last < 0 || p.parts[last].command != nil {
			p.parts = append(p.parts, part{})
			last++
		}
		p.parts[last].text = append(p.parts[last].text, line)
	}
	return p, nil
}

// script is the command as bash reads it.
func (c *part) script() string {
	lines := make([]string, len(c.command))
	for i, line := range c.command {
		lines[i] = line[2:]
	}
	return strings.Join(lines, "\n")
}

func (p *page) hasCommands() bool {
	return slices.ContainsFunc(p.parts, func(c part) bool { return c.command != nil })
}

func (p *page) write() error {
	var lines []string
	for i := range p.parts {
		c := &p.parts[i]
		lines = append(lines, c.text...)
		lines = append(lines, c.command...)
		lines = append(lines, c.output...)
	}
	return os.WriteFile(p.path, []byte(strings.Join(lines, "\n")), 0o644)
}

func TestSessions(t *testing.T) {
	for _, path := range pages(t) {
		p, err := readPage(path)
		if err != nil {
			t.Fatal(err)
		}
		if !p.hasCommands() {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			p.run(t)
		})
	}
}

func (p *page) run(t *testing.T) {
	b := startBroker(t, p.env)
	sh := startShell(t, b)
	changed := false
	for i := range p.parts {
		c := &p.parts[i]
		if c.command == nil {
			continue
		}
		got, err := sh.run(c.script())
		if err != nil {
			t.Fatalf("%s:%d: %s: %v\nso far: %s\nthe broker's log:\n%s", p.path, c.line, c.script(), err, got, b.log())
		}
		want := strings.Join(c.output, "\n")
		if masked(got) == masked(want) {
			continue
		}
		changed = true
		if !*update {
			t.Errorf("%s:%d: %s\ngot:\n%s\nwant:\n%s", p.path, c.line, c.script(), masked(got), masked(want))
		}
		c.output = nil
		if got != "" {
			c.output = strings.Split(got, "\n")
		}
	}
	if changed && *update {
		if err := p.write(); err != nil {
			t.Fatal(err)
		}
	}
}
