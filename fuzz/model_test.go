package fuzz

import (
	"slices"
	"strings"

	"queend"
	"queend/broker"
)

// model says what a broker must answer by docs/rules.md, S12, S19 and S20. It
// keeps every message for ever and looks at all of them each time: slow and
// obvious. Times are microseconds; its stamps rise in the same
// order as the broker's, and differ from them by less than a millisecond.
type model struct {
	now, last int64
	rules     settings
	queues    map[string]*mQueue
	labels    map[mLabelKey]*mLabel
	letters   []*mLetter // in order of filing
	parts     int        // partitions ever made
	command   int        // number of the present command
}

// settings are those of the broker that the rules depend on.
type settings struct {
	WindowBatch int64
	Quiet       bool
	TxnWindow   int64 // seconds
	PopMaxBytes int64
	Encrypts    bool
	CleanupDays int64 // 0: off
	Canary      bool  // the model has one rule wrong, to see that this shows
}

type mQueue struct {
	name     string
	opts     broker.Options
	ns, task string
	parts    map[string]*mPart
	order    []*mPart
	groups   map[string]*mGroup
}

type mPart struct {
	n       int // order of creation among all
	q       *mQueue
	name    string
	uuid    queend.ID // zero until the broker has told
	created int64
	msgs    []*mMsg
	start   int // first retained
	rows    map[*mGroup]*mRow
	lastUse int64
}

type mMsg struct {
	off      int
	time     int64
	id       queend.ID
	txn      string
	payload  string
	headers  string
	trace    queend.ID
	producer *string
	sealed   bool
}

type mGroup struct {
	name        string
	q           *mQueue
	conflation  bool
	seed, start int64
	seedMax     int // partitions up to this number existed at registration
	popped      bool
	unsure      map[*mPart]bool // where the cursor may be at the end, or not (R9)
}

type mLabelKey struct{ ns, task, group string }

type mLabel struct {
	mLabelKey
	conflation bool
	seed       int64
	stale      bool
}

// mRow is how far a group is on a partition.
type mRow struct {
	committed              int
	lastDelivery           int64
	settled                queend.ID
	settledFrom, settledTo int
	lease                  queend.ID
	until                  int64
	batchEnd               int
	conflated              bool
	retry                  int64
	notBefore              int64
	attempts               int64
	spanStart, spanEnd     int // last delivered, when attempts > 0
	isolate, headOff       int
	headCount              int64
}

type mLetter struct {
	id       queend.ID // zero until the broker has told
	q        *mQueue
	group    string
	part     *mPart
	msg      *mMsg
	text     string
	retries  int64
	attempts int64
	failedAt int64
	command  int // number of the one that filed it
}

const (
	always       = int64(-1) << 62
	second       = broker.Second
	millisecond  = broker.Millisecond
	implicitTime = 60 // seconds of a lease nobody configured
)

func newModel(now int64, s settings) *model {
	return &model{now: now, rules: s, queues: map[string]*mQueue{}, labels: map[mLabelKey]*mLabel{}}
}

// stamp is the time of the next record.
func (m *model) stamp() int64 {
	m.last = max(m.now, m.last+1)
	return m.last
}

// clock is the present: never before what was stamped.
func (m *model) clock() int64 { return max(m.now, m.last) }

// queue finds or makes a queue, as a push or a pop does.
func (m *model) queue(name string) *mQueue {
	if q := m.queues[name]; q != nil {
		return q
	}
	q := &mQueue{name: name, opts: broker.DefaultOptions(), parts: map[string]*mPart{}, groups: map[string]*mGroup{}}
	q.opts.LeaseTime = implicitTime
	ns, rest, _ := strings.Cut(name, ".")
	q.ns = ns
	q.task, _, _ = strings.Cut(rest, ".")
	m.queues[name] = q
	m.labelGroups(q)
	return q
}

// part finds or makes a partition.
func (m *model) part(q *mQueue, name string, now int64) *mPart {
	if p := q.parts[name]; p != nil {
		return p
	}
	m.parts++
	p := &mPart{n: m.parts, q: q, name: name, created: now, lastUse: now, rows: map[*mGroup]*mRow{}}
	q.parts[name] = p
	q.order = append(q.order, p)
	return p
}

// find returns a partition, nil when there is none.
func (m *model) find(queue, part string) *mPart {
	if q := m.queues[queue]; q != nil {
		return q.parts[orText(part, broker.DefaultPartition)]
	}
	return nil
}

func orText(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

func (p *mPart) end() int { return len(p.msgs) }

func (p *mPart) lastTime() int64 {
	if len(p.msgs) == 0 {
		return 0
	}
	return p.msgs[len(p.msgs)-1].time
}

// firstAt is the first retained message stamped at or after t, end when none.
func (p *mPart) firstAt(t int64) int {
	for off := p.start; off < p.end(); off++ {
		if p.msgs[off].time >= t {
			return off
		}
	}
	return p.end()
}

// cursor is the group's row on a partition, or what its registration implies
// there (R40, R41).
func (g *mGroup) cursor(p *mPart) *mRow {
	if r := p.rows[g]; r != nil {
		return r
	}
	seed := g.start
	if p.n <= g.seedMax {
		seed = g.seed
	}
	if seed <= p.created {
		return &mRow{committed: -1}
	}
	return &mRow{committed: p.firstAt(seed) - 1}
}

// hasCursor reports whether the group stands somewhere on the partition.
func (g *mGroup) hasCursor(p *mPart) bool {
	return g.popped && (p.n <= g.seedMax || p.rows[g] != nil)
}

// set puts the group's row.
func (g *mGroup) set(p *mPart, r *mRow, now int64) {
	if r.isolate <= r.committed {
		r.isolate = 0
	}
	if r.headOff <= r.committed {
		r.headOff, r.headCount = 0, 0
	}
	p.rows[g] = r
	p.lastUse = now
}

func (r *mRow) clone() *mRow { c := *r; return &c }

func (r *mRow) live(now int64) bool { return r != nil && !r.lease.IsZero() && now < r.until }

// endLease ends the lease and leaves what was charged and delivered.
func (r *mRow) endLease() {
	r.lease, r.until, r.batchEnd, r.conflated = queend.ID{}, 0, 0, false
}

func (r *mRow) forgetSpan() { r.attempts, r.spanStart, r.spanEnd = 0, 0, 0 }

// lastSpan is the last offset of the leased or last delivered batch, -1
// without one.
func (r *mRow) lastSpan() int {
	switch {
	case !r.lease.IsZero():
		return r.batchEnd
	case r.attempts > 0:
		return r.spanEnd
	}
	return -1
}

// pending counts the retained messages above a cursor.
func (p *mPart) pending(committed int) int { return max(p.end()-max(committed+1, p.start), 0) }

// ackWindow is how long ids resolve (R85).
func (m *model) ackWindow(q *mQueue) int64 {
	return max(q.opts.DedupWindowSeconds, q.opts.CompletedRetentionSeconds, m.rules.TxnWindow) * second
}

// lookup finds the lowest offset in [lo, hi] with the id, stamped since.
func (p *mPart) lookup(txn string, since int64, lo, hi int) (int, bool) {
	for off := max(lo, 0); off <= hi && off < p.end(); off++ {
		if p.msgs[off].txn == txn && p.msgs[off].time >= since {
			return off, true
		}
	}
	return -1, false
}

// names lists the queues in order.
func (m *model) names() []string {
	var names []string
	for name := range m.queues {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
