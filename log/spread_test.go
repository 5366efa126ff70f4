package log

import (
	"math"
	"testing"
)

func TestValuesFallBetweenPowersOfTwo(t *testing.T) {
	for value, want := range map[uint64]int{
		0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 8: 3, 9: 4, 1 << 23: 23, 1<<23 + 1: 24, 1 << 24: 24, math.MaxUint64: 24,
	} {
		var s Spread
		if s.add(value); s[want] != 1 {
			t.Errorf("%d is in %v, want place %d", value, s, want)
		}
	}
}
