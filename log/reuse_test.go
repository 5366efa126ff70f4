package log

import (
	"testing"
	"unsafe"
)

// The pinned version of the library must be laid out as tailBuffer expects, and
// file after file must be collected in the one buffer.
func TestTheLibraryCollectsEveryFileInOneBuffer(t *testing.T) {
	d := newDisk(t)
	d.c.SegmentBytes = 1 << 10
	l, _ := d.open(t)
	files := map[uint64]bool{}
	for range 50 {
		addGroup(t, l, 3)
		files[l.writer.segment] = true
		tail := tailBuffer(l.writer.wal)
		if tail == nil {
			t.Fatal("the library is laid out in another way")
		}
		if unsafe.SliceData(*tail) != unsafe.SliceData(l.writer.tail) {
			t.Fatalf("file %d is collected elsewhere", l.writer.segment)
		}
	}
	if len(files) < 3 {
		t.Fatalf("%d files are too few to show anything", len(files))
	}
}

// A group larger than the buffer takes memory of its own, once.
func TestAGroupLargerThanTheBufferIsWritten(t *testing.T) {
	d := newDisk(t)
	d.c.SegmentBytes = 64
	l, _ := d.open(t)
	addGroup(t, l, 200)
	addGroup(t, l, 2)
	if tail := tailBuffer(l.writer.wal); unsafe.SliceData(*tail) != unsafe.SliceData(l.writer.tail) {
		t.Error("the file after it does not use the buffer")
	}
	must(t, l.Close())
	if _, rec := d.open(t); rec.Last != 202 {
		t.Errorf("recovered %+v", rec)
	}
}
