package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"queend"
)

// errDamagedRecord is wrapped by every error of the decoder.
var errDamagedRecord = errors.New("damaged record")

// encoder appends values to a byte slice. Integers are uvarints, signed ones
// zigzag; byte strings carry their length in front.
type encoder struct{ buf []byte }

func (e *encoder) byte(v byte)            { e.buf = append(e.buf, v) }
func (e *encoder) uint(v uint64)          { e.buf = binary.AppendUvarint(e.buf, v) }
func (e *encoder) int(v int64)            { e.buf = binary.AppendVarint(e.buf, v) }
func (e *encoder) id(v queend.ID)         { e.buf = append(e.buf, v[:]...) }
func (e *encoder) fixed64(v uint64)       { e.buf = binary.LittleEndian.AppendUint64(e.buf, v) }
func (e *encoder) offset(v queend.Offset) { e.int(int64(v)) }

// grow makes room for n more bytes.
func (e *encoder) grow(n int) { e.buf = slices.Grow(e.buf, n) }

func (e *encoder) bytes(v []byte) {
	e.uint(uint64(len(v)))
	e.buf = append(e.buf, v...)
}

func (e *encoder) string(v string) {
	e.uint(uint64(len(v)))
	e.buf = append(e.buf, v...)
}

func (e *encoder) bool(v bool) {
	if v {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

// decoder reads what encoder wrote. After the first error every read gives
// zero; err says what was wrong. Slices it returns alias its input.
type decoder struct {
	buf []byte
	err error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", errDamagedRecord, what)
	}
	d.buf = nil
}

func (d *decoder) byte() byte {
	if len(d.buf) < 1 {
		d.fail("ends inside a byte")
		return 0
	}
	v := d.buf[0]
	d.buf = d.buf[1:]
	return v
}

func (d *decoder) bool() bool { return d.byte() != 0 }

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.buf)
	if n <= 0 {
		d.fail("bad number")
		return 0
	}
	d.buf = d.buf[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.buf)
	if n <= 0 {
		d.fail("bad number")
		return 0
	}
	d.buf = d.buf[n:]
	return v
}

// partition reads the number of a partition that the state is to have.
func (d *decoder) partition() queend.PartitionID {
	id := queend.PartitionID(d.uint())
	if d.err == nil && (id == 0 || id > maxPartitionID) {
		d.fail(fmt.Sprintf("partition %d", id))
	}
	return id
}

func (d *decoder) offset() queend.Offset { return queend.Offset(d.int()) }

func (d *decoder) fixed64() uint64 {
	if len(d.buf) < 8 {
		d.fail("ends inside a number")
		return 0
	}
	v := binary.LittleEndian.Uint64(d.buf)
	d.buf = d.buf[8:]
	return v
}

func (d *decoder) id() queend.ID {
	if len(d.buf) < 16 {
		d.fail("ends inside an id")
		return queend.ID{}
	}
	v := queend.ID(d.buf[:16])
	d.buf = d.buf[16:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.uint()
	if n > uint64(len(d.buf)) {
		d.fail("a length runs past the end")
		return nil
	}
	v := d.buf[:n:n]
	d.buf = d.buf[n:]
	return v
}

func (d *decoder) string() string { return string(d.bytes()) }

// count reads the number of things that follow, each at least size bytes, so
// that a damaged number cannot make the caller allocate.
func (d *decoder) count(size int) int {
	n := d.uint()
	if n > uint64(len(d.buf)/size) {
		d.fail("a count runs past the end")
		return 0
	}
	return int(n)
}
