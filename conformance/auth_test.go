package conformance

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"
)

const jwtSecret = "a secret of the conformance suite"

// token signs claims with HS256.
func token(claims string) string { return signed(`{"alg":"HS256","typ":"JWT"}`, claims, jwtSecret) }

// signed makes a compact JWT.
func signed(header, claims, secret string) string {
	b64 := base64.RawURLEncoding.EncodeToString
	text := b64([]byte(header)) + "." + b64([]byte(claims))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return text + "." + b64(mac.Sum(nil))
}

// as sends a bearer token with these claims.
func (e *env) as(claims string) *env { return e.with("Authorization", "Bearer "+token(claims)) }

func TestS2_Levels(t *testing.T) {
	_, e := own(t, "JWT_ENABLED=true", "JWT_SECRET="+jwtSecret)
	covers(t, "S3", "F36")
	q := e.queue()
	routes := []struct{ method, path, body, roles string }{
		{"POST", "/api/v1/push", `{"items":[]}`, "w x a"},
		{"GET", popPath(q), "", "x a"},
		{"GET", pinPath(q, "p"), "", "x a"},
		{"GET", discPath("namespace=n"), "", "x a"},
		{"POST", "/api/v1/ack/batch", `{"acknowledgments":[]}`, "x a"},
		{"POST", "/api/v1/lease/x/extend", "{}", "x a"},
		{"DELETE", "/api/v1/lease/x", "", "x a"},
		{"POST", "/api/v1/transaction", `{"operations":[]}`, "x a"},
		{"POST", "/api/v1/configure", `{"queue":"c"}`, "x a"},
		{"GET", "/api/v1/resources/queues", "", "r x a"},
		{"GET", "/api/v1/messages?queue=" + q, "", "r x a"},
		{"GET", "/api/v1/dlq", "", "r x a"},
		{"POST", "/api/v1/dlq/x/replay", "{}", "x a"},
		{"POST", "/api/v1/dlq/replay", `{"queue":"x"}`, "x a"},
		{"DELETE", "/api/v1/dlq?queue=x", "", "x a"},
		{"DELETE", "/api/v1/messages/1/x", "", "x a"},
		{"POST", "/api/v1/messages/1/x/retry", "{}", "x a"},
		{"GET", "/api/v1/consumer-groups", "", "r x a"},
		{"POST", "/api/v1/consumer-groups/g/queues/x/seek", `{"toEnd":true}`, "x a"},
		{"POST", "/api/v1/consumer-groups/g/subscription", `{"subscriptionTimestamp":"2001-01-01T00:00:00Z"}`, "x a"},
		{"DELETE", "/api/v1/consumer-groups/g", "", "a"},
		{"DELETE", "/api/v1/resources/queues/x", "", "a"},
		{"GET", "/api/v1/system/maintenance", "", "a"},
		{"POST", "/api/v1/stats/refresh", "{}", "a"},
		{"GET", "/api/v1/status", "", "r x a"},
		{"POST", "/api/v1/fetch", `{"entries":[]}`, "r x a"},
		{"GET", "/api/v1/unlisted", "", "x a"},
		{"GET", "/internal/x", "", "a"},
	}
	for key, role := range map[string]string{"r": "read-only", "w": "write-only", "x": "read-write", "a": "admin"} {
		for i, claims := range []string{`{"role":%q}`, `{"roles":[%q,"other"]}`} {
			if i == 1 && key != "x" {
				continue
			}
			user := e.as(fmt.Sprintf(claims, role))
			for _, r := range routes {
				allowed := false
				for _, c := range r.roles {
					allowed = allowed || string(c) == key
				}
				got := user.do(r.method, r.path, r.body)
				if allowed && (got.status == http.StatusForbidden || got.status == http.StatusUnauthorized) {
					t.Errorf("%s %s as %s: %d", r.method, r.path, role, got.status)
				}
				if !allowed {
					got.refuses(http.StatusForbidden, "Insufficient permissions")
				}
			}
		}
	}
}

// TestS3_EveryRouteWithEveryRole asks for every route of the broker's own
// document as everybody: whom it names may, the others may not.
func TestS3_EveryRouteWithEveryRole(t *testing.T) {
	if document == nil {
		t.Skip("the broker has no /openapi.json")
	}
	_, e := own(t, "JWT_ENABLED=true", "JWT_SECRET="+jwtSecret)
	covers(t, "S2")
	for path, item := range document.doc.Paths.Map() {
		path = regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "x")
		for method, operation := range item.Operations() {
			may := fmt.Sprint(operation.Extensions["x-roles"])
			public := operation.Extensions["x-roles"] == nil
			for _, role := range []string{"read-only", "write-only", "read-write", "admin", "none"} {
				got := e.as(fmt.Sprintf(`{"role":%q}`, role)).do(method, path, "[]")
				refused := got.status == http.StatusForbidden || got.status == http.StatusUnauthorized
				if allowed := public || regexp.MustCompile(`\b`+role+`[\] ]`).MatchString(may); allowed == refused {
					t.Errorf("%s %s as %s: %d, but roles are %s", method, path, role, got.status, may)
				}
			}
			if got := e.do(method, path, "[]"); public == (got.status == http.StatusUnauthorized) {
				t.Errorf("%s %s without a token: %d", method, path, got.status)
			}
		}
	}
}

func TestS2_TokenErrors(t *testing.T) {
	_, e := own(t, "JWT_ENABLED=true", "JWT_SECRET="+jwtSecret, "JWT_ISSUER=me", "JWT_AUDIENCE=you")
	now := time.Now().Unix()
	ok := `"role":"admin","iss":"me","aud":["them","you"]`
	list := func(auth string) reply {
		if auth == "" {
			return e.get("/api/v1/resources/queues")
		}
		return e.with("Authorization", auth).get("/api/v1/resources/queues")
	}
	list("Bearer " + token("{"+ok+"}")).want(http.StatusOK)
	list("bEaReR " + token("{"+ok+"}")).want(http.StatusOK)
	list(token("{" + ok + "}")).want(http.StatusOK)
	list("Bearer " + token(`{"role":"admin","iss":"me","aud":"you"}`)).want(http.StatusOK)
	list("Bearer " + token(fmt.Sprintf(`{%s,"exp":%d}`, ok, now-5))).want(http.StatusOK) // within the skew
	for text, auth := range map[string]string{
		"Authentication required":     "",
		"Bad token header":            "Bearer nonsense.x.y",
		"Unsupported token algorithm": "Bearer " + signed(`{"alg":"HS384"}`, "{"+ok+"}", jwtSecret),
		"Invalid token signature":     "Bearer " + signed(`{"alg":"HS256"}`, "{"+ok+"}", "wrong"),
		"Token has expired":           "Bearer " + token(fmt.Sprintf(`{%s,"exp":%d}`, ok, now-3600)),
		"Token not yet valid":         "Bearer " + token(fmt.Sprintf(`{%s,"nbf":%d}`, ok, now+3600)),
		"Token issued in the future":  "Bearer " + token(fmt.Sprintf(`{%s,"iat":%d}`, ok, now+3600)),
		"Invalid token issuer":        "Bearer " + token(`{"role":"admin","iss":"other","aud":"you"}`),
		"Invalid token audience":      "Bearer " + token(`{"role":"admin","iss":"me","aud":"other"}`),
	} {
		list(auth).refuses(http.StatusUnauthorized, text)
	}
	list("Bearer "+signed(`{"alg":"none"}`, "{"+ok+"}", "")).refuses(http.StatusUnauthorized, "Unsupported token algorithm")
	list("Bearer "+token(`{"iss":"me","aud":"you"}`)).refuses(http.StatusForbidden, "Insufficient permissions")
}

func TestS2_PublicPaths(t *testing.T) {
	b, e := own(t, "JWT_ENABLED=true", "JWT_SECRET="+jwtSecret)
	for _, path := range []string{"/health", "/metrics", "/metrics/prometheus"} {
		e.get(path).want(http.StatusOK)
	}
	e.get("/api/v1/status").want(http.StatusUnauthorized)
	b.Stop()
	e = b.Restart(t, "JWT_ENABLED=true", "JWT_SECRET="+jwtSecret, "JWT_SKIP_PATHS=/health,/api/v1/resources/")
	e.get("/api/v1/resources/queues").want(http.StatusOK)
	e.get("/api/v1/status").want(http.StatusUnauthorized)
}

func TestS2_ProducerSubIsStamped(t *testing.T) {
	_, e := own(t, "JWT_ENABLED=true", "JWT_SECRET="+jwtSecret)
	covers(t, "F36", "A5")
	q := e.queue()
	user := e.as(`{"role":"read-write","sub":"alice"}`)
	user.pushItems(`{"queue":` + quote(q) + `,"transactionId":"a","payload":1,"producerSub":"mallory"}`)
	user.transact(txPush(item(q, "Default", "b", "1"))).is("success", true)
	b := user.pop(q).want("a", "b")
	for _, m := range b.msgs {
		m.is("producerSub", "alice")
	}
	user.ack("", b, "a=dlq")
	user.dlq(q)[0].is("producerSub", nil, "originalProducerSub", "alice")
}
