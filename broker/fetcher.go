package broker

import (
	"cmp"
	"slices"

	"queend"
	"queend/segment"
)

// place names a message.
type place struct {
	partition queend.PartitionID
	off       queend.Offset
}

// fetcher brings whole messages to a plan, as the finder brings ids: the plan
// asks under the lock, what is not in memory is read outside of it, and the
// plan runs again. A message never changes, so what was read stays right; only
// its removal is looked at anew.
type fetcher struct {
	b    *Broker
	want []place
	have map[place]segment.Message // Gone: it was looked for and is not kept
}

func (b *Broker) newFetcher() *fetcher {
	return &fetcher{b: b}
}

// get returns the message at off with its payload as stored. found is false
// when retention removed it; ready is false when it must be loaded first. The
// caller holds the lock.
func (f *fetcher) get(p *partition, off queend.Offset) (m segment.Message, found, ready bool) {
	if off < p.start || off >= p.end {
		return m, false, true
	}
	if p.inTail(off) {
		return p.message(off), true, true
	}
	at := place{p.id, off}
	m, ready = f.have[at]
	if !ready {
		f.want = append(f.want, at)
		return m, false, false
	}
	return m, !m.Gone, true
}

// forget drops what was read, to bound the memory of a long command.
func (f *fetcher) forget() { clear(f.have) }

// fetch is a stretch of wanted messages and the view it is read through.
type fetch struct {
	place
	count int64
	v     *view
}

// load reads what was asked for since the last load. The caller does not hold
// the lock.
func (f *fetcher) load() error {
	if len(f.want) == 0 {
		return nil
	}
	fetches := f.stretches()
	f.want = f.want[:0]
	defer func() {
		for i := range fetches {
			if fetches[i].v != nil {
				fetches[i].v.release()
			}
		}
	}()
	f.b.locked(func() {
		for i := range fetches {
			if p := f.b.state.partitions.get(fetches[i].partition); p != nil {
				fetches[i].v = f.b.viewSpan(p, fetches[i].off, fetches[i].count)
			}
		}
	})
	for i := range fetches {
		if err := f.read(&fetches[i]); err != nil {
			return err
		}
	}
	return nil
}

// stretches joins neighbours that are wanted.
func (f *fetcher) stretches() []fetch {
	slices.SortFunc(f.want, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.off, b.off))
	})
	var all []fetch
	for _, at := range slices.Compact(f.want) {
		if n := len(all); n > 0 && all[n-1].partition == at.partition && all[n-1].off+queend.Offset(all[n-1].count) == at.off {
			all[n-1].count++
			continue
		}
		all = append(all, fetch{place: at, count: 1})
	}
	return all
}

// read takes in a stretch. A view stops at its byte limit after at least one
// message; what it left out is asked for again. What it passed over, or all
// of it when it gave nothing, is not kept any more.
func (f *fetcher) read(s *fetch) error {
	var messages []segment.Message
	if s.v != nil {
		var err error
		if messages, err = s.v.read(f.b.cfg.PopMaxBytes); err != nil {
			return err
		}
	}
	if f.have == nil {
		f.have = map[place]segment.Message{}
	}
	end := s.off + queend.Offset(s.count)
	if n := len(messages); n > 0 {
		end = min(end, messages[n-1].Offset+1)
	}
	for off := s.off; off < end; off++ {
		f.have[place{s.partition, off}] = segment.Message{Offset: off, Gone: true}
	}
	for _, m := range messages {
		f.have[place{s.partition, m.Offset}] = m
	}
	return nil
}

// waiting reports whether something was asked for that load has to read.
func (f *fetcher) waiting() bool { return len(f.want) > 0 }
