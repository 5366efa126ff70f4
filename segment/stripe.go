package segment

import (
	"encoding/binary"

	"queend"
)

// stripeBuilder collects the messages of one stripe. Its memory is at most
// about 4 MiB and two payloads: id columns up to a block, the payload block
// being filled, and the stored blocks, which wait because the id block with
// their directory precedes them.
type stripeBuilder struct {
	partition  queend.PartitionID
	first      queend.Offset
	blockBytes int
	level      int

	n                                 int
	flags, times, ids, payloadLengths []byte
	txnLengths, packed, traces        []byte
	producerLengths, headerLengths    []byte
	txns, producers, headers          []byte

	lastTime int64
	runFrom  queend.ID // of the open run in ids
	runNext  queend.ID // what continues it
	runStep  uint64
	runCount uint64

	payloadBytes int    // of all payloads
	raw          []byte // payload block being filled
	rawCount     int    // its messages
	blocks       []byte // directory
	blockCount   int
	stored       []byte // payload blocks that are finished
	block        []byte // scratch for the id block
	out          []byte // scratch for its stored form
}

// reset empties the builder for the stripe that starts at first.
func (s *stripeBuilder) reset(p queend.PartitionID, first queend.Offset) {
	s.partition, s.first, s.n = p, first, 0
	for _, b := range []*[]byte{
		&s.flags, &s.times, &s.ids, &s.payloadLengths, &s.txnLengths, &s.packed, &s.traces,
		&s.producerLengths, &s.headerLengths, &s.txns, &s.producers, &s.headers,
		&s.raw, &s.blocks, &s.stored,
	} {
		*b = (*b)[:0]
	}
	s.lastTime, s.runCount, s.runStep = 0, 0, 0
	s.payloadBytes, s.rawCount, s.blockCount = 0, 0, 0
}

// columnBytes is about what the id block has so far.
func (s *stripeBuilder) columnBytes() int {
	return len(s.flags) + len(s.times) + len(s.ids) + len(s.payloadLengths) + len(s.txnLengths) +
		len(s.packed) + len(s.traces) + len(s.producerLengths) + len(s.headerLengths) +
		len(s.txns) + len(s.producers) + len(s.headers) + len(s.blocks)
}

// fits reports whether m may join the messages that the stripe has.
func (s *stripeBuilder) fits(m *Message) bool {
	if s.n == 0 {
		return true
	}
	columns := s.columnBytes() + 80 + len(m.TxnID) + len(m.Producer) + len(m.Headers)
	return columns <= s.blockBytes && s.payloadBytes+len(m.Payload) <= maxStripePayload
}

// add appends the next message. Nothing of m is kept but copies.
func (s *stripeBuilder) add(m *Message) {
	flags := s.addTxn(m)
	if m.Encrypted {
		flags |= flagEncrypted
	}
	if !m.TraceID.IsZero() {
		flags |= flagTrace
		s.traces = append(s.traces, m.TraceID[:]...)
	}
	if m.HasProducer {
		flags |= flagProducer
		s.producerLengths = binary.AppendUvarint(s.producerLengths, uint64(len(m.Producer)))
		s.producers = append(s.producers, m.Producer...)
	}
	if m.Headers != nil {
		flags |= flagHeaders
		s.headerLengths = binary.AppendUvarint(s.headerLengths, uint64(len(m.Headers)))
		s.headers = append(s.headers, m.Headers...)
	}
	s.flags = append(s.flags, flags)
	s.times = binary.AppendVarint(s.times, m.Time-s.lastTime)
	s.lastTime = m.Time
	s.addID(m.ID)
	s.addPayload(m)
	s.n++
}

// addTxn stores the transaction id in the shortest way that gives the same
// bytes back, and returns the flags that say which.
func (s *stripeBuilder) addTxn(m *Message) byte {
	if id, ok := packUUID(m.TxnID); ok {
		if id == m.ID {
			return 0
		}
		s.packed = append(s.packed, id[:]...)
		return flagPacked
	}
	s.txnLengths = binary.AppendUvarint(s.txnLengths, uint64(len(m.TxnID)))
	s.txns = append(s.txns, m.TxnID...)
	return flagVerbatim
}

// addID lets the id join the open run or starts another. The second id of a run
// decides its step.
func (s *stripeBuilder) addID(id queend.ID) {
	switch {
	case s.runCount == 1 && id == s.runFrom:
		s.runStep = 0
	case s.runCount == 1 && id == stepID(s.runFrom, 1):
		s.runStep = 1
	case s.runCount > 1 && id == s.runNext:
	default:
		s.closeRun()
		s.runFrom = id
	}
	s.runCount++
	s.runNext = stepID(id, s.runStep)
}

func (s *stripeBuilder) closeRun() {
	if s.runCount == 0 {
		return
	}
	s.ids = binary.AppendUvarint(s.ids, s.runCount<<1|s.runStep)
	s.ids = append(s.ids, s.runFrom[:]...)
	s.runCount, s.runStep = 0, 0
}

// addPayload puts the payload in the open block, or in blocks of its own if it
// is over what one block may hold.
func (s *stripeBuilder) addPayload(m *Message) {
	p := m.Payload
	if m.Gone {
		p = nil
	}
	s.payloadLengths = binary.AppendUvarint(s.payloadLengths, uint64(len(p)))
	s.payloadBytes += len(p)
	if s.rawCount > 0 && len(s.raw)+len(p) > s.blockBytes {
		s.closePayload()
	}
	if len(p) < maxBlock {
		s.raw = append(s.raw, p...)
		s.rawCount++
		return
	}
	for count := 1; len(p) > 0; count = 0 {
		piece := p[:min(len(p), maxBlock)]
		p = p[len(piece):]
		s.putPayload(piece, count)
	}
}

// closePayload finishes the open payload block.
func (s *stripeBuilder) closePayload() {
	if s.rawCount > 0 {
		s.putPayload(s.raw, s.rawCount)
	}
	s.raw, s.rawCount = s.raw[:0], 0
}

// putPayload stores a payload block in which count messages start.
func (s *stripeBuilder) putPayload(raw []byte, count int) {
	var x extent
	s.blockCount++
	s.stored, x = appendBlock(s.stored, s.partition, s.first, s.blockCount, raw, s.level)
	s.blocks = binary.AppendUvarint(s.blocks, uint64(count))
	s.blocks = binary.AppendUvarint(s.blocks, x.pack())
}

// finish returns the stored id block with its extent, and the stored payload
// blocks. Both slices are the builder's, valid until reset.
func (s *stripeBuilder) finish() (ids []byte, x extent, payload []byte) {
	s.closeRun()
	if s.payloadBytes > 0 {
		s.closePayload()
	}
	b := append(s.block[:0], s.flags...)
	b = append(b, s.times...)
	b = append(b, s.ids...)
	b = append(b, s.payloadLengths...)
	b = binary.AppendUvarint(b, uint64(s.blockCount))
	for _, column := range [][]byte{
		s.blocks, s.txnLengths, s.packed, s.traces, s.producerLengths, s.headerLengths,
		s.txns, s.producers, s.headers,
	} {
		b = append(b, column...)
	}
	s.block = b
	s.out, x = appendBlock(s.out[:0], s.partition, s.first, 0, b, s.level)
	return s.out, x, s.stored
}
