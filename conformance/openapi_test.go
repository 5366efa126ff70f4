package conformance

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// document is what the broker says of itself at /openapi.json, nil when the
// broker has none. Every answer of the suite is held against it, and every
// request that was carried out.
var document *contract

// contract is an OpenAPI document and which of its routes have been answered
// as asked.
type contract struct {
	doc      *openapi3.T
	mu       sync.Mutex
	answered map[string]bool // METHOD /path/{template}
}

// loadContract reads the document of a broker. Answers may have no member that
// the document does not name.
func loadContract(base string) (*contract, error) {
	resp, err := httpClient.Get(base + "/openapi.json")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	openapi3.DefineStringFormatValidator("uuid",
		openapi3.NewRegexpFormatValidator(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`))
	doc, err := openapi3.NewLoader().LoadFromIoReader(resp.Body)
	if err != nil {
		return nil, err
	}
	for _, item := range doc.Paths.Map() {
		for _, operation := range item.Operations() {
			for _, response := range operation.Responses.Map() {
				for _, media := range response.Value.Content {
					closeSchema(media.Schema)
				}
			}
		}
	}
	return &contract{doc: doc, answered: map[string]bool{}}, nil
}

// closeSchema forbids members that the schema does not name, also further inside.
func closeSchema(ref *openapi3.SchemaRef) {
	if ref == nil || ref.Value == nil || ref.Value.AdditionalProperties.Has != nil {
		return
	}
	s := ref.Value
	if len(s.Properties) > 0 {
		no := false
		s.AdditionalProperties.Has = &no
	}
	closeSchema(s.Items)
	for _, p := range s.Properties {
		closeSchema(p)
	}
}

// check says what the document does not allow of an answer, or of the request
// when it was carried out.
func (c *contract) check(method, path, sent string, status int, header http.Header, body []byte) error {
	if c == nil {
		return nil
	}
	name, operation := c.find(method, path)
	if operation == nil {
		if status < 400 {
			return fmt.Errorf("no route of /openapi.json, but the status is %d", status)
		}
		return nil
	}
	response := operation.Responses.Status(status)
	if response == nil && status >= 400 {
		response = operation.Responses.Default()
	}
	if response == nil {
		return fmt.Errorf("/openapi.json has no status %d for %s", status, name)
	}
	if status < 300 {
		c.mu.Lock()
		c.answered[name] = true
		c.mu.Unlock()
		if err := checkRequest(operation.RequestBody, sent); err != nil {
			return fmt.Errorf("%s was carried out, but /openapi.json does not allow %s: %w", name, clip(sent), err)
		}
	}
	if method == http.MethodHead {
		return nil
	}
	if err := checkBody(response.Value, header.Get("Content-Type"), body); err != nil {
		return fmt.Errorf("not what /openapi.json says of %s, status %d: %w", name, status, err)
	}
	return nil
}

// checkRequest holds a body against its schema. One that may be left out may
// be anything: it is read as if it were not there.
func checkRequest(body *openapi3.RequestBodyRef, sent string) error {
	if body == nil || !body.Value.Required {
		return nil
	}
	var value any
	if err := json.Unmarshal([]byte(sent), &value); err != nil {
		return err
	}
	return body.Value.Content["application/json"].Schema.Value.VisitJSON(value, openapi3.VisitAsRequest())
}

func checkBody(response *openapi3.Response, contentType string, body []byte) error {
	if len(response.Content) == 0 {
		if len(body) > 0 {
			return fmt.Errorf("a body, where there should be none")
		}
		return nil
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return fmt.Errorf("Content-Type %q: %w", contentType, err)
	}
	media := response.Content[kind]
	if media == nil {
		return fmt.Errorf("Content-Type %q", contentType)
	}
	if kind != "application/json" {
		return nil
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	return media.Schema.Value.VisitJSON(value, openapi3.VisitAsResponse())
}

// find returns the operation of a request, by the most literal path.
func (c *contract) find(method, path string) (string, *openapi3.Operation) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	path, _, _ = strings.Cut(path, "?")
	segments := strings.Split(path, "/")
	best, at := "", -1
	for template, item := range c.doc.Paths.Map() {
		if item.GetOperation(method) == nil {
			continue
		}
		if n := literals(strings.Split(template, "/"), segments); n > at {
			best, at = template, n
		}
	}
	if at < 0 {
		return "", nil
	}
	return method + " " + best, c.doc.Paths.Value(best).GetOperation(method)
}

// literals counts the segments that are literally those of the template, an
// earlier one for more; -1 when the path is none of the template.
func literals(template, path []string) int {
	if len(template) != len(path) {
		return -1
	}
	n := 0
	for i := range template {
		n *= 2
		switch {
		case template[i] == path[i]:
			n++
		case !strings.HasPrefix(template[i], "{"):
			return -1
		}
	}
	return n
}

// unanswered are the routes that no test has had answered as asked.
func (c *contract) unanswered() []string {
	var left []string
	for path, item := range c.doc.Paths.Map() {
		for method := range item.Operations() {
			if name := method + " " + path; !c.answered[name] {
				left = append(left, name)
			}
		}
	}
	slices.Sort(left)
	return left
}

func TestAnswersThatAreNotInTheDocumentAreFound(t *testing.T) {
	if document == nil {
		t.Skip("the broker has no /openapi.json")
	}
	const health = `{"status":"healthy","database":"connected","engine":"e","version":"1"}`
	for _, row := range []struct {
		path, body string
		status     int
		kind, want string
	}{
		{"/health", health, 200, "application/json", "^$"},
		{"/health", health, 200, "application/json; charset=utf-8", "^$"},
		{"/health?x=/y", health, 200, "text/plain", "Content-Type"},
		{"/health", health, 201, "application/json", "has no status 201"},
		{"/health", strings.Replace(health, "healthy", "well", 1), 200, "application/json", "not one of the allowed values"},
		{"/health", strings.Replace(health, `"1"`, "1", 1), 200, "application/json", "must be a string"},
		{"/health", strings.Replace(health, `{`, `{"more":1,`, 1), 200, "application/json", "more"},
		{"/health", `{"status":"healthy"}`, 200, "application/json", "missing"},
		{"/nowhere", "{}", 200, "application/json", "no route"},
		{"/nowhere", "{}", 404, "application/json", "^$"},
		{"/api/v1/traces/by-name/x", `{"traces":[]}`, 200, "application/json", `by-name/\{name\}.*\n?.*missing`},
		{"/api/v1/traces/by%2Dname/x", `{"traces":[]}`, 200, "application/json", "^$"},
		{"/api/v1/pop/queue/q", "", 204, "", "^$"},
		{"/api/v1/pop/queue/q", "{}", 204, "application/json", "a body"},
	} {
		got := ""
		if err := document.check("GET", row.path, "", row.status, http.Header{"Content-Type": {row.kind}}, []byte(row.body)); err != nil {
			got = err.Error()
		}
		if ok, err := regexp.MatchString(row.want, got); err != nil || !ok {
			t.Errorf("%s %s %s: %q, want %q", row.path, strconv.Itoa(row.status), row.body, got, row.want)
		}
	}
	err := document.check("POST", "/api/v1/push", `{"items":[{"queue":1,"payload":1}]}`, 201, http.Header{"Content-Type": {"application/json"}}, []byte("[]"))
	if err == nil || !strings.Contains(err.Error(), "was carried out") {
		t.Errorf("a request of another shape: %v", err)
	}
}
