package api

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"queend"
)

var updateDocument = flag.Bool("update", false, "write openapi.json")

func TestOpenAPIDocumentIsOfTheRoutes(t *testing.T) {
	want := describe(t)
	if *updateDocument {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(openAPIDocument, want) {
		t.Error("openapi.json is not what the routes and types say; run go test ./api -run OpenAPI -update")
	}
}

func TestOpenAPIDocumentIsValidAndServed(t *testing.T) {
	h := serveWithout(t)
	got := h.do("GET", "/openapi.json", "")
	if got.status != 200 || got.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v", got.status, got.header)
	}
	doc, err := openapi3.NewLoader().LoadFromData([]byte(got.body))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Error(err)
	}
	served := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			served[method+" "+path] = true
		}
	}
	for _, r := range routes() {
		if name := r.method + " " + templateOf(r.pattern); !served[name] {
			t.Errorf("%s is not in the document", name)
		} else {
			delete(served, name)
		}
	}
	for name := range served {
		t.Errorf("%s is in the document and no route", name)
	}
}

// describe makes the document of the table of routes, the operations and the
// text of docs/api.md.
func describe(t *testing.T) []byte {
	t.Helper()
	s := &schemas{t: t, components: map[string]any{}, types: map[string]reflect.Type{}}
	texts := routeTexts(t)
	paths := map[string]any{}
	left := maps.Clone(operations)
	for _, r := range routes() {
		name := r.method + " " + r.pattern
		o, ok := left[name]
		if !ok {
			t.Fatalf("%s is not in operations", name)
		}
		delete(left, name)
		text, ok := texts[name]
		if !ok {
			t.Fatalf("%s has no text in docs/api.md", name)
		}
		path := templateOf(r.pattern)
		item, _ := paths[path].(map[string]any)
		if item == nil {
			item = map[string]any{}
			paths[path] = item
		}
		item[strings.ToLower(r.method)] = s.operation(&r, &o, text)
	}
	for name := range left {
		t.Errorf("%s is in operations and no route", name)
	}
	document, err := json.MarshalIndent(map[string]any{
		"openapi": "3.0.3",
		"info":    map[string]any{"title": "queend", "version": "1", "description": "A partitioned message broker over HTTP."},
		"paths":   paths,
		"components": map[string]any{
			"schemas": s.components,
			"securitySchemes": map[string]any{
				"token": map[string]any{"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "Asked for when JWT_ENABLED is set."},
			},
		},
	}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(document, '\n')
}

var pathParameter = regexp.MustCompile(`:(\w+)`)

// templateOf is a pattern as OpenAPI writes it.
func templateOf(pattern string) string { return pathParameter.ReplaceAllString(pattern, "{$1}") }

// roleWords are the roles that reach a level, and the word that docs/api.md
// has for it.
var roleWords = map[level]struct {
	word  string
	roles []string
}{
	levelPublic:    {"public", nil},
	levelReadOnly:  {"read", []string{"read-only", "read-write", "admin"}},
	levelWriteOnly: {"write", []string{"write-only", "read-write", "admin"}},
	levelReadWrite: {"work", []string{"read-write", "admin"}},
	levelAdmin:     {"admin", []string{"admin"}},
}

// operation describes one route.
func (s *schemas) operation(r *route, o *operation, text routeText) map[string]any {
	s.t.Helper()
	roles := roleWords[r.level]
	if text.role != roles.word {
		s.t.Errorf("%s %s: docs/api.md says [%s], the table of routes means [%s]", r.method, r.pattern, text.role, roles.word)
	}
	out := map[string]any{"operationId": handlerName(r.handler), "description": text.about, "tags": []string{text.section}}
	if r.level == levelPublic {
		out["security"] = []any{}
	} else {
		out["security"] = []any{map[string]any{"token": []any{}}}
		out["x-roles"] = roles.roles
	}
	parameters := []any{}
	for _, m := range pathParameter.FindAllStringSubmatch(r.pattern, -1) {
		parameters = append(parameters, map[string]any{"name": m[1], "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
	}
	for _, field := range strings.Fields(o.query) {
		name, kind, _ := strings.Cut(field, ":")
		schema := map[string]any{"type": kind}
		if kind == "time" {
			schema = map[string]any{"type": "string"} // a date alone is one too
		}
		parameters = append(parameters, map[string]any{"name": name, "in": "query", "schema": schema})
	}
	if len(parameters) > 0 {
		out["parameters"] = parameters
	}
	if o.body != nil {
		out["requestBody"] = map[string]any{"required": !o.loose, "content": s.content("", o.body)}
	}
	out["responses"] = s.responses(o)
	return out
}

func (s *schemas) responses(o *operation) map[string]any {
	status := max(o.status, 200)
	if o.failed == nil {
		o.failed = refusal{}
	}
	out := map[string]any{
		strconv.Itoa(status): s.response("As asked.", o.media, o.ok),
		"default":            s.response("Refused: see the table of errors.", "", o.failed),
	}
	for status, answer := range o.also {
		text := "There is none."
		if status != 404 && status != 204 {
			text = "Not now."
		}
		out[strconv.Itoa(status)] = s.response(text, "", answer)
	}
	return out
}

func (s *schemas) response(text string, media mediaOf, answer any) map[string]any {
	if answer == nil {
		return map[string]any{"description": text}
	}
	return map[string]any{"description": text, "content": s.content(media, answer)}
}

func (s *schemas) content(media mediaOf, value any) map[string]any {
	if media == "" {
		return map[string]any{"application/json": map[string]any{"schema": s.of(reflect.TypeOf(value))}}
	}
	schema := map[string]any{"type": "string"}
	if media != "text/plain" {
		schema["format"] = "binary"
	}
	return map[string]any{string(media): map[string]any{"schema": schema}}
}

// handlerName is the name of the method that answers a route.
func handlerName(handler func(*request)) string {
	name := runtime.FuncForPC(reflect.ValueOf(handler).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// routeText is what docs/api.md says of a route.
type routeText struct{ section, role, about string }

var (
	routeHeading = regexp.MustCompile("^### `([A-Z]+ /[^`]*)`$")
	roleMark     = regexp.MustCompile(`^\[(\w+)\] ?`)
	docLink      = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`)
)

func routeTexts(t *testing.T) map[string]routeText {
	t.Helper()
	page, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]routeText{}
	section, name := "", ""
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			section = heading
		}
		if m := routeHeading.FindStringSubmatch(line); m != nil {
			name = m[1]
		} else if m := roleMark.FindStringSubmatch(line); m != nil && name != "" {
			texts[name] = routeText{section, m[1], docLink.ReplaceAllString(line[len(m[0]):], "$1")}
			name = ""
		}
	}
	return texts
}

// schemas turns types into schemas. Named structs become components.
type schemas struct {
	t          *testing.T
	components map[string]any
	types      map[string]reflect.Type // of components
}

// of returns the schema of a type: what encoding/json makes of it.
func (s *schemas) of(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[moment](), reflect.TypeFor[instant](), reflect.TypeFor[bucketTime]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[queend.ID]():
		return map[string]any{"type": "string", "format": "uuid"}
	case reflect.TypeFor[two]():
		return map[string]any{"type": "number"}
	case reflect.TypeFor[options](), reflect.TypeFor[someOptions]():
		return s.options(t == reflect.TypeFor[options]())
	case reflect.TypeFor[anything](), reflect.TypeFor[any]():
		return map[string]any{"nullable": true}
	}
	switch t.Kind() {
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return map[string]any{"type": "integer", "format": "int64"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Pointer:
		schema := s.of(t.Elem())
		if schema["$ref"] != nil {
			s.t.Fatalf("%v: OpenAPI 3.0 has no reference that may be null", t)
		}
		schema["nullable"] = true
		return schema
	case reflect.Struct:
		return s.structOf(t)
	}
	s.t.Fatalf("no schema for %v", t)
	return nil
}

var notInNames = regexp.MustCompile(`\W`)

func (s *schemas) structOf(t reflect.Type) map[string]any {
	if t.Name() == "" {
		return s.fields(t)
	}
	name := notInNames.ReplaceAllString(t.Name(), "")
	name = strings.ToUpper(name[:1]) + name[1:]
	if other := s.types[name]; other != nil && other != t {
		s.t.Fatalf("%v and %v would both be %s", other, t, name)
	}
	if s.types[name] == nil {
		s.types[name] = t // keeps a type within itself from going on for ever
		s.components[name] = s.fields(t)
	}
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

func (s *schemas) fields(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		tag := f.Tag.Get("json")
		if f.Anonymous && tag == "" {
			continue
		}
		if tag == "" {
			s.t.Fatalf("%v.%s has no name", t, f.Name)
		}
		name, options, _ := strings.Cut(tag, ",")
		schema := s.of(f.Type)
		if words := f.Tag.Get("enum"); words != "" {
			schema["enum"] = strings.Fields(words)
		}
		properties[name] = schema
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	out := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// optionRow is a row of the broker's table of options.
var optionRow = regexp.MustCompile(`\{name: "(\w+)", (number|toggle): .*\}(, hidden: true)?\},`)

// options are those of a queue: all of them in an answer but the hidden ones.
func (s *schemas) options(answer bool) map[string]any {
	source, err := os.ReadFile("../broker/configure.go")
	if err != nil {
		s.t.Fatal(err)
	}
	properties := map[string]any{"namespace": map[string]any{"type": "string"}, "task": map[string]any{"type": "string"}}
	required := []string{"namespace", "task"}
	for _, m := range optionRow.FindAllStringSubmatch(string(source), -1) {
		kind := map[string]string{"number": "integer", "toggle": "boolean"}[m[2]]
		properties[m[1]] = map[string]any{"type": kind}
		if m[3] == "" {
			required = append(required, m[1])
		}
	}
	out := map[string]any{"type": "object", "properties": properties}
	if !answer {
		for _, schema := range properties {
			schema.(map[string]any)["nullable"] = true
		}
		return out // no component: the object itself may be null
	}
	slices.Sort(required)
	out["required"] = required
	s.components["QueueOptions"] = out
	return map[string]any{"$ref": "#/components/schemas/QueueOptions"}
}

func TestSchemasAreWhatEncodingMakesOfTypes(t *testing.T) {
	s := &schemas{t: t, components: map[string]any{}, types: map[string]reflect.Type{}}
	type inner struct {
		B *bool `json:"b"`
	}
	type outer struct {
		A int `json:"a,omitempty"`
		inner
	}
	ref := s.of(reflect.TypeFor[[]outer]())
	got, err := json.Marshal(map[string]any{"ref": ref, "components": s.components})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"components":{"Outer":{"properties":{"a":{"format":"int64","type":"integer"},"b":{"nullable":true,"type":"boolean"}},` +
		`"required":["b"],"type":"object"}},"ref":{"items":{"$ref":"#/components/schemas/Outer"},"type":"array"}}`
	if string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
	if fmt.Sprint(s.of(reflect.TypeFor[two]())) != "map[type:number]" {
		t.Error("a rounded number is no number")
	}
}
