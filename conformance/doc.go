// Package conformance is a black-box test suite for the wire contract. It
// knows only the URL of a broker and how to restart one: it never imports
// another package of this module.
//
// go test ./conformance builds cmd/queend once, starts one broker on a free
// port and a temporary directory, and runs almost every test against it, each
// on queues and groups of its own. Tests that need a restart or an unusual
// environment start a broker of their own.
//
// With QUEEND_URL set, the tests run against that broker instead; those that
// need a broker of their own then fail and say so.
//
// A test is named after the rule it guards: R for the state machine, A for
// the additions, S for a section of the contract, F for a known fault. At the
// end a table tells, rule by rule, whether all of its tests passed.
package conformance
