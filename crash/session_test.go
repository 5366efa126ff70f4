package crash

import (
	"testing"

	"queend/broker"
	"queend/log"
)

// session is a broker on a disk, and what was asked of it.
type session struct {
	t     *testing.T
	d     *disk
	c     *child
	h     *history
	ahead int64 // of the clock, microseconds
	sync  log.SyncMode
}

// open starts a broker on a disk that was not used yet. It reports whether it
// became ready.
func (s *session) open(m *mount, manual bool) (ok bool) {
	s.t.Helper()
	path := m.put(s.d)
	s.c, ok = startChild(s.t, childSettings{Dir: path + "/data", Manual: manual, Ahead: s.ahead, Sync: s.sync})
	return ok
}

// do makes a call that must be answered, unless the disk is to fail: then it
// may also end the script.
func (s *session) do(c call) reply {
	s.t.Helper()
	r, ok := s.h.do(s.d, s.c, c)
	if s.d.fail != nil {
		return s.despite(r, ok)
	}
	if !ok || r.Refused != "" {
		s.t.Fatalf("%s %s: answered: %v, %s%s", c.Op, c.Queue, ok, r.Err, r.Refused)
	}
	return r
}

// gone ends a script whose broker is gone.
type gone struct{}

// despite is the answer of a broker whose disk fails. What is not known to have
// happened is as good as an empty answer for a script.
func (s *session) despite(r reply, ok bool) reply {
	if ok || r.Err != "" {
		return r
	}
	panic(gone{})
}

// through carries out a script and reports whether the broker was there to
// its end.
func (s *session) through(script func(*session)) (whole bool) {
	defer func() {
		if r := recover(); r != nil {
			if r != (gone{}) {
				panic(r)
			}
			whole = false
		}
	}()
	script(s)
	return true
}

func (s *session) advance(seconds int64) {
	s.ahead += seconds * broker.Second
	s.do(call{Op: "advance", N: seconds})
}

// acks settles messages of a pop, all in one way.
func acks(r reply, signal broker.Signal) []ackItem {
	var out []ackItem
	for _, m := range r.Messages {
		out = append(out, ackItem{
			Txn: m.Txn, PartID: m.PartID, Lease: r.Lease, Signal: signal, Queue: m.Queue, Part: m.Part, Offset: m.Offset,
		})
	}
	return out
}
