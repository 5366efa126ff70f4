package main

import (
	"log/slog"
	"strings"
	"time"

	"queend/api"
	"queend/auth"
)

// jwtConfig is what the JWT_* variables say.
type jwtConfig struct {
	on       bool
	tokens   auth.Config
	skip     []string
	refreshS int64
	timeout  int64 // ms
	skewS    int64
}

var jwtSettings = []setting{
	{name: "JWT_ENABLED", def: "false", effect: "ask for a token",
		set: toggle(func(c *config) *bool { return &c.jwt.on })},
	{name: "JWT_ALGORITHM", def: "HS256", effect: "HS256/384/512, RS256 (all RS), RS384, RS512, EdDSA or auto (all)",
		set: text(func(c *config) *string { return &c.jwt.tokens.Algorithm })},
	{name: "JWT_SECRET", def: "", effect: "secret of HS*", secret: true,
		set: text(func(c *config) *string { return &c.jwt.tokens.Secret })},
	{name: "JWT_PUBLIC_KEY", def: "", effect: "public key of RS* or EdDSA, PEM; wins over the JWKS", secret: true,
		set: text(func(c *config) *string { return &c.jwt.tokens.PublicKey })},
	{name: "JWT_JWKS_URL", def: "", effect: "where the public keys are published",
		set: text(func(c *config) *string { return &c.jwt.tokens.JWKSURL })},
	{name: "JWT_JWKS_REFRESH_INTERVAL", def: "3600", effect: "age at which they are fetched again, s",
		set: number(1, func(c *config) *int64 { return &c.jwt.refreshS })},
	{name: "JWT_JWKS_TIMEOUT_MS", def: "5000", effect: "time-out of that, ms",
		set: number(1, func(c *config) *int64 { return &c.jwt.timeout })},
	{name: "JWT_ISSUER", def: "", effect: "the iss a token must have",
		set: text(func(c *config) *string { return &c.jwt.tokens.Issuer })},
	{name: "JWT_AUDIENCE", def: "", effect: "the aud a token must have",
		set: text(func(c *config) *string { return &c.jwt.tokens.Audience })},
	{name: "JWT_CLOCK_SKEW", def: "30", effect: "clocks may differ by this much, s",
		set: number(0, func(c *config) *int64 { return &c.jwt.skewS })},
	{name: "JWT_ROLES_CLAIM", def: "role", effect: "claim with one role",
		set: text(func(c *config) *string { return &c.jwt.tokens.RolesClaim })},
	{name: "JWT_ROLES_ARRAY_CLAIM", def: "roles", effect: "claim with several",
		set: text(func(c *config) *string { return &c.jwt.tokens.RolesArrayClaim })},
	{name: "JWT_ROLE_ADMIN", def: "admin", effect: "name of the role that may do everything",
		set: text(func(c *config) *string { return &c.jwt.tokens.AdminName })},
	{name: "JWT_ROLE_READ_WRITE", def: "read-write", effect: "name of the role of workers",
		set: text(func(c *config) *string { return &c.jwt.tokens.ReadWriteName })},
	{name: "JWT_ROLE_READ_ONLY", def: "read-only", effect: "name of the role that only looks",
		set: text(func(c *config) *string { return &c.jwt.tokens.ReadOnlyName })},
	{name: "JWT_ROLE_WRITE_ONLY", def: "write-only", effect: "name of the role that only pushes",
		set: text(func(c *config) *string { return &c.jwt.tokens.WriteOnlyName })},
	{name: "JWT_SKIP_PATHS", def: "/health,/metrics/prometheus,/metrics,/", blank: true,
		effect: "paths without a token; set but empty: none", set: setSkipPaths},
}

func setSkipPaths(c *config, text string) error {
	c.jwt.skip = nil
	for _, path := range strings.Split(text, ",") {
		if path = strings.TrimSpace(path); path != "" {
			c.jwt.skip = append(c.jwt.skip, path)
		}
	}
	return nil
}

// check makes the verifier: a configuration without a usable key is fatal.
func (j *jwtConfig) check() error {
	if !j.on {
		return nil
	}
	_, err := j.verifier(slog.New(slog.DiscardHandler))
	return err
}

func (j *jwtConfig) verifier(logger *slog.Logger) (*auth.Verifier, error) {
	c := j.tokens
	c.JWKSRefresh, c.JWKSTimeout = time.Duration(j.refreshS)*time.Second, time.Duration(j.timeout)*time.Millisecond
	c.ClockSkew = time.Duration(j.skewS) * time.Second
	c.Log, c.Now = logger, time.Now
	return auth.New(c)
}

// auth returns what the API asks for tokens, nil when it asks for none.
func (j *jwtConfig) auth(logger *slog.Logger) (*api.Auth, error) {
	if !j.on {
		return nil, nil
	}
	tokens, err := j.verifier(logger)
	if err != nil {
		return nil, err
	}
	go tokens.Warm()
	return &api.Auth{Tokens: tokens, SkipPaths: j.skip}, nil
}
