package conformance

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// node is a place in a JSON answer. It keeps the bytes as they came.
type node struct {
	t    testing.TB
	path string // for messages
	of   string // the request
	raw  json.RawMessage
}

// parse decodes the bytes, numbers as text. Anything behind the value fails.
func (n node) parse() any {
	n.t.Helper()
	d := json.NewDecoder(bytes.NewReader(n.raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		n.t.Fatalf("%s: %s is not JSON: %v\n%s", n.of, n.path, err, clip(string(n.raw)))
	}
	if d.More() {
		n.t.Fatalf("%s: %s has more than one JSON value\n%s", n.of, n.path, clip(string(n.raw)))
	}
	return v
}

// fields returns the members of an object with their exact bytes.
func (n node) fields() map[string]json.RawMessage {
	n.t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(n.raw, &m); err != nil || m == nil {
		n.t.Fatalf("%s: %s is no object: %s", n.of, n.path, clip(string(n.raw)))
	}
	return m
}

// at walks down by keys and array indexes; every step must exist.
func (n node) at(steps ...any) node {
	n.t.Helper()
	for _, s := range steps {
		switch s := s.(type) {
		case string:
			v, ok := n.fields()[s]
			if !ok {
				n.t.Fatalf("%s: %s has no key %q: %s", n.of, n.path, s, clip(string(n.raw)))
			}
			n.path, n.raw = n.path+"."+s, v
		case int:
			l := n.list()
			if s >= len(l) {
				n.t.Fatalf("%s: %s has no element %d: %s", n.of, n.path, s, clip(string(n.raw)))
			}
			n = l[s]
		}
	}
	return n
}

// list returns the elements of the array at steps.
func (n node) list(steps ...any) []node {
	n.t.Helper()
	n = n.at(steps...)
	var l []json.RawMessage
	if err := json.Unmarshal(n.raw, &l); err != nil || l == nil {
		n.t.Fatalf("%s: %s is no array: %s", n.of, n.path, clip(string(n.raw)))
	}
	out := make([]node, len(l))
	for i, raw := range l {
		out[i] = node{t: n.t, path: n.path + "[" + strconv.Itoa(i) + "]", of: n.of, raw: raw}
	}
	return out
}

// has tells whether the object has the key, whatever its value.
func (n node) has(key string) bool { n.t.Helper(); _, ok := n.fields()[key]; return ok }

// str returns the string at steps.
func (n node) str(steps ...any) string {
	n.t.Helper()
	n = n.at(steps...)
	s, ok := n.parse().(string)
	if !ok {
		n.t.Fatalf("%s: %s is no string: %s", n.of, n.path, clip(string(n.raw)))
	}
	return s
}

// num returns the integer at steps; 1.0 and 1e3 are not integers here.
func (n node) num(steps ...any) int64 {
	n.t.Helper()
	n = n.at(steps...)
	v, err := strconv.ParseInt(n.text(), 10, 64)
	if err != nil {
		n.t.Fatalf("%s: %s is no integer: %s", n.of, n.path, clip(string(n.raw)))
	}
	return v
}

// text is the value exactly as sent, without the space around it.
func (n node) text() string { return strings.TrimSpace(string(n.raw)) }

// is checks members of an object, given as key, value, key, value ... A value
// is a string, an int, a bool or nil for null.
func (n node) is(pairs ...any) node {
	n.t.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		key, want := pairs[i].(string), pairs[i+1]
		raw, ok := n.fields()[key]
		if !ok {
			n.t.Errorf("%s: %s has no key %q: %s", n.of, n.path, key, clip(string(n.raw)))
			continue
		}
		got := node{t: n.t, path: n.path + "." + key, of: n.of, raw: raw}
		var same bool
		switch want := want.(type) {
		case nil:
			same = got.text() == "null"
		case bool:
			same = got.text() == strconv.FormatBool(want)
		case int:
			same = got.text() == strconv.Itoa(want)
		case int64:
			same = got.text() == strconv.FormatInt(want, 10)
		case string:
			s, isString := got.parse().(string)
			same = isString && s == want
		default:
			n.t.Fatalf("is: cannot compare %T", want)
		}
		if !same {
			n.t.Errorf("%s: %s is %s, want %#v", n.of, got.path, clip(got.text()), want)
		}
	}
	return n
}

// lacks checks that none of the keys is there.
func (n node) lacks(keys ...string) node {
	n.t.Helper()
	for _, k := range keys {
		if n.has(k) {
			n.t.Errorf("%s: %s has key %q: %s", n.of, n.path, k, clip(string(n.raw)))
		}
	}
	return n
}

// keys returns the keys of the object in order.
func (n node) keys() []string {
	n.t.Helper()
	var out []string
	for k := range n.fields() {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// onlyKeys checks that the object has exactly the keys, given in one string.
func (n node) onlyKeys(keys string) node {
	n.t.Helper()
	want := strings.Fields(keys)
	slices.Sort(want)
	if got := n.keys(); !slices.Equal(got, want) {
		n.t.Errorf("%s: %s has keys\n%v, want\n%v", n.of, n.path, got, want)
	}
	return n
}

// hasKeys checks that the object has at least the keys, given in one string.
func (n node) hasKeys(keys string) node {
	n.t.Helper()
	got := n.fields()
	for k := range strings.FieldsSeq(keys) {
		if _, ok := got[k]; !ok {
			n.t.Errorf("%s: %s has no key %q: %s", n.of, n.path, k, clip(string(n.raw)))
		}
	}
	return n
}

// find returns the element of the list whose key has the value.
func find(t testing.TB, list []node, key, value string) node {
	t.Helper()
	for _, n := range list {
		if n.str(key) == value {
			return n
		}
	}
	t.Fatalf("no element with %s=%q among %d", key, value, len(list))
	return node{}
}

// zeroID stands for an original nobody knows any more.
const zeroID = "00000000-0000-0000-0000-000000000000"

var (
	uuid7     = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	timeMicro = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)
	timeMilli = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
)

// matches checks that the string at steps has the form.
func (n node) matches(form *regexp.Regexp, steps ...any) string {
	n.t.Helper()
	n = n.at(steps...)
	s := n.str()
	if !form.MatchString(s) {
		n.t.Errorf("%s: %s is %q, which does not match %v", n.of, n.path, s, form)
	}
	return s
}

// when reads the time at steps.
func (n node) when(steps ...any) time.Time {
	n.t.Helper()
	n = n.at(steps...)
	at, err := time.Parse(time.RFC3339Nano, n.str())
	if err != nil {
		n.t.Fatalf("%s: %s: %v", n.of, n.path, err)
	}
	return at
}

// quote writes a string as JSON.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // a string can always be written
	}
	return strings.TrimSpace(b.String())
}
