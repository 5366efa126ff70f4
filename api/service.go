package api

import (
	"context"
	"time"

	"queend"
	"queend/broker"
)

// limits are the deadlines of operations (CONTRACT section 1).
type limits struct {
	push      time.Duration // push and pop
	statement time.Duration // ack, extend, transaction, administration
}

// maxDeadline caps each of them.
const maxDeadline = 60 * time.Second

// New returns a server that answers 503 until Attach gives it its broker. The
// caller calls Serve, and Shutdown in the end.
func New(c Config) (*Server, error) {
	table := routes()
	for i := range table {
		table[i].handler = guard(&table[i])
	}
	s, err := newServer(c, table)
	if err != nil {
		return nil, err
	}
	s.config = c
	s.limits = limits{push: deadlineOf(c.PushTimeout), statement: deadlineOf(c.StatementTimeout)}
	s.background = context.Background()
	return s, nil
}

// Attach opens the routes: the broker has booted.
func (s *Server) Attach(b *broker.Broker) { s.broker.Store(b) }

func deadlineOf(d time.Duration) time.Duration {
	if d <= 0 {
		d = 30 * time.Second
	}
	return min(d, maxDeadline)
}

// guard finds out who asks before the handler runs.
func guard(found *route) func(*request) {
	handler, level := found.handler, found.level
	return func(r *request) {
		r.broker = r.server.broker.Load()
		if r.broker == nil && level != levelPublic {
			r.setHeader("Retry-After", "1")
			r.fail(503, string(broker.CodeRetry), "starting: the data directory is being read")
			return
		}
		if r.readTenant() {
			handler(r)
		}
	}
}

// readTenant finds the tenant; false when it has answered with a refusal.
func (r *request) readTenant() bool {
	r.tenant = broker.DefaultTenant
	text := ""
	if r.server.config.Tenancy {
		text = r.header("x-queen-tenant")
	}
	if text == "" {
		return true
	}
	id, err := queend.ParseID(text)
	if err != nil {
		r.fail(400, "bad_request", "invalid x-queen-tenant header (must be a UUID)")
		return false
	}
	r.tenant = id
	return true
}

// deadline is the context of an operation that may take so long.
func (r *request) deadline(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.server.background, d)
}
