package auth

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// noon is the time of the tests.
var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

func verifier(t *testing.T, c Config) *Verifier {
	t.Helper()
	if c.Now == nil {
		c.Now = func() time.Time { return noon }
	}
	c.Log = slog.New(slog.DiscardHandler)
	v, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func sign(t *testing.T, method jwt.SigningMethod, key any, header map[string]any, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	for name, value := range header {
		token.Header[name] = value
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// hs signs with the secret of the tests.
func hs(t *testing.T, claims jwt.MapClaims) string {
	return sign(t, jwt.SigningMethodHS256, []byte("s3cret"), nil, claims)
}

// refuses checks the text of a refusal, "" for none.
func refuses(t *testing.T, v *Verifier, credential, want string) Caller {
	t.Helper()
	caller, err := v.Verify(credential)
	got := ""
	var refused *Error
	if errors.As(err, &refused) {
		got = refused.Text
	}
	if got != want || (err != nil) != (want != "") {
		t.Errorf("%v, want %q", err, want)
	}
	return caller
}

func rsaKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func edKey(t *testing.T) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

func pemOf(t *testing.T, public any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func TestTheCredentialMayStandWithOrWithoutBearer(t *testing.T) {
	v := verifier(t, Config{Secret: "s3cret"})
	token := hs(t, jwt.MapClaims{"role": "admin", "sub": "ann"})
	for _, credential := range []string{token, "Bearer " + token, "bearer  " + token, "BEARER " + token, "  " + token + " "} {
		caller := refuses(t, v, credential, "")
		if caller.Subject == nil || *caller.Subject != "ann" || caller.Roles != Admin {
			t.Errorf("%+v", caller)
		}
	}
	for _, credential := range []string{"", " ", "Bearer", "Bearer ", "bearer"} {
		refuses(t, v, credential, "Authentication required")
	}
	refuses(t, v, "Basic YTpi", "Bad token header")
}

func TestMalformedTokensHaveABadHeader(t *testing.T) {
	v := verifier(t, Config{Secret: "s3cret"})
	good := strings.Split(hs(t, jwt.MapClaims{"role": "admin"}), ".")
	for _, token := range []string{
		"x", "a.b", "a.b.c", "..", "a.b.c.d", "eyJhbGciOiI." + good[1] + "." + good[2], "bnVsbA." + good[1] + "." + good[2],
	} {
		if _, err := v.Verify(token); err == nil {
			t.Errorf("%q is accepted", token)
		}
	}
	refuses(t, v, "x", "Bad token header")
	refuses(t, v, "%%%."+good[1]+"."+good[2], "Bad token header")
	refuses(t, v, sign(t, jwt.SigningMethodHS256, []byte("s3cret"), map[string]any{"crit": []string{"x"}}, nil), "Bad token header")
}

func TestOnlyTheConfiguredAlgorithmsAreAccepted(t *testing.T) {
	rsaPrivate := rsaKey(t)
	edPublic, edPrivate := edKey(t)
	secret := []byte("s3cret")
	tokens := map[string]string{}
	for _, m := range []*jwt.SigningMethodHMAC{jwt.SigningMethodHS256, jwt.SigningMethodHS384, jwt.SigningMethodHS512} {
		tokens[m.Alg()] = sign(t, m, secret, nil, jwt.MapClaims{})
	}
	for _, m := range []*jwt.SigningMethodRSA{jwt.SigningMethodRS256, jwt.SigningMethodRS384, jwt.SigningMethodRS512} {
		tokens[m.Alg()] = sign(t, m, rsaPrivate, nil, jwt.MapClaims{})
	}
	tokens["PS256"] = sign(t, jwt.SigningMethodPS256, rsaPrivate, nil, jwt.MapClaims{})
	tokens["EdDSA"] = sign(t, jwt.SigningMethodEdDSA, edPrivate, nil, jwt.MapClaims{})
	tokens["none"] = sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, jwt.MapClaims{})
	for _, row := range []struct{ algorithm, key, accepts string }{
		{"HS256", "", "HS256"}, {"HS384", "", "HS384"}, {"HS512", "", "HS512"}, {"", "", "HS256"}, {"hs256", "", "HS256"},
		{"RS256", pemOf(t, &rsaPrivate.PublicKey), "RS256 RS384 RS512"}, {"RS384", pemOf(t, &rsaPrivate.PublicKey), "RS384"},
		{"RS512", pemOf(t, &rsaPrivate.PublicKey), "RS512"}, {"EdDSA", pemOf(t, edPublic), "EdDSA"},
		{"auto", pemOf(t, &rsaPrivate.PublicKey), "HS256 HS384 HS512 RS256 RS384 RS512"}, {"auto", pemOf(t, edPublic), "HS256 HS384 HS512 EdDSA"},
	} {
		v := verifier(t, Config{Algorithm: row.algorithm, Secret: "s3cret", PublicKey: row.key})
		for name, token := range tokens {
			_, err := v.Verify(token)
			if want := strings.Contains(" "+row.accepts+" ", " "+name+" "); (err == nil) != want {
				t.Errorf("algorithm %q, token %s: %v", row.algorithm, name, err)
			}
		}
		refuses(t, v, tokens["none"], "Unsupported token algorithm")
		refuses(t, v, tokens["PS256"], "Unsupported token algorithm")
	}
}

func TestAPublicKeyIsNoSecret(t *testing.T) {
	key := pemOf(t, &rsaKey(t).PublicKey)
	forged := sign(t, jwt.SigningMethodHS256, []byte(key), nil, jwt.MapClaims{"role": "admin"})
	refuses(t, verifier(t, Config{Algorithm: "auto", PublicKey: key}), forged, "HS secret not configured")
	refuses(t, verifier(t, Config{Algorithm: "auto", PublicKey: key, Secret: "s3cret"}), forged, "Invalid token signature")
	refuses(t, verifier(t, Config{Algorithm: "RS256", PublicKey: key, Secret: "s3cret"}), forged, "Unsupported token algorithm")
	empty := sign(t, jwt.SigningMethodHS256, []byte(""), nil, jwt.MapClaims{"role": "admin"})
	refuses(t, verifier(t, Config{Algorithm: "auto", PublicKey: key}), empty, "HS secret not configured")
}

func TestFaultsOfTheConfigurationAreOurs(t *testing.T) {
	edPublic, edPrivate := edKey(t)
	rsaPrivate := rsaKey(t)
	for _, row := range []struct {
		c     Config
		token string
		want  string
	}{
		{Config{Algorithm: "RS256", PublicKey: "nonsense"}, sign(t, jwt.SigningMethodRS256, rsaPrivate, nil, nil), "invalid RSA public key PEM"},
		{Config{Algorithm: "RS256", PublicKey: pemOf(t, edPublic)}, sign(t, jwt.SigningMethodRS256, rsaPrivate, nil, nil), "invalid RSA public key PEM"},
		{Config{Algorithm: "EdDSA", PublicKey: "nonsense"}, sign(t, jwt.SigningMethodEdDSA, edPrivate, nil, nil), "invalid Ed public key PEM"},
		{Config{PublicKey: pemOf(t, edPublic)}, hs(t, nil), "HS secret not configured"},
	} {
		_, err := verifier(t, row.c).Verify(row.token)
		var refused *Error
		if !errors.As(err, &refused) || !refused.Ours || refused.Text != row.want {
			t.Errorf("%v, want %q of our own", err, row.want)
		}
	}
}

func TestAConfigurationWithoutAKeyIsRefused(t *testing.T) {
	for _, c := range []Config{
		{}, {Algorithm: "auto"}, {Algorithm: "HS512"}, {Algorithm: "RS256"}, {Algorithm: "RS256", Secret: "s"}, {Algorithm: "EdDSA", Secret: "s"},
		{Algorithm: "XX1", Secret: "s"}, {Algorithm: "none", Secret: "s"}, {Algorithm: "ES256", PublicKey: "k"},
		{Algorithm: "auto", JWKSURL: "file:///etc/keys"}, {Algorithm: "auto", JWKSURL: "keys"},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		} else if strings.Contains(err.Error(), `"s"`) {
			t.Errorf("%v shows the secret", err)
		}
	}
}

func TestAPEMInOneLineIsRead(t *testing.T) {
	public, private := edKey(t)
	v := verifier(t, Config{Algorithm: "EdDSA", PublicKey: strings.ReplaceAll(pemOf(t, public), "\n", `\n`)})
	refuses(t, v, sign(t, jwt.SigningMethodEdDSA, private, nil, jwt.MapClaims{}), "")
}

func TestAnotherSignatureIsInvalid(t *testing.T) {
	v := verifier(t, Config{Secret: "s3cret"})
	refuses(t, v, sign(t, jwt.SigningMethodHS256, []byte("other"), nil, jwt.MapClaims{}), "Invalid token signature")
	parts := strings.Split(hs(t, jwt.MapClaims{"role": "read-only"}), ".")
	claims := strings.Split(hs(t, jwt.MapClaims{"role": "admin"}), ".")[1]
	refuses(t, v, parts[0]+"."+claims+"."+parts[2], "Invalid token signature")
	refuses(t, v, parts[0]+"."+parts[1]+".", "Invalid token signature")
}

func TestTimesAreCheckedWithSkew(t *testing.T) {
	v := verifier(t, Config{Secret: "s3cret", ClockSkew: 30 * time.Second})
	at := func(d time.Duration) float64 { return float64(noon.Add(d).Unix()) }
	for _, row := range []struct {
		claims jwt.MapClaims
		want   string
	}{
		{jwt.MapClaims{}, ""},
		{jwt.MapClaims{"exp": at(time.Hour)}, ""},
		{jwt.MapClaims{"exp": at(-29 * time.Second)}, ""},
		{jwt.MapClaims{"exp": at(-30 * time.Second)}, "Token has expired"},
		{jwt.MapClaims{"exp": at(-time.Hour)}, "Token has expired"},
		{jwt.MapClaims{"exp": "soon"}, "Token has expired"},
		{jwt.MapClaims{"nbf": at(30 * time.Second)}, ""},
		{jwt.MapClaims{"nbf": at(31 * time.Second)}, "Token not yet valid"},
		{jwt.MapClaims{"nbf": true}, "Token not yet valid"},
		{jwt.MapClaims{"iat": at(30 * time.Second)}, ""},
		{jwt.MapClaims{"iat": at(31 * time.Second)}, "Token issued in the future"},
		{jwt.MapClaims{"iat": "later"}, "Token issued in the future"},
	} {
		refuses(t, v, hs(t, row.claims), row.want)
	}
}

func TestIssuerAndAudienceAreCheckedOnlyWhenSet(t *testing.T) {
	open := verifier(t, Config{Secret: "s3cret"})
	refuses(t, open, hs(t, jwt.MapClaims{"iss": "anyone", "aud": "anything"}), "")
	v := verifier(t, Config{Secret: "s3cret", Issuer: "us", Audience: "queue"})
	for _, row := range []struct {
		claims jwt.MapClaims
		want   string
	}{
		{jwt.MapClaims{"iss": "us", "aud": "queue"}, ""},
		{jwt.MapClaims{"iss": "us", "aud": []string{"web", "queue"}}, ""},
		{jwt.MapClaims{"iss": "them", "aud": "queue"}, "Invalid token issuer"},
		{jwt.MapClaims{"aud": "queue"}, "Invalid token issuer"},
		{jwt.MapClaims{"iss": 7, "aud": "queue"}, "Invalid token issuer"},
		{jwt.MapClaims{"iss": "us", "aud": "web"}, "Invalid token audience"},
		{jwt.MapClaims{"iss": "us", "aud": []string{}}, "Invalid token audience"},
		{jwt.MapClaims{"iss": "us"}, "Invalid token audience"},
		{jwt.MapClaims{"iss": "us", "aud": 7}, "Invalid token audience"},
	} {
		refuses(t, v, hs(t, row.claims), row.want)
	}
}

func TestARoleCountsFromEitherClaim(t *testing.T) {
	v := verifier(t, Config{Secret: "s3cret", AdminName: "root"})
	for _, row := range []struct {
		claims jwt.MapClaims
		want   Roles
	}{
		{jwt.MapClaims{}, 0},
		{jwt.MapClaims{"role": "read-only"}, ReadOnly},
		{jwt.MapClaims{"roles": []string{"write-only", "read-write"}}, WriteOnly | ReadWrite},
		{jwt.MapClaims{"role": "read-only", "roles": []string{"root", "unknown"}}, ReadOnly | Admin},
		{jwt.MapClaims{"role": []string{"read-only"}, "roles": "write-only"}, ReadOnly | WriteOnly},
		{jwt.MapClaims{"role": "admin", "roles": []any{7, nil, "Read-Only"}}, 0},
		{jwt.MapClaims{"realm": map[string]any{"role": "root"}}, 0},
	} {
		if got := refuses(t, v, hs(t, row.claims), "").Roles; got != row.want {
			t.Errorf("%v: %b, want %b", row.claims, got, row.want)
		}
	}
	other := verifier(t, Config{Secret: "s3cret", RolesClaim: "r", RolesArrayClaim: "rs"})
	if got := refuses(t, other, hs(t, jwt.MapClaims{"role": "admin", "r": "read-only", "rs": []string{"write-only"}}), "").Roles; got != ReadOnly|WriteOnly {
		t.Errorf("%b", got)
	}
}

func TestASubjectThatIsNoTextIsNone(t *testing.T) {
	v := verifier(t, Config{Secret: "s3cret"})
	for _, claims := range []jwt.MapClaims{{}, {"sub": 7}, {"sub": nil}} {
		if got := refuses(t, v, hs(t, claims), "").Subject; got != nil {
			t.Errorf("%v: %q", claims, *got)
		}
	}
	if got := refuses(t, v, hs(t, jwt.MapClaims{"sub": ""}), "").Subject; got == nil || *got != "" {
		t.Errorf("%v", got)
	}
}
