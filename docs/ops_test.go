package docs

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// alertRules is alerts.yml as far as the tests look at it.
type alertRules struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

func readAlerts(t *testing.T) (rules alertRules) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, "ops/alerts.yml")), &rules); err != nil {
		t.Fatal(err)
	}
	return rules
}

// dashboard is dashboard.json as far as the tests look at it.
type dashboard struct {
	Title, UID    string
	SchemaVersion int
	Templating    struct{ List []struct{ Name string } }
	Panels        []struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ H, W, X, Y int }
		Targets []struct{ Expr string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, "ops/dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// expressions are those of alerts and panels by where they stand, with the
// variables of the dashboard filled in.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, g := range readAlerts(t).Groups {
		for _, r := range g.Rules {
			all["alert "+r.Alert] = r.Expr
		}
	}
	fill := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*")
	for _, p := range readDashboard(t).Panels {
		for i, target := range p.Targets {
			all[fmt.Sprintf("panel %s %d", p.Title, i)] = fill.Replace(target.Expr)
		}
	}
	return all
}

var (
	metricName = regexp.MustCompile(`\b(?:queen|queend|go|process)_[a-z0-9_]+\b`)
	typeLine   = regexp.MustCompile(`(?m)^# TYPE (\S+) (\w+)$`)
)

// TestAlertsAndDashboardNameMetricsThereAre holds them against the page of a
// running broker.
func TestAlertsAndDashboardNameMetricsThereAre(t *testing.T) {
	t.Parallel()
	resp, err := http.Get("http://" + startBroker(t, nil).address() + "/metrics/prometheus")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, m := range typeLine.FindAllStringSubmatch(string(page), -1) {
		if m[2] == "histogram" {
			shown[m[1]+"_bucket"] = true
		} else {
			shown[m[1]] = true
		}
	}
	named := 0
	for place, expr := range expressions(t) {
		for _, name := range metricName.FindAllString(expr, -1) {
			named++
			if !shown[name] {
				t.Errorf("%s names %s, which the broker does not show", place, name)
			}
		}
	}
	if named < 40 {
		t.Errorf("only %d names were found", named)
	}
}

func TestEveryAlertIsExplained(t *testing.T) {
	text := read(t, "operations.md")
	page, rules := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(Queend\\w+)` \\|").FindAllStringSubmatch(text, -1) {
		page[m[1]] = true
	}
	tested := read(t, "ops/alerts.test.yml")
	for _, g := range readAlerts(t).Groups {
		for _, r := range g.Rules {
			rules[r.Alert] = true
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["action"] == "" {
				t.Errorf("%s lacks a severity, a summary or an action", r.Alert)
			}
			if !strings.Contains(tested, "alertname: "+r.Alert+"\n") {
				t.Errorf("alerts.test.yml never lets %s fire", r.Alert)
			}
		}
	}
	compare(t, "operations.md", page, "alerts.yml", rules)
}

func TestDashboardIsWhole(t *testing.T) {
	d := readDashboard(t)
	if d.Title == "" || d.UID == "" || d.SchemaVersion == 0 || len(d.Templating.List) != 2 {
		t.Errorf("%+v", d)
	}
	ids := []int{}
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		if slices.Contains(ids, p.ID) {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids = append(ids, p.ID)
		if (p.Type == "row") != (len(p.Targets) == 0) || p.Title == "" {
			t.Errorf("panel %q of type %s has %d targets", p.Title, p.Type, len(p.Targets))
		}
		g := p.GridPos
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q overlaps %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// TestPrometheusTakesTheRules has the program check the alerts, run their
// tests, and parse what the dashboard asks.
func TestPrometheusTakesTheRules(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is missing; make deps installs it")
	}
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var rules []rule
	for place, expr := range expressions(t) {
		if strings.HasPrefix(place, "panel ") {
			rules = append(rules, rule{fmt.Sprintf("panel_%d", len(rules)), expr})
		}
	}
	asked, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(file, asked, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml", file}, {"test", "rules", "alerts.test.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = "ops"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
