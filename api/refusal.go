package api

import (
	"errors"
	"math/rand/v2"
	"strconv"

	"github.com/valyala/fasthttp"

	"queend/broker"
)

// statusOf maps what the broker refuses to HTTP (docs/rules.md, S1).
func statusOf(code broker.ErrorCode) int {
	switch code {
	case broker.CodeBadRequest:
		return fasthttp.StatusBadRequest
	case broker.CodeNotFound:
		return fasthttp.StatusNotFound
	case broker.CodeNameTooLong:
		return fasthttp.StatusRequestEntityTooLarge
	case broker.CodeOverloaded:
		return fasthttp.StatusTooManyRequests
	case broker.CodeStorageFull:
		return fasthttp.StatusInsufficientStorage
	case broker.CodeTimeout, broker.CodeRetry, broker.CodeMaintenance:
		return fasthttp.StatusServiceUnavailable
	}
	return fasthttp.StatusInternalServerError
}

// refusalOf turns any error into a status, a code and a text fit for the
// client. What is no refusal is logged and shown as a fault of ours, led by
// the words S4 to S6 have for the operation.
func (r *request) refusalOf(err error, operation string) (status int, code, text string) {
	var refused *broker.Refusal
	if errors.As(err, &refused) {
		switch refused.Code {
		case broker.CodeOverloaded:
			r.setHeader("Retry-After", strconv.Itoa(1+rand.IntN(5)))
		case broker.CodeRetry:
			r.setHeader("Retry-After", "1")
		}
		return statusOf(refused.Code), string(refused.Code), refused.Text
	}
	r.server.log.Error("a request failed", "request", r.id(), "operation", operation, "error", err)
	return fasthttp.StatusInternalServerError, string(broker.CodeInternal), operation + " failed: " + err.Error()
}

// refuse answers with the error body for err.
func (r *request) refuse(err error, operation string) {
	status, code, text := r.refusalOf(err, operation)
	r.fail(status, code, text)
}

// badBody answers 400 for a body that cannot be understood.
func (r *request) badBody(err error) {
	r.fail(fasthttp.StatusBadRequest, "bad_body", "bad body: "+err.Error())
}
