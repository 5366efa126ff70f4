package broker

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"queend"
)

// OffsetEntry asks where the messages of a time begin.
type OffsetEntry struct {
	Queue     string
	Partition string // "": DefaultPartition
	Time      int64  // microseconds
}

// FoundOffset answers an OffsetEntry: the first retained message stamped at
// or after its time.
type FoundOffset struct {
	Queue, Partition string
	Found            bool
	Offset           queend.Offset // with Found
	Time             int64         // its stamp, microseconds, with Found
	HighWatermark    queend.Offset // the next offset to be given
	LogStart         queend.Offset // the first retained one
	Error            FetchError
}

// FetchOffsets finds offsets by time (docs/rules.md, S11).
func (b *Broker) FetchOffsets(ctx context.Context, tenant queend.ID, entries []OffsetEntry) ([]FoundOffset, error) {
	out := make([]FoundOffset, len(entries))
	f := b.newFinder()
	defer f.release()
	for {
		ready := true
		b.locked(func() {
			for i := range entries {
				var ok bool
				out[i], ok = b.findOffset(f, tenant, &entries[i])
				ready = ready && ok
			}
		})
		if ready {
			return out, b.settled(ctx)
		}
		if err := f.load(); err != nil {
			return nil, err
		}
	}
}

func (b *Broker) findOffset(f *finder, tenant queend.ID, e *OffsetEntry) (out FoundOffset, ready bool) {
	out.Queue, out.Partition = e.Queue, e.Partition
	if out.Partition == "" {
		out.Partition = DefaultPartition
	}
	q := b.state.queue(tenant, e.Queue)
	if q == nil {
		out.Error = FetchUnknown
		return out, true
	}
	p := b.state.partition(q, out.Partition)
	if p == nil {
		return out, true
	}
	out.HighWatermark, out.LogStart = p.end, p.start
	if p.empty() || p.lastTime < e.Time {
		return out, true
	}
	if out.Offset, ready = f.firstAt(p, e.Time); !ready {
		return out, false
	}
	out.Time, ready = b.stampOf(f, p, out.Offset)
	out.Found = ready
	return out, ready
}

// ChangedEntry asks which partitions of a queue were written to.
type ChangedEntry struct {
	Queue string
	Since *int64 // stamps after it, microseconds; nil: every partition
	After string // Next of the page before; "": the first page
	Limit int    // 1 to 1000; 0: 1000
}

// ChangedPartition is a partition with its newest message.
type ChangedPartition struct {
	ID        queend.ID
	Name      string
	Last      queend.Offset // newest message ever, NoOffset before the first
	LogStart  queend.Offset
	LastWrite *int64 // microseconds; nil before the first message
}

// Changed answers a ChangedEntry, in the order of the partitions' creation.
type Changed struct {
	Queue      string
	Partitions []ChangedPartition
	Next       string // of a full page, else ""
	Error      FetchError
}

// PartitionsChanged lists partitions by what was written since. Everything
// stamped at or before safe can be read by the time it returns, so safe is
// the next Since.
func (b *Broker) PartitionsChanged(ctx context.Context, tenant queend.ID, entries []ChangedEntry) (safe int64, out []Changed, err error) {
	// Records to come are stamped after the newest one and not before now.
	b.locked(func() { safe = max(b.state.lastStamp, b.now()-1) })
	out = make([]Changed, len(entries))
	for i := range entries {
		out[i] = b.changed(tenant, &entries[i])
	}
	return safe, out, b.settled(ctx)
}

// cursorPrefix tells a cursor of ours from other text.
const cursorPrefix = "after-"

// changed answers one entry, in bounded holds of the lock.
func (b *Broker) changed(tenant queend.ID, e *ChangedEntry) Changed {
	out := Changed{Queue: e.Queue, Partitions: []ChangedPartition{}}
	var after uint64
	if e.After != "" {
		var err error
		digits, ours := strings.CutPrefix(e.After, cursorPrefix)
		if after, err = strconv.ParseUint(digits, 10, 64); err != nil || !ours {
			out.Error = FetchBadCursor
			return out
		}
	}
	q, err := b.queueNamed(tenant, e.Queue)
	if err != nil {
		out.Error = FetchUnknown
		return out
	}
	limit := min(max(e.Limit, 1), 1000)
	if e.Limit == 0 {
		limit = 1000
	}
	for at, more := 0, true; more; {
		b.locked(func() {
			if p := b.state.partitions.get(queend.PartitionID(after)); p != nil && p.q == q && p.ord >= 0 {
				at = max(at, int(p.ord)+1)
			}
			at = q.after(at, queend.PartitionID(after))
			for range surveyHold {
				if more = at < len(q.order) && out.Next == ""; !more {
					return
				}
				out.add(b.state.partitions.get(q.order[at]), e.Since, limit)
				at++
			}
		})
	}
	return out
}

// after is the place in q.order, from on, of the first partition with a number
// above id: they are in the order of their numbers, with gaps.
func (q *queue) after(from int, id queend.PartitionID) int {
	rest := q.order[min(from, len(q.order)):]
	i := slices.IndexFunc(rest, func(there queend.PartitionID) bool { return there > id })
	if i < 0 {
		return len(q.order)
	}
	return from + i
}

// add takes a partition into the page if it was written to.
func (c *Changed) add(p *partition, since *int64, limit int) {
	if p == nil || since != nil && p.lastTime <= *since {
		return
	}
	one := ChangedPartition{ID: p.uuid, Name: p.name, Last: p.end - 1, LogStart: p.start}
	if p.lastTime > 0 {
		at := p.lastTime
		one.LastWrite = &at
	}
	c.Partitions = append(c.Partitions, one)
	if len(c.Partitions) == limit {
		c.Next = cursorPrefix + strconv.FormatUint(uint64(p.id), 10)
	}
}
