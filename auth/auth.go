// Package auth finds out who sent a request and what that caller may do, from
// a JSON Web Token (docs/rules.md, S2). It knows no HTTP server and no route.
package auth

import (
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Roles is a set of roles.
type Roles uint8

// The roles a token may carry.
const (
	ReadOnly Roles = 1 << iota
	WriteOnly
	ReadWrite
	Admin
)

// Config says which tokens are accepted. Names that are empty are the
// defaults of S2.
type Config struct {
	Algorithm   string // auto, RS256 for all RS, or one algorithm
	Secret      string // for HS*
	PublicKey   string // PEM for RS* and EdDSA; beats the JWKS
	JWKSURL     string
	JWKSRefresh time.Duration // 0: an hour
	JWKSTimeout time.Duration // 0: 5 s
	Issuer      string        // "": not checked
	Audience    string        // "": not checked
	ClockSkew   time.Duration // allowed for exp, nbf and iat

	RolesClaim, RolesArrayClaim string
	AdminName, ReadWriteName    string
	ReadOnlyName, WriteOnlyName string

	Log *slog.Logger     // nil: slog.Default()
	Now func() time.Time // nil: time.Now
}

// Caller is who a token speaks for.
type Caller struct {
	Subject *string // nil when the token names none
	Roles   Roles
}

// Error refuses a token. Ours is set when the fault is in the configuration
// of the broker and not in the token.
type Error struct {
	Text string
	Ours bool
}

// Error prints the text for the client.
func (e *Error) Error() string { return e.Text }

// What is wrong with a token.
var (
	errMissing   = &Error{Text: "Authentication required"}
	errHeader    = &Error{Text: "Bad token header"}
	errAlgorithm = &Error{Text: "Unsupported token algorithm"}
	errSignature = &Error{Text: "Invalid token signature"}
	errExpired   = &Error{Text: "Token has expired"}
	errNotYet    = &Error{Text: "Token not yet valid"}
	errFuture    = &Error{Text: "Token issued in the future"}
	errIssuer    = &Error{Text: "Invalid token issuer"}
	errAudience  = &Error{Text: "Invalid token audience"}
	errKeyID     = &Error{Text: "Unknown key ID"}

	errNoSecret = &Error{Text: "HS secret not configured", Ours: true}
	errRSAKey   = &Error{Text: "invalid RSA public key PEM", Ours: true}
	errEdKey    = &Error{Text: "invalid Ed public key PEM", Ours: true}
)

// accepted are the algorithms that each value of Config.Algorithm stands for.
var accepted = map[string][]string{
	"auto":  {"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "EdDSA"},
	"RS256": {"RS256", "RS384", "RS512"},
	"HS256": {"HS256"}, "HS384": {"HS384"}, "HS512": {"HS512"},
	"RS384": {"RS384"}, "RS512": {"RS512"}, "EdDSA": {"EdDSA"},
}

// Verifier checks tokens. It is safe for concurrent use.
type Verifier struct {
	c          Config
	algorithms []string
	parser     *jwt.Parser
	rsaKey     *rsa.PublicKey // of the PEM; nil when it is none
	edKey      ed25519.PublicKey
	keys       *keySet // nil without a JWKS
}

// New refuses an algorithm it does not know and one that it has no key for.
func New(c Config) (*Verifier, error) {
	c.fill()
	algorithms := accepted[c.Algorithm]
	if algorithms == nil {
		return nil, fmt.Errorf("JWT_ALGORITHM: %q is not known", c.Algorithm)
	}
	symmetric := c.Algorithm == "auto" || strings.HasPrefix(c.Algorithm, "HS")
	if c.PublicKey == "" && c.JWKSURL == "" && (!symmetric || c.Secret == "") {
		return nil, fmt.Errorf("JWT_ALGORITHM=%s needs a key: set JWT_SECRET (HS), JWT_PUBLIC_KEY or JWT_JWKS_URL", c.Algorithm)
	}
	v := &Verifier{c: c, algorithms: algorithms, parser: jwt.NewParser(jwt.WithoutClaimsValidation())}
	if c.PublicKey != "" {
		// A variable often holds line ends as two characters.
		pem := []byte(strings.ReplaceAll(c.PublicKey, `\n`, "\n"))
		v.rsaKey, _ = jwt.ParseRSAPublicKeyFromPEM(pem)
		if key, err := jwt.ParseEdPublicKeyFromPEM(pem); err == nil {
			v.edKey, _ = key.(ed25519.PublicKey)
		}
		if v.rsaKey == nil && v.edKey == nil {
			c.Log.Warn("JWT_PUBLIC_KEY is neither an RSA nor an Ed25519 public key in PEM; tokens that need it are refused")
		}
	}
	if c.JWKSURL != "" {
		if u, err := url.Parse(c.JWKSURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, errors.New("JWT_JWKS_URL is not an http or https URL")
		}
		v.keys = newKeySet(&c)
	}
	return v, nil
}

func (c *Config) fill() {
	for _, d := range []struct {
		field *string
		value string
	}{
		{&c.Algorithm, "HS256"}, {&c.RolesClaim, "role"}, {&c.RolesArrayClaim, "roles"}, {&c.AdminName, "admin"},
		{&c.ReadWriteName, "read-write"}, {&c.ReadOnlyName, "read-only"}, {&c.WriteOnlyName, "write-only"},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	for known := range accepted {
		if strings.EqualFold(known, strings.TrimSpace(c.Algorithm)) {
			c.Algorithm = known
		}
	}
	if c.JWKSRefresh <= 0 {
		c.JWKSRefresh = time.Hour
	}
	if c.JWKSTimeout <= 0 {
		c.JWKSTimeout = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}

// Warm fetches the JWKS, if there is one, so that the first request need not.
// A failure is logged: a later request tries again.
func (v *Verifier) Warm() {
	if v.keys != nil {
		v.keys.update()
	}
}

// Verify checks the credential of an Authorization header: a token with or
// without "Bearer" before it. The error is an *Error.
func (v *Verifier) Verify(authorization string) (Caller, error) {
	text := strings.TrimSpace(authorization)
	if scheme, rest, found := strings.Cut(text, " "); found && strings.EqualFold(scheme, "Bearer") {
		text = strings.TrimSpace(rest)
	} else if strings.EqualFold(text, "Bearer") {
		text = ""
	}
	if text == "" {
		return Caller{}, errMissing
	}
	claims := jwt.MapClaims{}
	if _, err := v.parser.ParseWithClaims(text, claims, v.keyOf); err != nil {
		return Caller{}, refusalOf(err)
	}
	if err := v.checkTimes(claims); err != nil {
		return Caller{}, err
	}
	if err := v.checkParties(claims); err != nil {
		return Caller{}, err
	}
	caller := Caller{Roles: v.rolesOf(claims)}
	if subject, ok := claims["sub"].(string); ok {
		caller.Subject = &subject
	}
	return caller, nil
}

// refusalOf maps what the parser says to the texts of S2.
func refusalOf(err error) *Error {
	var own *Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, jwt.ErrTokenMalformed):
		return errHeader
	case errors.Is(err, jwt.ErrTokenUnverifiable):
		return errAlgorithm // the parser does not know it
	}
	return errSignature
}

// keyOf chooses the key by the algorithm of the token, which must be one that
// is accepted: a public key is never taken for a secret.
func (v *Verifier) keyOf(t *jwt.Token) (any, error) {
	name := t.Method.Alg()
	if !slices.Contains(v.algorithms, name) {
		return nil, errAlgorithm
	}
	if _, critical := t.Header["crit"]; critical {
		return nil, errHeader // extensions that must be understood, and are not
	}
	switch {
	case strings.HasPrefix(name, "HS"):
		if v.c.Secret == "" {
			return nil, errNoSecret
		}
		return []byte(v.c.Secret), nil
	case v.c.PublicKey != "":
		return v.pemKey(name)
	case v.keys == nil:
		return nil, errKeyID
	}
	kid := ""
	if value, present := t.Header["kid"]; present && value != nil {
		text, ok := value.(string)
		if !ok {
			return nil, errHeader
		}
		kid = text
	}
	return v.keys.find(kid, name)
}

func (v *Verifier) pemKey(name string) (any, error) {
	if name == "EdDSA" {
		if v.edKey == nil {
			return nil, errEdKey
		}
		return v.edKey, nil
	}
	if v.rsaKey == nil {
		return nil, errRSAKey
	}
	return v.rsaKey, nil
}

// checkTimes refuses what is over or has not begun. A time that is not a
// number counts as the wrong one.
func (v *Verifier) checkTimes(claims jwt.MapClaims) error {
	now := v.c.Now()
	if at, err := claims.GetExpirationTime(); err != nil || at != nil && !now.Add(-v.c.ClockSkew).Before(at.Time) {
		return errExpired
	}
	if at, err := claims.GetNotBefore(); err != nil || at != nil && now.Add(v.c.ClockSkew).Before(at.Time) {
		return errNotYet
	}
	if at, err := claims.GetIssuedAt(); err != nil || at != nil && now.Add(v.c.ClockSkew).Before(at.Time) {
		return errFuture
	}
	return nil
}

func (v *Verifier) checkParties(claims jwt.MapClaims) error {
	if v.c.Issuer != "" {
		if issuer, err := claims.GetIssuer(); err != nil || issuer != v.c.Issuer {
			return errIssuer
		}
	}
	if v.c.Audience != "" {
		if audience, err := claims.GetAudience(); err != nil || !slices.Contains(audience, v.c.Audience) {
			return errAudience
		}
	}
	return nil
}

// rolesOf collects the roles of both claims; each may be one name or many.
func (v *Verifier) rolesOf(claims jwt.MapClaims) (roles Roles) {
	for _, claim := range []string{v.c.RolesClaim, v.c.RolesArrayClaim} {
		switch value := claims[claim].(type) {
		case string:
			roles |= v.role(value)
		case []any:
			for _, element := range value {
				if name, ok := element.(string); ok {
					roles |= v.role(name)
				}
			}
		}
	}
	return roles
}

func (v *Verifier) role(name string) Roles {
	switch name {
	case v.c.AdminName:
		return Admin
	case v.c.ReadWriteName:
		return ReadWrite
	case v.c.ReadOnlyName:
		return ReadOnly
	case v.c.WriteOnlyName:
		return WriteOnly
	}
	return 0
}
