package api

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestOperationsThatBeginTogetherShareADeadline(t *testing.T) {
	s := sharedDeadline{d: 64 * time.Second}
	begin := time.Now()
	first := s.from(t.Context(), begin)
	if s.from(t.Context(), begin.Add(999*time.Millisecond)) != first {
		t.Error("within a second of 64 it is another one")
	}
	later := s.from(t.Context(), begin.Add(time.Second))
	if later == first {
		t.Error("a second of 64 later it is still the same")
	}
	for _, ctx := range []context.Context{first, later} {
		if at, ok := ctx.Deadline(); !ok || at.Before(begin.Add(65*time.Second)) || at.After(time.Now().Add(65*time.Second)) {
			t.Errorf("the deadline is %v after the beginning; nobody may have less than 64 s, nor more than 65", at.Sub(begin))
		}
	}
}

func TestASharedDeadlinePassesAndIsFollowedByAnother(t *testing.T) {
	s := sharedDeadline{d: time.Millisecond}
	first := s.from(t.Context(), time.Now())
	<-first.Done()
	if !errors.Is(first.Err(), context.DeadlineExceeded) {
		t.Error(first.Err())
	}
	if next := s.from(t.Context(), time.Now()); next == first {
		t.Error("an operation begins with a deadline that has passed")
	}
}
