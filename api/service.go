package api

import (
	"context"
	"os"
	"time"

	"queend/broker"
)

// limits are the deadlines of operations (docs/rules.md, S1).
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
	s.pushes.d, s.statements.d = s.limits.push, s.limits.statement
	s.background = context.Background()
	s.started = time.Now()
	s.hostname, _ = os.Hostname() // without one it is ""
	s.registry = newRegistry(s)
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
