package broker

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"queend/segment"
)

// FuzzSpoolFile drains a spool file of any bytes: every byte behind the magic
// is in a record or set aside, in order, and the reading comes to an end.
func FuzzSpoolFile(f *testing.F) {
	path := filepath.Join(f.TempDir(), "1"+spoolSuffix)
	f.Add([]byte(spoolMagic))
	f.Add([]byte("QSPOOL02"))
	for _, ev := range exampleEvents() {
		if p, ok := ev.(*pushed); ok {
			f.Add(spoolOf(p))
			f.Add(append(spoolOf(p)[:60], spoolOf(p)[20:]...))
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := countSpool(path, int64(len(spoolMagic))); err != nil {
			t.Fatal(err)
		}
		r, err := openSpool(path, int64(len(spoolMagic)))
		if err != nil {
			return
		}
		defer r.f.Close()
		at := min(int64(len(spoolMagic)), int64(len(file)))
		for {
			rec, damaged, err := r.next()
			switch {
			case err == io.EOF:
				if at != int64(len(file)) {
					t.Fatalf("the end is at %d of %d bytes", at, len(file))
				}
				return
			case errors.Is(err, errSpoolDamaged):
				if len(damaged) == 0 || !bytes.Equal(damaged, file[at:at+int64(len(damaged))]) {
					t.Fatalf("set aside %q at %d", damaged, at)
				}
				at += int64(len(damaged))
			case err != nil:
				t.Fatal(err)
			case rec.at != at || rec.end <= at:
				t.Fatalf("a record from %d to %d, behind %d", rec.at, rec.end, at)
			default:
				at = rec.end
			}
		}
	})
}

// spoolOf is a spool file with the messages of an event.
func spoolOf(p *pushed) []byte {
	file := []byte(spoolMagic)
	for _, raw := range p.raws {
		var m segment.Message
		readMessage(&decoder{buf: raw}, &m)
		file = spoolRecord(file, DefaultTenant, &PushItem{Queue: "q", Partition: "p"}, &m)
	}
	return file
}
