package broker

import (
	"queend"
	"queend/segment"
)

// A message inside a pushed event:
//
//	| flags u8 | id 16 | [txn: length, bytes] | [trace 16] | [producer: length, bytes]
//	| [headers: length, bytes] | payload: length, bytes |
//
// A part in brackets is there when its flag is set; without flagTxn the
// transaction id is the text of the message id. Flags are on disk: add, never
// reuse.
const (
	flagTxn byte = 1 << iota
	flagTrace
	flagProducer
	flagHeaders
	flagEncrypted
)

// appendMessage encodes everything of m but offset and time.
func appendMessage(e *encoder, m *segment.Message) {
	at := len(e.buf)
	e.byte(0)
	e.id(m.ID)
	var flags byte
	if !isMinted(m.ID, m.TxnID) {
		flags |= flagTxn
		e.bytes(m.TxnID)
	}
	if !m.TraceID.IsZero() {
		flags |= flagTrace
		e.id(m.TraceID)
	}
	if m.HasProducer {
		flags |= flagProducer
		e.bytes(m.Producer)
	}
	if m.Headers != nil {
		flags |= flagHeaders
		e.bytes(m.Headers)
	}
	if m.Encrypted {
		flags |= flagEncrypted
	}
	e.bytes(m.Payload)
	e.buf[at] = flags
}

// isMinted reports whether a transaction id is the text of its message id.
func isMinted(id queend.ID, txn []byte) bool {
	if len(txn) != 36 || txn[35] != "0123456789abcdef"[id[15]&15] {
		return false // as most ids of clients, without writing the text
	}
	var text [36]byte
	return string(id.Append(text[:0])) == string(txn)
}

// readMessage decodes one message. Its slices alias the record, but for a
// transaction id made from the message id.
func readMessage(d *decoder, m *segment.Message) {
	flags := d.byte()
	m.ID = d.id()
	if flags&flagTxn != 0 {
		m.TxnID = d.bytes()
	} else {
		m.TxnID = m.ID.Append(nil)
	}
	if flags&flagTrace != 0 {
		m.TraceID = d.id()
	}
	if m.HasProducer = flags&flagProducer != 0; m.HasProducer {
		m.Producer = d.bytes()
	}
	if flags&flagHeaders != 0 {
		m.Headers = d.bytes()
	}
	m.Encrypted = flags&flagEncrypted != 0
	m.Payload = d.bytes()
}

// skipMessage returns the encoding of the next message and moves past it.
func skipMessage(d *decoder) []byte {
	before := d.buf
	flags := d.byte()
	d.id()
	if flags&flagTxn != 0 {
		d.bytes()
	}
	if flags&flagTrace != 0 {
		d.id()
	}
	if flags&flagProducer != 0 {
		d.bytes()
	}
	if flags&flagHeaders != 0 {
		d.bytes()
	}
	d.bytes()
	if d.err != nil {
		return nil
	}
	n := len(before) - len(d.buf)
	return before[:n:n]
}

// message decodes the message at off, which must be in the tail.
func (p *partition) message(off queend.Offset) segment.Message {
	t := p.inMemory()[off-p.tailFrom()]
	m := segment.Message{Offset: off, Time: t.time}
	readMessage(&decoder{buf: t.raw}, &m)
	return m
}

// txnAt returns the id and transaction id of the message at off in the tail.
func (p *partition) txnAt(off queend.Offset) (queend.ID, []byte) {
	d := decoder{buf: p.inMemory()[off-p.tailFrom()].raw}
	flags := d.byte()
	id := d.id()
	if flags&flagTxn != 0 {
		return id, d.bytes()
	}
	return id, id.Append(nil)
}
