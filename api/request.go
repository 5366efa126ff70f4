package api

import (
	"net"

	"github.com/valyala/fasthttp"

	"queend"
	"queend/broker"
)

// request is one request and its answer. It, and every byte slice it gives, is
// good until the handler returns; strings may be kept.
type request struct {
	ctx    *fasthttp.RequestCtx
	server *Server
	route  *compiled
	query  query

	broker   *broker.Broker
	tenant   queend.ID
	producer *string // subject of the caller's token, nil without one

	requestID string // see id
	code      string // of the refusal that was answered, as clients see it
	mayWait   int64  // how long the client has asked to wait for something, microseconds

	values   [][]byte // segments of the path, decoded
	segments [8][]byte
}

// param returns the segment of the path that the route calls :name. A name that
// the route does not have is a mistake of the handler and panics.
func (r *request) param(name string) string {
	for i, segment := range r.route.segments {
		if len(segment) > 0 && segment[0] == ':' && segment[1:] == name {
			return string(r.values[i])
		}
	}
	panic("api: route " + r.route.pattern + " has no parameter " + name)
}

// body returns the body of the request. It is overwritten by the next request
// of the connection: copy what is kept.
func (r *request) body() []byte { return r.ctx.PostBody() }

// header returns a header of the request, "" when it is absent.
func (r *request) header(name string) string { return string(r.ctx.Request.Header.Peek(name)) }

// port returns the port the request came in at.
func (r *request) port() int {
	if address, ok := r.ctx.LocalAddr().(*net.TCPAddr); ok {
		return address.Port
	}
	return 0
}

// json answers with a JSON body, which write appends to the buffer it is given.
func (r *request) json(status int, write func(dst []byte) []byte) {
	r.ctx.SetStatusCode(status)
	r.ctx.SetContentType("application/json")
	buffer := r.ctx.Response.SwapBody(nil)
	r.ctx.Response.SwapBody(write(buffer[:0]))
}

// fail answers with the error body. The code may be "", then it is left out.
func (r *request) fail(status int, code, text string) {
	r.code = code
	r.json(status, func(dst []byte) []byte { return appendError(dst, code, text) })
}

// noContent answers 204, which has no body and no Content-Length, with headers
// given as name, value, name, value.
func (r *request) noContent(headers ...string) {
	r.ctx.Response.ResetBody()
	r.ctx.SetContentType("")
	r.ctx.SetStatusCode(fasthttp.StatusNoContent)
	for i := 0; i+1 < len(headers); i += 2 {
		r.setHeader(headers[i], headers[i+1])
	}
}

// setHeader sets a header of the answer.
func (r *request) setHeader(name, value string) { r.ctx.Response.Header.Set(name, value) }

// watch returns a channel that is closed when the client hangs up. The handler
// must call stop before it returns, and may watch once at a time.
func (r *request) watch() (gone <-chan struct{}, stop func()) {
	return r.server.hangups.Watch(r.ctx.Conn())
}

// gone reports whether the client has hung up by now.
func (r *request) gone() bool { return Gone(r.ctx.Conn()) }

// stopping returns a channel that is closed when the server shuts down: a
// parked handler must answer then.
func (r *request) stopping() <-chan struct{} { return r.ctx.Done() }
