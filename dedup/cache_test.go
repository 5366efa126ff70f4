package dedup

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// F16: memory grew with ids, partitions or a slow disk.
func TestACacheNeverHoldsMoreThanItsBound(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	c := NewCache[int, int](1000)
	sizes := map[int]int{}
	for range 20_000 {
		k := rnd.IntN(100)
		switch rnd.IntN(5) {
		case 0:
			c.Drop(k)
		case 1:
			if v, ok := c.Get(k); ok && v != sizes[k] {
				t.Fatalf("key %d has %d, want %d", k, v, sizes[k])
			}
		default:
			sizes[k] = rnd.IntN(1200)
			c.Put(k, sizes[k], sizes[k])
		}
		if c.Bytes() > 1000 || c.Bytes() < 0 {
			t.Fatalf("%d bytes", c.Bytes())
		}
	}
	for k := range 100 {
		c.Drop(k)
	}
	if c.Bytes() != 0 {
		t.Fatalf("%d bytes of nothing", c.Bytes())
	}
}

func TestWhatFitsIsNeverPutOut(t *testing.T) {
	c := NewCache[int, string](100)
	for k := range 10 {
		c.Put(k, "v", 10)
	}
	for k := range 10 {
		if _, ok := c.Get(k); !ok {
			t.Fatalf("%d is gone", k)
		}
	}
	c.Get(99)
	if c.Hits() != 10 || c.Misses() != 1 {
		t.Fatalf("%d hits, %d misses", c.Hits(), c.Misses())
	}
}

// Rounds through twice and four times what fits: a cache that drops the oldest
// would never hit.
func TestRoundsThroughTooMuchStillHit(t *testing.T) {
	for _, row := range []struct {
		keys int
		want float64
	}{{150, 0.45}, {200, 0.30}, {400, 0.10}} {
		c := NewCache[int, int](100)
		rounds(c, 0, row.keys, 20)
		before := c.Hits()
		rounds(c, 0, row.keys, 50)
		if got := float64(c.Hits()-before) / float64(50*row.keys); got < row.want {
			t.Errorf("%d keys in a cache for 100: %.2f of the calls hit, want %.2f", row.keys, got, row.want)
		}
	}
}

func TestOneLongScanLeavesWhatIsUsed(t *testing.T) {
	c := NewCache[int, int](100)
	for i := range 2_000 {
		rounds(c, 0, 50, 1)
		rounds(c, 1000+10*i, 10, 1) // each seen once
	}
	before := c.Hits()
	rounds(c, 0, 50, 1)
	if got := c.Hits() - before; got < 45 {
		t.Fatalf("%d of 50 used values were left", got)
	}
}

func TestANewWorkingSetTakesOver(t *testing.T) {
	c := NewCache[int, int](100)
	rounds(c, 0, 100, 10)
	rounds(c, 1000, 100, 50)
	before := c.Hits()
	rounds(c, 1000, 100, 1)
	if got := c.Hits() - before; got < 90 {
		t.Fatalf("%d of 100 new values are in", got)
	}
}

func rounds(c *Cache[int, int], first, keys, times int) {
	for range times {
		for k := first; k < first+keys; k++ {
			if _, ok := c.Get(k); !ok {
				c.Put(k, k, 1)
			}
		}
	}
}

func TestACacheOfNothingHoldsNothing(t *testing.T) {
	c := NewCache[int, int](0)
	c.Put(1, 1, 0)
	if _, ok := c.Get(1); ok || c.Bytes() != 0 {
		t.Fatal("it holds something")
	}
}

func TestAKnownKeyIsReplacedAlsoWhenFull(t *testing.T) {
	c := NewCache[int, int](100)
	for k := range 10 {
		c.Put(k, k, 10)
	}
	c.Put(3, 33, 20)
	if v, ok := c.Get(3); !ok || v != 33 || c.Bytes() != 100 {
		t.Fatalf("%d, %v, %d bytes", v, ok, c.Bytes())
	}
}

func TestConcurrentUseOfACacheIsSafe(t *testing.T) {
	c := NewCache[int, int](100)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { rounds(c, 0, 150, 50) })
	}
	wg.Wait()
	if c.Hits()+c.Misses() != 4*150*50 {
		t.Fatal("calls are missing")
	}
}

func BenchmarkCacheHit(b *testing.B) {
	c := NewCache[int, int](1000)
	rounds(c, 0, 1000, 1)
	b.ReportAllocs()
	for i := range b.N {
		c.Get(i % 1000)
	}
}

func BenchmarkCacheRoundsThroughTwiceItsSize(b *testing.B) {
	c := NewCache[int, int](1000)
	for i := range b.N {
		k := i % 2000
		if _, ok := c.Get(k); !ok {
			c.Put(k, k, 1)
		}
	}
	b.ReportMetric(float64(c.Hits())/float64(b.N), "hits/op")
}

func TestWhatIsTakenIsGone(t *testing.T) {
	c := NewCache[int, string](100)
	c.Put(1, "v", 10)
	if v, ok := c.Take(1); !ok || v != "v" || c.Bytes() != 0 {
		t.Fatalf("%q, %v, %d bytes", v, ok, c.Bytes())
	}
	if _, ok := c.Take(1); ok || c.Hits() != 1 || c.Misses() != 1 {
		t.Fatalf("taken twice, or %d hits and %d misses", c.Hits(), c.Misses())
	}
}
