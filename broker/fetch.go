package broker

import (
	"context"

	"queend"
	"queend/segment"
)

// FetchError says why an entry of a read by offset has no answer; "" is none.
type FetchError string

// The errors of entries (docs/rules.md, S11).
const (
	FetchUnknown    FetchError = "UNKNOWN_TOPIC_OR_PARTITION" // the queue does not exist
	FetchOutOfRange FetchError = "OFFSET_OUT_OF_RANGE"        // below the first retained message or above the end
	FetchBadCursor  FetchError = "BAD_CURSOR"
)

// Bounds of a fetch (docs/rules.md, S11).
const (
	maxFetchBytes  = 8 << 20
	maxFetchWaitMS = 30000
	// fetchCount is how many messages one entry may return, and fetchOverhead
	// what each counts for besides its payload, so that many small ones are
	// bounded too.
	fetchCount    = 20000
	fetchOverhead = 128
)

// FetchEntry asks for messages of a partition.
type FetchEntry struct {
	Queue     string
	Partition string // "": DefaultPartition
	Offset    queend.Offset
	MaxBytes  int64 // of payload, after one message; 1 to 8 MiB
}

// FetchRequest reads by offset: it leaves no lease and moves no cursor.
type FetchRequest struct {
	Tenant    queend.ID
	Entries   []FetchEntry
	MaxWaitMS int64 // how long to wait for MinBytes of payload, at most 30000
	MinBytes  int64 // 0 counts as 1
}

// Fetched answers an entry.
type Fetched struct {
	Queue, Partition string
	Records          []segment.Message // payloads decrypted where that was possible
	HighWatermark    queend.Offset     // the next offset to be given
	LogStart         queend.Offset     // the first retained one
	Error            FetchError
}

// fetching is a fetch on its way.
type fetching struct {
	b     *Broker
	r     *FetchRequest
	out   []Fetched
	views []*view // by entry; nil: nothing to read
	bytes int64   // of payload read
	bad   bool    // an entry has an error
	due   int64   // microseconds
	w     *waiter // nil until it waits
	lines []fetchLine
}

// fetchLine names a partition that fetches wait for; it need not exist yet.
type fetchLine struct {
	q    *queue
	name string
}

// Fetch reads messages by offset. With MaxWaitMS it waits until the entries
// together have MinBytes of payload, an entry fails, or the time is over.
// Messages that delays or windows hold back are there too. The whole answer
// stops at Config.PopMaxBytes of payload, after at least one message.
func (b *Broker) Fetch(ctx context.Context, r FetchRequest) ([]Fetched, error) {
	x := &fetching{b: b, r: &r}
	b.locked(func() { x.due = b.now() + min(max(r.MaxWaitMS, 0), maxFetchWaitMS)*Millisecond })
	defer b.locked(x.leave)
	for {
		var waits bool
		b.locked(func() { waits = x.look() })
		if err := x.read(); err != nil {
			return nil, err
		}
		if x.bytes >= max(r.MinBytes, 1) || x.bad || !waits {
			break
		}
		select {
		case <-x.w.wake:
		case <-ctx.Done():
			return nil, refuse(CodeTimeout, "deadline passed")
		}
	}
	return x.out, b.settled(ctx)
}

// look takes views of what is there and joins the waiting lines, both under
// one hold of the lock, so that no push is missed. It reports whether the
// fetch may wait for more.
func (x *fetching) look() (waits bool) {
	b := x.b
	x.leaveLines()
	x.out = make([]Fetched, len(x.r.Entries))
	x.views = make([]*view, len(x.r.Entries))
	x.bad, x.bytes = false, 0
	for i := range x.r.Entries {
		x.views[i] = x.entry(&x.r.Entries[i], &x.out[i])
	}
	if x.bad || x.w != nil && x.w.expired || b.delivery.stopping || b.now() >= x.due {
		return false
	}
	if x.w == nil {
		x.w = b.newWaiter(x.due)
		b.armWaiter(x.w)
	}
	for i := range x.out {
		line := fetchLine{b.state.queue(x.r.Tenant, x.out[i].Queue), x.out[i].Partition}
		b.delivery.fetches.add(line, x.w)
		x.lines = append(x.lines, line)
	}
	return true
}

// entry answers one entry as far as memory can.
func (x *fetching) entry(e *FetchEntry, out *Fetched) *view {
	out.Queue, out.Partition = e.Queue, e.Partition
	if out.Partition == "" {
		out.Partition = DefaultPartition
	}
	out.Records = []segment.Message{}
	q := x.b.state.queue(x.r.Tenant, e.Queue)
	if q == nil {
		out.Error, x.bad = FetchUnknown, true
		return nil
	}
	p := x.b.state.partition(q, out.Partition)
	if p == nil {
		return nil
	}
	out.HighWatermark, out.LogStart = p.end, p.start
	if e.Offset < p.start || e.Offset > p.end {
		out.Error, x.bad = FetchOutOfRange, true
		return nil
	}
	if e.Offset == p.end {
		return nil
	}
	return x.b.viewSpan(p, e.Offset, fetchCount)
}

// read reads the views and lets them go, outside the lock.
func (x *fetching) read() error {
	defer func() {
		for _, v := range x.views {
			if v != nil {
				v.release()
			}
		}
	}()
	left := x.b.cfg.PopMaxBytes
	for i, v := range x.views {
		if v == nil || left <= 0 {
			continue
		}
		want := min(max(x.r.Entries[i].MaxBytes, 1), maxFetchBytes, left)
		msgs, err := v.read(want)
		if err != nil {
			return err
		}
		for k := range msgs {
			msgs[k].Payload, _ = x.b.open(msgs[k].Payload)
			x.bytes += int64(max(len(msgs[k].Payload), 1))
			left -= int64(len(msgs[k].Payload)) + fetchOverhead
		}
		x.out[i].Records = msgs
	}
	return nil
}

// leave ends the waiting. The caller holds the lock.
func (x *fetching) leave() {
	x.leaveLines()
	if x.w != nil {
		x.b.leave(x.w)
	}
}

func (x *fetching) leaveLines() {
	for _, line := range x.lines {
		x.b.delivery.fetches.remove(line, x.w)
	}
	x.lines = x.lines[:0]
}

// fetchLines are the fetches that wait, by what they wait for. A push wakes
// all of them: unlike pops they take nothing away.
type fetchLines map[fetchLine]map[*waiter]bool

func (l *fetchLines) add(at fetchLine, w *waiter) {
	if *l == nil {
		*l = fetchLines{}
	}
	if (*l)[at] == nil {
		(*l)[at] = map[*waiter]bool{}
	}
	(*l)[at][w] = true
}

func (l fetchLines) remove(at fetchLine, w *waiter) {
	delete(l[at], w)
	if len(l[at]) == 0 {
		delete(l, at)
	}
}

// arrived tells those who wait for p.
func (l fetchLines) arrived(p *partition) {
	if len(l) == 0 || p.ord < 0 {
		return
	}
	for w := range l[fetchLine{p.q, p.name}] {
		w.rouse()
	}
}
