package fuzz

import (
	"fmt"

	"queend"
	"queend/broker"
)

// holders lists the lanes whose live lease this is.
func (m *model) holders(lease queend.ID, now int64) (all []lane) {
	if lease.IsZero() {
		return nil
	}
	for _, q := range m.queues {
		for _, p := range q.order {
			for _, g := range q.groups {
				if r := p.rows[g]; r != nil && r.lease == lease && r.live(now) {
					all = append(all, lane{g, p})
				}
			}
		}
	}
	return all
}

// extend renews a lease and returns the rows and their earliest end (R16).
func (m *model) extend(lease queend.ID, seconds int64) (renewed int, earliest int64) {
	now := m.stamp()
	for _, l := range m.holders(lease, now) {
		r := l.p.rows[l.g].clone()
		r.until = max(r.until, now+max(seconds, 1)*second)
		if r.until != l.p.rows[l.g].until {
			l.g.set(l.p, r, now)
		}
		if renewed == 0 || r.until < earliest {
			earliest = r.until
		}
		renewed++
	}
	return renewed, earliest
}

// release gives a lease back without a charge (A6).
func (m *model) release(lease queend.ID) int {
	now := m.stamp()
	all := m.holders(lease, now)
	for _, l := range all {
		r := l.p.rows[l.g].clone()
		r.endLease()
		l.g.set(l.p, r, now)
	}
	return len(all)
}

// file makes a message a dead letter (R30).
func (m *model) file(l lane, off int, text string, retries, attempts int64) {
	m.letters = append(m.letters, &mLetter{
		q: l.p.q, group: l.g.name, part: l.p, msg: l.p.msgs[off], text: text, retries: retries, attempts: attempts,
		failedAt: m.clock(), command: m.command,
	})
}

// matches compares a dead letter with what the broker shows.
func (l *mLetter) matches(d *broker.DeadLetter) error {
	switch {
	case !l.id.IsZero() && l.id != d.ID:
		return fmt.Errorf("id %s, want %s", d.ID, l.id)
	case d.Queue != l.q.name || d.Partition != l.part.name || int(d.Offset) != l.msg.off || d.Group != l.group:
		return fmt.Errorf("is %s/%s offset %d of %q, want %s/%s offset %d of %q",
			d.Queue, d.Partition, d.Offset, d.Group, l.q.name, l.part.name, l.msg.off, l.group)
	case d.MessageID != l.msg.id || string(d.TxnID) != l.msg.txn || string(d.Payload) != l.msg.payload || string(d.Headers) != l.msg.headers:
		return fmt.Errorf("message %s %q %s %s, want %s %q %s %s", d.MessageID, d.TxnID, d.Payload, d.Headers,
			l.msg.id, l.msg.txn, l.msg.payload, l.msg.headers)
	case d.Error != l.text || d.RetryCount != l.retries || d.Attempts != l.attempts:
		return fmt.Errorf("error %q, %d retries, %d attempts, want %q, %d, %d", d.Error, d.RetryCount, d.Attempts, l.text, l.retries, l.attempts)
	case d.Encrypted != l.msg.sealed:
		return fmt.Errorf("encrypted %v, want %v", d.Encrypted, l.msg.sealed)
	case d.EnqueuedAt < l.msg.time-millisecond || d.EnqueuedAt > l.msg.time+millisecond:
		return fmt.Errorf("enqueued at %d, want %d", d.EnqueuedAt, l.msg.time)
	case d.FailedAt < l.failedAt-millisecond || d.FailedAt > l.failedAt+millisecond:
		return fmt.Errorf("failed at %d, want %d", d.FailedAt, l.failedAt)
	}
	l.id = d.ID
	return nil
}

// chosen lists the dead letters of a query, the oldest first.
func (m *model) chosen(queue *string, group, part, text string) (all []*mLetter) {
	for _, l := range m.letters {
		if (queue == nil || l.q.name == *queue) && (group == "" || l.group == group) && (part == "" || l.part.name == part) && contains(l.text, text) {
			all = append(all, l)
		}
	}
	return all
}

// dropLetters removes dead letters.
func (m *model) dropLetters(gone []*mLetter) {
	kept := m.letters[:0:0]
	for _, l := range m.letters {
		if !containsLetter(gone, l) {
			kept = append(kept, l)
		}
	}
	m.letters = kept
}

func containsLetter(all []*mLetter, l *mLetter) bool {
	for _, x := range all {
		if x == l {
			return true
		}
	}
	return false
}

// replay pushes a dead letter again and removes it; nil when the destination
// holds its id already. txn "" takes the message id.
func (m *model) replay(l *mLetter, queue, part, txn string, producer *string) *mMsg {
	it := pushItem{Queue: queue, Part: part, Txn: txn}
	now := m.stamp()
	if txn != "" {
		if dup, _ := m.inWindow(it, now); dup != nil {
			return nil
		}
	}
	msg := m.store(it, producer, now)
	msg.payload, msg.headers, msg.trace = l.msg.payload, l.msg.headers, l.msg.trace
	m.dropLetters([]*mLetter{l})
	return msg
}
