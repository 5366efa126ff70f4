package segment

import (
	"encoding/binary"

	"queend"
)

// parser takes values off the front of b. After the first that is not there it
// yields zeros and bad stays set, so callers check once per group of values, and
// always before they allocate by a value.
type parser struct {
	b   []byte
	bad bool
}

func (p *parser) uvarint() uint64 {
	v, n := binary.Uvarint(p.b)
	if n <= 0 {
		p.fail()
		return 0
	}
	p.b = p.b[n:]
	return v
}

func (p *parser) varint() int64 {
	v, n := binary.Varint(p.b)
	if n <= 0 {
		p.fail()
		return 0
	}
	p.b = p.b[n:]
	return v
}

// take returns the next n bytes, a part of b.
func (p *parser) take(n uint64) []byte {
	if n > uint64(len(p.b)) {
		p.fail()
		return nil
	}
	v := p.b[:n:n]
	p.b = p.b[n:]
	return v
}

func (p *parser) id() (id queend.ID) {
	copy(id[:], p.take(uint64(len(id))))
	return id
}

func (p *parser) fail() { p.b, p.bad = nil, true }
