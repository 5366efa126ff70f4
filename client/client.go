// Package client talks to a broker over HTTP, for the commands of queend. It
// knows routes and shapes of answers, and nothing of files.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client calls one broker. It is safe for concurrent use.
type Client struct {
	base  string
	token string
	http  *http.Client
	after func(time.Duration) <-chan time.Time
}

// New returns a client of the broker at base, such as http://127.0.0.1:6632.
// token may be empty. It is sent, and never part of an error.
func New(base, token string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, errors.New("the URL of the broker cannot be read; it looks like http://127.0.0.1:6632")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is no URL of a broker, such as http://127.0.0.1:6632", u.Redacted())
	}
	return &Client{base: strings.TrimRight(base, "/"), token: token, http: &http.Client{}, after: time.After}, nil
}

// Error is a refusal by the broker.
type Error struct {
	Status int
	Code   string
	Text   string
}

func (e *Error) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("%s (%d)", e.Text, e.Status)
	}
	return fmt.Sprintf("%s (%d %s)", e.Text, e.Status, e.Code)
}

// maxTries bounds how often a call is made that the broker asks to repeat.
const maxTries = 5

// Call makes a request and returns the body of the answer, empty for 204. body
// is sent as JSON; nil sends none. What the broker answers with 429, or while
// it starts, is tried again when it says.
func (c *Client) Call(ctx context.Context, method, path string, query url.Values, body any) ([]byte, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = encode(body); err != nil {
			return nil, err
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	for try := 1; ; try++ {
		answer, wait, err := c.once(ctx, method, path, data)
		if wait == 0 || try == maxTries {
			return answer, err
		}
		select {
		case <-c.after(wait):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// Get is Call that decodes the answer into out.
func (c *Client) Get(ctx context.Context, path string, query url.Values, out any) error {
	return c.decode(ctx, http.MethodGet, path, query, nil, out)
}

// Post is Call that decodes the answer into out.
func (c *Client) Post(ctx context.Context, path string, body, out any) error {
	return c.decode(ctx, http.MethodPost, path, nil, body, out)
}

func (c *Client) decode(ctx context.Context, method, path string, query url.Values, body, out any) error {
	answer, err := c.Call(ctx, method, path, query, body)
	if err != nil || len(answer) == 0 {
		return err
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("%s %s: the answer is not what was expected: %w", method, path, err)
	}
	return nil
}

// once makes a request once. wait is how long the broker asks to wait before
// the next try, 0 when there should be none.
func (c *Client) once(ctx context.Context, method, path string, body []byte) (answer []byte, wait time.Duration, err error) {
	req, err := c.request(ctx, method, path, body)
	if err != nil {
		return nil, 0, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		return nil, 0, err
	}
	if resp.StatusCode < 300 {
		return answer, 0, nil
	}
	refusal := refused(resp.StatusCode, answer)
	if refusal.Status == http.StatusTooManyRequests || refusal.Code == "retry" {
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		wait = time.Duration(min(max(seconds, 1), 5)) * time.Second
	}
	return nil, wait, refusal
}

func (c *Client) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err == nil && c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, err
}

// Stream makes a POST with a JSON body and hands the body of the answer to take
// as it comes.
func (c *Client) Stream(ctx context.Context, path string, body any, take func(io.Reader) error) error {
	sent, err := encode(body)
	if err != nil {
		return err
	}
	req, err := c.request(ctx, http.MethodPost, path, sent)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		text, err := io.ReadAll(resp.Body)
		return errors.Join(refused(resp.StatusCode, text), err)
	}
	return take(resp.Body)
}

// refused reads the body of a refusal.
func refused(status int, body []byte) *Error {
	e := &Error{Status: status}
	var said struct{ Error, Code string }
	if err := json.Unmarshal(body, &said); err == nil {
		e.Text, e.Code = said.Error, said.Code
	}
	if e.Text == "" {
		e.Text = http.StatusText(status)
	}
	return e
}

// encode is JSON without the escapes for HTML.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return buf.Bytes(), err
}

// Path joins segments to a path, each escaped by itself: names may hold any
// characters.
func Path(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}
