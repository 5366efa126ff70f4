package api

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"queend/broker"
)

// appendError appends the error body, which is valid JSON whatever text holds.
// Without a code it has only the text.
func appendError(dst []byte, code, text string) []byte {
	dst = append(dst, `{"error":`...)
	dst = appendString(dst, text)
	if code != "" {
		dst = append(dst, `,"code":`...)
		dst = appendString(dst, code)
	}
	return append(dst, '}')
}

// appendString writes a JSON string. What is not UTF-8 becomes U+FFFD, so that
// the answer is JSON whatever the text.
func appendString[T string | []byte](dst []byte, text T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	done := 0 // everything before it is written
	for i := plainASCII(text); i < len(text); {
		c := text[i]
		if c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, text[done:i]...)
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
			i++
		case c < 0x20:
			dst = append(dst, `\u00`...)
			dst = append(dst, hex[c>>4], hex[c&15])
			i++
		default:
			r, n := utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
			dst = utf8.AppendRune(dst, r)
			i += n
		}
		done = i
	}
	dst = append(dst, text[done:]...)
	return append(dst, '"')
}

// plainASCII returns how many bytes of ASCII that mean themselves in a JSON
// string text begins with, as far as it can tell by eights.
func plainASCII[T string | []byte](text T) (n int) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; len(text)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64([]byte(text[n : n+8]))
		quote, backslash := w^'"'*ones, w^'\\'*ones
		if (w|(w-0x20*ones)|(quote-ones)&^quote|(backslash-ones)&^backslash)&highs != 0 {
			break
		}
	}
	return n
}

// malformed answers a request that could not be read. The connection is closed
// after it, by fasthttp.
func (s *Server) malformed(ctx *fasthttp.RequestCtx, err error) {
	r := &request{ctx: ctx, server: s}
	defer r.answered()
	var header *fasthttp.ErrSmallBuffer
	var network net.Error
	refused := s.bodies.done(&ctx.Request.Header)
	switch {
	case refused:
		r.route = s.routeOf(ctx)
		tooMany(r)
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		r.route = s.routeOf(ctx)
		tooLarge(r)
	case errors.As(err, &header):
		r.fail(fasthttp.StatusRequestHeaderFieldsTooLarge, "bad_request", "request line and headers too large")
	case errors.As(err, &network) && network.Timeout():
		r.fail(fasthttp.StatusRequestTimeout, "bad_request", "the request did not arrive in time")
	default:
		r.fail(fasthttp.StatusBadRequest, "bad_request", "malformed HTTP request")
	}
	lingerOn(ctx.Conn())
}

// routeOf finds the route of a request whose body was not read, nil if it has
// none.
func (s *Server) routeOf(ctx *fasthttp.RequestCtx) *compiled {
	segments, err := splitPath(ctx.URI().PathOriginal(), nil)
	if err != nil {
		return nil
	}
	return s.routes.find(string(ctx.Method()), segments)
}

// expect answers a client that waits for leave to send its body.
func (s *Server) expect(ctx *fasthttp.RequestCtx, maxBody int) int {
	r := &request{ctx: ctx, server: s}
	defer r.answered()
	header := &ctx.Request.Header
	r.route = s.routeOf(ctx)
	switch {
	case header.ContentLength() > maxBody:
		tooLarge(r)
	case s.bodies.enter(header):
		return fasthttp.StatusContinue
	default:
		s.bodies.done(header)
		tooMany(r)
	}
	lingerOn(ctx.Conn())
	return ctx.Response.StatusCode()
}

// tooMany answers while the bodies that are being read take all the memory for
// them.
func tooMany(r *request) {
	r.setHeader("Retry-After", strconv.Itoa(1+rand.IntN(5)))
	r.fail(fasthttp.StatusTooManyRequests, string(broker.CodeOverloaded), "too many large requests at once")
}

func tooLarge(r *request) {
	r.fail(fasthttp.StatusRequestEntityTooLarge, "too_large", "request body too large")
}
