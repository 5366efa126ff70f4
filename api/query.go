package api

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/valyala/fasthttp"
)

// query reads the parameters of a request. A parameter that is absent has the
// value the caller names. The first one that is not of its type is remembered;
// a handler reads them all and asks err once. Of a repeated parameter the first
// counts.
type query struct {
	args *fasthttp.Args
	bad  error
}

// has reports whether the parameter is there, be it empty.
func (q *query) has(name string) bool { return q.args.Has(name) }

// text returns a parameter that is a string. It refuses what no name may hold.
func (q *query) text(name, absent string) string {
	if !q.args.Has(name) {
		return absent
	}
	value := q.args.Peek(name)
	switch {
	case !utf8.Valid(value):
		q.refuse(name, "invalid UTF-8")
	case hasControl(value):
		q.refuse(name, "control character")
	}
	return string(value)
}

// int returns a parameter that is a decimal integer of 64 bits.
func (q *query) int(name string, absent int64) int64 {
	if !q.args.Has(name) {
		return absent
	}
	n, err := strconv.ParseInt(string(q.args.Peek(name)), 10, 64)
	if err != nil {
		q.refuse(name, "not an integer")
		return absent
	}
	return n
}

// bool returns a parameter that is true or false, and nothing else.
func (q *query) bool(name string, absent bool) bool {
	if !q.args.Has(name) {
		return absent
	}
	switch string(q.args.Peek(name)) {
	case "true":
		return true
	case "false":
		return false
	}
	q.refuse(name, "not true or false")
	return absent
}

// flag is the bool of management routes, where 1, 0, yes and no count too.
func (q *query) flag(name string, absent bool) bool {
	switch string(q.args.Peek(name)) {
	case "1", "yes":
		return true
	case "0", "no":
		return false
	}
	return q.bool(name, absent)
}

// err returns what is wrong with the first bad parameter, and names it.
func (q *query) err() error { return q.bad }

func (q *query) refuse(name, reason string) {
	if q.bad == nil {
		q.bad = fmt.Errorf("query parameter %s: %s", name, reason)
	}
}
