package dedup

import "sync"

// admitOneIn is how many values compete for one place once a cache is full. If
// everything were let in, a round through more than fits would push out each
// value just before it is asked for again; this way most of what is there stays
// and is hit. A new working set takes the places over in some rounds.
const admitOneIn = 8

// Cache holds values up to a number of bytes. Values that are used stay longer
// (CLOCK), and a full cache takes in only one new value in eight, so that a
// working set that does not fit still hits for about the share that does. It is
// safe for concurrent use. Values must not be changed once they are in it.
type Cache[K comparable, V any] struct {
	mu      sync.Mutex
	max     int
	bytes   int
	where   map[K]int
	entries []cached[K, V] // the clock's face; places of dropped entries are in free
	free    []int
	hand    int
	dice    uint64 // state of a xorshift generator, never 0
	hits    uint64
	misses  uint64
}

type cached[K comparable, V any] struct {
	key  K
	val  V
	size int
	live bool
	used bool // since the hand passed last
}

// NewCache returns an empty cache of at most maxBytes; with 0 it keeps nothing.
func NewCache[K comparable, V any](maxBytes int) *Cache[K, V] {
	return &Cache[K, V]{max: maxBytes, where: map[K]int{}, dice: 88172645463325252}
}

// Get returns the value under k.
func (c *Cache[K, V]) Get(k K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := c.where[k]
	if !ok {
		c.misses++
		var none V
		return none, false
	}
	c.hits++
	c.entries[i].used = true
	return c.entries[i].val, true
}

// Take returns the value under k and forgets it, so that it has one owner.
func (c *Cache[K, V]) Take(k K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := c.where[k]
	if !ok {
		c.misses++
		var none V
		return none, false
	}
	c.hits++
	v := c.entries[i].val
	c.drop(k)
	return v, true
}

// Put offers a value that takes size bytes, the caller's count, at least 1. It
// replaces the value under k, if there is one. The cache may refuse it: a value
// larger than the whole cache always, others when the cache is full.
func (c *Cache[K, V]) Put(k K, v V, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size = max(size, 1)
	_, known := c.where[k]
	c.drop(k)
	if size > c.max || !known && c.bytes+size > c.max && !c.admits() {
		return
	}
	for c.bytes+size > c.max {
		c.evict()
	}
	c.insert(cached[K, V]{key: k, val: v, size: size, live: true})
}

// Drop forgets the value under k.
func (c *Cache[K, V]) Drop(k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(k)
}

// Bytes returns the sizes of all values held, as given to Put.
func (c *Cache[K, V]) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// Hits returns how many calls of Get and Take have found a value.
func (c *Cache[K, V]) Hits() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hits
}

// Misses returns how many calls of Get and Take have found nothing.
func (c *Cache[K, V]) Misses() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.misses
}

// admits throws the dice. They are the cache's own and start the same, so a
// run can be repeated.
func (c *Cache[K, V]) admits() bool {
	c.dice ^= c.dice << 13
	c.dice ^= c.dice >> 7
	c.dice ^= c.dice << 17
	return c.dice%admitOneIn == 0
}

func (c *Cache[K, V]) insert(e cached[K, V]) {
	i := len(c.entries)
	if n := len(c.free); n > 0 {
		i = c.free[n-1]
		c.free = c.free[:n-1]
		c.entries[i] = e
	} else {
		c.entries = append(c.entries, e)
	}
	c.where[e.key] = i
	c.bytes += e.size
}

// evict drops the first value under the hand that was not used since the hand
// passed it. There must be a value.
func (c *Cache[K, V]) evict() {
	for {
		c.hand = (c.hand + 1) % len(c.entries)
		e := &c.entries[c.hand]
		switch {
		case !e.live:
		case e.used:
			e.used = false
		default:
			c.drop(e.key)
			return
		}
	}
}

func (c *Cache[K, V]) drop(k K) {
	i, ok := c.where[k]
	if !ok {
		return
	}
	delete(c.where, k)
	c.bytes -= c.entries[i].size
	c.entries[i] = cached[K, V]{} // lets go of key and value
	c.free = append(c.free, i)
}
