package api

import (
	"errors"
	"strings"

	"github.com/valyala/fasthttp"

	"queend"
	"queend/auth"
	"queend/broker"
)

// Auth says who may do what. A nil *Auth lets everybody do everything.
type Auth struct {
	Tokens *auth.Verifier
	// Paths that need no token. One longer than a character that ends with /
	// stands for all below it.
	SkipPaths []string
}

// allowed are the roles of which a caller needs one (docs/rules.md, S2).
var allowed = [...]auth.Roles{
	levelReadOnly:  auth.ReadOnly | auth.ReadWrite | auth.Admin,
	levelWriteOnly: auth.WriteOnly | auth.ReadWrite | auth.Admin,
	levelReadWrite: auth.ReadWrite | auth.Admin,
	levelAdmin:     auth.Admin,
}

// withoutBroker are the routes that are answered while the broker boots, with
// those that are public.
var withoutBroker = map[string]bool{"/status": true}

// guard finds out who asks before the handler runs.
func guard(found *route) func(*request) {
	handler, level := found.handler, found.level
	waits := level != levelPublic && !withoutBroker[found.pattern]
	return func(r *request) {
		if !r.admitted(level) {
			return
		}
		r.broker = r.server.broker.Load()
		if r.broker == nil && waits {
			r.setHeader("Retry-After", "1")
			r.fail(fasthttp.StatusServiceUnavailable, string(broker.CodeRetry), "starting: the data directory is being read")
			return
		}
		if r.readTenant() {
			handler(r)
		}
	}
}

// admitted checks the token; false when it has answered with a refusal.
func (r *request) admitted(level level) bool {
	a := r.server.config.Auth
	if a == nil || level == levelPublic || a.skips(pathOf(r.ctx)) {
		return true
	}
	caller, err := a.Tokens.Verify(r.header("Authorization"))
	if err != nil {
		r.unauthorized(err)
		return false
	}
	if caller.Roles&allowed[level] == 0 {
		r.fail(fasthttp.StatusForbidden, "", "Insufficient permissions")
		return false
	}
	r.producer = caller.Subject
	return true
}

func (r *request) unauthorized(err error) {
	status := fasthttp.StatusUnauthorized
	var refused *auth.Error
	if errors.As(err, &refused) && refused.Ours {
		status = fasthttp.StatusInternalServerError
		r.server.log.Error("tokens cannot be checked", "request", r.id(), "error", err)
	} else {
		r.setHeader("WWW-Authenticate", "Bearer")
	}
	r.fail(status, "", err.Error())
}

// pathOf is the path as it stood in the request, which is what routes are
// found by.
func pathOf(ctx *fasthttp.RequestCtx) string {
	path := string(ctx.URI().PathOriginal())
	if path == "" {
		return "/"
	}
	return path
}

func (a *Auth) skips(path string) bool {
	for _, entry := range a.SkipPaths {
		if path == entry || len(entry) > 1 && strings.HasSuffix(entry, "/") && strings.HasPrefix(path, entry) {
			return true
		}
	}
	return false
}

// unrouted answers for a path that no route has, to those who may know.
func (r *request) unrouted(segments [][]byte) {
	if r.admitted(unroutedLevel(segments)) {
		r.fail(fasthttp.StatusNotFound, "no_such_route", "Not Found")
	}
}

// unroutedLevel is the level of paths that are not in the table: those of a
// web page are public, those inside the broker the administrator's.
func unroutedLevel(segments [][]byte) level {
	switch first := string(segments[0]); {
	case first == "" && len(segments) == 1, first == "assets", strings.HasPrefix(first, "favicon"):
		return levelPublic
	case first == "internal":
		return levelAdmin
	}
	return levelReadWrite
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
		r.fail(fasthttp.StatusBadRequest, "bad_request", "invalid x-queen-tenant header (must be a UUID)")
		return false
	}
	r.tenant = id
	return true
}
