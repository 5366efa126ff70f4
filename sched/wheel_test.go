package sched

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

const (
	millisecond = int64(1000)
	second      = 1000 * millisecond
	hour        = 3600 * second
)

// model is the wheel as a plain list: what it must agree with.
type model struct {
	entries map[uint64]int64 // by Key.A
}

func (m *model) take(now int64) []uint64 {
	var due []uint64
	for a, at := range m.entries {
		if at <= now {
			due = append(due, a)
			delete(m.entries, a)
		}
	}
	slices.Sort(due)
	return due
}

func (m *model) earliest() (int64, bool) {
	first, ok := int64(math.MaxInt64), false
	for _, at := range m.entries {
		first, ok = min(first, at), true
	}
	return first, ok
}

func TestFiresExactlyWhatIsDue(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { compareWithModel(t, seed) })
	}
}

func compareWithModel(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	spans := []int64{0, 1, 100, millisecond, 70 * millisecond, second, 5 * 60 * second, hour, 100 * hour, 20000 * hour}
	now := rnd.Int64N(2e15)
	w := New(now)
	m := model{entries: map[uint64]int64{}}
	var next uint64
	add := func() {
		due := now + rnd.Int64N(spans[rnd.IntN(len(spans))]+1) - rnd.Int64N(3)*millisecond
		next++
		w.Add(due, Key{Kind: uint8(next), A: next, B: ^next})
		m.entries[next] = due
	}
	for range 400 {
		for range rnd.IntN(20) {
			add()
		}
		checkNext(t, w, &m)
		now += rnd.Int64N(spans[rnd.IntN(len(spans))] + 1)
		want := m.take(now)
		var got []uint64
		w.Due(now, func(due int64, k Key) {
			if due > now || k.B != ^k.A || k.Kind != uint8(k.A) {
				t.Fatalf("at %d: fired %+v with due %d", now, k, due)
			}
			got = append(got, k.A)
			if rnd.IntN(4) == 0 {
				add()
			}
		})
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("at %d: fired %v, want %v", now, got, want)
		}
		if w.Len() != len(m.entries) {
			t.Fatalf("Len is %d, want %d", w.Len(), len(m.entries))
		}
	}
}

func checkNext(t *testing.T, w *Wheel, m *model) {
	t.Helper()
	first, some := m.earliest()
	due, ok := w.Next()
	if ok != some || ok && due > max(first, w.last) {
		t.Fatalf("Next is %d, %v; the first entry is %d, %v", due, ok, first, some)
	}
}

func TestNeverFiresEarlyWithinTheTick(t *testing.T) {
	w := New(0)
	w.Add(1500, Key{A: 1})
	w.Add(1501, Key{A: 2})
	expectFired(t, w, 1499)
	expectFired(t, w, 1500, 1)
	expectFired(t, w, 1501, 2)
}

func TestAnEntryInThePastIsDueAtTheNextCall(t *testing.T) {
	w := New(hour)
	w.Add(5, Key{A: 1})
	w.Add(-5, Key{A: 2})
	expectFired(t, w, hour, 1, 2)
}

func TestWhatFireAddsInThePastWaitsForTheNextCall(t *testing.T) {
	w := New(0)
	w.Add(second, Key{A: 1})
	calls := 0
	again := func(due int64, k Key) {
		calls++
		w.Add(due, k)
	}
	for want := 1; want <= 3; want++ {
		w.Due(2*second, again)
		if calls != want {
			t.Fatalf("%d calls, want %d", calls, want)
		}
	}
}

func TestAClockThatGoesBackFiresNothingEarly(t *testing.T) {
	w := New(0)
	expectFired(t, w, hour)
	w.Add(hour+1, Key{A: 1})
	expectFired(t, w, second)
	expectFired(t, w, hour)
	expectFired(t, w, hour+1, 1)
}

func TestOlderTicksFireFirst(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	w := New(0)
	for range 5000 {
		w.Add(rnd.Int64N(hour), Key{})
	}
	before := int64(0)
	w.Due(hour, func(due int64, _ Key) {
		if due>>tickBits < before>>tickBits {
			t.Fatalf("%d fired after %d", due, before)
		}
		before = due
	})
}

func TestFollowingNextReachesEveryEntryInFewCalls(t *testing.T) {
	w := New(0)
	const due = 1000*hour + 123456
	w.Add(due, Key{A: 7})
	fired := false
	for call := 0; !fired; call++ {
		at, ok := w.Next()
		if !ok || call > levels {
			t.Fatalf("call %d: Next is %d, %v", call, at, ok)
		}
		w.Due(at, func(got int64, _ Key) { fired = got == due })
	}
}

func TestInstantsOutsideTheRangeAreCut(t *testing.T) {
	w := New(math.MinInt64)
	w.Add(math.MaxInt64, Key{A: 1})
	w.Add(math.MinInt64, Key{A: 2})
	expectFired(t, w, 0, 2)
	expectFired(t, w, maxDue-1)
	expectFired(t, w, math.MaxInt64, 1)
}

func TestAJumpOverAnEmptyCenturyTakesOneStepPerLevel(t *testing.T) {
	const century = 876000 * hour
	w := New(0)
	w.Add(century, Key{A: 1})
	steps := 0
	for level, slot, start := w.earliest(); level < levels; level, slot, start = w.earliest() {
		w.enter(level, slot, start, func(int64, Key) {})
		steps++
	}
	if steps > levels || w.soon.len() != 1 {
		t.Fatalf("%d steps, %d entries reached", steps, w.soon.len())
	}
}

func TestAnEntryCostsAtMost26Bytes(t *testing.T) {
	const n = 1_000_000
	before := heap()
	w := New(0)
	for i := range uint64(n) {
		w.Add(int64(i)*300, Key{A: i})
	}
	per := float64(heap()-before) / n
	runtime.KeepAlive(w)
	if per > 26 {
		t.Fatalf("%.1f bytes per entry", per)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func expectFired(t *testing.T, w *Wheel, now int64, want ...uint64) {
	t.Helper()
	var got []uint64
	w.Due(now, func(_ int64, k Key) { got = append(got, k.A) })
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("at %d: fired %v, want %v", now, got, want)
	}
}

// BenchmarkFiveMinutes is an entry's whole life: added up to 5 minutes ahead of
// a clock that moves a millisecond per 100 entries, moved down, fired.
func BenchmarkFiveMinutes(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	w := New(0)
	now := int64(0)
	b.ReportAllocs()
	for i := range b.N {
		w.Add(now+rnd.Int64N(300*second), Key{A: uint64(i)})
		if i%100 == 0 {
			now += millisecond
			w.Due(now, func(int64, Key) {})
		}
	}
}

// BenchmarkJumpOfAnHour fires a million entries in one call.
func BenchmarkJumpOfAnHour(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range b.N {
		w := New(0)
		for i := range uint64(1_000_000) {
			w.Add(rnd.Int64N(hour), Key{A: i})
		}
		w.Due(hour, func(int64, Key) {})
	}
}
