package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	queue "queend/broker"
)

// The settings stand between these lines of configuration.md.
const (
	settingsBegin = "<!-- settings, written by go test ./docs -update -->\n"
	settingsEnd   = "<!-- end of settings -->\n"
)

func TestConfigurationListsEverySetting(t *testing.T) {
	table := settingsTable(t)
	const path = "configuration.md"
	text := read(t, path)
	before, rest, ok := strings.Cut(text, settingsBegin)
	old, after, ok2 := strings.Cut(rest, settingsEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the settings", path)
	}
	if old == table {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the program says; run go test ./docs -update. It should have:\n%s", path, table)
	}
	if err := os.WriteFile(path, []byte(before+settingsBegin+table+settingsEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// settingsTable is the environment as queend -help prints it: name, default,
// effect.
func settingsTable(t *testing.T) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "-help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(out), "Environment (name, default, effect):\n")
	lines, _, _ := strings.Cut(rest, "\n\n")
	table := "| Variable | Default | Effect |\n| --- | --- | --- |\n"
	row := regexp.MustCompile(`^  (\S+) +(\S+) +(.+)$`)
	for line := range strings.Lines(lines + "\n") {
		m := row.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			t.Fatalf("queend -help has a line of another shape: %q", line)
		}
		def := "`" + m[2] + "`"
		if m[2] == "-" {
			def = ""
		}
		table += fmt.Sprintf("| `%s` | %s | %s |\n", m[1], def, strings.ReplaceAll(m[3], "|", `\|`))
	}
	return table
}

func TestEveryRouteIsInAPI(t *testing.T) {
	files, err := filepath.Glob("../api/*.go")
	if err != nil {
		t.Fatal(err)
	}
	code := map[string]bool{}
	inCode := regexp.MustCompile(`\{"(GET|POST|DELETE|PUT)", "(/[^"]*)", level`)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, m := range inCode.FindAllStringSubmatch(read(t, path), -1) {
			code[m[1]+" "+m[2]] = true
		}
	}
	page := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^### `([A-Z]+ /[^`]*)`").FindAllStringSubmatch(read(t, "api.md"), -1) {
		page[m[1]] = true
	}
	compare(t, "api.md", page, "the table of routes", code)
}

func TestEveryOptionIsInOptions(t *testing.T) {
	page := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|").FindAllStringSubmatch(read(t, "options.md"), -1) {
		if queue.KindOf(m[1]) == queue.OptionNone {
			t.Errorf("options.md has %s, which is no option", m[1])
		}
		page[m[1]] = true
	}
	code := map[string]bool{"namespace": true, "task": true}
	for _, m := range regexp.MustCompile(`\{name: "(\w+)", (number|toggle):`).FindAllStringSubmatch(read(t, "../broker/configure.go"), -1) {
		code[m[1]] = true
	}
	compare(t, "options.md", page, "the table of options", code)
}

func TestArchitectureNamesEveryFileOfTheBroker(t *testing.T) {
	files, err := filepath.Glob("../broker/*.go")
	if err != nil {
		t.Fatal(err)
	}
	code := map[string]bool{}
	for _, path := range files {
		if !strings.HasSuffix(path, "_test.go") {
			code[filepath.Base(path)] = true
		}
	}
	page := map[string]bool{}
	for line := range strings.Lines(read(t, "../ARCHITECTURE.md")) {
		names, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !ok || !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, m := range regexp.MustCompile("`([a-z_0-9]+\\.go)`").FindAllStringSubmatch(names, -1) {
			page[m[1]] = true
		}
	}
	compare(t, "ARCHITECTURE.md", page, "package broker", code)
}

// compare reports what only one side has.
func compare(t *testing.T, aName string, a map[string]bool, bName string, b map[string]bool) {
	t.Helper()
	for _, pair := range []struct {
		name, other string
		has, lacks  map[string]bool
	}{{aName, bName, a, b}, {bName, aName, b, a}} {
		var only []string
		for name := range pair.has {
			if !pair.lacks[name] {
				only = append(only, name)
			}
		}
		slices.Sort(only)
		for _, name := range only {
			t.Errorf("%s has %s, %s has not", pair.name, name, pair.other)
		}
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)
	for _, path := range append(pages(t), "../ARCHITECTURE.md", "../CHANGELOG.md") {
		for _, m := range link.FindAllStringSubmatch(read(t, path), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := path
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(path), m[1])
			}
			info, err := os.Stat(target)
			if err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
				continue
			}
			if m[2] != "" && !info.IsDir() && !anchors(read(t, target))[m[2][1:]] {
				t.Errorf("%s links to %s%s, which has no such heading", path, m[1], m[2])
			}
		}
	}
}

// anchors are the headings of a page as links name them.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		name := strings.ToLower(m[1])
		name = regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(name, "")
		found[strings.ReplaceAll(name, " ", "-")] = true
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
