package api

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// level is what a caller must be allowed to do.
type level uint8

const (
	_ level = iota // zero is no level, so a forgotten one shows
	levelPublic
	levelReadOnly
	levelWriteOnly
	levelReadWrite
	levelAdmin
)

// route is one line of the table of routes. The pattern's segments are literal,
// or :name for any one segment, the empty one too; the last may be * for one
// segment or more. A literal wins over a parameter, a parameter over *.
type route struct {
	method  string
	pattern string
	level   level
	handler func(r *request)
}

// compiled is a route with its pattern split.
type compiled struct {
	route
	segments  []string
	open      bool // ends with *
	operation string
	seconds   prometheus.Observer // of its answers
}

// maxSegments is more than any pattern has; longer paths match only *.
const maxSegments = 16

// router finds routes by the number of segments of a path.
type router struct {
	exact [maxSegments][]*compiled // by count, the most literal first
	open  []*compiled              // those with *, longest first
}

// newRouter compiles the table; o is told of the answers.
func newRouter(table []route, o *observer) router {
	var rt router
	for _, r := range table {
		c := &compiled{route: r, segments: strings.Split(r.pattern[1:], "/"), operation: operationOf(r.pattern)}
		c.seconds = o.seconds.WithLabelValues(c.operation)
		if last := len(c.segments) - 1; c.segments[last] == "*" {
			c.open, c.segments = true, c.segments[:last]
			rt.open = append(rt.open, c)
			continue
		}
		rt.exact[len(c.segments)] = append(rt.exact[len(c.segments)], c)
	}
	for _, group := range rt.exact {
		slices.SortStableFunc(group, compareLiteral)
	}
	slices.SortStableFunc(rt.open, func(a, b *compiled) int {
		if d := len(b.segments) - len(a.segments); d != 0 {
			return d
		}
		return compareLiteral(a, b)
	})
	return rt
}

// compareLiteral orders patterns of one length by the first segment where one
// is literal and the other is not.
func compareLiteral(a, b *compiled) int {
	for i := range a.segments {
		pa, pb := isParameter(a.segments[i]), isParameter(b.segments[i])
		switch {
		case pb && !pa:
			return -1
		case pa && !pb:
			return 1
		}
	}
	return 0
}

func isParameter(segment string) bool { return strings.HasPrefix(segment, ":") }

// find returns the route of a request, nil when there is none. HEAD is answered
// as GET where GET only reads; a HEAD that claims messages would lose them.
func (rt *router) find(method string, path [][]byte) *compiled {
	if len(path) < maxSegments {
		for _, c := range rt.exact[len(path)] {
			if c.answers(method) && c.matches(path) {
				return c
			}
		}
	}
	for _, c := range rt.open {
		if len(path) > len(c.segments) && c.answers(method) && c.matches(path) {
			return c
		}
	}
	return nil
}

func (c *compiled) answers(method string) bool {
	if method == "HEAD" && c.method == "GET" {
		return c.level == levelPublic || c.level == levelReadOnly
	}
	return method == c.method
}

func (c *compiled) matches(path [][]byte) bool {
	for i, segment := range c.segments {
		if !isParameter(segment) && segment != string(path[i]) {
			return false
		}
	}
	return true
}
