package linear

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"queend"
	"queend/broker"
	"queend/log"
)

// still is a broker in this process whose clock only a test moves.
type still struct {
	*testing.T
	b   *broker.Broker
	cfg broker.Config
	now atomic.Int64
}

func newStill(t *testing.T) *still {
	s := &still{T: t}
	s.now.Store(1_700_000_000 * broker.Second)
	s.cfg = broker.Config{
		Dir: t.TempDir(), Now: s.now.Load, Manual: true, Sync: log.SyncNever, DiskHighPct: 99, DiskLowPct: 98,
		OnFail: func(err error) { t.Errorf("the broker failed: %v", err) },
	}
	s.open()
	t.Cleanup(s.close)
	return s
}

func (s *still) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *still) open() {
	s.Helper()
	b, err := broker.Open(s.cfg)
	s.must(err)
	s.b = b
}

func (s *still) close() {
	s.Helper()
	if s.b != nil {
		s.must(s.b.Close(context.Background()))
		s.b = nil
	}
}

// restart closes the broker and opens it again with the clock moved by d.
func (s *still) restart(d int64) {
	s.Helper()
	s.close()
	s.now.Add(d)
	s.open()
}

// step moves the clock, on or back, and carries out what is due.
func (s *still) step(d int64) {
	s.Helper()
	s.now.Add(d)
	s.b.Tick()
	s.must(s.b.Maintain())
}

func (s *still) configure(settings ...broker.Setting) {
	s.Helper()
	_, err := s.b.Configure(context.Background(), broker.Configure{Tenant: broker.DefaultTenant, Queue: "q", Settings: settings})
	s.must(err)
}

func number64(name string, n int64) broker.Setting { return broker.Setting{Name: name, Int: n} }

func (s *still) push(ids ...string) {
	s.Helper()
	var items []broker.PushItem
	for _, id := range ids {
		items = append(items, broker.PushItem{Queue: "q", TxnID: []byte(id), Payload: []byte("1")})
	}
	_, err := s.b.Push(context.Background(), broker.DefaultTenant, nil, items)
	s.must(err)
}

// pop claims all there is for two seconds and checks what that is.
func (s *still) pop(want string) *broker.PopResult {
	s.Helper()
	res, err := s.b.Pop(context.Background(), broker.PopRequest{
		Tenant: broker.DefaultTenant, Queue: "q", Batch: 100, LeaseSeconds: 2, Mode: "all",
	})
	s.must(err)
	if got := popped(res); got != want {
		s.Fatalf("popped %q, want %q", got, want)
	}
	return res
}

func popped(res *broker.PopResult) string {
	text := ""
	for i := range res.Messages {
		if i > 0 {
			text += " "
		}
		text += string(res.Messages[i].TxnID)
	}
	return text
}

// ack completes all of a pop and reports whether that was accepted.
func (s *still) ack(res *broker.PopResult) bool {
	s.Helper()
	last := &res.Messages[len(res.Messages)-1]
	said, err := s.b.Ack(context.Background(), broker.DefaultTenant, "", []broker.AckItem{{
		TxnID: last.TxnID, Partition: last.PartitionUUID.String(), Lease: res.LeaseID.String(), Signal: broker.Completed, DelayMS: -1,
	}})
	s.must(err)
	return said[0].Success
}

// rising checks that stamps rise with offsets and returns how many there are.
func (s *still) rising() int {
	s.Helper()
	got, err := s.b.Fetch(context.Background(), broker.FetchRequest{
		Tenant: broker.DefaultTenant, Entries: []broker.FetchEntry{{Queue: "q", MaxBytes: 1 << 20}},
	})
	s.must(err)
	last := int64(0)
	for i, m := range got[0].Records {
		if m.Offset != queend.Offset(i) || m.Time < last {
			s.Fatalf("offset %d is stamped %d, the one before %d", m.Offset, m.Time, last)
		}
		last = m.Time
	}
	return len(got[0].Records)
}

// Every place a clock can jump to: an hour on, an hour back, and an hour back
// while the broker is down.
var jumps = []struct {
	name string
	do   func(*still)
}{
	{"back while it runs", func(s *still) { s.step(-broker.Hour) }},
	{"back while it is down", func(s *still) { s.restart(-broker.Hour) }},
	{"on and back", func(s *still) { s.step(broker.Hour); s.step(-broker.Hour) }},
	{"on, then back while it is down", func(s *still) { s.step(broker.Hour); s.push("x"); s.restart(-broker.Hour) }},
}

// TestLeaseEndsAfterTheClockWentBack: time goes on from where it was (F26).
func TestLeaseEndsAfterTheClockWentBack(t *testing.T) {
	for _, jump := range jumps {
		t.Run(jump.name, func(t *testing.T) {
			s := newStill(t)
			s.push("a")
			jump.do(s)
			all := popped(s.pop(popAll(s)))
			s.step(1900 * broker.Millisecond)
			s.pop("")
			s.step(200 * broker.Millisecond)
			res := s.pop(all)
			if !s.ack(res) {
				t.Fatal("an ack under a live lease was refused")
			}
		})
	}
}

// popAll is what is there to be popped.
func popAll(s *still) string {
	if s.rising() == 2 {
		return "a x"
	}
	return "a"
}

// TestLeaseHeldOverAStepBackKeepsItsLength: what was left of a lease is left
// afterwards, no more.
func TestLeaseHeldOverAStepBackKeepsItsLength(t *testing.T) {
	for _, jump := range jumps[:2] {
		t.Run(jump.name, func(t *testing.T) {
			s := newStill(t)
			s.push("a", "b")
			first := s.pop("a b")
			jump.do(s)
			s.step(1900 * broker.Millisecond)
			s.pop("")
			s.step(200 * broker.Millisecond)
			if s.ack(first) {
				t.Fatal("an ack under a lease that is over was accepted")
			}
			s.pop("a b")
		})
	}
}

// TestLeaseEndsWhenTheClockGoesOn: an hour on is an hour gone.
func TestLeaseEndsWhenTheClockGoesOn(t *testing.T) {
	for _, restart := range []bool{false, true} {
		s := newStill(t)
		s.push("a")
		first := s.pop("a")
		if restart {
			s.restart(broker.Hour)
		} else {
			s.step(broker.Hour)
		}
		if s.ack(first) {
			t.Fatal("an ack an hour late was accepted")
		}
		s.pop("a")
	}
}

// TestDelaysAndWindowsPassAfterTheClockWentBack: what was held is delivered
// when its time has gone by, also on a queue where nothing else happens.
func TestDelaysAndWindowsPassAfterTheClockWentBack(t *testing.T) {
	for _, option := range []string{"delayedProcessing", "windowBuffer"} {
		for _, jump := range jumps[:2] {
			t.Run(option+" "+jump.name, func(t *testing.T) {
				s := newStill(t)
				s.configure(number64(option, 10))
				s.push("a")
				s.pop("")
				jump.do(s)
				s.step(9 * broker.Second)
				s.pop("")
				s.step(1100 * broker.Millisecond)
				s.pop("a")
			})
		}
	}
}

// TestRetentionGoesOnAfterTheClockWentBack: messages live as long as they
// should, whichever side of the jump they were pushed on.
func TestRetentionGoesOnAfterTheClockWentBack(t *testing.T) {
	for _, jump := range jumps[:2] {
		t.Run(jump.name, func(t *testing.T) {
			s := newStill(t)
			s.configure(broker.Setting{Name: "retentionEnabled", Bool: true}, number64("retentionSeconds", 60))
			s.push("a")
			jump.do(s)
			s.push("b")
			s.step(55 * broker.Second)
			s.left(2)
			s.step(10 * broker.Second)
			s.left(0)
			s.push("c")
			s.left(1)
		})
	}
}

// left checks how many messages are retained.
func (s *still) left(want int64) {
	s.Helper()
	d, err := s.b.QueueDetail(context.Background(), broker.DefaultTenant, "q")
	s.must(err)
	if d.Counts.Total != want {
		s.Fatalf("%d messages are retained, want %d", d.Counts.Total, want)
	}
}

// TestDedupWindowEndsAfterTheClockWentBack: an id is known for its window and
// no longer.
func TestDedupWindowEndsAfterTheClockWentBack(t *testing.T) {
	for _, jump := range jumps[:2] {
		t.Run(jump.name, func(t *testing.T) {
			s := newStill(t)
			s.configure(number64("dedupWindowSeconds", 30))
			s.push("a")
			jump.do(s)
			s.step(25 * broker.Second)
			s.push("a")
			if n := s.rising(); n != 1 {
				t.Fatalf("%d messages, want one: its id is in the window", n)
			}
			s.step(10 * broker.Second)
			s.push("a")
			if n := s.rising(); n != 2 {
				t.Fatalf("%d messages, want two: its window is over", n)
			}
		})
	}
}

// TestStampsNeverGoBack: not when the clock does, nor over restarts (F26).
func TestStampsNeverGoBack(t *testing.T) {
	s := newStill(t)
	n := 0
	push := func() {
		t.Helper()
		for range 3 {
			s.push(fmt.Sprint("m", n))
			n++
		}
		if got := s.rising(); got != n {
			t.Fatalf("%d messages, want %d", got, n)
		}
	}
	push()
	for range 2 {
		for _, d := range []int64{broker.Second, -broker.Hour, 1, broker.Hour, -2 * broker.Hour} {
			s.step(d)
			push()
			s.restart(d)
			push()
		}
	}
}

// TestPopFindsWhatIsDueBeforeTheTimerDoes: what became deliverable by time
// alone does not wait for the timer to be told so (R15, R50).
func TestPopFindsWhatIsDueBeforeTheTimerDoes(t *testing.T) {
	s := newStill(t)
	s.push("a")
	s.pop("a")
	s.now.Add(2100 * broker.Millisecond)
	s.ack(s.pop("a"))
	s.configure(number64("delayedProcessing", 10))
	s.push("b")
	s.pop("")
	s.now.Add(10100 * broker.Millisecond)
	s.pop("b")
}

// retry sends all of a pop back, to be delivered again after some seconds.
func (s *still) retry(res *broker.PopResult, seconds int64) {
	s.Helper()
	last := &res.Messages[len(res.Messages)-1]
	said, err := s.b.Ack(context.Background(), broker.DefaultTenant, "", []broker.AckItem{{
		TxnID: last.TxnID, Partition: last.PartitionUUID.String(), Lease: res.LeaseID.String(), Signal: broker.Retry, DelayMS: seconds * 1000,
	}})
	s.must(err)
	if !said[0].Success {
		s.Fatalf("retry: %+v", said[0])
	}
}

// TestSpacedRetriesPassAfterTheClockWentBack: a retry comes when its time has
// gone by, no later.
func TestSpacedRetriesPassAfterTheClockWentBack(t *testing.T) {
	for _, jump := range jumps[:2] {
		t.Run(jump.name, func(t *testing.T) {
			s := newStill(t)
			s.push("a")
			s.retry(s.pop("a"), 10)
			jump.do(s)
			s.step(9 * broker.Second)
			s.pop("")
			s.step(1100 * broker.Millisecond)
			s.pop("a")
		})
	}
}

// TestAnHourOnIsAnHourGone: what waits for a time is due when the clock has
// passed it, however it got there.
func TestAnHourOnIsAnHourGone(t *testing.T) {
	on := map[string]func(*still){
		"while it runs":    func(s *still) { s.step(broker.Hour) },
		"while it is down": func(s *still) { s.restart(broker.Hour); s.step(0) },
	}
	for name, jump := range on {
		for _, option := range []string{"delayedProcessing", "windowBuffer"} {
			t.Run(option+" "+name, func(t *testing.T) {
				s := newStill(t)
				s.configure(number64(option, 600))
				s.push("a")
				s.pop("")
				jump(s)
				s.pop("a")
			})
		}
		t.Run("retry "+name, func(t *testing.T) {
			s := newStill(t)
			s.push("a")
			s.retry(s.pop("a"), 600)
			s.pop("")
			jump(s)
			s.pop("a")
		})
		t.Run("retention "+name, func(t *testing.T) {
			s := newStill(t)
			s.configure(broker.Setting{Name: "retentionEnabled", Bool: true}, number64("retentionSeconds", 600))
			s.push("a")
			s.left(1)
			jump(s)
			s.left(0)
		})
		t.Run("duplicates "+name, func(t *testing.T) {
			s := newStill(t)
			s.configure(number64("dedupWindowSeconds", 600))
			s.push("a")
			s.push("a")
			if n := s.rising(); n != 1 {
				t.Fatalf("%d messages in the window, want one", n)
			}
			jump(s)
			s.push("a")
			if n := s.rising(); n != 2 {
				t.Fatalf("%d messages behind the window, want two", n)
			}
		})
	}
}
