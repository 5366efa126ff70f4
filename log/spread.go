package log

import "math/bits"

// Spread counts values by powers of two: element i those above 1<<(i-1) up to
// 1<<i, the first one also 0, the last one also all that are larger.
type Spread [25]uint64

func (s *Spread) add(value uint64) {
	s[min(bits.Len64(max(value, 1)-1), len(s)-1)]++
}
