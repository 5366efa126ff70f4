package linear

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

var (
	// errUnsent: the broker was not there, so it cannot have done anything.
	errUnsent = errors.New("not sent")
	// errLost: no answer came, or one that leaves open what was done.
	errLost = errors.New("the answer was lost")
)

// httpClient sends one request at a time, over a connection of its own, and
// never twice: net/http would repeat a pop that met a closed connection.
type httpClient struct {
	target *target
	net    net.Conn
	in     *bufio.Reader
	life   int // of the broker it is connected to
}

// connect returns when there is a connection to the broker as it is now.
func (c *httpClient) connect() error {
	addr, life := c.target.get()
	if addr == "" {
		return errUnsent
	}
	if c.net != nil && c.life == life {
		return nil
	}
	c.close()
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return errUnsent
	}
	// A dial to a free port of this host can, rarely, meet itself.
	if conn.LocalAddr().String() == conn.RemoteAddr().String() {
		_ = conn.Close()
		return errUnsent
	}
	c.net, c.in, c.life = conn, bufio.NewReader(conn), life
	return nil
}

func (c *httpClient) close() {
	if c.net != nil {
		_ = c.net.Close()
		c.net = nil
	}
}

// call sends a request and decodes the answer, if there is one, into answer.
// It hangs up after leave, 0 meaning that it stays. The error is errUnsent,
// errLost or says what is wrong with the answer.
func (c *httpClient) call(method, path string, body any, leave time.Duration, answer any) (status int, err error) {
	if c.net == nil {
		return 0, errUnsent
	}
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return 0, err
		}
	}
	req, err := http.NewRequest(method, "http://queend"+path, bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	limit := patience
	if leave > 0 {
		limit = leave
	}
	_ = c.net.SetDeadline(time.Now().Add(limit)) // fails on a closed connection only, as the call then does
	if err := req.Write(c.net); err != nil {
		c.close()
		return 0, errLost
	}
	resp, err := http.ReadResponse(c.in, req)
	if err != nil {
		c.close()
		return 0, errLost
	}
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		c.close()
		return 0, errLost
	}
	if resp.Close {
		c.close()
	}
	switch {
	case resp.StatusCode == http.StatusServiceUnavailable:
		return resp.StatusCode, errLost
	case resp.StatusCode == http.StatusNoContent:
		return resp.StatusCode, nil
	case resp.StatusCode >= 300:
		return resp.StatusCode, fmt.Errorf("%s %s answered %d: %.300s", method, path, resp.StatusCode, got)
	}
	if err := json.Unmarshal(got, answer); err != nil {
		return resp.StatusCode, fmt.Errorf("%s %s: %w: %.300s", method, path, err, got)
	}
	return resp.StatusCode, nil
}
