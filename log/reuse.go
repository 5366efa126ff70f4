package log

import (
	"reflect"
	"unsafe"

	"github.com/tidwall/wal"
)

// The library keeps what it wrote to the open file in memory, and grows that
// buffer from nothing for every file: four times the bytes of the log are copied
// that way, and as many are left to the collector. It has no option for it, so
// the one buffer a writer needs is put where the library keeps its own.

// tailBuffer is where the library keeps the bytes of the file being written, nil
// when this version of the library is laid out in another way: then it grows its
// buffers as it always did, and nothing else changes.
func tailBuffer(lib *wal.Log) *[]byte {
	segments := reflect.ValueOf(lib).Elem().FieldByName("segments")
	if segments.Kind() != reflect.Slice || segments.Len() == 0 {
		return nil
	}
	last := segments.Index(segments.Len() - 1)
	if last.Kind() != reflect.Pointer || last.Elem().Kind() != reflect.Struct {
		return nil
	}
	buffer := last.Elem().FieldByName("ebuf")
	if buffer.Kind() != reflect.Slice || buffer.Type() != reflect.TypeFor[[]byte]() {
		return nil
	}
	return (*[]byte)(unsafe.Pointer(buffer.UnsafeAddr()))
}

// lendTail gives the library the writer's buffer for the file being written. No
// earlier file's entries may be in the library's memory: they were in the same
// buffer. The library is never asked to read.
func (w *writer) lendTail() {
	tail := tailBuffer(w.wal)
	if tail == nil {
		return
	}
	if w.tail == nil {
		// A group goes over the end of a file; one that is larger than this
		// makes the library take memory of its own until the next file.
		w.tail = make([]byte, 0, w.segmentBytes+w.segmentBytes/4)
	}
	if len(*tail) <= cap(w.tail) {
		*tail = append(w.tail[:0], *tail...)
	}
}
