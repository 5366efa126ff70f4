package crash

import (
	"math"
	"sync"
)

// never is the step at which an answer that did not come came.
const never = math.MaxInt

// event is a call and what is known of it. Steps are those of the disk.
type event struct {
	call
	reply
	sent int // steps when it was sent
	done int // steps when the answer was there, or never
}

// history is everything that was asked of a broker and what it answered.
type history struct {
	mu     sync.Mutex
	events []*event
}

// do makes a call and notes it.
func (h *history) do(d *disk, c *child, what call) (reply, bool) {
	e := &event{call: what, done: never, sent: d.steps()}
	h.mu.Lock()
	h.events = append(h.events, e)
	h.mu.Unlock()
	r, ok := c.do(what)
	if ok && r.Err == "" {
		h.mu.Lock()
		e.reply, e.done = r, d.steps()
		h.mu.Unlock()
		return r, true
	}
	return r, false
}

// until is the history as it was when the power went behind step k: later
// calls never happened, later answers never came.
func (h *history) until(k int) *history {
	h.mu.Lock()
	defer h.mu.Unlock()
	past := &history{}
	for _, e := range h.events {
		if e.sent > k {
			continue
		}
		old := *e
		if e.done > k {
			old.done, old.reply = never, reply{}
		}
		past.events = append(past.events, &old)
	}
	return past
}

// rebase makes all of it the past of a new disk, which goes on where the power
// went behind step k. The order of the steps stays.
func (h *history) rebase(k int) *history {
	for _, e := range h.events {
		e.sent -= k + 1
		if e.done != never {
			e.done -= k + 1
		}
	}
	return h
}

// answered counts the answers.
func (h *history) answered() (n int) {
	for _, e := range h.events {
		if e.done != never {
			n++
		}
	}
	return n
}
