package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// The scanner's grammar. Every function starts at the first byte of what it is
// named after and ends behind its last.

// space passes over white space.
func (s *Scanner) space() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\n', '\r', '\t':
			s.pos++
		default:
			return
		}
	}
}

// skip passes over one value.
func (s *Scanner) skip() error {
	switch s.Kind() {
	case Object:
		return s.skipObject()
	case Array:
		return s.skipArray()
	case String:
		return s.str()
	case Number:
		return s.number()
	case Bool:
		if s.text[s.pos] == 't' {
			return s.literal("true")
		}
		return s.literal("false")
	case Null:
		return s.literal("null")
	}
	if s.pos == len(s.text) {
		return s.fail("unexpected end")
	}
	return s.fail("no value")
}

func (s *Scanner) skipObject() error {
	if err := s.enter('{', ""); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.more(first, '}')
		if !more {
			return err
		}
		if err := s.str(); err != nil {
			return err
		}
		if err := s.colon(); err != nil {
			return err
		}
		if err := s.skip(); err != nil {
			return err
		}
	}
}

func (s *Scanner) skipArray() error {
	if err := s.enter('[', ""); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.more(first, ']')
		if !more {
			return err
		}
		if err := s.skip(); err != nil {
			return err
		}
	}
}

// enter passes over an opening bracket.
func (s *Scanner) enter(bracket byte, otherwise string) error {
	switch {
	case s.pos == len(s.text):
		return s.fail("unexpected end")
	case s.text[s.pos] != bracket:
		return s.fail(otherwise)
	case s.depth == MaxDepth:
		return s.fail("nested too deeply")
	}
	s.depth++
	s.pos++
	return nil
}

// more moves to the next value or key of an object or array, or over its
// closing bracket, when it returns false.
func (s *Scanner) more(first bool, closing byte) (bool, error) {
	s.space()
	switch {
	case s.pos == len(s.text):
		return false, s.fail("unexpected end")
	case s.text[s.pos] == closing:
		s.pos++
		s.depth--
		return false, nil
	case first:
		return true, nil
	case s.text[s.pos] != ',':
		return false, s.fail("no comma or closing bracket")
	}
	s.pos++
	s.space()
	return true, nil
}

// key passes over a key and its colon, and returns the key unescaped.
func (s *Scanner) key() ([]byte, error) {
	at := s.pos
	if err := s.str(); err != nil {
		return nil, err
	}
	key := s.text[at+1 : s.pos-1]
	if bytes.IndexByte(key, '\\') >= 0 {
		key, _ = unescape(key)
	}
	return key, s.colon()
}

func (s *Scanner) colon() error {
	s.space()
	if s.pos == len(s.text) || s.text[s.pos] != ':' {
		return s.fail("no colon")
	}
	s.pos++
	s.space()
	return nil
}

func (s *Scanner) literal(word string) error {
	if !bytes.HasPrefix(s.text[s.pos:], []byte(word)) {
		return s.fail("no value")
	}
	s.pos += len(word)
	return nil
}

// plain marks the bytes that mean themselves inside a string.
var plain = func() (table [256]bool) {
	for c := range table {
		table[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return table
}()

// plainWords returns how many plain bytes text begins with, as far as it can
// tell by eights: at least all but the last seven.
func plainWords(text []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for i := 0; ; i += 8 {
		if len(text)-i < 8 {
			return i
		}
		w := binary.LittleEndian.Uint64(text[i:])
		quote, backslash := w^'"'*ones, w^'\\'*ones
		// A byte below n gives its high bit in (w - n*ones) &^ w. Borrows can
		// mark bytes above one that is, never the lowest.
		special := ((w-0x20*ones)&^w | (quote-ones)&^quote | (backslash-ones)&^backslash) & highs
		if special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
}

func (s *Scanner) str() error {
	if s.pos == len(s.text) || s.text[s.pos] != '"' {
		return s.fail("no string")
	}
	text, i := s.text, s.pos+1
	for {
		i += plainWords(text[i:])
		for i < len(text) && plain[text[i]] {
			i++
		}
		s.pos = i
		switch {
		case i == len(text):
			return s.fail("string without an end")
		case text[i] == '"':
			s.pos++
			return nil
		case text[i] != '\\':
			return s.fail("control character in a string")
		}
		if err := s.escape(); err != nil {
			return err
		}
		i = s.pos
	}
}

func (s *Scanner) escape() error {
	rest := s.text[s.pos+1:]
	if len(rest) == 0 {
		return s.fail("string without an end")
	}
	switch rest[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos += 2
		return nil
	case 'u':
		if len(rest) >= 5 && hex4(rest[1:5]) >= 0 {
			s.pos += 6
			return nil
		}
	}
	return s.fail("bad escape in a string")
}

// hex4 returns the value of four hexadecimal digits, -1 if they are not.
func hex4(digits []byte) rune {
	var r rune
	for _, c := range digits[:4] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return r
}

func (s *Scanner) number() error {
	if s.text[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.text) && s.text[s.pos] == '0' {
		s.pos++
	} else if !s.digits() {
		return s.fail("bad number")
	}
	if s.pos < len(s.text) && s.text[s.pos] == '.' {
		s.pos++
		if !s.digits() {
			return s.fail("bad number")
		}
	}
	if s.pos == len(s.text) || s.text[s.pos]|0x20 != 'e' {
		return nil
	}
	s.pos++
	if s.pos < len(s.text) && (s.text[s.pos] == '+' || s.text[s.pos] == '-') {
		s.pos++
	}
	if !s.digits() {
		return s.fail("bad number")
	}
	return nil
}

// digits passes over one digit or more and reports whether there was one.
func (s *Scanner) digits() bool {
	at := s.pos
	for s.pos < len(s.text) && '0' <= s.text[s.pos] && s.text[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > at
}
