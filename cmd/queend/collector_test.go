package main

import "testing"

func TestGarbageIsBoundedForLargeHeapsAndSmallOnesAreLeftAlone(t *testing.T) {
	for _, c := range []struct{ liveMB, most, least uint64 }{ // MB of garbage
		{1, 75, 65}, {32, 85, 75}, {400, 270, 255}, {4000, 2100, 2000},
	} {
		p := pacer{percent: 1}
		percent, _ := p.look(heap{live: c.liveMB << 20})
		garbage := max(c.liveMB<<20, 16<<20) * uint64(percent) / 100 >> 20
		if garbage > c.most || garbage < c.least {
			t.Errorf("%d MB alive: up to %d MB of garbage, want %d to %d", c.liveMB, garbage, c.least, c.most)
		}
		if again, _ := p.look(heap{live: c.liveMB << 20 * 21 / 20}); again != 0 {
			t.Errorf("%d MB alive: the pace is changed for 5 %% more", c.liveMB)
		}
	}
}

func TestMemoryIsGivenBackOnceAfterABusyTime(t *testing.T) {
	p := pacer{percent: 100}
	h := heap{live: 300 << 20, held: 800 << 20}
	given := 0
	for i := range 60 {
		if i < 20 {
			h.allocated += 100 << 20
		} else {
			h.allocated += 1 << 20
		}
		if _, giveBack := p.look(h); giveBack {
			if i < 20+quietTime-1 {
				t.Fatalf("given back in period %d, while it was busy or just after", i)
			}
			given++
		}
	}
	if given != 1 {
		t.Fatalf("given back %d times", given)
	}
}

func TestALittleMemoryIsNotWorthACollection(t *testing.T) {
	p := pacer{percent: 100}
	for range 20 {
		if _, giveBack := p.look(heap{live: 30 << 20, held: 80 << 20}); giveBack {
			t.Fatal("given back")
		}
	}
}
