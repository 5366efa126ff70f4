package segment

import (
	"io"
	"testing"
)

func payloadBytes(messages []Message) (n int64) {
	for _, m := range messages {
		n += int64(len(m.Payload))
	}
	return n
}

func BenchmarkEncode(b *testing.B) {
	messages := orders(1, 0, 20_000)
	b.SetBytes(payloadBytes(messages))
	b.ReportAllocs()
	for b.Loop() {
		w := NewWriter(io.Discard, 1, Config{})
		w.Begin(1, 1)
		for i := range messages {
			_ = w.Add(&messages[i])
		}
		_ = w.End()
		if _, err := w.Finish(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeOneMessageRuns(b *testing.B) {
	runs := onePerRun(10_000, 64)
	b.ReportAllocs()
	for b.Loop() {
		w := NewWriter(io.Discard, 1, Config{})
		for _, run := range runs {
			w.Begin(run.queue, run.partition)
			_ = w.Add(&run.messages[0])
			_ = w.End()
		}
		if _, err := w.Finish(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(runs)), "ns/run")
}

func BenchmarkMessages(b *testing.B) {
	messages := orders(1, 0, 20_000)
	file, entries := encode(b, Config{}, testRun{1, 1, messages})
	r, e := open(b, file), entries[0]
	for _, bench := range []struct {
		name  string
		limit int
	}{{"one", 1}, {"100", 100}, {"all", len(messages)}} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(payloadBytes(messages) * int64(bench.limit) / int64(len(messages)))
			b.ReportAllocs()
			from := e.First
			for b.Loop() {
				if _, err := r.Messages(e, from, bench.limit, 1<<30); err != nil {
					b.Fatal(err)
				}
				from = (from + 997) % 19_000
				if bench.limit == len(messages) {
					from = 0
				}
			}
		})
	}
}

func BenchmarkIDs(b *testing.B) {
	messages := orders(1, 0, 20_000)
	file, entries := encode(b, Config{}, testRun{1, 1, messages})
	r := open(b, file)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.IDs(entries[0]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(messages)), "ns/id")
}

func BenchmarkMerge(b *testing.B) {
	pieces := split(b, Config{}, orders(1, 0, 20_000), 10_000)
	b.SetBytes(int64(pieces[0].e.Bytes + pieces[1].e.Bytes))
	b.ReportAllocs()
	for b.Loop() {
		w := NewWriter(io.Discard, 1, Config{})
		w.Begin(1, 2)
		for _, p := range pieces {
			_ = w.Copy(p.r, p.e, 0, 0)
		}
		_ = w.End()
		if _, err := w.Finish(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFilter(b *testing.B) {
	messages := orders(1, 0, 20_000)
	file, entries := encode(b, Config{}, testRun{1, 1, messages})
	f, err := open(b, file).Filter(entries[0])
	if err != nil {
		b.Fatal(err)
	}
	id := []byte("checkout/1")
	h := Hash(id)
	for b.Loop() {
		h = h*31 + 7
		f.MayHold(id, h)
	}
}

func BenchmarkFindNewID(b *testing.B) {
	messages := orders(1, 0, 100_000)
	file, entries := encode(b, Config{}, testRun{1, 1, messages})
	r := open(b, file)
	id := []byte("checkout/1")
	h := Hash(id)
	b.ReportAllocs()
	for b.Loop() {
		h = h*31 + 7
		if _, err := r.Find(entries[0], id, h); err != nil {
			b.Fatal(err)
		}
	}
}
