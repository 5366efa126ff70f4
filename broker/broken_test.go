package broker

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// brokenLane flushes two partitions and damages the run of the first one.
func brokenLane(t *testing.T) *rig {
	r := newRig(t)
	r.pushTo("q", "bad", "a", "b")
	r.flushed()
	r.pushTo("q", "good", "c")
	r.flushed()
	path := byName(t, filepath.Join(r.cfg.Dir, "segments"))[0]
	r.close()
	flip(t, path, 100)
	r.open()
	return r
}

func TestADamagedLaneDoesNotKeepPopsFromTheOthers(t *testing.T) {
	r := brokenLane(t)
	res, err := r.b.Pop(context.Background(), PopRequest{Tenant: DefaultTenant, Queue: "q", Partitions: 10})
	if err != nil || len(res.Messages) != 1 || res.Messages[0].Partition != "good" {
		t.Fatalf("%+v, %v", res, err)
	}
	if damaged := r.b.Health().Damaged; len(damaged) != 1 || !strings.Contains(damaged[0], "segments") {
		t.Errorf("health names %q", damaged)
	}
}

func TestAPopWithNothingButDamageFails(t *testing.T) {
	r := brokenLane(t)
	for _, req := range []PopRequest{
		{Queue: "q", Pinned: true, Partition: "bad"},
		{Queue: "q", Partitions: 1},
	} {
		req.Tenant, req.AutoAck = DefaultTenant, true
		for range 3 { // the good lane may come first
			res, err := r.b.Pop(context.Background(), req)
			if err != nil {
				if !isDamage(err) {
					t.Errorf("%v", err)
				}
				break
			}
			if len(res.Messages) == 0 {
				t.Fatal("empty, although there are messages that cannot be read")
			}
		}
	}
}

func TestADamagedLaneIsLookedAtAgainLater(t *testing.T) {
	r := brokenLane(t)
	pop := func() error {
		_, err := r.b.Pop(context.Background(), PopRequest{Tenant: DefaultTenant, Queue: "q", Partitions: 10, AutoAck: true})
		return err
	}
	if err := pop(); err != nil {
		t.Fatal(err)
	}
	r.pass(brokenPause)
	if err := pop(); !isDamage(err) {
		t.Errorf("after the pause: %v", err)
	}
}
