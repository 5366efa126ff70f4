// Package jsonscan reads JSON (RFC 8259) strictly and once: it gives sub-slices
// of the text, allocates nothing but strings with escapes, and passes payloads
// on byte for byte.
//
// A text must be valid UTF-8 as a whole. A \u escape of half a surrogate pair is
// legal JSON and stays as it is. Objects that the caller walks may not name a
// key twice nor have more than 65,536; what is only passed over may.
package jsonscan

import (
	"fmt"
	"unicode/utf8"
)

// MaxDepth is how many objects and arrays may stand in one another.
const MaxDepth = 512

// Error says why a text was refused, and at which byte, from 0.
type Error struct {
	At     int
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.At) }

// Kind is the type of a JSON value.
type Kind uint8

// The kinds. Zero is none of them: the text does not go on with a value.
const (
	_ Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// Scanner is a place in a text, at the first byte of a value. It is moved by
// Object, Array and Value. After any error it is of no more use.
type Scanner struct {
	text  []byte
	pos   int
	depth int // of open objects and arrays
}

// New returns a scanner at the first value of text, whose UTF-8 it checks. All
// that the scanner returns points into text.
func New(text []byte) (Scanner, error) {
	if !utf8.Valid(text) {
		return Scanner{}, &Error{At: invalidUTF8(text), Reason: "invalid UTF-8"}
	}
	s := Scanner{text: text}
	s.space()
	return s, nil
}

// Valid reports whether text is one JSON value with nothing after it.
func Valid(text []byte) error {
	s, err := New(text)
	if err != nil {
		return err
	}
	if err := s.skip(); err != nil {
		return err
	}
	return s.End()
}

// Kind returns the kind of the value at the scanner, judged by its first byte.
func (s *Scanner) Kind() Kind {
	if s.pos == len(s.text) {
		return 0
	}
	return kindOf(s.text[s.pos])
}

func kindOf(first byte) Kind {
	switch first {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return Number
	}
	return 0
}

// Object passes over an object and calls member for each of its members, with
// the unescaped key and the scanner at the value. member may move over the value
// with one call of Object, Array or Value; if it does not, the value is checked
// and passed over. An error of member ends the walk and is returned as it is.
func (s *Scanner) Object(member func(key []byte) error) error {
	if err := s.enter('{', "not an object"); err != nil {
		return err
	}
	var seen keys
	for first := true; ; first = false {
		more, err := s.more(first, '}')
		if !more {
			return err
		}
		at := s.pos
		key, err := s.key()
		if err != nil {
			return err
		}
		if seen.full() {
			return &Error{At: at, Reason: "too many keys"}
		}
		if !seen.add(key) {
			return &Error{At: at, Reason: "duplicate key"}
		}
		at = s.pos
		if err := member(key); err != nil {
			return err
		}
		if err := s.passed(at); err != nil {
			return err
		}
	}
}

// Array passes over an array and calls element for each of its values, with the
// scanner at the value. It is otherwise like Object.
func (s *Scanner) Array(element func(i int) error) error {
	if err := s.enter('[', "not an array"); err != nil {
		return err
	}
	for i := 0; ; i++ {
		more, err := s.more(i == 0, ']')
		if !more {
			return err
		}
		at := s.pos
		if err := element(i); err != nil {
			return err
		}
		if err := s.passed(at); err != nil {
			return err
		}
	}
}

// Value passes over a value of any kind, checks it, and returns it.
func (s *Scanner) Value() (Value, error) {
	at := s.pos
	if err := s.skip(); err != nil {
		return Value{}, err
	}
	return Value{Raw: s.text[at:s.pos:s.pos], Kind: kindOf(s.text[at])}, nil
}

// End reports an error if anything but white space follows.
func (s *Scanner) End() error {
	s.space()
	if s.pos < len(s.text) {
		return s.fail("text after the value")
	}
	return nil
}

// passed moves over the value at the byte at, unless the caller's function has.
func (s *Scanner) passed(at int) error {
	if s.pos == at {
		return s.skip()
	}
	return nil
}

func (s *Scanner) fail(reason string) error { return &Error{At: s.pos, Reason: reason} }

func invalidUTF8(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(text)
}
