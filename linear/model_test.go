package linear

import (
	"fmt"
	"hash/maphash"

	"github.com/anishathalye/porcupine"
)

const (
	parts  = 2
	groups = 2
)

// slack is added on both sides of what the clients know about the end of a
// lease, microseconds: stamps are rounded.
const slack = 2000

// lane is a group on a partition. What expired leaves no trace in it: that a
// lease is over follows from the time of the operation that looks.
type lane struct {
	committed int32
	lease     int32 // 0: none; negative: of a pop whose answer was lost
	batchEnd  int32
	lo, hi    int64 // the lease ends between these
	retry     int32
	// The last delivered span and how often it was delivered, 0: none.
	start, end, attempts int32
	// The last lease whose batch was settled whole (R34).
	settled                int32
	settledFrom, settledTo int32
}

// state is one queue. It is comparable: logs are two bytes per message.
type state struct {
	log     [parts]string
	lanes   [parts][groups]lane
	letters uint64 // sum of letterKey over the dead letters
}

// cellModel is a queue with its options as porcupine wants it.
type cellModel struct {
	retryLimit int32
	dlqOn      bool
}

// number appends a message to a log, numbers lists them.
func number(log string, msg int) string { return log + string([]byte{byte(msg >> 8), byte(msg)}) }

func numbers(log string) []int {
	all := make([]int, len(log)/2)
	for i := range all {
		all[i] = int(log[2*i])<<8 | int(log[2*i+1])
	}
	return all
}

// find is the offset of a message, -1 when it is not there. Ids are unique:
// the dedup window is longer than a history.
func find(log string, msg int) int32 {
	for i := 0; i < len(log); i += 2 {
		if log[i] == byte(msg>>8) && log[i+1] == byte(msg) {
			return int32(i / 2)
		}
	}
	return -1
}

// letterKey is what a dead letter adds to the sum.
func letterKey(part, group int, offset int32) uint64 {
	x := uint64(part)<<40 | uint64(group)<<32 | uint64(uint32(offset)) + 1
	x *= 0x9E3779B97F4A7C15
	return x ^ x>>29
}

func newState() state {
	var s state
	for p := range s.lanes {
		for g := range s.lanes[p] {
			s.lanes[p][g].committed = -1
		}
	}
	return s
}

var hashSeed = maphash.MakeSeed()

// porcupine returns the model in the form of the checker.
func (m *cellModel) porcupine() porcupine.Model {
	nm := porcupine.NondeterministicModel{
		Init: func() []any { return []any{newState()} },
		Step: func(s, input, _ any) []any {
			var out []any
			for _, next := range m.step(s.(state), input.(*op)) {
				out = append(out, next)
			}
			return out
		},
		Equal:             func(a, b any) bool { return a.(state) == b.(state) },
		Hash:              func(s any) uint64 { return maphash.Comparable(hashSeed, s.(state)) },
		DescribeOperation: func(input, _ any) string { return input.(*op).String() },
		DescribeState:     func(s any) string { return s.(state).String() },
	}
	return nm.ToModel()
}

func (s state) String() string {
	text := ""
	for p := range s.lanes {
		text += fmt.Sprintf("p%d end=%d", p, s.end(p))
		for g, l := range s.lanes[p] {
			text += fmt.Sprintf(" g%d{c=%d L%d..%d ends %d-%d r=%d a=%d@%d-%d settled L%d %d-%d}",
				g, l.committed, l.lease, l.batchEnd, l.lo/1000, l.hi/1000, l.retry, l.attempts, l.start, l.end, l.settled, l.settledFrom, l.settledTo)
		}
		text += "\n  "
	}
	return text
}

// end is the offset the next message gets.
func (s *state) end(p int) int32 { return int32(len(s.log[p]) / 2) }

// step returns every state that an operation may lead to, none when its answer
// is impossible. A lost one may have had no effect.
func (m *cellModel) step(s state, o *op) []state {
	var out []state
	if o.lost {
		out = append(out, s)
	}
	switch o.kind {
	case opPush:
		out = append(out, s.push(o)...)
	case opPop:
		out = append(out, s.pop(o)...)
	case opAck:
		out = append(out, m.ack(s, o)...)
	case opExtend, opRelease:
		out = append(out, s.renew(o)...)
	case opTxn:
		out = append(out, m.txn(s, o)...)
	case opRead:
		if s.log[o.part] == o.log {
			out = append(out, s)
		}
	case opLetters:
		if s.letters == o.sum {
			out = append(out, s)
		}
	}
	return out
}

// mayLive and mayDead say what the lane's lease can be while o is carried out.
func (l *lane) mayLive(o *op) bool { return l.lease != 0 && o.call < l.hi }
func (l *lane) mayDead(o *op) bool { return l.lease == 0 || o.ret >= l.lo }

// seenLive and seenDead narrow when the lease ends, after o found it so.
func (l lane) seenLive(o *op) lane {
	l.lo = max(l.lo, o.call)
	return l
}

func (l lane) seenDead(o *op) lane {
	l.hi = min(l.hi, o.ret)
	return l
}

// push stores what is new (R1, R80, R81).
func (s state) push(o *op) []state {
	for i, msg := range o.msgs {
		at := find(s.log[o.part], msg)
		want := pushSaid{at >= 0, at}
		if at < 0 {
			want.offset = s.end(o.part)
			s.log[o.part] = number(s.log[o.part], msg)
		}
		if !o.lost && o.pushed[i] != want {
			return nil
		}
	}
	return []state{s}
}

// pop claims (R2, R3, R6, R7, R10).
func (s state) pop(o *op) []state {
	switch {
	case o.lost:
		return s.lostPop(o)
	case len(o.runs) == 0:
		return s.emptyPop(o)
	}
	left := int32(o.batch)
	for _, r := range o.runs {
		l := s.lanes[r.part][o.group]
		n := int32(len(r.msgs) / 2)
		first := l.committed + 1
		if !l.mayDead(o) || o.part >= 0 && o.part != r.part || r.first != first || n != min(left, s.end(r.part)-first) || n == 0 ||
			s.log[r.part][2*first:2*(first+n)] != r.msgs {
			return nil
		}
		left -= n
		l = l.claim(o, o.got, n)
		if want := l.attempts; r.attempt != max(want, 1) {
			return nil
		}
		s.lanes[r.part][o.group] = l
	}
	return []state{s}
}

// claim is the lane after a claim of n messages.
func (l lane) claim(o *op, lease int32, n int32) lane {
	from, last := l.committed+1, l.committed+n
	if o.auto {
		l = lane{committed: last, retry: l.retry, settled: l.settled, settledFrom: l.settledFrom, settledTo: l.settledTo}
		return l
	}
	if l.attempts > 0 && from >= l.start && from <= l.end {
		l.attempts++
	} else {
		l.attempts = 1
	}
	l.start, l.end, l.batchEnd = from, last, last
	l.lease, l.lo, l.hi = lease, o.call+o.seconds*1e6-slack, o.ret+o.seconds*1e6+slack
	return l
}

// emptyPop needs a moment at which no partition it covers has anything to give.
func (s state) emptyPop(o *op) []state {
	for p := range parts {
		if o.part >= 0 && o.part != p {
			continue
		}
		l := &s.lanes[p][o.group]
		if l.committed+1 >= s.end(p) {
			continue
		}
		if !l.mayLive(o) {
			return nil
		}
		*l = l.seenLive(o)
	}
	return []state{s}
}

// lostPop claims under a lease that nobody knows. Where the client hung up the
// claim may also be given back, at any time (R11).
func (s state) lostPop(o *op) []state {
	orders := [][]int{{0}, {1}, {0, 1}, {1, 0}}
	var out []state
	for _, order := range orders {
		if len(order) > o.partitions || o.part >= 0 && (len(order) > 1 || order[0] != o.part) {
			continue
		}
		kept, back, possible := s, s, true
		left := int32(o.batch)
		for _, p := range order {
			l := s.lanes[p][o.group]
			n := min(left, s.end(p)-l.committed-1)
			if !l.mayDead(o) || n == 0 {
				possible = false
				break
			}
			left -= n
			claimed := l.claim(o, o.got, n)
			kept.lanes[p][o.group] = claimed
			// Until it is given back it is live; afterwards the span
			// delivered last is the one before.
			claimed.lo, claimed.start, claimed.end, claimed.attempts = 0, l.start, l.end, l.attempts
			back.lanes[p][o.group] = claimed
		}
		if !possible {
			continue
		}
		out = append(out, kept)
		if o.hungUp && !o.auto {
			out = append(out, back)
		}
	}
	return out
}

// renew extends or releases the live rows of a lease (R16, A6).
func (s state) renew(o *op) []state {
	type fork struct {
		s     state
		count int
	}
	forks := []fork{{s, 0}}
	for p := range parts {
		for g := range groups {
			l := s.lanes[p][g]
			if l.lease != o.lease {
				continue
			}
			var next []fork
			for _, f := range forks {
				if l.mayDead(o) {
					dead := f
					dead.s.lanes[p][g] = l.seenDead(o)
					next = append(next, dead)
				}
				if l.mayLive(o) {
					f.count++
					f.s.lanes[p][g] = l.renewed(o)
					next = append(next, f)
				}
			}
			forks = next
		}
	}
	var out []state
	for _, f := range forks {
		if o.lost || f.count == o.count {
			out = append(out, f.s)
		}
	}
	return out
}

func (l lane) renewed(o *op) lane {
	if o.kind == opRelease {
		l.lease, l.batchEnd, l.lo, l.hi = 0, 0, 0, 0
		return l
	}
	l = l.seenLive(o)
	l.lo = max(l.lo, o.call+o.seconds*1e6-slack)
	l.hi = max(l.hi, o.ret+o.seconds*1e6+slack)
	return l
}
