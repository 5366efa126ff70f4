package segment

import (
	"encoding/binary"
	"iter"
	"math"

	"queend"
)

// stripe is the place of one stripe.
type stripe struct {
	first   queend.Offset
	n       int    // messages
	pos     uint64 // byte of the file
	ids     extent
	payload uint64 // bytes of payload blocks with their crcs
}

// last returns the last offset, included.
func (s stripe) last() queend.Offset { return s.first + queend.Offset(s.n) - 1 }

// payloadPos returns where the payload blocks are.
func (s stripe) payloadPos() uint64 { return s.pos + crcSize + s.ids.stored }

// end returns the byte after the stripe.
func (s stripe) end() uint64 { return s.payloadPos() + s.payload }

// head is a descriptor without its filter.
type head struct {
	entry     Entry
	firstTime int64  // earliest, microseconds
	start     uint64 // byte of the file at which the run starts
	end       uint64 // byte after the run
	low       []byte
	shared    int // bytes that the upper id bound has in common with low
	high      []byte
	count     uint64 // stripes
	stripes   []byte // their directory
	narrow    uint64 // bytes of the stripes' filters with their crc; 0 if one stripe
}

// tail returns the bytes of all filters with their crcs.
func (h *head) tail() uint64 { return crcSize + filterSize(h.entry.count()) + h.narrow }

// appendHead appends the descriptor, without its filter, to dst. h.end,
// h.narrow, Pos, Size and Bytes are not read: the reader works them out.
func appendHead(dst []byte, h *head) []byte {
	e := &h.entry
	b := make([]byte, 0, 128+len(h.stripes))
	b = binary.AppendUvarint(b, uint64(e.Queue))
	b = binary.AppendUvarint(b, uint64(e.Partition))
	b = binary.AppendUvarint(b, uint64(e.First))
	b = binary.AppendUvarint(b, e.count())
	b = binary.AppendVarint(b, h.firstTime)
	b = binary.AppendUvarint(b, uint64(e.LastTime-h.firstTime))
	b = binary.AppendUvarint(b, uint64(e.PayloadFrom-e.First))
	b = binary.AppendUvarint(b, h.start)
	b = binary.AppendUvarint(b, uint64(len(h.low)))
	b = append(b, h.low...)
	b = binary.AppendUvarint(b, uint64(h.shared))
	b = binary.AppendUvarint(b, uint64(len(h.high)))
	b = append(b, h.high...)
	b = binary.AppendUvarint(b, h.count)
	b = append(b, h.stripes...)

	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	dst = append(dst, b...)
	binary.LittleEndian.PutUint32(dst[at:], checksum(dst[at+crcSize:]))
	return dst
}

// appendStripe appends a stripe's line of the directory to dst.
func appendStripe(dst []byte, n int, ids extent, payload int) []byte {
	dst = binary.AppendUvarint(dst, uint64(n))
	dst = binary.AppendUvarint(dst, ids.pack())
	if ids.zstd {
		dst = binary.AppendUvarint(dst, ids.raw)
	}
	return binary.AppendUvarint(dst, uint64(payload))
}

// parseHead reads the descriptor in b, which starts at byte pos of a file whose
// footer starts at footer. It returns "" or what is wrong, and allocates
// nothing: the head has parts of b.
func parseHead(b []byte, pos, footer uint64) (head, string) {
	if len(b) < crcSize || binary.LittleEndian.Uint32(b) != checksum(b[crcSize:]) {
		return head{}, "checksum does not match"
	}
	p := parser{b: b[crcSize:]}
	if size := p.uvarint(); p.bad || size != uint64(len(p.b)) {
		return head{}, "length does not match"
	}
	var h head
	e := &h.entry
	e.Queue, e.Partition = queend.QueueID(p.uvarint()), queend.PartitionID(p.uvarint())
	first, count := p.uvarint(), p.uvarint()
	h.firstTime = p.varint()
	e.LastTime = h.firstTime + int64(p.uvarint())
	dropped := p.uvarint()
	h.start = p.uvarint()
	h.low = p.take(p.uvarint())
	shared := p.uvarint()
	h.high = p.take(p.uvarint())
	h.count = p.uvarint()
	h.stripes = p.b
	switch {
	case p.bad:
		return head{}, "ends early"
	case count == 0 || first > math.MaxInt64 || count > math.MaxInt64-first || dropped > count:
		return head{}, "offsets make no sense"
	case e.LastTime < h.firstTime:
		return head{}, "times make no sense"
	case shared > uint64(len(h.low)):
		return head{}, "id bounds make no sense"
	}
	h.shared = int(shared)
	e.First = queend.Offset(first)
	e.Last = e.First + queend.Offset(count) - 1
	e.PayloadFrom = e.First + queend.Offset(dropped)
	e.Pos, e.Size = pos, uint32(len(b))
	var high [placeText]byte
	n := copy(high[:], h.low[:h.shared])
	n += copy(high[n:], h.high)
	e.IDs = rangeOf(h.low, high[:n])
	if !h.measure(footer) {
		return head{}, "stripes make no sense"
	}
	e.Bytes = h.end - h.start + uint64(len(b)) + h.tail()
	return h, ""
}

// measure checks the directory of stripes once, so that all can trust it, and
// sets the run's end and the size of its stripes' filters.
func (h *head) measure(footer uint64) bool {
	h.end = h.start
	if h.start < headerSize || h.start > footer || h.count > uint64(len(h.stripes)) {
		return false
	}
	p := parser{b: h.stripes}
	next := stripe{first: h.entry.First, pos: h.start}
	left := h.entry.count()
	for range h.count {
		s, n := nextStripe(&p, next)
		if p.bad || n == 0 || n > left || !s.ids.sane() || n > s.ids.raw/minColumns ||
			s.ids.stored > footer || s.payload > footer || s.end() > footer {
			return false
		}
		left -= n
		h.narrow += filterSize(n)
		next = stripe{first: s.last() + 1, pos: s.end()}
	}
	h.end = next.pos
	if h.narrow += crcSize; h.count < 2 {
		h.narrow = 0
	}
	return left == 0 && len(p.b) == 0
}

// nextStripe reads a line of the directory. The stripe starts where at says. n
// is its number of messages before any check.
func nextStripe(p *parser, at stripe) (s stripe, n uint64) {
	s = at
	n = p.uvarint()
	s.n = int(n)
	stored := p.uvarint()
	s.ids = extent{stored >> 1, stored >> 1, stored&1 != 0}
	if s.ids.zstd {
		s.ids.raw = p.uvarint()
	}
	s.payload = p.uvarint()
	return s, n
}

// overlapping yields the stripes that hold offsets between from and to, both
// included. It allocates nothing but the iterator.
func (h *head) overlapping(from, to queend.Offset) iter.Seq[stripe] {
	return func(yield func(stripe) bool) {
		p := parser{b: h.stripes}
		next := stripe{first: h.entry.First, pos: h.start}
		for range h.count {
			s, _ := nextStripe(&p, next)
			next = stripe{first: s.last() + 1, pos: s.end()}
			if s.first > to {
				return
			}
			if s.last() >= from && !yield(s) {
				return
			}
		}
	}
}
