package crash

import (
	"testing"

	"queend/broker"
)

// session is a broker on a disk, and what was asked of it.
type session struct {
	t     *testing.T
	d     *disk
	c     *child
	h     *history
	ahead int64 // of the clock, microseconds
}

// openSession starts a broker on a new disk that holds image.
func openSession(t *testing.T, m *mount, d *disk, h *history, ahead int64, manual bool) (*session, bool) {
	t.Helper()
	path := m.put(d)
	s := &session{t: t, d: d, h: h, ahead: ahead}
	var ok bool
	s.c, ok = startChild(t, childSettings{Dir: path + "/data", Manual: manual, Ahead: ahead})
	return s, ok
}

// do makes a call that must be answered.
func (s *session) do(c call) reply {
	s.t.Helper()
	r, ok := s.h.do(s.d, s.c, c)
	if !ok || r.Refused != "" {
		s.t.Fatalf("%s %s: answered: %v, %s%s", c.Op, c.Queue, ok, r.Err, r.Refused)
	}
	return r
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
