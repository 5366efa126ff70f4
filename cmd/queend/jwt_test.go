package main

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestTokensAreAskedForOnlyWhenEnabled(t *testing.T) {
	c, err := loadConfig([]string{"JWT_ALGORITHM=XX1"})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := c.jwt.auth(slog.New(slog.DiscardHandler)); a != nil || err != nil {
		t.Errorf("%v, %v", a, err)
	}
	if c, err = loadConfig([]string{"JWT_ENABLED=yes", "JWT_SECRET=s3cret"}); err != nil {
		t.Fatal(err)
	}
	if a, err := c.jwt.auth(slog.New(slog.DiscardHandler)); a == nil || a.Tokens == nil || err != nil {
		t.Errorf("%v, %v", a, err)
	}
}

func TestTokensWithoutAKeyStopTheBoot(t *testing.T) {
	for _, environ := range [][]string{
		{"JWT_ENABLED=true"}, {"JWT_ENABLED=true", "JWT_ALGORITHM=auto"}, {"JWT_ENABLED=true", "JWT_ALGORITHM=RS256", "JWT_SECRET=s3cret"},
		{"JWT_ENABLED=true", "JWT_ALGORITHM=XX1", "JWT_SECRET=s3cret"}, {"JWT_ENABLED=true", "JWT_SECRET=   "},
	} {
		code, _, err := start(t, environ)
		if code != exitUsage || !strings.Contains(err, "JWT_ALGORITHM") || strings.Contains(err, "s3cret") {
			t.Errorf("%v: exit %d, %q", environ, code, err)
		}
	}
}

func TestSkipPathsMayBeCleared(t *testing.T) {
	for _, row := range []struct {
		environ []string
		want    string
	}{
		{nil, "[/health /metrics/prometheus /metrics /]"}, {[]string{"JWT_SKIP_PATHS="}, "[]"}, {[]string{"JWT_SKIP_PATHS= , "}, "[]"},
		{[]string{"JWT_SKIP_PATHS=/status, /docs/ "}, "[/status /docs/]"},
	} {
		c, err := loadConfig(row.environ)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(c.jwt.skip); got != row.want {
			t.Errorf("%v: %s, want %s", row.environ, got, row.want)
		}
	}
}

func TestTokenSettingsAreTaken(t *testing.T) {
	c, err := loadConfig([]string{"JWT_ROLE_ADMIN=root", "JWT_JWKS_TIMEOUT_MS=250", "JWT_CLOCK_SKEW=0", "JWT_AUDIENCE=queue"})
	if err != nil {
		t.Fatal(err)
	}
	j := &c.jwt
	if j.tokens.AdminName != "root" || j.tokens.ReadOnlyName != "read-only" || j.timeout != 250 || j.skewS != 0 || j.refreshS != 3600 ||
		j.tokens.Audience != "queue" || j.tokens.RolesClaim != "role" || time.Duration(j.refreshS)*time.Second != time.Hour {
		t.Errorf("%+v", *j)
	}
}
