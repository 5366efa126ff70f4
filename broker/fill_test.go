package broker

import (
	"context"
	"testing"
)

// filling starts a waiting pop of ten messages on q and reports what the
// broker made of it once it was parked or answered.
func filling(r *rig, group string) (parked bool, done chan *PopResult) {
	done = make(chan *PopResult, 1)
	go func() {
		res, err := r.b.Pop(context.Background(), PopRequest{
			Tenant: DefaultTenant, Queue: "q", Group: group, Batch: 10, Wait: true, TimeoutMS: 60000, AutoAck: true,
		})
		if err != nil {
			r.Error(err)
		}
		done <- res
	}()
	for {
		select {
		case res := <-done:
			done <- res
			return false, done
		default:
		}
		r.b.locked(func() {
			for _, w := range r.b.delivery.waiters {
				parked = parked || w.parked != nil
			}
		})
		if parked {
			return true, done
		}
	}
}

func TestR52_TheFillWaitCountsOnlyWhatTheGroupMayHave(t *testing.T) {
	r := newRig(t)
	r.options(func(o *Options) { o.MinPopWaitTime = 1000 })
	r.push("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12")
	// A new group owes none of the backlog: two messages are not ten.
	if _, err := r.b.Pop(context.Background(), PopRequest{Tenant: DefaultTenant, Queue: "q", Group: "g"}); err != nil {
		t.Fatal(err)
	}
	r.push("a", "b")
	parked, done := filling(r, "g")
	if !parked {
		t.Fatalf("served at once: %+v", <-done)
	}
	r.pass(1001 * Millisecond) // stamps are a little ahead of the clock
	if res := <-done; len(res.Messages) != 2 {
		t.Errorf("%d messages", len(res.Messages))
	}
}

func TestR52_TheFillWaitDoesNotCountDelayedMessages(t *testing.T) {
	r := newRig(t)
	r.options(func(o *Options) { o.MinPopWaitTime, o.DelayedProcessing = 1000, 60 })
	r.push("a", "b")
	r.later(60 * Second)
	r.push("1", "2", "3", "4", "5", "6", "7", "8", "9", "10")
	parked, done := filling(r, QueueMode)
	if !parked {
		t.Fatalf("served at once: %+v", <-done)
	}
	r.pass(1001 * Millisecond) // stamps are a little ahead of the clock
	if res := <-done; len(res.Messages) != 2 {
		t.Errorf("%d messages", len(res.Messages))
	}
}
