package auth

import (
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/MicahParks/jwkset"
)

const (
	// refetchPause is how long a key id that is not known costs nothing after
	// a fetch.
	refetchPause = 5 * time.Second
	maxKeySet    = 1 << 20
	maxModulus   = 8192 // bits: a larger one makes every check slow
)

// keySet holds the public keys of a JWKS, fetched when they are old or lack a
// key that a token names.
type keySet struct {
	url     string
	refresh time.Duration
	client  http.Client
	now     func() time.Time
	log     *slog.Logger

	fetching sync.Mutex // one fetch at a time; others wait and look again

	mu      sync.Mutex // guards what follows
	keys    []publicKey
	fetched time.Time // last success
	tried   time.Time // last begin
}

// publicKey is one key of the set.
type publicKey struct {
	id  string
	alg string // "" for any of its kind
	key any    // *rsa.PublicKey or ed25519.PublicKey
}

func newKeySet(c *Config) *keySet {
	return &keySet{
		url: c.JWKSURL, refresh: c.JWKSRefresh, now: c.Now, log: c.Log,
		client: http.Client{
			Timeout:       c.JWKSTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// find returns the key with the id, the first that fits when the id is "".
func (s *keySet) find(id, alg string) (any, error) {
	key, known, stale := s.look(id, alg)
	switch {
	case !known:
		s.update()
		if key, known, _ = s.look(id, alg); !known {
			return nil, errKeyID
		}
	case stale:
		go s.update()
	}
	if key == nil {
		return nil, errSignature // the id is that of another kind of key
	}
	return key, nil
}

// look finds a key in memory; stale says that it is time for a fetch.
func (s *keySet) look(id, alg string) (key any, known, stale bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	stale = now.Sub(s.fetched) >= s.refresh && now.Sub(s.tried) >= refetchPause
	for i := range s.keys {
		k := &s.keys[i]
		switch {
		case id != "" && k.id != id:
		case k.fits(alg):
			return k.key, true, stale
		default:
			known = known || id != ""
		}
	}
	return nil, known, stale
}

func (k *publicKey) fits(alg string) bool {
	if k.alg != "" && k.alg != alg {
		return false
	}
	_, isEd := k.key.(ed25519.PublicKey)
	return isEd == (alg == "EdDSA")
}

// warn logs that a fetch failed, and no password of the URL.
func (s *keySet) warn(why error) {
	u, err := url.Parse(s.url)
	if err != nil {
		panic("auth: a URL that New did not check") // it is not shown: it may have a password
	}
	s.log.Warn("the JWKS could not be fetched", "url", u.Redacted(), "error", why)
}

// update fetches the set unless that was done a moment ago, perhaps while this
// call waited.
func (s *keySet) update() {
	s.fetching.Lock()
	defer s.fetching.Unlock()
	s.mu.Lock()
	due := s.tried.IsZero() || s.now().Sub(s.tried) >= refetchPause
	if due {
		s.tried = s.now()
	}
	s.mu.Unlock()
	if !due {
		return
	}
	keys, err := s.fetch()
	if err != nil {
		s.warn(err)
		return
	}
	s.mu.Lock()
	s.keys, s.fetched = keys, s.now()
	s.mu.Unlock()
}

func (s *keySet) fetch() ([]publicKey, error) {
	resp, err := s.client.Get(s.url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxKeySet+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxKeySet {
		return nil, fmt.Errorf("larger than %d bytes", maxKeySet)
	}
	return parseKeys(body)
}

// parseKeys reads the keys that can be of use (RFC 7517, RFC 8037) and passes
// over the others, also those that are malformed. Nothing a key refers to is
// fetched.
func parseKeys(body []byte) ([]publicKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, err
	}
	if set.Keys == nil {
		return nil, errors.New("no keys in it")
	}
	keys := []publicKey{}
	for _, raw := range set.Keys {
		k, err := jwkset.NewJWKFromRawJSON(raw, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
		if err != nil {
			continue
		}
		if meta := k.Marshal(); (meta.USE == "" || meta.USE == jwkset.UseSig) && usable(k.Key()) {
			keys = append(keys, publicKey{meta.KID, meta.ALG.String(), k.Key()})
		}
	}
	return keys, nil
}

// usable reports whether a key is of a kind that tokens are signed with, and of
// a size that a check can afford.
func usable(key any) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return k.E >= 2 && k.E < 1<<31 && k.N.Sign() > 0 && k.N.BitLen() <= maxModulus
	case ed25519.PublicKey:
		return true
	}
	return false
}
