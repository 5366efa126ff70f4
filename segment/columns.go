package segment

import (
	"encoding/binary"
	"math"
	"slices"

	"queend"
)

// payloadBlock is one payload block of a stripe.
type payloadBlock struct {
	extent
	at   uint64 // where its bytes start in the stripe's payload stream
	skip uint64 // stored bytes of the payload blocks before it, with their crcs
}

// columns is an id block taken apart. Byte slices are parts of the block.
//
// Invariant after parse: payloads, txns, producers and headers have n+1 rising
// places; the message i owns what is between place i and i+1.
type columns struct {
	n         int
	flags     []byte
	times     []int64
	ids       []queend.ID
	payloads  []uint64 // places in the payload stream
	blocks    []payloadBlock
	stored    uint64   // bytes of all payload blocks, with their crcs
	txns      []uint32 // places in txnBytes; only verbatim ids have bytes there
	txnBytes  []byte
	packed    []byte
	packedAt  []uint32 // messages before it with a packed transaction id
	traces    []queend.ID
	producers []uint32
	headers   []uint32
	prodBytes []byte
	headBytes []byte
}

// parse takes the decoded id block of n messages apart. It reports false if the
// block is not one. It allocates at most 100 bytes per byte of block, and
// reuses what c has.
func (c *columns) parse(block []byte, n int) bool {
	if n < 1 || n > len(block)/minColumns {
		return false
	}
	c.n = n
	p := parser{b: block}
	c.flags = p.take(uint64(n))
	c.parseTimes(&p)
	if !c.parseIDs(&p) || !c.parsePayloads(&p) {
		return false
	}
	for _, f := range c.flags {
		if f&^flagsKnown != 0 || f&(flagPacked|flagVerbatim) == flagPacked|flagVerbatim {
			return false
		}
	}
	c.txns = c.parseLengths(&p, c.txns, flagVerbatim, MaxTxnID)
	c.parseFixed(&p)
	c.producers = c.parseLengths(&p, c.producers, flagProducer, MaxProducer)
	c.headers = c.parseLengths(&p, c.headers, flagHeaders, MaxHeaders)
	if p.bad {
		return false
	}
	c.txnBytes = p.take(uint64(c.txns[n]))
	c.prodBytes = p.take(uint64(c.producers[n]))
	c.headBytes = p.take(uint64(c.headers[n]))
	return !p.bad && len(p.b) == 0
}

// size returns the bytes of memory that the columns hold beside the block.
func (c *columns) size() int {
	return 8*cap(c.times) + 16*(cap(c.ids)+cap(c.traces)) + 8*cap(c.payloads) + 48*cap(c.blocks) +
		4*(cap(c.txns)+cap(c.packedAt)+cap(c.producers)+cap(c.headers))
}

func (c *columns) parseTimes(p *parser) {
	c.times = slices.Grow(c.times[:0], c.n)
	var t int64
	for range c.n {
		t += p.varint()
		c.times = append(c.times, t)
	}
}

func (c *columns) parseIDs(p *parser) bool {
	c.ids = slices.Grow(c.ids[:0], c.n)
	for len(c.ids) < c.n {
		run := p.uvarint()
		id := p.id()
		if p.bad || run>>1 == 0 || run>>1 > uint64(c.n-len(c.ids)) {
			return false
		}
		for range run >> 1 {
			c.ids = append(c.ids, id)
			id = stepID(id, run&1)
		}
	}
	return true
}

// stepID adds step to the last eight bytes of the id, which wrap around.
func stepID(id queend.ID, step uint64) queend.ID {
	binary.BigEndian.PutUint64(id[8:], binary.BigEndian.Uint64(id[8:])+step)
	return id
}

// parsePayloads reads the payload lengths and the directory of their blocks.
func (c *columns) parsePayloads(p *parser) bool {
	c.payloads = append(slices.Grow(c.payloads[:0], c.n+1), 0)
	var at uint64
	for range c.n {
		length := p.uvarint()
		if length > MaxPayload {
			return false
		}
		at += length
		c.payloads = append(c.payloads, at)
	}
	c.blocks, c.stored = c.blocks[:0], 0
	count := p.uvarint()
	if p.bad || count > uint64(len(p.b)) || count == 0 && at != 0 {
		return false
	}
	msg, from := 0, uint64(0)
	for range count {
		n, stored := p.uvarint(), p.uvarint()
		if n > uint64(c.n-msg) {
			return false
		}
		msg += int(n)
		to := c.payloads[msg]
		// Only a payload that is alone in its block may go on in the next.
		if n <= 1 {
			to = min(to, from+maxBlock)
		}
		b := payloadBlock{extent{stored >> 1, to - from, stored&1 != 0}, from, c.stored}
		if !b.sane() || n == 0 && b.raw == 0 {
			return false
		}
		c.stored += b.stored + crcSize
		c.blocks = append(c.blocks, b)
		from = to
	}
	return from == at && (count == 0 || msg == c.n)
}

// parseLengths reads the length of each message that has one of the flags into
// places. The sum fits, for n < 2^20 and every length is below 2^19.
func (c *columns) parseLengths(p *parser, places []uint32, flag byte, limit uint64) []uint32 {
	places = append(slices.Grow(places[:0], c.n+1), 0)
	var at uint64
	for _, f := range c.flags {
		if f&flag != 0 {
			length := p.uvarint()
			if length > limit || at+length > math.MaxUint32 {
				p.fail()
			} else {
				at += length
			}
		}
		places = append(places, uint32(at))
	}
	return places
}

// parseFixed reads the columns of 16 bytes per message that has one.
func (c *columns) parseFixed(p *parser) {
	c.packedAt = slices.Grow(c.packedAt[:0], c.n)
	var packed, traces uint32
	for _, f := range c.flags {
		c.packedAt = append(c.packedAt, packed)
		if f&flagPacked != 0 {
			packed++
		}
		if f&flagTrace != 0 {
			traces++
		}
	}
	c.packed = p.take(16 * uint64(packed))
	if uint64(traces)*16 > uint64(len(p.b)) {
		p.fail()
		return
	}
	c.traces = slices.Grow(c.traces[:0], c.n)
	for _, f := range c.flags {
		var id queend.ID
		if f&flagTrace != 0 {
			id = p.id()
		}
		c.traces = append(c.traces, id)
	}
}

// appendTxn appends the transaction id of message i to dst.
func (c *columns) appendTxn(dst []byte, i int) []byte {
	switch c.flags[i] & (flagPacked | flagVerbatim) {
	case flagVerbatim:
		return append(dst, c.txnBytes[c.txns[i]:c.txns[i+1]]...)
	case flagPacked:
		at := 16 * c.packedAt[i]
		return queend.ID(c.packed[at : at+16]).Append(dst)
	}
	return c.ids[i].Append(dst)
}

// metaSize returns the bytes of transaction id, producer and headers of the
// messages from lo up to hi.
func (c *columns) metaSize(lo, hi int) int {
	size := int(c.txns[hi]-c.txns[lo]) + int(c.producers[hi]-c.producers[lo]) + int(c.headers[hi]-c.headers[lo])
	for _, f := range c.flags[lo:hi] {
		if f&flagVerbatim == 0 {
			size += 36
		}
	}
	return size
}

// message returns message i without its payload. Its bytes are appended to
// arena, which must have the room.
func (c *columns) message(i int, first queend.Offset, arena []byte) (Message, []byte) {
	f := c.flags[i]
	m := Message{
		Offset: first + queend.Offset(i), Time: c.times[i], ID: c.ids[i], TraceID: c.traces[i],
		HasProducer: f&flagProducer != 0, Encrypted: f&flagEncrypted != 0,
	}
	at := len(arena)
	arena = c.appendTxn(arena, i)
	m.TxnID, at = arena[at:len(arena):len(arena)], len(arena)
	if m.HasProducer {
		arena = append(arena, c.prodBytes[c.producers[i]:c.producers[i+1]]...)
		m.Producer, at = arena[at:len(arena):len(arena)], len(arena)
	}
	if f&flagHeaders != 0 {
		arena = append(arena, c.headBytes[c.headers[i]:c.headers[i+1]]...)
		m.Headers = arena[at:len(arena):len(arena)]
	}
	return m, arena
}
