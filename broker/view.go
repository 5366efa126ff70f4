package broker

import (
	"queend"
	"queend/index"
	"queend/segment"
)

// view is a span of one partition as it was at one moment. It can be read
// without the broker's lock, until release: its files stay.
type view struct {
	files  *segmentFiles
	queue  queend.QueueID
	part   queend.PartitionID
	from   queend.Offset // next to be read
	left   int64         // messages still wanted
	runs   index.Runs
	tail   []tailMessage
	tailAt queend.Offset     // of tail[0]
	at     *segment.Bookmark // where it reads, kept by who reads on later
}

// viewSpan returns a view of at most limit messages from the offset from on;
// it begins at the first one retained if from is below it. The caller holds
// the lock, and releases the view.
func (b *Broker) viewSpan(p *partition, from queend.Offset, limit int64) *view {
	v := &view{files: b.storage.files, queue: p.q.id, part: p.id, from: max(from, p.start), tailAt: p.tailFrom(), at: &segment.Bookmark{}}
	limit = min(limit, int64(max(p.end-v.from, 0)))
	v.left = limit
	end := v.from + queend.Offset(limit)
	if v.from < p.flushed && limit > 0 {
		// A copy: merges change the slice in place.
		v.runs = append(index.Runs(nil), p.runs().Overlapping(v.from, min(end, p.flushed)-1)...)
		for i := range v.runs {
			v.files.pin(v.runs[i].File)
		}
	}
	if end > v.tailAt {
		v.tail = p.inMemory()[:end-v.tailAt]
	}
	return v
}

// inTail reports whether the message at from and all after it are in memory.
func (p *partition) inTail(from queend.Offset) bool { return from >= p.flushed }

// release lets the files go. The view must not be read after it.
func (v *view) release() {
	for i := range v.runs {
		v.files.unpin(v.runs[i].File)
	}
	v.at.Release()
	v.runs, v.tail = nil, nil
}

// read returns the next messages of the view: while their payloads sum to at
// most maxBytes, but at least one; none at the end of the view. Their slices
// must not be changed. Errors wrap segment.ErrDamaged or what the system said.
func (v *view) read(maxBytes int64) ([]segment.Message, error) {
	out := make([]segment.Message, 0, min(v.left, roomAhead))
	for i := range v.runs {
		r := &v.runs[i]
		if v.left <= 0 || r.Last < v.from {
			continue
		}
		n := len(out)
		err := v.files.use(r.File, func(sr *segment.Reader) (err error) {
			out, err = sr.ReadOn(v.at, out, entryOf(v.queue, v.part, r), v.from, int(v.left), int(max(maxBytes, 0)))
			return err
		})
		if err != nil {
			return nil, err
		}
		got := out[n:]
		if n > 0 && len(got) > 0 && int64(len(got[0].Payload)) > maxBytes {
			return out[:n], nil
		}
		for i := range got {
			maxBytes -= int64(len(got[i].Payload))
		}
		v.from += queend.Offset(len(got))
		v.left -= int64(len(got))
		if v.from <= r.Last {
			return out, nil
		}
	}
	return v.readTail(out, maxBytes), nil
}

// roomAhead bounds the messages that room is made for before they are read.
const roomAhead = 1000

// readTail adds messages that are in memory.
func (v *view) readTail(out []segment.Message, maxBytes int64) []segment.Message {
	for v.left > 0 && v.from >= v.tailAt && v.from < v.tailAt+queend.Offset(len(v.tail)) {
		t := v.tail[v.from-v.tailAt]
		m := segment.Message{Offset: v.from, Time: t.time}
		readMessage(&decoder{buf: t.raw}, &m)
		if len(out) > 0 && int64(len(m.Payload)) > maxBytes {
			break
		}
		maxBytes -= int64(len(m.Payload))
		out = append(out, m)
		v.from++
		v.left--
	}
	return out
}

// entryOf is what the segment package knows a run by.
func entryOf(q queend.QueueID, p queend.PartitionID, r *index.Run) segment.Entry {
	return segment.Entry{
		Queue: q, Partition: p, First: r.First, Last: r.Last, PayloadFrom: r.PayloadFrom,
		Pos: r.Pos, Size: r.Size, Bytes: r.Bytes, LastTime: r.LastTime,
	}
}

// runOf is a run as the writer of a file placed it.
func runOf(id queend.FileID, e *segment.Entry) placedRun {
	return placedRun{partition: e.Partition, run: index.Run{
		File: id, First: e.First, Last: e.Last, PayloadFrom: e.PayloadFrom,
		Pos: e.Pos, Size: e.Size, Bytes: e.Bytes, LastTime: e.LastTime, Low: e.IDs.Low, High: e.IDs.High,
	}}
}
