package api

import (
	_ "embed" // for the document
)

// openAPIDocument describes every route. It is written from the table of
// routes and the types of the answers by go test ./api -run OpenAPI -update.
//
//go:embed openapi.json
var openAPIDocument []byte

// openAPI answers GET /openapi.json.
func (r *request) openAPI() {
	r.json(200, func(dst []byte) []byte { return append(dst, openAPIDocument...) })
}
