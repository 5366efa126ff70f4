package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// shownConfig runs queend config and returns value and source by name.
func shownConfig(t *testing.T, environ []string, args ...string) (values map[string][2]string, stderr string) {
	t.Helper()
	code, out, stderr := start(t, environ, append([]string{"config", "-json"}, args...)...)
	if code != exitOK {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	values = map[string][2]string{}
	for line := range strings.Lines(out) {
		var v struct{ Name, Value, From string }
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		values[v.Name] = [2]string{v.Value, v.From}
	}
	return values, stderr
}

func TestConfigSaysWhereEachValueIsFrom(t *testing.T) {
	got, stderr := shownConfig(t, []string{
		"PORT=7000", "QUEEN_DATA_DIR=/a", "QUEEN_TAIL_MB=lots", "POP_DEFAULT_TIMEOUT_MS=7", "QUEEN_MAX_BODY_BYTES=1000",
	}, "-data", "/b")
	for name, want := range map[string][2]string{
		"PORT": {"7000", "environment"}, "QUEEN_FSYNC": {"always", "default"}, "QUEEN_DATA_DIR": {"/b", "flag"},
		"QUEEN_TAIL_MB": {"64", "default"}, "DEFAULT_TIMEOUT": {"7", "environment"},
		"QUEEN_POP_MAX_BYTES": {"1000", "default"}, "FILE_BUFFER_DIR": {"/b/spool", "default"},
	} {
		if got[name] != want {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
	if len(got) != len(allSettings()) || !strings.Contains(stderr, "QUEEN_TAIL_MB") {
		t.Errorf("%d settings, stderr %q", len(got), stderr)
	}
}

func TestConfigNeverShowsASecret(t *testing.T) {
	secret := strings.Repeat("ab", 32)
	environ := []string{"JWT_JWKS_URL=https://user:" + secret + "@example.org/keys"}
	for _, s := range allSettings() {
		if s.secret {
			environ = append(environ, s.name+"="+secret)
		}
	}
	for _, args := range [][]string{{"config"}, {"config", "-json"}, {"config", "-changed"}} {
		code, out, stderr := start(t, environ, args...)
		if code != exitOK || strings.Contains(out+stderr, secret) || !strings.Contains(out, masked) {
			t.Errorf("%v: exit %d, %s%s", args, code, out, stderr)
		}
	}
}

func TestConfigRefusesWhatTheBrokerWould(t *testing.T) {
	if code, _, stderr := start(t, []string{"QUEEN_HOTLIST=maybe"}, "config"); code != exitUsage || !strings.Contains(stderr, "QUEEN_HOTLIST") {
		t.Fatalf("exit %d, %q", code, stderr)
	}
}

func TestBashCompletesCommandsAndFlags(t *testing.T) {
	code, script, _ := start(t, nil, "completion", "bash")
	if code != exitOK {
		t.Fatalf("exit %d", code)
	}
	for words, want := range map[string]string{
		"queend ver": "verify", "queend dlq re": "replay", "queend completion z": "zsh", "fake pop -lea": "-lease",
	} {
		list := strings.Fields(words)
		run := `fake() { printf '  -lease int\n    \tseconds\n  -n int\n'; }` + "\n" + script +
			"\nCOMP_WORDS=(" + words + "); COMP_CWORD=" + string(rune('0'+len(list)-1)) + `; _queend; echo "${COMPREPLY[@]}"`
		out, err := exec.Command("bash", "--norc", "-c", run).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %q, %v", words, out, err)
		}
	}
}

func TestCompletionIsOnlyForShellsItKnows(t *testing.T) {
	if code, _, stderr := start(t, nil, "completion", "fish"); code != exitUsage || !strings.Contains(stderr, "fish") {
		t.Fatalf("exit %d, %q", code, stderr)
	}
	if _, script, _ := start(t, nil, "completion", "zsh"); !strings.Contains(script, "compdef _queend queend") || !strings.Contains(script, "verify") {
		t.Fatal(script)
	}
}
