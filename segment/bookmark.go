package segment

import (
	"sync"

	"queend"
)

// Bookmark is where somebody is who reads a run piece by piece (Reader.ReadOn),
// with the stripe and the payload block there, decoded. The zero Bookmark is
// nowhere. It is for one reading at a time and shares nothing with the messages
// that were read.
type Bookmark struct {
	s    *scratch // nil: nowhere
	file queend.FileID
	head head   // its bytes are in s
	at   stripe // whose columns are in s; at.n is 0: none
	next int    // message of that stripe that follows
}

// bookmarks holds idle scratches of bookmarks, which do not grow as others do.
var bookmarks = sync.Pool{New: func() any { return new(scratch) }}

// enter moves to a run, unless it is there.
func (m *Bookmark) enter(r *Reader, e Entry) error {
	if m.s != nil && m.file == r.file && m.head.entry.Pos == e.Pos && m.head.entry.same(e) {
		return nil
	}
	if m.s == nil {
		m.s = bookmarks.Get().(*scratch)
	}
	m.file, m.at, m.next, m.s.rawAt = r.file, stripe{}, 0, 0
	h, err := r.head(e, 0, m.s)
	m.head = h
	return err
}

// columns returns those of a stripe of the run.
func (m *Bookmark) columns(r *Reader, st stripe) (*columns, error) {
	if m.at.n > 0 && m.at.pos == st.pos {
		return &m.s.columns, nil
	}
	m.at = stripe{}
	c, err := r.columns(&m.head, st, m.s)
	if err != nil {
		return nil, err
	}
	m.at = st
	return c, nil
}

// Inside reports whether it is inside a stripe, so that reading on from it spares
// decoding.
func (m *Bookmark) Inside() bool { return m.s != nil && m.next > 0 && m.next < m.at.n }

// Release makes it a zero Bookmark.
func (m *Bookmark) Release() {
	if m.s != nil && m.Size() <= maxBookmark {
		bookmarks.Put(m.s)
	}
	*m = Bookmark{}
}

// maxBookmark bounds the bookmarks whose memory is used again, in bytes.
const maxBookmark = 4 * maxBlock

// Size returns the bytes of memory that it holds, for caches.
func (m *Bookmark) Size() int {
	size := 256
	if s := m.s; s != nil {
		size += cap(s.head) + cap(s.filter) + cap(s.stored) + cap(s.ids) + cap(s.raw) + s.columns.size()
	}
	return size
}
