package jsonscan

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// What is wrong with a value for its use.
var (
	ErrNotString  = errors.New("not a string")
	ErrNotInteger = errors.New("not an integer of 64 bits")
	ErrNotBool    = errors.New("not true or false")
	ErrControl    = errors.New("control character below 0x20")
	ErrSurrogate  = errors.New("half of a surrogate pair")
)

// Value is a checked value. Raw is its text as it stood, without white space
// around it; it points into the scanned text.
type Value struct {
	Raw  []byte
	Kind Kind
}

// Scanner returns a scanner at the value, for a look inside after all. It does
// not count the depth at which the value stood.
func (v Value) Scanner() Scanner { return Scanner{text: v.Raw} }

// String returns the text of a string. Half of a surrogate pair becomes U+FFFD.
// The error is ErrNotString.
func (v Value) String() (string, error) {
	text, err := v.Text()
	return string(text), err
}

// Text is String without a copy: it points into the scanned text, unless the
// string has escapes.
func (v Value) Text() ([]byte, error) {
	if v.Kind != String {
		return nil, ErrNotString
	}
	inner := v.Raw[1 : len(v.Raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner, nil
	}
	text, _ := unescape(inner)
	return text, nil
}

// Name returns the text of a string that is to be a name or an id. It points
// into the scanned text, unless the string has escapes. It refuses, with
// ErrControl, an escaped control character, and with ErrSurrogate half of a
// surrogate pair, for two names may not become one. Otherwise the error is
// ErrNotString.
func (v Value) Name() ([]byte, error) {
	if v.Kind != String {
		return nil, ErrNotString
	}
	inner := v.Raw[1 : len(v.Raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner, nil
	}
	text, whole := unescape(inner)
	if !whole {
		return nil, ErrSurrogate
	}
	for _, c := range text {
		if c < 0x20 {
			return nil, ErrControl
		}
	}
	return text, nil
}

// Int64 returns a number that is written without fraction or exponent. The
// error is ErrNotInteger.
func (v Value) Int64() (int64, error) {
	if v.Kind != Number {
		return 0, ErrNotInteger
	}
	n, err := strconv.ParseInt(string(v.Raw), 10, 64)
	if err != nil {
		return 0, ErrNotInteger
	}
	return n, nil
}

// Bool returns true or false. The error is ErrNotBool.
func (v Value) Bool() (bool, error) {
	if v.Kind != Bool {
		return false, ErrNotBool
	}
	return v.Raw[0] == 't', nil
}

// unescape returns the text that the inside of a checked string stands for, in
// memory of its own. whole is false if half of a surrogate pair became U+FFFD.
func unescape(inner []byte) (text []byte, whole bool) {
	text = make([]byte, 0, len(inner))
	whole = true
	for {
		i := bytes.IndexByte(inner, '\\')
		if i < 0 {
			return append(text, inner...), whole
		}
		text = append(text, inner[:i]...)
		inner = inner[i+1:]
		if inner[0] != 'u' {
			text = append(text, unescaped(inner[0]))
			inner = inner[1:]
			continue
		}
		r, n := codePoint(inner)
		if r < 0 {
			r, whole = utf8.RuneError, false
		}
		text = utf8.AppendRune(text, r)
		inner = inner[n:]
	}
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// codePoint reads "u0061", or a pair "ud83d\ude00", and returns how many bytes
// it took. The code point is -1 for half of a pair.
func codePoint(at []byte) (r rune, n int) {
	r = hex4(at[1:5])
	if !utf16.IsSurrogate(r) {
		return r, 5
	}
	if len(at) >= 11 && at[5] == '\\' && at[6] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(at[7:11])); pair != utf8.RuneError {
			return pair, 11
		}
	}
	return -1, 5
}
