// Package conformance is a black-box test suite for docs/rules.md. It knows
// only the URL of a broker and how to restart one: it never imports another
// package of this module.
//
// go test ./conformance builds cmd/queend once, starts one broker on a free
// port and a temporary directory, and runs almost every test against it, each
// on queues and groups of its own. Tests that need a restart or an unusual
// environment start a broker of their own.
//
// With QUEEND_URL set, the tests run against that broker instead; those that
// need a broker of their own then fail and say so.
//
// A test is named after what it guards in docs/rules.md: R for a rule of the
// state machine, A for an addition, S for a section, F for a known fault. At
// the end a table tells, one by one, whether all of their tests passed.
package conformance
