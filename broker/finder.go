package broker

import (
	"bytes"
	"errors"
	"fmt"

	"queend"
	"queend/dedup"
	"queend/index"
	"queend/segment"
)

// finder answers where ids and times are, exactly. It is used in rounds: the
// caller plans under the broker's lock; what a question needs from the disk
// is noted and the question answered "not ready"; the caller gives the lock
// up, calls load, and plans again. What was loaded stays with the finder, so
// that a round always gets further, however small the cache is, as long as
// every round asks the same: a question about "now" must keep to one instant.
//
// The questions need the lock, load and release must not have it. A nil
// finder answers from memory alone and notes nothing.
type finder struct {
	b       *Broker
	held    map[idKey]any
	needs   map[idKey]need
	times   map[timeKey]queend.Offset
	timing  map[timeKey]need
	matches map[findKey][]segment.Match
	finding map[findKey]need
	filters map[*partition]*runFilters
	pinned  []queend.FileID
}

// match is an id that was found.
type match struct {
	found bool
	off   queend.Offset
	id    queend.ID
}

// runFilters are the filters of a partition's runs, side by side with them.
type runFilters struct {
	runs    []idKey
	filters []*segment.Filter
}

// timeKey asks for the first message of a run stamped at or after a time.
type timeKey struct {
	run idKey
	at  int64
}

// findKey asks where a run has a transaction id.
type findKey struct {
	run idKey
	txn string
}

func (b *Broker) newFinder() *finder { return &finder{b: b} }

// release lets the files go that needs had pinned.
func (f *finder) release() {
	for _, id := range f.pinned {
		f.b.storage.files.unpin(id)
	}
	*f = finder{b: f.b}
}

// lookup finds the lowest offset in [lo, hi] whose message has the
// transaction id and is stamped at or after since.
func (f *finder) lookup(p *partition, txn []byte, since int64, lo, hi queend.Offset) (m match, ready bool) {
	w := want(txn, segment.Hash(txn), since)
	if hi-lo < idChunk {
		w.few = idChunk // as most acks ask
	}
	return f.search(p, w, lo, hi)
}

// lookupNew is lookup for an id that most likely is nowhere, of which the caller
// has the hash (segment.Hash).
func (f *finder) lookupNew(p *partition, txn []byte, hash uint64, since int64, lo, hi queend.Offset) (m match, ready bool) {
	return f.search(p, want(txn, hash, since), lo, hi)
}

// wanted is an id that is looked for.
type wanted struct {
	txn   []byte
	hash  uint64
	since int64
	// few is how many ids of a run are compared one by one: reading them is one
	// step, where filter, hashes and ids are three.
	few queend.Offset
	// place is where the id lies in the ranges of runs, if it does.
	place  uint64
	placed bool
}

func want(txn []byte, hash uint64, since int64) wanted {
	w := wanted{txn: txn, hash: hash, since: since, few: fewIDs}
	w.place, w.placed = segment.Place(txn)
	return w
}

// excludedBy reports whether a run surely does not have the id.
func (w *wanted) excludedBy(r *index.Run) bool {
	return w.placed && segment.Range{Low: r.Low, High: r.High}.Excludes(w.place)
}

// fewIDs are so few that they take less room than their filter and hashes.
const fewIDs = 16

func (f *finder) search(p *partition, w wanted, lo, hi queend.Offset) (m match, ready bool) {
	ready = true
	if lo < p.flushed && len(p.runs()) > 0 {
		if m, ready = f.inRuns(p, w, lo, min(hi, p.flushed-1)); !ready || m.found {
			return m, ready
		}
	}
	return f.inTail(p, w, max(lo, p.tailFrom()), hi), true
}

// inTail searches what is in no segment yet. The table may give offsets that
// are flushed by now, or of another id: they are only candidates.
func (f *finder) inTail(p *partition, w wanted, lo, hi queend.Offset) (m match) {
	from, messages := p.tailFrom(), p.inMemory()
	hi = min(hi, from+queend.Offset(len(messages))-1)
	if lo > hi || w.placed && w.place > p.tail.top {
		return m
	}
	f.b.state.fresh.Lookup(dedup.Hash(p.id, w.hash), func(off queend.Offset) bool {
		if off < lo || off > hi || m.found && off > m.off || messages[off-from].time < w.since {
			return true
		}
		if id, have := p.txnAt(off); bytes.Equal(have, w.txn) {
			m = match{true, off, id}
		}
		return true
	})
	return m
}

// inRuns searches the runs that overlap [lo, hi] and end at or after since.
// Needs of all of them are noted at once; the answer stands only when no run
// below it is open.
func (f *finder) inRuns(p *partition, w wanted, lo, hi queend.Offset) (m match, ready bool) {
	runs := p.runs()
	first := max(runs.At(lo), runs.SinceTime(w.since))
	if first >= len(runs) {
		return m, true
	}
	if f == nil {
		return m, false
	}
	filters := f.filtersOf(p)
	ready = true
	for i := first; i < len(runs) && runs[i].First <= hi; i++ {
		r := &runs[i]
		search := f.inRun
		if w.excludedBy(r) {
			continue
		} else if min(hi, r.Last)-max(lo, r.First) < w.few {
			search = f.inChunks
		} else if filter := filters.at(f, p, i); filter == nil {
			ready = false
			continue
		} else if !filter.MayHold(w.txn, w.hash) {
			continue
		}
		got, ok := search(p, r, w, lo, hi)
		if !ok {
			ready = false
		} else if got.found && ready {
			return got, true
		}
	}
	return m, ready
}

// inChunks searches a part of a run that is a few ids long by comparing them.
func (f *finder) inChunks(p *partition, r *index.Run, w wanted, lo, hi queend.Offset) (m match, ready bool) {
	for off := max(lo, r.First); off <= min(hi, r.Last); {
		ids, i, ok := f.chunk(p, r, off)
		if !ok {
			return m, false
		}
		end := min(ids.Len(), i+int(min(hi, r.Last)-off)+1)
		for i = ids.Find(w.txn, i, end); i < end; i = ids.Find(w.txn, i+1, end) {
			if ids.Time(i) >= w.since {
				return match{true, ids.Offset(i), ids.ID(i)}, true
			}
		}
		off = ids.Offset(end-1) + 1
	}
	return m, true
}

// inRun searches one run whose filter does not exclude the id: by the hashes
// of all its ids when memory has them or room for them, else by looking for
// this one id in the file. So a cache that is full is not turned over for ids
// that are not there.
func (f *finder) inRun(p *partition, r *index.Run, w wanted, lo, hi queend.Offset) (m match, ready bool) {
	key := keyOf(r, partHashes, 0)
	part, ok := f.peek(key)
	if !ok {
		if m, ready := f.inFile(r, w, lo, hi); ready {
			return m, true
		}
		if f.b.storage.ids.wantsHashes(r) {
			f.note(p, r, key)
		} else {
			f.noteFind(p, r, w.txn)
		}
		return m, false
	}
	ready = true
	part.(*idHashes).each(r.First, w.hash, func(off queend.Offset) bool {
		if off < lo {
			return true
		}
		if off > hi {
			return false
		}
		ids, i, ok := f.chunk(p, r, off)
		if !ok {
			ready = false
			return false
		}
		if ids.Time(i) >= w.since && bytes.Equal(ids.TxnID(i), w.txn) {
			m = match{true, off, ids.ID(i)}
		}
		return !m.found
	})
	return m, ready
}

// inFile is inRun by what was found in the file.
func (f *finder) inFile(r *index.Run, w wanted, lo, hi queend.Offset) (m match, ready bool) {
	all, ready := f.matches[findKey{keyOf(r, 0, 0), string(w.txn)}]
	for _, x := range all {
		if x.Offset >= lo && x.Offset <= hi && x.Time >= w.since {
			return match{true, x.Offset, x.ID}, true
		}
	}
	return m, ready
}

// noteFind asks for one id of a run to be looked for in its file.
func (f *finder) noteFind(p *partition, r *index.Run, txn []byte) {
	key := findKey{keyOf(r, 0, 0), string(txn)}
	if _, ok := f.finding[key]; ok {
		return
	}
	if f.finding == nil {
		f.finding = map[findKey]need{}
	}
	f.finding[key] = f.need(p, r, key.run)
}

// filtersOf returns the filters of a partition as far as this finder met
// them. They are looked up by place: a batch of ids asks for each many times.
func (f *finder) filtersOf(p *partition) *runFilters {
	if f.filters == nil {
		f.filters = map[*partition]*runFilters{}
	}
	s := f.filters[p]
	if s == nil {
		s = &runFilters{}
		f.filters[p] = s
	}
	for len(s.runs) < len(p.runs()) {
		s.runs, s.filters = append(s.runs, idKey{}), append(s.filters, nil)
	}
	return s
}

// at returns the filter of run i, nil when it has to be read.
func (s *runFilters) at(f *finder, p *partition, i int) *segment.Filter {
	r := &p.runs()[i]
	if s.filters[i] != nil && s.runs[i].file == r.File && s.runs[i].pos == r.Pos {
		return s.filters[i]
	}
	part, ok := f.part(p, r, partFilter, 0)
	if !ok {
		return nil
	}
	filter := part.(*segment.Filter)
	s.runs[i], s.filters[i] = keyOf(r, partFilter, 0), filter
	r.Low, r.High = filter.IDs.Low, filter.IDs.High
	return filter
}

// chunk returns the ids around a flushed offset, and its place in them.
func (f *finder) chunk(p *partition, r *index.Run, off queend.Offset) (*segment.IDs, int, bool) {
	part, ok := f.part(p, r, partChunk, uint32((off-r.First)/idChunk))
	if !ok {
		return nil, 0, false
	}
	ids := part.(*segment.IDs)
	return ids, int(off - ids.Offset(0)), true
}

func keyOf(r *index.Run, part idPart, chunk uint32) idKey {
	return idKey{file: r.File, pos: r.Pos, part: part, chunk: chunk}
}

// part returns a part of a run, or notes that it is needed.
func (f *finder) part(p *partition, r *index.Run, part idPart, chunk uint32) (any, bool) {
	if f == nil {
		return nil, false
	}
	key := keyOf(r, part, chunk)
	v, ok := f.peek(key)
	if !ok {
		f.note(p, r, key)
	}
	return v, ok
}

// peek returns a part that is in memory.
func (f *finder) peek(key idKey) (any, bool) {
	if v, ok := f.held[key]; ok {
		return v, true
	}
	return f.b.storage.ids.get(key)
}

func (f *finder) note(p *partition, r *index.Run, key idKey) {
	if _, ok := f.needs[key]; !ok {
		if f.needs == nil {
			f.needs = map[idKey]need{}
		}
		f.needs[key] = f.need(p, r, key)
	}
}

// need describes a part and pins its file.
func (f *finder) need(p *partition, r *index.Run, key idKey) need {
	f.b.storage.files.pin(r.File)
	f.pinned = append(f.pinned, r.File)
	return need{key: key, queue: p.q.id, owner: p.id, run: *r}
}

// load reads everything that was noted. Errors wrap segment.ErrDamaged or
// what the system said.
func (f *finder) load() error {
	if f.held == nil {
		f.held, f.times = map[idKey]any{}, map[timeKey]queend.Offset{}
		f.matches = map[findKey][]segment.Match{}
	}
	for key, n := range f.needs {
		part, err := f.b.storage.ids.load(key, func() (part any, size int, err error) {
			err = f.read(n, func(r *segment.Reader) error {
				part, size, err = n.read(r)
				return err
			})
			return part, size, err
		})
		if err != nil {
			return err
		}
		f.held[key] = part
	}
	for key, n := range f.timing {
		if err := f.read(n, func(r *segment.Reader) error {
			off, err := firstInRun(r, &n, key.at)
			f.times[key] = off
			return err
		}); err != nil {
			return err
		}
	}
	for key, n := range f.finding {
		if err := f.read(n, func(r *segment.Reader) error {
			txn := []byte(key.txn)
			all, err := r.Find(entryOf(n.queue, n.owner, &n.run), txn, segment.Hash(txn))
			f.matches[key] = all
			return err
		}); err != nil {
			return err
		}
	}
	f.needs, f.timing, f.finding = nil, nil, nil
	return nil
}

func (f *finder) read(n need, fn func(*segment.Reader) error) error {
	err := f.b.storage.files.use(n.key.file, fn)
	if err != nil && !errors.Is(err, segment.ErrDamaged) {
		return fmt.Errorf("segment file %d: %w", n.key.file, err)
	}
	return err
}

// firstInRun finds the first message of a run stamped at or after a time, by
// halving: stamps rise with offsets. It is Last+1 when there is none.
func firstInRun(r *segment.Reader, n *need, at int64) (queend.Offset, error) {
	e := entryOf(n.queue, n.owner, &n.run)
	lo, hi := n.run.First, n.run.Last+1 // the answer is in [lo, hi]
	for lo < hi {
		mid := lo + (hi-lo)/2
		ids, err := r.IDsRange(e, mid, mid)
		if err != nil {
			return 0, err
		}
		first, last := ids.Offset(0), ids.Offset(ids.Len()-1)
		switch {
		case ids.Time(ids.Len()-1) < at:
			lo = max(lo, last+1)
		case ids.Time(0) >= at:
			hi = min(hi, first)
		default:
			i := 0
			for ids.Time(i) < at {
				i++
			}
			return ids.Offset(i), nil
		}
	}
	return lo, nil
}

// firstAt finds the first retained offset stamped at or after t, p.end when
// there is none.
func (f *finder) firstAt(p *partition, t int64) (off queend.Offset, ready bool) {
	i := max(p.runs().SinceTime(t), p.runs().At(p.start))
	if i < len(p.runs()) {
		off, ready = f.firstIn(p, &p.runs()[i], t)
		return max(off, p.start), ready
	}
	messages := p.inMemory()
	lo, hi := 0, len(messages)
	for lo < hi {
		if mid := (lo + hi) / 2; messages[mid].time < t {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return max(p.tailFrom()+queend.Offset(lo), p.start), true
}

// firstIn is firstAt within the run that has the answer.
func (f *finder) firstIn(p *partition, r *index.Run, t int64) (queend.Offset, bool) {
	if f == nil {
		return 0, false
	}
	key := timeKey{keyOf(r, 0, 0), t}
	if off, ok := f.times[key]; ok {
		return off, true
	}
	if part, ok := f.b.storage.ids.get(keyOf(r, partFilter, 0)); ok && part.(*segment.Filter).FirstTime >= t {
		return r.First, true
	}
	if _, ok := f.timing[key]; !ok {
		if f.timing == nil {
			f.timing = map[timeKey]need{}
		}
		f.timing[key] = f.need(p, r, key.run)
	}
	return 0, false
}

// timeAt returns the stamp of the message at off, which must be retained.
func (f *finder) timeAt(p *partition, off queend.Offset) (t int64, ready bool) {
	if off >= p.tailFrom() {
		return p.inMemory()[off-p.tailFrom()].time, true
	}
	r := &p.runs()[p.runs().At(off)]
	ids, i, ok := f.chunk(p, r, off)
	if !ok {
		return 0, false
	}
	return ids.Time(i), true
}

// idAt returns the ids of the message at off, which must be retained or at
// least still known. txn must not be changed.
func (f *finder) idAt(p *partition, off queend.Offset) (id queend.ID, txn []byte, ready bool) {
	if off >= p.tailFrom() {
		id, txn = p.txnAt(off)
		return id, txn, true
	}
	r := &p.runs()[p.runs().At(off)]
	ids, i, ok := f.chunk(p, r, off)
	if !ok {
		return id, nil, false
	}
	return ids.ID(i), ids.TxnID(i), true
}

// waiting reports whether questions were noted since the last load.
func (f *finder) waiting() bool { return len(f.needs)+len(f.timing)+len(f.finding) > 0 }
