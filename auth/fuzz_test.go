package auth

import (
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

// No key set, however odd, may break the check of a signature.
func FuzzKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQ","e":"AQAB"},{"kty":"OKP","crv":"Ed25519","x":"AA"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA","kid":"a","use":"sig","alg":"RS256","n":"////////","e":"Aw"}]}`))
	f.Add([]byte(`{"keys":[null,{}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		keys, err := parseKeys(body)
		if err != nil {
			return
		}
		signature := make([]byte, 256)
		for i := range keys {
			for _, method := range []jwt.SigningMethod{jwt.SigningMethodRS256, jwt.SigningMethodEdDSA} {
				if keys[i].fits(method.Alg()) && method.Verify("a.b", signature, keys[i].key) == nil {
					t.Errorf("%v accepts zeros", keys[i])
				}
			}
		}
	})
}

// No credential without the secret is accepted, and none breaks the check.
func FuzzCredential(f *testing.F) {
	f.Add("Bearer eyJhbGciOiJIUzI1NiJ9.e30.x")
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	v, err := New(Config{Algorithm: "auto", Secret: "a secret that nobody guesses"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, credential string) {
		if _, err := v.Verify(credential); err == nil {
			t.Errorf("%q is accepted", credential)
		}
	})
}
