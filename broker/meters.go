package broker

import "sync/atomic"

// meters count what happened since the process began. They are not state.
type meters struct {
	pushRequests, pushMessages atomic.Uint64
	popRequests, popMessages   atomic.Uint64
	popEmpty                   atomic.Uint64
	ackRequests, ackMessages   atomic.Uint64
	popWildcard, popTargeted   atomic.Uint64
	fillWaits, fillMicros      atomic.Uint64
}

// pushed counts a push that was answered.
func (m *meters) pushed(results []PushResult) {
	m.pushRequests.Add(1)
	for i := range results {
		if results[i].Status == PushQueued {
			m.pushMessages.Add(1)
		}
	}
}

// popped counts a pop that was answered.
func (m *meters) popped(p *popper) {
	m.popRequests.Add(1)
	if n := len(p.result.Messages); n > 0 {
		m.popMessages.Add(uint64(n))
	} else {
		m.popEmpty.Add(1)
	}
	if p.r.Pinned {
		m.popTargeted.Add(1)
	} else {
		m.popWildcard.Add(1)
	}
}
