package api

import "net"

// unwritten has undo called if the answer of this request cannot be written:
// what it gave out goes back (R11). The call comes from the connection's own
// goroutine, at most once.
func (r *request) unwritten(undo func()) {
	if c := underlying(r.ctx.Conn()); c != nil {
		c.undo = undo
	}
}

// underlying finds the listener's connection under TLS and the like.
func underlying(c net.Conn) *conn {
	for c != nil {
		if own, ok := c.(*conn); ok {
			return own
		}
		inner, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = inner.NetConn()
	}
	return nil
}

// Write notices that an answer did not get through.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil && c.undo != nil {
		undo := c.undo
		c.undo = nil
		undo()
	}
	return n, err
}

// Read begins the next request: the answer before it is out.
func (c *conn) Read(b []byte) (int, error) {
	c.undo = nil
	if n := c.ahead.take(b); n > 0 {
		return n, nil
	}
	if len(b) == 1 {
		if ok, err := c.ahead.fill(c.Conn); ok {
			return c.ahead.take(b), err
		}
	}
	return c.Conn.Read(b)
}
