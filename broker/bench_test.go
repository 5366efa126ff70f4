package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"queend"
	"queend/log"
)

// benchPush measures pushes of n items of 256 bytes by parallel callers over
// 64 partitions, without waiting for the disk. All items of a push go to one
// partition, or each to another one of 6,400.
func benchPush(b *testing.B, n int, spread bool) {
	br, err := Open(Config{
		Dir: b.TempDir(), Now: func() int64 { return time.Now().UnixMicro() }, Sync: log.SyncNever,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer br.Close(context.Background())
	payload := []byte(fmt.Sprintf(`{"text":"%0240d"}`, 7))
	var callers atomic.Uint64
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		rnd := rand.New(rand.NewPCG(callers.Add(1), 0))
		items := make([]PushItem, n)
		for pb.Next() {
			name := fmt.Sprintf("p%d", rnd.IntN(64))
			for i := range items {
				var id queend.ID
				for j := range id {
					id[j] = byte(rnd.Uint32())
				}
				if spread {
					name = fmt.Sprintf("p%d", rnd.IntN(6400))
				}
				items[i] = PushItem{Queue: "bench", Partition: name, TxnID: id.Append(nil), Payload: payload}
			}
			if _, err := br.Push(context.Background(), DefaultTenant, nil, items); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "msg/s")
}

func BenchmarkPush1(b *testing.B)         { benchPush(b, 1, false) }
func BenchmarkPush100(b *testing.B)       { benchPush(b, 100, false) }
func BenchmarkPush100Spread(b *testing.B) { benchPush(b, 100, true) }
