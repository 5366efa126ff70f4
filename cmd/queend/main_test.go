package main

import (
	"bytes"
	"strings"
	"testing"
)

// start runs the command line up to the point where it would serve.
func start(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(args, environ, &out, &err)
	return code, out.String(), err.String()
}

func TestVersionIsPrinted(t *testing.T) {
	if code, out, _ := start(t, nil, "-version"); code != exitOK || !strings.HasPrefix(out, "queend ") {
		t.Fatalf("exit %d, %q", code, out)
	}
}

func TestHelpNamesEverySetting(t *testing.T) {
	code, out, _ := start(t, nil, "-help")
	if code != exitOK {
		t.Fatalf("exit %d", code)
	}
	for _, s := range settings {
		if !strings.Contains(out, s.name) {
			t.Errorf("%s is not in the help", s.name)
		}
	}
}

func TestUnknownFlagsAndArgumentsStopTheBoot(t *testing.T) {
	for _, args := range [][]string{{"-nonsense"}, {"nonsense"}, {"-profile", "nonsense"}} {
		if code, _, err := start(t, nil, args...); code != exitUsage || !strings.Contains(err, "nonsense") {
			t.Errorf("%v: exit %d, %q", args, code, err)
		}
	}
}

func TestBadSettingsStopTheBootNamingTheVariable(t *testing.T) {
	for _, pair := range []string{
		"QUEEN_HOTLIST=maybe", "QUEEN_FSYNC=sometimes", "QUEEN_FSYNC=interval:x", "QUEEN_POP_AUTOPILOT=half",
		"QUEEN_BIND_ADDR=127.0.0.1:80", "QUEEN_TENANCY_HEADER=true", "QUEEN_TLS_CERT=x.pem",
		"QUEEN_ENCRYPTION_REQUIRED=true", "PORT=70000", "LOG_LEVEL=loud",
	} {
		name, _, _ := strings.Cut(pair, "=")
		if code, _, err := start(t, []string{pair}); code != exitUsage || !strings.Contains(err, name) {
			t.Errorf("%s: exit %d, %q", pair, code, err)
		}
	}
}

func TestBadNumbersFallBackToTheDefaultWithANotice(t *testing.T) {
	c, err := loadConfig([]string{"QUEEN_TAIL_MB=lots", "DEFAULT_TIMEOUT=-5", "QUEEN_ZSTD_LEVEL=9"})
	if err != nil {
		t.Fatal(err)
	}
	if c.broker.TailBytes != 64*mebi || c.broker.DefaultTimeoutMS != 30000 || c.broker.ZstdLevel != 1 {
		t.Errorf("tail %d, timeout %d, level %d", c.broker.TailBytes, c.broker.DefaultTimeoutMS, c.broker.ZstdLevel)
	}
	for _, name := range []string{"QUEEN_TAIL_MB", "DEFAULT_TIMEOUT", "QUEEN_ZSTD_LEVEL"} {
		if !strings.Contains(strings.Join(c.notices, "\n"), name) {
			t.Errorf("no notice names %s", name)
		}
	}
}

func TestFirstTimeoutSettingWins(t *testing.T) {
	c, err := loadConfig([]string{"POP_DEFAULT_TIMEOUT_MS=7", "DEFAULT_TIMEOUT=9"})
	if err != nil || c.broker.DefaultTimeoutMS != 9 {
		t.Errorf("timeout %d, %v", c.broker.DefaultTimeoutMS, err)
	}
	c, err = loadConfig([]string{"POP_DEFAULT_TIMEOUT_MS=7"})
	if err != nil || c.broker.DefaultTimeoutMS != 7 {
		t.Errorf("timeout %d, %v", c.broker.DefaultTimeoutMS, err)
	}
}

func TestBlankSettingsAreTheirDefault(t *testing.T) {
	c, err := loadConfig([]string{"QUEEN_FSYNC= ", "PORT="})
	if err != nil || c.port != 6632 || c.fsync != "always" {
		t.Errorf("port %d, fsync %q, %v", c.port, c.fsync, err)
	}
}

func TestBadKeyDisablesEncryptionWithTheKnownWarning(t *testing.T) {
	for value, want := range map[string]string{
		"abc":                    "QUEEN_ENCRYPTION_KEY must be 64 hex chars; encryption DISABLED",
		strings.Repeat("zz", 32): "QUEEN_ENCRYPTION_KEY is not valid hex; encryption DISABLED",
	} {
		c, err := loadConfig([]string{"QUEEN_ENCRYPTION_KEY=" + value})
		if err != nil || c.keyNote != want || c.broker.EncryptionKey != nil {
			t.Errorf("%q: %q, %v", value, c.keyNote, err)
		}
	}
}
