package log

import (
	"fmt"
	"testing"

	"queend"
)

// BenchmarkAppendWait is one durable record of 300 bytes, with so many goroutines
// waiting at a time for each processor.
func BenchmarkAppendWait(b *testing.B) {
	for _, waiters := range []int{1, 100, 2000} {
		b.Run(fmt.Sprint(waiters), func(b *testing.B) {
			l, _, err := Open(diskAt(b.TempDir()).c, 0, func(queend.LSN, []byte) error { return nil })
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(300)
			b.ReportAllocs()
			b.SetParallelism(waiters)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := l.Wait(b.Context(), l.Append(make([]byte, 300))); err != nil {
						b.Error(err)
						return
					}
				}
			})
			s := l.Stats()
			b.ReportMetric(float64(s.Records)/float64(s.Groups), "records/group")
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkBoot reads records of 300 bytes in groups of 100.
func BenchmarkBoot(b *testing.B) {
	c := diskAt(b.TempDir()).c
	c.Sync, c.GroupBytes = SyncNever, 30500
	l, _, err := Open(c, 0, nil)
	if err != nil {
		b.Fatal(err)
	}
	const records = 200_000
	for range records {
		l.Append(make([]byte, 300))
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(records * 300)
	for b.Loop() {
		l, rec, err := Open(c, 0, func(queend.LSN, []byte) error { return nil })
		if err != nil || rec.Records != records {
			b.Fatal(err, rec)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
