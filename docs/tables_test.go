package docs

import (
	"fmt"
	"io/fs"
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

// What rules.md has: a heading per rule, addition and section, a row per fault.
var (
	ruleHeading    = regexp.MustCompile(`(?m)^#+ ([RAS]\d+) `)
	faultRow       = regexp.MustCompile(`(?m)^\| (F\d+) \| [^|]+ \| ([^|]+) \|$`)
	testOfARule    = regexp.MustCompile(`(?m)^func Test(([RASF]\d+)_\w+)\(`)
	testOfAnything = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	coversOthers   = regexp.MustCompile(`(?:shared|covers|record)\(t((?:, "[RASF]\d+")+)\)`)
	citation       = regexp.MustCompile(`\b[RASF]\d+\b`)
)

// TestEveryCitedRuleIsInRules: whoever meets the number of a rule, an
// addition, a section or a fault in a test finds it in rules.md.
func TestEveryCitedRuleIsInRules(t *testing.T) {
	page := inRules(t)
	for path, text := range sources(t, "_test.go") {
		for _, m := range testOfARule.FindAllStringSubmatch(text, -1) {
			if !page[m[2]] {
				t.Errorf("%s: Test%s names %s, which rules.md has not", path, m[1], m[2])
			}
		}
		for _, m := range coversOthers.FindAllStringSubmatch(text, -1) {
			for _, rule := range citation.FindAllString(m[1], -1) {
				if !page[rule] {
					t.Errorf("%s covers %s, which rules.md has not", path, rule)
				}
			}
		}
	}
	// In comments R and a number is always a rule; S and F may be other things.
	inComment := regexp.MustCompile(`//.*`)
	for path, text := range sources(t, ".go") {
		for _, comment := range inComment.FindAllString(text, -1) {
			for _, rule := range citation.FindAllString(comment, -1) {
				if rule[0] == 'R' && !page[rule] {
					t.Errorf("%s cites %s, which rules.md has not", path, rule)
				}
			}
		}
	}
}

func TestEveryRuleHasAConformanceTest(t *testing.T) {
	page := map[string]bool{}
	for rule := range inRules(t) {
		if rule[0] == 'R' || rule[0] == 'A' {
			page[rule] = true
		}
	}
	guarded := map[string]bool{}
	for path, text := range sources(t, "_test.go") {
		if filepath.Base(filepath.Dir(path)) != "conformance" {
			continue
		}
		for _, m := range testOfARule.FindAllStringSubmatch(text, -1) {
			if m[2][0] == 'R' || m[2][0] == 'A' {
				guarded[m[2]] = true
			}
		}
	}
	compare(t, "rules.md", page, "conformance", guarded)
}

// TestFaultsNameTheirTests: the tests that the table of faults names are in
// the package it says.
func TestFaultsNameTheirTests(t *testing.T) {
	there := map[string]bool{}
	for path, text := range sources(t, "_test.go") {
		for _, m := range testOfAnything.FindAllStringSubmatch(text, -1) {
			there[filepath.Base(filepath.Dir(path))+" "+m[1]] = true
		}
	}
	name := regexp.MustCompile("\\[(\\w+)\\]|`(\\w+)`")
	for _, row := range faultRow.FindAllStringSubmatch(read(t, "rules.md"), -1) {
		pkg, tests := "", 0
		for _, m := range name.FindAllStringSubmatch(row[2], -1) {
			if m[1] != "" {
				pkg = m[1]
				continue
			}
			tests++
			if !there[pkg+" "+m[2]] {
				t.Errorf("%s names %s of package %q, which is not there", row[1], m[2], pkg)
			}
		}
		if tests == 0 {
			t.Errorf("%s names no test", row[1])
		}
	}
}

// inRules are the numbers that rules.md explains.
func inRules(t *testing.T) map[string]bool {
	t.Helper()
	text := read(t, "rules.md")
	found := map[string]bool{}
	for _, list := range [][][]string{ruleHeading.FindAllStringSubmatch(text, -1), faultRow.FindAllStringSubmatch(text, -1)} {
		for _, m := range list {
			if found[m[1]] {
				t.Errorf("rules.md has %s twice", m[1])
			}
			found[m[1]] = true
		}
	}
	return found
}

// sources are the files of the module whose names end in suffix, by path.
func sources(t *testing.T, suffix string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, suffix) {
			files[path] = read(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
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
