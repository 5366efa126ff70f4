// Package fuzz runs random sequences of commands against a broker and a small
// model of its rules, and compares every answer. The tests are all there is.
package fuzz
