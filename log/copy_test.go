package log

import (
	"path/filepath"
	"testing"

	"queend"
)

func TestACopyHoldsExactlyItsSpan(t *testing.T) {
	d := newDisk(t)
	l, _ := d.open(t)
	add(t, l, 3)
	rolled(t, l, 2)
	addGroup(t, l, 5)
	for _, span := range []Span{{1, 8}, {2, 5}, {4, 4}, {6, 5}, {1, 0}} {
		to := diskAt(t.TempDir())
		must(t, Copy(d.c.Dir, span, to.c.Dir))
		to.after = span.First - 1
		if _, rec := to.open(t); rec.Last != span.Last || rec.First != span.First {
			t.Errorf("%v: recovered %+v", span, rec)
		}
	}
	if err := Copy(d.c.Dir, Span{1, queend.LSN(9)}, filepath.Join(t.TempDir(), "wal")); err == nil {
		t.Error("record 9 is not there and was copied")
	}
}
