package index

import (
	"slices"
	"testing"

	"queend"
)

// span is a run of [first, last] in a file, stamped with its last offset.
func span(file queend.FileID, first, last queend.Offset) Run {
	return Run{File: file, First: first, Last: last, LastTime: int64(last) * 10}
}

var three = Runs{span(1, 0, 9), span(2, 10, 19), span(3, 20, 29)}

func want(t *testing.T, got Runs, want ...Run) {
	t.Helper()
	if !slices.Equal(got, Runs(want)) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFirstIsTheLowestOffset(t *testing.T) {
	if off, ok := three.First(); !ok || off != 0 {
		t.Errorf("first %d, %t", off, ok)
	}
	if _, ok := (Runs{}).First(); ok {
		t.Error("no runs have a first offset")
	}
}

func TestAtFindsTheRunOrTheNextOne(t *testing.T) {
	for off, place := range map[queend.Offset]int{-5: 0, 0: 0, 9: 0, 10: 1, 29: 2, 30: 3} {
		if got := three.At(off); got != place {
			t.Errorf("offset %d is at %d, want %d", off, got, place)
		}
	}
}

func TestSinceTimeFindsTheFirstRunThatIsNotOlder(t *testing.T) {
	for at, place := range map[int64]int{0: 0, 90: 0, 91: 1, 290: 2, 291: 3} {
		if got := three.SinceTime(at); got != place {
			t.Errorf("time %d is at %d, want %d", at, got, place)
		}
	}
}

func TestOverlappingTakesWhatTouchesTheSpan(t *testing.T) {
	want(t, three.Overlapping(9, 10), three[0], three[1])
	want(t, three.Overlapping(11, 12), three[1])
	want(t, three.Overlapping(30, 40))
}

func TestInsertTwiceChangesNothing(t *testing.T) {
	runs := Runs{}.Insert(span(1, 0, 9)).Insert(span(2, 10, 19))
	want(t, runs.Insert(span(2, 10, 19)), runs...)
}

func TestReplacePutsTheMergedRunInThePlaceOfItsSources(t *testing.T) {
	want(t, three.Replace([]queend.FileID{1, 2}, span(4, 0, 19)), span(4, 0, 19), three[2])
	want(t, three.Replace([]queend.FileID{2, 3}, span(4, 10, 29)), three[0], span(4, 10, 29))
}

func TestReplaceKeepsRunsAboveTheMergedOneInTheSameFile(t *testing.T) {
	runs := Runs{span(1, 0, 9), span(1, 10, 19)}
	want(t, runs.Replace([]queend.FileID{1}, span(2, 0, 9)), span(2, 0, 9), span(1, 10, 19))
}

func TestReplaceLeavesTheOriginalAlone(t *testing.T) {
	before := slices.Clone(three)
	three.Replace([]queend.FileID{1, 2, 3}, span(4, 0, 29))
	want(t, three, before...)
}
