package broker

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"queend"
	"queend/segment"
)

// traceNames knows which traces carry which names. It is read from the traces
// when it is asked for, once after a start, and from then on kept up by
// reading what is new; nothing else depends on it.
type traceNames struct {
	mu       sync.Mutex // held while reading, never with the broker's lock before it
	catalogs map[queend.ID]*traceCatalog
}

// traceCatalog is that of one tenant.
type traceCatalog struct {
	p     *partition
	next  queend.Offset // traces below are in
	names map[string][]traceRef
}

// traceRef is a trace with a name.
type traceRef struct {
	off     queend.Offset
	address uint64 // hash of the address it is about
	at      int64  // microseconds
}

// catalogStep is how many traces are read at a time.
const catalogStep = 4096

// catalog brings a tenant's catalog up to date; nil without traces. The
// caller holds mu, not the broker's lock.
func (b *Broker) catalog(tenant queend.ID) (*traceCatalog, error) {
	n := &b.traceNames
	for {
		var v *view
		var p *partition
		var c *traceCatalog
		b.locked(func() {
			if p = b.tracesOf(tenant); p == nil {
				return
			}
			if c = n.catalogs[tenant]; c == nil || c.p != p {
				c = &traceCatalog{p: p, names: map[string][]traceRef{}}
			}
			c.forget(p.start)
			if c.next = max(c.next, p.start); c.next < p.end {
				v = b.viewSpan(p, c.next, catalogStep)
			}
		})
		if p == nil {
			delete(n.catalogs, tenant)
			return nil, nil
		}
		if n.catalogs == nil {
			n.catalogs = map[queend.ID]*traceCatalog{}
		}
		n.catalogs[tenant] = c
		if v == nil {
			return c, nil
		}
		msgs, err := v.read(b.cfg.PopMaxBytes)
		v.release()
		if err != nil {
			return nil, err
		}
		if err := c.add(msgs); err != nil {
			return nil, err
		}
	}
}

// add takes in the next traces.
func (c *traceCatalog) add(msgs []segment.Message) error {
	for i := range msgs {
		m := &msgs[i]
		c.next = m.Offset + 1
		if m.Gone {
			continue
		}
		var tr Trace
		if err := tr.decode(m.Payload); err != nil {
			return err
		}
		ref := traceRef{m.Offset, segment.Hash(m.TxnID), m.Time}
		slices.Sort(tr.Names)
		for _, name := range slices.Compact(tr.Names) {
			c.names[name] = append(c.names[name], ref)
		}
	}
	return nil
}

// forget drops the traces below an offset.
func (c *traceCatalog) forget(below queend.Offset) {
	if below == 0 {
		return
	}
	for name, refs := range c.names {
		i, _ := slices.BinarySearchFunc(refs, below, func(r traceRef, off queend.Offset) int { return cmp.Compare(r.off, off) })
		if i == len(refs) {
			delete(c.names, name)
		} else if i > 0 {
			c.names[name] = slices.Clone(refs[i:])
		}
	}
}

// TracePage is a page of traces and how many there are.
type TracePage struct {
	Traces []Trace
	Total  int
}

// TracesByName returns a page of the traces with a name, the newest first.
func (b *Broker) TracesByName(ctx context.Context, tenant queend.ID, name string, limit, offset int) (TracePage, error) {
	p, refs, err := b.traceRefs(tenant, name)
	if err != nil {
		return TracePage{}, err
	}
	page := TracePage{Total: len(refs)}
	slices.Reverse(refs)
	var at []queend.Offset
	for _, r := range pageOf(refs, limit, offset) {
		at = append(at, r.off)
	}
	if page.Traces, err = b.readTraces(p, at); err != nil {
		return page, err
	}
	return page, b.settled(ctx)
}

// pageOf cuts a page out of a list.
func pageOf[T any](all []T, limit, offset int) []T {
	all = all[min(max(offset, 0), len(all)):]
	return all[:min(max(limit, 0), len(all))]
}

// traceRefs returns the traces with a name, oldest first. The slice is the
// caller's.
func (b *Broker) traceRefs(tenant queend.ID, name string) (*partition, []traceRef, error) {
	b.traceNames.mu.Lock()
	defer b.traceNames.mu.Unlock()
	c, err := b.catalog(tenant)
	if c == nil || err != nil {
		return nil, nil, err
	}
	return c.p, slices.Clone(c.names[name]), nil
}

// TraceName sums up the traces with one name.
type TraceName struct {
	Name     string
	Traces   int
	Messages int   // different addresses they are about
	LastSeen int64 // microseconds
}

// TraceNamePage is a page of names and how many there are.
type TraceNamePage struct {
	Names []TraceName
	Total int
}

// TraceNames returns a page of the names of traces, the last used first.
func (b *Broker) TraceNames(ctx context.Context, tenant queend.ID, limit, offset int) (TraceNamePage, error) {
	names, total, err := b.namesInUse(tenant, limit, offset)
	if err != nil {
		return TraceNamePage{}, err
	}
	return TraceNamePage{names, total}, b.settled(ctx)
}

func (b *Broker) namesInUse(tenant queend.ID, limit, offset int) (names []TraceName, total int, err error) {
	b.traceNames.mu.Lock()
	defer b.traceNames.mu.Unlock()
	c, err := b.catalog(tenant)
	if c == nil || err != nil {
		return []TraceName{}, 0, err
	}
	all := make([]TraceName, 0, len(c.names))
	for name, refs := range c.names {
		all = append(all, TraceName{Name: name, Traces: len(refs), LastSeen: refs[len(refs)-1].at})
	}
	slices.SortFunc(all, func(x, y TraceName) int {
		return cmp.Or(cmp.Compare(y.LastSeen, x.LastSeen), strings.Compare(x.Name, y.Name))
	})
	total = len(all)
	all = pageOf(all, limit, offset)
	for i := range all {
		addresses := map[uint64]bool{}
		for _, r := range c.names[all[i].Name] {
			addresses[r.address] = true
		}
		all[i].Messages = len(addresses)
	}
	return all, total, nil
}
