// Package api is the HTTP front of the broker: routes, decoding, limits, and
// which refusal becomes which status. It knows no file and no byte layout.
package api

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"queend/broker"
)

const (
	// readBufferBytes bounds request line and headers together; more is 431.
	// A parked request does not hold it.
	readBufferBytes = 16 << 10

	// writeBufferBytes is what most answers fit in: who reads one is woken once.
	// A connection holds it only while it is answered.
	writeBufferBytes = 128 << 10

	readTimeout  = 30 * time.Second  // for one whole request
	writeTimeout = 60 * time.Second  // for one whole answer, not the handler
	idleTimeout  = 180 * time.Second // longer than clients keep a connection idle
)

// Config is what a Server needs to know.
type Config struct {
	MaxBodyBytes     int           // largest request body; above it 413. 0 means 64 MiB
	BodyHold         time.Duration // how long a body waits while too many are read at once; 0 means 15 s
	Log              *slog.Logger  // nil means slog.Default()
	Tenancy          bool          // read x-queen-tenant
	PushTimeout      time.Duration // of push and pop beyond its own wait; 0 means 30 s
	StatementTimeout time.Duration // of everything else; 0 means 30 s
	Version          string        // shown by /health
	Fsync            string        // QUEEN_FSYNC as /health shows it
	Auth             *Auth         // nil: nobody is asked for a token
	Now              func() int64  // the broker's clock, microseconds since 1970; nil: the system's
	SlowRequest      time.Duration // requests that take longer get a line in the log; 0: none do
}

// Server answers HTTP/1.1 requests by its routes.
type Server struct {
	log      *slog.Logger
	routes   router
	hangups  *hangups
	bodies   *bodies
	observer *observer
	http     fasthttp.Server
	limit    int // connections

	broker     atomic.Pointer[broker.Broker] // nil while the data directory is opened
	config     Config
	limits     limits
	pushes     sharedDeadline  // of limits.push
	statements sharedDeadline  // of limits.statement
	background context.Context // of what outlives its request
	registry   *prometheus.Registry
	started    time.Time
	hostname   string
	now        func() int64 // microseconds since 1970

	serving  sync.Mutex // guards what follows
	listener *listener  // nil before Serve
	over     bool       // Shutdown has been called
}

// newServer returns a server that answers by the table. The caller must call
// Shutdown in the end, also if it never calls Serve.
func newServer(c Config, table []route) (*Server, error) {
	watcher, err := newHangups()
	if err != nil {
		return nil, fmt.Errorf("watching for clients that hang up: %w", err)
	}
	o := newObserver(c.SlowRequest)
	s := &Server{log: c.Log, routes: newRouter(table, o), hangups: watcher, observer: o}
	if s.now = c.Now; s.now == nil {
		s.now = func() int64 { return time.Now().UnixMicro() }
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.limit, err = connectionLimit(); err != nil {
		return nil, err
	}
	if c.MaxBodyBytes == 0 {
		c.MaxBodyBytes = 64 << 20
	}
	if c.BodyHold == 0 {
		c.BodyHold = 15 * time.Second
	}
	s.bodies = newBodies(c.MaxBodyBytes, c.BodyHold)
	s.http = fasthttp.Server{
		Handler:        s.serve,
		ErrorHandler:   s.malformed,
		HeaderReceived: s.bodies.received,
		ExpectHandler:  func(ctx *fasthttp.RequestCtx) int { return s.expect(ctx, c.MaxBodyBytes) },
		Logger:         slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		// Errors would have the headers of the request in them, tokens too.
		SecureErrorLogMessage: true,
		// The listener refuses what is too much, with a body in JSON.
		Concurrency:                  s.limit + 1,
		ReadBufferSize:               readBufferBytes,
		WriteBufferSize:              writeBufferBytes,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxRequestBodySize:           c.MaxBodyBytes,
		ReduceMemoryUsage:            true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		DisablePreParseMultipartForm: true, // a body is JSON whatever its type says
		CloseOnShutdown:              true,
	}
	return s, nil
}

// Serve answers what comes in at ln, and owns it. It returns nil once Shutdown
// has been called.
func (s *Server) Serve(ln net.Listener) error {
	l := newListener(ln, s.limit, s.observer.refusedConnection)
	s.serving.Lock()
	s.listener = l
	over := s.over
	s.serving.Unlock()
	if over {
		return l.Close()
	}
	return s.http.Serve(l)
}

// Shutdown closes the listener, tells parked handlers through stopping, and
// waits until every request has its answer or ctx is done.
func (s *Server) Shutdown(ctx context.Context) error {
	s.bodies.close()
	s.serving.Lock()
	s.over = true
	l := s.listener
	s.serving.Unlock()
	err := s.http.ShutdownWithContext(ctx)
	if l != nil {
		_ = l.Close() // Serve may have come too late for the line above
	}
	if err != nil {
		err = fmt.Errorf("waiting for open requests: %w", err)
	}
	s.hangups.Close()
	return err
}

// serve finds the route of a request and calls its handler. A panic of the
// handler costs its own request an answer, and no other one.
func (s *Server) serve(ctx *fasthttp.RequestCtx) {
	r := &request{ctx: ctx, server: s, query: query{args: ctx.QueryArgs()}}
	began := s.now()
	defer func() {
		r.answered()
		r.timed(began)
	}()
	room := s.bodies.take(&ctx.Request.Header)
	room.shrink(len(ctx.Request.Body()))
	defer room.release()
	defer func() {
		if reason := recover(); reason != nil {
			s.log.Error("a handler panicked", "request", r.id(), "method", string(ctx.Method()), "path", string(ctx.URI().PathOriginal()),
				"reason", reason, "stack", string(debug.Stack()))
			ctx.Response.Reset()
			r.fail(fasthttp.StatusInternalServerError, "internal", "internal error")
		}
	}()
	segments, err := splitPath(ctx.URI().PathOriginal(), r.segments[:0])
	if err != nil {
		r.fail(fasthttp.StatusBadRequest, "bad_request", err.Error())
		return
	}
	found := s.routes.find(string(ctx.Method()), segments)
	if found == nil {
		r.unrouted(segments)
		return
	}
	r.route, r.values = found, segments
	found.handler(r)
}
