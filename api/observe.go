package api

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"queend/broker"
)

// observer is what the server tells of the requests it answers: counts by
// operation, and a line in the log for those that are slow.
type observer struct {
	refused *prometheus.CounterVec   // by operation and reason
	seconds *prometheus.HistogramVec // by operation
	slow    int64                    // microseconds; 0: no lines
	lines   lineLimit
	prefix  string // of the ids of requests, another one for every start
	ids     atomic.Uint64
}

// The operations and reasons are few: no name of a client's is among them.
func newObserver(slow time.Duration) *observer {
	return &observer{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: refusedRequests.name, Help: refusedRequests.help}, refusedRequests.labels),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: requestSeconds.name, Help: requestSeconds.help, Buckets: prometheus.ExponentialBuckets(0.0005, 2.5, 12),
		}, requestSeconds.labels),
		slow: slow.Microseconds(), prefix: fmt.Sprintf("%08x-", rand.Uint32()),
	}
}

// unroutedOperation is the operation of requests that no route has.
const unroutedOperation = "none"

// operationOf names a route in metrics: the part of the API it belongs to.
func operationOf(pattern string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(pattern, "/"), "api/v1/")
	name, _, _ = strings.Cut(name, "/")
	return name
}

// requestIDHeader carries the id of a request, both ways.
const requestIDHeader = "X-Request-Id"

// maxRequestID bounds the ids that clients may choose.
const maxRequestID = 128

// id returns the id of the request: the client's if it is fit for a line of
// the log, else one of ours.
func (r *request) id() string {
	if r.requestID == "" {
		o := r.server.observer
		if sent := r.ctx.Request.Header.Peek(requestIDHeader); saneID(sent) {
			r.requestID = string(sent)
		} else {
			r.requestID = o.prefix + strconv.FormatUint(o.ids.Add(1), 16)
		}
	}
	return r.requestID
}

func saneID(id []byte) bool {
	for _, c := range id {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		if !letter && strings.IndexByte("-_.:+/=@", c) < 0 {
			return false
		}
	}
	return len(id) > 0 && len(id) <= maxRequestID
}

// answered ends a request: the answer gets the request's id and is counted if
// it is a refusal.
func (r *request) answered() {
	r.setHeader(requestIDHeader, r.id())
	r.countRefusal()
}

// timed tells how long a request took that began at a time of the server's
// clock.
func (r *request) timed(began int64) {
	if r.route == nil {
		return
	}
	o, took := r.server.observer, r.server.now()-began
	if r.mayWait == 0 {
		r.route.seconds.Observe(float64(took) / float64(broker.Second))
	}
	if took -= r.mayWait; o.slow == 0 || took < o.slow {
		return
	}
	if ok, more := o.lines.take(r.server.now()); ok {
		r.server.log.Warn("slow request", "request", r.id(), "method", r.route.method, "path", string(r.ctx.URI().PathOriginal()),
			"status", r.ctx.Response.StatusCode(), "ms", took/broker.Millisecond, "body", len(r.body()), "unlogged", more)
	}
}

// countRefusal counts an answer that is one by its reason.
func (r *request) countRefusal() {
	status := r.ctx.Response.StatusCode()
	if status < fasthttp.StatusBadRequest {
		return
	}
	operation := unroutedOperation
	if r.route != nil {
		operation = r.route.operation
	}
	reason := r.code
	switch {
	case reason != "":
	case status == fasthttp.StatusUnauthorized:
		reason = "unauthorized"
	case status == fasthttp.StatusForbidden:
		reason = "forbidden"
	case status == fasthttp.StatusNotFound:
		reason = string(broker.CodeNotFound)
	case status == fasthttp.StatusServiceUnavailable:
		reason = string(broker.CodeRetry)
	default:
		reason = string(broker.CodeInternal)
	}
	r.server.observer.refused.WithLabelValues(operation, reason).Inc()
}

// refusedConnection counts one above the limit, which is refused unread.
func (o *observer) refusedConnection() {
	o.refused.WithLabelValues("connect", string(broker.CodeRetry)).Inc()
}

// lineLimit bounds the lines about requests, so that a disk that stands still
// does not fill the log too.
type lineLimit struct {
	second atomic.Int64
	lines  atomic.Int64
	left   atomic.Int64 // lines not written since the last one that was
}

const linesPerSecond = 10

// take says whether a line may be written now, and how many were not.
func (l *lineLimit) take(now int64) (ok bool, left int64) {
	if second := now / broker.Second; l.second.Swap(second) != second {
		l.lines.Store(0)
	}
	if l.lines.Add(1) > linesPerSecond {
		l.left.Add(1)
		return false, 0
	}
	return true, l.left.Swap(0)
}
