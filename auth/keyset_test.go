package auth

import (
	"bytes"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// publisher serves a JWKS that a test changes, at a time it sets.
type publisher struct {
	t       *testing.T
	fetches atomic.Int64
	answer  func(w http.ResponseWriter)
	clock   atomic.Int64 // seconds after noon
	v       *Verifier
}

func publish(t *testing.T, algorithm string, keys ...map[string]any) *publisher {
	p := &publisher{t: t}
	p.set(keys...)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.fetches.Add(1)
		p.answer(w)
	}))
	t.Cleanup(server.Close)
	p.v = verifier(t, Config{
		Algorithm: algorithm, JWKSURL: server.URL, Secret: "s3cret",
		Now: func() time.Time { return noon.Add(time.Duration(p.clock.Load()) * time.Second) },
	})
	return p
}

func (p *publisher) set(keys ...map[string]any) {
	text, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		p.t.Fatal(err)
	}
	p.answer = func(w http.ResponseWriter) { _, _ = w.Write(text) }
}

func (p *publisher) fetched(want int64) {
	p.t.Helper()
	if got := p.fetches.Load(); got != want {
		p.t.Errorf("%d fetches, want %d", got, want)
	}
}

func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func published(id string, key *rsa.PublicKey) map[string]any {
	return map[string]any{
		"kty": "RSA", "kid": id, "use": "sig", "n": base64url(key.N.Bytes()), "e": base64url(big.NewInt(int64(key.E)).Bytes()),
	}
}

func signed(t *testing.T, key *rsa.PrivateKey, id string) string {
	header := map[string]any{}
	if id != "" {
		header["kid"] = id
	}
	return sign(t, jwt.SigningMethodRS256, key, header, jwt.MapClaims{"role": "admin"})
}

func TestAKeyIsFoundByItsID(t *testing.T) {
	a, b := rsaKey(t), rsaKey(t)
	p := publish(t, "RS256", published("a", &a.PublicKey), published("b", &b.PublicKey))
	p.v.Warm()
	refuses(t, p.v, signed(t, b, "b"), "")
	refuses(t, p.v, signed(t, b, "a"), "Invalid token signature")
	refuses(t, p.v, signed(t, a, ""), "")
	refuses(t, p.v, signed(t, b, ""), "Invalid token signature")
	p.fetched(1)
}

func TestAnUnknownIDCostsOneFetchInFiveSeconds(t *testing.T) {
	a, b := rsaKey(t), rsaKey(t)
	p := publish(t, "RS256", published("a", &a.PublicKey))
	refuses(t, p.v, signed(t, a, "a"), "")
	p.fetched(1)
	refuses(t, p.v, signed(t, b, "b"), "Unknown key ID")
	p.fetched(1)
	p.clock.Add(5)
	p.set(published("a", &a.PublicKey), published("b", &b.PublicKey))
	refuses(t, p.v, signed(t, b, "b"), "")
	p.fetched(2)
	for range 3 {
		refuses(t, p.v, signed(t, b, "c"), "Unknown key ID")
	}
	p.fetched(2)
}

func TestManyWithAnUnknownIDShareOneFetch(t *testing.T) {
	a := rsaKey(t)
	p := publish(t, "RS256", published("a", &a.PublicKey))
	token := signed(t, a, "a")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := p.v.Verify(token); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	p.fetched(1)
}

func TestARevokedKeyGoesWithTheRefresh(t *testing.T) {
	a, b := rsaKey(t), rsaKey(t)
	p := publish(t, "RS256", published("a", &a.PublicKey))
	p.v.Warm()
	p.set(published("b", &b.PublicKey))
	p.clock.Store(3599)
	refuses(t, p.v, signed(t, a, "a"), "")
	p.fetched(1)
	p.clock.Store(3600)
	p.v.keys.update()
	refuses(t, p.v, signed(t, a, "a"), "Unknown key ID")
	refuses(t, p.v, signed(t, b, "b"), "")
	p.fetched(2)
}

func TestAStaleSetIsRenewedByUse(t *testing.T) {
	a := rsaKey(t)
	p := publish(t, "RS256", published("a", &a.PublicKey))
	p.v.Warm()
	renewed := make(chan bool, 1)
	before := p.answer
	p.answer = func(w http.ResponseWriter) { before(w); renewed <- true }
	p.clock.Store(3600)
	refuses(t, p.v, signed(t, a, "a"), "")
	select {
	case <-renewed:
	case <-time.After(10 * time.Second):
		t.Error("no fetch")
	}
}

func TestABadAnswerKeepsTheKeys(t *testing.T) {
	a := rsaKey(t)
	for name, answer := range map[string]func(w http.ResponseWriter){
		"status":    func(w http.ResponseWriter) { w.WriteHeader(500) },
		"redirect":  func(w http.ResponseWriter) { w.Header().Set("Location", "/other"); w.WriteHeader(302) },
		"no JSON":   func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) },
		"no keys":   func(w http.ResponseWriter) { _, _ = w.Write([]byte("{}")) },
		"too large": func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"keys":[]}` + strings.Repeat(" ", 1<<20))) },
	} {
		p := publish(t, "RS256", published("a", &a.PublicKey))
		p.v.Warm()
		p.answer = answer
		p.clock.Store(7200)
		refuses(t, p.v, signed(t, a, "other"), "Unknown key ID")
		p.fetched(2)
		if _, err := p.v.Verify(signed(t, a, "a")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPasswordInTheURLIsNotLogged(t *testing.T) {
	var text bytes.Buffer
	c := Config{Algorithm: "RS256", JWKSURL: "http://user:opensesame@127.0.0.1:1/", Now: time.Now, Log: slog.New(slog.NewTextHandler(&text, nil))}
	v, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	v.Warm()
	if log := text.String(); !strings.Contains(log, "could not be fetched") || strings.Contains(log, "opensesame") {
		t.Errorf("the log says %s", log)
	}
	c.JWKSURL = "http://user:opensesame@[bad/"
	if _, err := New(c); err == nil || strings.Contains(err.Error(), "opensesame") {
		t.Errorf("a bad URL: %v", err)
	}
}

func TestKeysOfOtherKindsArePassedOver(t *testing.T) {
	a := rsaKey(t)
	edPublic, edPrivate := edKey(t)
	encryption := published("enc", &a.PublicKey)
	encryption["use"] = "enc"
	bound := published("bound", &a.PublicKey)
	bound["alg"] = "RS512"
	p := publish(t, "auto",
		map[string]any{"kty": "oct", "kid": "secret", "k": "c2VjcmV0"}, map[string]any{"kty": "EC", "kid": "ec", "crv": "P-256"},
		map[string]any{"kty": "RSA", "kid": "broken", "n": "%", "e": "AQAB"}, map[string]any{"kty": "RSA", "kid": "zero", "n": "", "e": ""},
		encryption, bound, published("a", &a.PublicKey),
		map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": base64url(edPublic)},
	)
	ed := func(id string) string {
		return sign(t, jwt.SigningMethodEdDSA, edPrivate, map[string]any{"kid": id}, jwt.MapClaims{})
	}
	refuses(t, p.v, signed(t, a, ""), "")
	refuses(t, p.v, ed(""), "")
	refuses(t, p.v, ed("ed"), "")
	refuses(t, p.v, ed("a"), "Invalid token signature")
	refuses(t, p.v, signed(t, a, "bound"), "Invalid token signature")
	refuses(t, p.v, signed(t, a, "enc"), "Unknown key ID")
	refuses(t, p.v, signed(t, a, "broken"), "Unknown key ID")
	refuses(t, p.v, sign(t, jwt.SigningMethodHS256, []byte("secret"), map[string]any{"kid": "secret"}, jwt.MapClaims{}), "Invalid token signature")
	refuses(t, p.v, sign(t, jwt.SigningMethodRS256, a, map[string]any{"kid": 7}, jwt.MapClaims{}), "Bad token header")
}

func TestAPEMBeatsTheJWKS(t *testing.T) {
	a, b := rsaKey(t), rsaKey(t)
	p := publish(t, "RS256", published("a", &a.PublicKey))
	v := verifier(t, Config{Algorithm: "RS256", PublicKey: pemOf(t, &b.PublicKey), JWKSURL: p.v.c.JWKSURL})
	refuses(t, v, signed(t, b, "a"), "")
	p.fetched(0)
}
