package api

import (
	"math"
	"strconv"
	"time"

	"queend"
)

// The append functions write parts of an answer. Members are written with
// their comma in front, so the first of an object is written by hand.

func appendKey(dst []byte, key string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, key...)
	return append(dst, '"', ':')
}

func appendText[T string | []byte](dst []byte, key string, value T) []byte {
	return appendString(appendKey(dst, key), value)
}

// appendTextOrNull writes null for nil.
func appendTextOrNull(dst []byte, key string, value *string) []byte {
	if value == nil {
		return append(appendKey(dst, key), "null"...)
	}
	return appendText(dst, key, *value)
}

func appendInt(dst []byte, key string, value int64) []byte {
	return strconv.AppendInt(appendKey(dst, key), value, 10)
}

func appendBool(dst []byte, key string, value bool) []byte {
	return strconv.AppendBool(appendKey(dst, key), value)
}

func appendRaw(dst []byte, key string, value []byte) []byte {
	return append(appendKey(dst, key), value...)
}

func appendNull(dst []byte, key string) []byte { return append(appendKey(dst, key), "null"...) }

func appendID(dst []byte, key string, id queend.ID) []byte {
	dst = append(appendKey(dst, key), '"')
	return append(id.Append(dst), '"')
}

// appendIDOrNull writes null for the zero id.
func appendIDOrNull(dst []byte, key string, id queend.ID) []byte {
	if id.IsZero() {
		return appendNull(dst, key)
	}
	return appendID(dst, key, id)
}

// appendIDOrEmpty writes "" for the zero id.
func appendIDOrEmpty(dst []byte, key string, id queend.ID) []byte {
	if id.IsZero() {
		return append(appendKey(dst, key), `""`...)
	}
	return appendID(dst, key, id)
}

// Layouts of instants: microseconds on the data plane, milliseconds in
// listings (docs/rules.md, S1).
const (
	layoutMicros = "2006-01-02T15:04:05.000000Z"
	layoutMillis = "2006-01-02T15:04:05.000Z"
)

// appendTime writes an instant given in microseconds since 1970.
func appendTime(dst []byte, key string, at int64, layout string) []byte {
	dst = append(appendKey(dst, key), '"')
	t := time.UnixMicro(at).UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return append(t.AppendFormat(dst, layout), '"')
	}
	// By hand: every message of a pop has one.
	hour, minute, second := t.Clock()
	text := [len(layoutMicros)]byte{4: '-', 7: '-', 10: 'T', 13: ':', 16: ':', 19: '.'}
	putDigits(text[0:4], year)
	putDigits(text[5:7], int(month))
	putDigits(text[8:10], day)
	putDigits(text[11:13], hour)
	putDigits(text[14:16], minute)
	putDigits(text[17:19], second)
	putDigits(text[20:26], t.Nanosecond()/1000)
	dst = append(dst, text[:len(layout)-1]...)
	return append(dst, 'Z', '"')
}

// putDigits fills dst with a number in decimal.
func putDigits(dst []byte, n int) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = '0' + byte(n%10)
		n /= 10
	}
}

// appendList writes an array of n elements.
func appendList(dst []byte, n int, element func(dst []byte, i int) []byte) []byte {
	dst = append(dst, '[')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = element(dst, i)
	}
	return append(dst, ']')
}

// appendFloat writes a number with at most two decimals.
func appendFloat(dst []byte, value float64) []byte {
	return strconv.AppendFloat(dst, math.Round(value*100)/100, 'f', -1, 64)
}
