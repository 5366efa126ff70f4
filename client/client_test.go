package client

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// answering is a client of a server that answers with handler.
func answering(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	c, err := New(s.URL+"/", "sesame")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNamesAreEscapedSegmentBySegment(t *testing.T) {
	for want, segments := range map[string][]string{
		"/a%2Fb/c%3Fd":   {"a/b", "c?d"},
		"//x":            {"", "x"},
		"/100%25/%20%23": {"100%", " #"},
	} {
		if got := Path(segments...); got != want {
			t.Errorf("%q: %s, want %s", segments, got, want)
		}
	}
}

func TestTheTokenIsSentAndNeverSaid(t *testing.T) {
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer sesame" {
			t.Errorf("sent %q", got)
		}
		w.WriteHeader(401)
		w.Write([]byte(`{"error":"Token has expired"}`))
	})
	_, err := c.Queues(t.Context())
	var refusal *Error
	if !errors.As(err, &refusal) || refusal.Status != 401 || refusal.Text != "Token has expired" || strings.Contains(err.Error(), "sesame") {
		t.Fatal(err)
	}
	if _, err := New("http://user:sesame@", ""); err == nil || strings.Contains(err.Error(), "sesame") {
		t.Fatal(err)
	}
}

func TestWhatTheBrokerAsksToRepeatIsRepeated(t *testing.T) {
	calls := 0
	var waited []time.Duration
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls < 3 {
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(429)
			return
		}
		w.Write([]byte(`{"queues":[{"name":"q"}]}`))
	})
	c.after = func(d time.Duration) <-chan time.Time {
		waited = append(waited, d)
		now := make(chan time.Time, 1)
		now <- time.Time{}
		return now
	}
	queues, err := c.Queues(t.Context())
	if err != nil || len(queues) != 1 || queues[0].Name != "q" || len(waited) != 2 || waited[0] != 2*time.Second {
		t.Fatalf("%v, %v, waited %v", queues, err, waited)
	}
	calls = -10
	if _, err := c.Queues(t.Context()); err == nil || calls != -10+maxTries {
		t.Fatalf("%v after %d tries", err, calls+10)
	}
}

func TestAWriteWhoseFateIsUnknownIsNotRepeated(t *testing.T) {
	calls := 0
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		w.WriteHeader(503)
		w.Write([]byte(`{"error":"deadline passed; the write may have happened","code":"timeout"}`))
	})
	if _, err := c.Push(t.Context(), []Item{{Queue: "q", Payload: []byte("1")}}); err == nil || calls != 1 {
		t.Fatalf("%v after %d calls", err, calls)
	}
}
