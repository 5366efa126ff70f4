package api

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

func queryOf(text string) *query {
	var args fasthttp.Args
	args.Parse(text)
	return &query{args: &args}
}

func TestParametersHaveOneType(t *testing.T) {
	ask := map[string]func(q *query) any{
		"int":  func(q *query) any { return q.int("p", 7) },
		"bool": func(q *query) any { return q.bool("p", true) },
		"flag": func(q *query) any { return q.flag("p", true) },
		"text": func(q *query) any { return q.text("p", "absent") },
	}
	for _, row := range []struct {
		kind, text string
		want       any // nil: refused
	}{
		{"int", "p=12", int64(12)}, {"int", "p=-3", int64(-3)}, {"int", "", int64(7)}, {"int", "q=1", int64(7)}, {"int", "p=1&p=x", int64(1)},
		{"int", "p=", nil}, {"int", "p", nil}, {"int", "p=1.0", nil}, {"int", "p=x", nil}, {"int", "p=true", nil}, {"int", "p=99999999999999999999", nil},
		{"bool", "p=true", true}, {"bool", "p=false", false}, {"bool", "", true},
		{"bool", "p=1", nil}, {"bool", "p=yes", nil}, {"bool", "p=TRUE", nil}, {"bool", "p=", nil},
		{"flag", "p=1", true}, {"flag", "p=0", false}, {"flag", "p=yes", true}, {"flag", "p=no", false}, {"flag", "p=false", false}, {"flag", "", true},
		{"flag", "p=2", nil}, {"flag", "p=", nil},
		{"text", "p=a%2Fb+c", "a/b c"}, {"text", "p=", ""}, {"text", "", "absent"}, {"text", "p=%C3%A9", "é"},
		{"text", "p=%ff", nil}, {"text", "p=a%00", nil}, {"text", "p=%0A", nil},
	} {
		q := queryOf(row.text)
		got := ask[row.kind](q)
		switch {
		case row.want == nil:
			if q.err() == nil || !strings.Contains(q.err().Error(), "parameter p:") {
				t.Errorf("%s %q: error %v", row.kind, row.text, q.err())
			}
		case q.err() != nil || got != row.want:
			t.Errorf("%s %q: %v, %v, want %v", row.kind, row.text, got, q.err(), row.want)
		}
	}
}

func TestTheFirstBadParameterIsNamed(t *testing.T) {
	q := queryOf("batch=1&wait=maybe&timeout=soon")
	q.int("batch", 0)
	q.bool("wait", false)
	q.int("timeout", 0)
	if err := q.err(); err == nil || err.Error() != "query parameter wait: not true or false" {
		t.Errorf("%v", err)
	}
}
