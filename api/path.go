package api

import (
	"bytes"
	"errors"
	"unicode/utf8"
)

// Why a path is refused.
var (
	errPathEscape  = errors.New("bad percent escape in the path")
	errPathUTF8    = errors.New("invalid UTF-8 in the path")
	errPathControl = errors.New("control character in the path")
)

// splitPath cuts a path as it stood in the request at its slashes, decodes each
// segment on its own, and appends them to dst. So %2F is data, an empty segment
// is a name, and so are "." and "..", which nobody takes for files. Segments
// without escapes point into the path.
func splitPath(path []byte, dst [][]byte) ([][]byte, error) {
	path = bytes.TrimPrefix(path, []byte("/"))
	for {
		end := bytes.IndexByte(path, '/')
		raw := path
		if end >= 0 {
			raw = path[:end]
		}
		segment, err := decodeSegment(raw)
		if err != nil {
			return nil, err
		}
		dst = append(dst, segment)
		if end < 0 {
			return dst, nil
		}
		path = path[end+1:]
	}
}

// decodeSegment undoes percent escapes, once. It refuses what no name may hold:
// a control character below 0x20, the zero byte among them.
func decodeSegment(raw []byte) ([]byte, error) {
	segment := raw
	if bytes.IndexByte(raw, '%') >= 0 {
		var ok bool
		if segment, ok = unescape(raw); !ok {
			return nil, errPathEscape
		}
	}
	if !utf8.Valid(segment) {
		return nil, errPathUTF8
	}
	if hasControl(segment) {
		return nil, errPathControl
	}
	return segment, nil
}

func unescape(raw []byte) (segment []byte, ok bool) {
	segment = make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '%' {
			segment = append(segment, raw[i])
			continue
		}
		if i+2 >= len(raw) {
			return nil, false
		}
		high, low := hexDigit(raw[i+1]), hexDigit(raw[i+2])
		if high < 0 || low < 0 {
			return nil, false
		}
		segment = append(segment, byte(high<<4|low))
		i += 2
	}
	return segment, true
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func hasControl(text []byte) bool {
	for _, c := range text {
		if c < 0x20 {
			return true
		}
	}
	return false
}
