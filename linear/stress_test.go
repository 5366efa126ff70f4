package linear

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"queend/broker"
	"queend/log"
)

// shape is how many clients there are for how many partitions.
type shape struct {
	name    string
	clients int
	queues  int // of each sort
	parts   int // of each queue
}

var shapes = []shape{
	{"many clients, few partitions", 48, 1, 2},
	{"few clients, many partitions", 6, 3, 60},
}

// TestStress: whatever happens at once, nothing is lost, nothing is delivered
// twice under live leases, no pop is left standing, and the broker opens again
// as it was closed.
func TestStress(t *testing.T) {
	total := duration(t, "STRESS_TIME", 4*time.Second)
	first := seed(t, "STRESS_SEED")
	for i, end := 0, time.Now().Add(total); i < len(shapes) || time.Now().Before(end); i++ {
		sh, s := shapes[i%len(shapes)], first+uint64(i)
		t.Run(fmt.Sprintf("%s, STRESS_SEED=%d", sh.name, s), func(t *testing.T) {
			x := newStress(t, sh, s)
			x.run(min(total/2, 15*time.Second))
		})
		if t.Failed() {
			return
		}
	}
}

// stress is one run.
type stress struct {
	*testing.T
	shape
	seed    uint64
	cfg     broker.Config
	b       *broker.Broker
	ledger  *ledger
	stop    atomic.Bool
	crew    sync.WaitGroup
	pops    atomic.Int64
	empties atomic.Int64
	breaks  atomic.Int64
}

// Exact queues keep everything, so what was pushed can be asked for. On the
// others everything goes: seeks, retention, deletion of groups and queues.
const (
	exactQueue = "exact"
	wildQueue  = "wild"
)

var stressGroups = []string{broker.QueueMode, "ledger"}

func newStress(t *testing.T, sh shape, seed uint64) *stress {
	start, wall := time.Now(), time.Now().UnixMicro()
	x := &stress{T: t, shape: sh, seed: seed, ledger: newLedger()}
	x.cfg = broker.Config{
		Dir: t.TempDir(), Now: func() int64 { return wall + time.Since(start).Microseconds() }, Sync: log.SyncNever,
		TailBytes: 64 << 10, SegmentBytes: 128 << 10, SealAgeSeconds: 1, CheckpointBytes: 256 << 10, CheckpointSeconds: 1,
		DedupCacheBytes: 64 << 10, RetentionMS: 100, DiskHighPct: 99, DiskLowPct: 98,
		OnFail: func(err error) { t.Errorf("the broker failed: %v", err) },
	}
	return x
}

func (x *stress) must(err error) {
	x.Helper()
	if err != nil {
		x.Fatal(err)
	}
}

func (x *stress) open() {
	x.Helper()
	b, err := broker.Open(x.cfg)
	x.must(err)
	x.b = b
}

func (x *stress) run(length time.Duration) {
	before := runtime.NumGoroutine()
	x.open()
	defer func() {
		if x.b != nil {
			_ = x.b.Close(context.Background()) // the run failed already
		}
	}()
	for i := range x.queues {
		x.must(x.configure(context.Background(), queueName(exactQueue, i), exactOptions(nil)))
	}
	for i := range x.clients {
		x.crew.Go(func() { x.client(random(x.seed, i)) })
	}
	x.crew.Go(x.maintainer)
	x.crew.Go(x.watcher)
	x.crew.Go(func() { x.chaos(random(x.seed, 1000)) })
	for end := time.Now().Add(length); time.Now().Before(end) && !x.Failed(); {
		time.Sleep(20 * time.Millisecond)
	}
	x.stop.Store(true)
	x.crew.Wait()
	if x.Failed() {
		return
	}
	x.cancelStorm()
	x.settleDown()
	x.reopens()
	x.must(x.b.Close(context.Background()))
	x.b = nil
	x.noGoroutines(before)
	x.Logf("%d pushed, %d pops with messages, %d empty, %d cancelled", x.ledger.size(), x.pops.Load(), x.empties.Load(), x.breaks.Load())
}

// noGoroutines waits until all that the broker started is gone.
func (x *stress) noGoroutines(before int) {
	x.Helper()
	for end := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			x.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}

func queueName(sort string, i int) string { return fmt.Sprint(sort, ".", i) }

func isExact(queue string) bool { return strings.HasPrefix(queue, exactQueue) }

// maintainer does background work far more often than it is due.
func (x *stress) maintainer() {
	for !x.stop.Load() {
		if err := x.b.Maintain(); err != nil {
			x.Errorf("maintain: %v", err)
			return
		}
		time.Sleep(3 * time.Millisecond)
	}
}

func (x *stress) configure(ctx context.Context, queue string, settings []broker.Setting) error {
	_, err := x.b.Configure(ctx, broker.Configure{Tenant: broker.DefaultTenant, Queue: queue, Settings: settings})
	return err
}

// exactOptions change when a message comes, never whether.
func exactOptions(rng *rand.Rand) []broker.Setting {
	s := []broker.Setting{number64("retryLimit", 1<<40), number64("leaseTime", 1)}
	seldom := func(n int64) int64 { return max(0, rng.Int64N(6*n)-5*n) }
	if rng != nil {
		s = append(s, number64("delayedProcessing", seldom(2)), number64("windowBuffer", seldom(2)),
			number64("minPopWaitTime", rng.Int64N(30)), number64("redeliveryDelayMs", rng.Int64N(20)), number64("leaseTime", 1+rng.Int64N(2)))
	}
	return s
}

// wildOptions may be anything.
func wildOptions(rng *rand.Rand) []broker.Setting {
	return append(exactOptions(rng),
		number64("retryLimit", rng.Int64N(3)), broker.Setting{Name: "retentionEnabled", Bool: rng.IntN(2) == 0},
		number64("retentionSeconds", rng.Int64N(3)), number64("completedRetentionSeconds", rng.Int64N(3)),
		number64("maxWaitTimeSeconds", rng.Int64N(4)), number64("dedupWindowSeconds", rng.Int64N(5)), number64("maxDeliveries", rng.Int64N(4)))
}

// chaos changes the queues under everybody's hands.
func (x *stress) chaos(rng *rand.Rand) {
	ctx := context.Background()
	for !x.stop.Load() {
		time.Sleep(time.Duration(rng.IntN(40)) * time.Millisecond)
		wild, exact := queueName(wildQueue, rng.IntN(x.queues)), queueName(exactQueue, rng.IntN(x.queues))
		group := stressGroups[rng.IntN(len(stressGroups))]
		var err error
		switch n := rng.IntN(12); {
		case n < 3:
			err = x.configure(ctx, exact, exactOptions(rng))
		case n < 6:
			err = x.configure(ctx, wild, wildOptions(rng))
		case n < 8:
			err = x.ledger.upsetting(wild, []string{group}, x.cfg.Now, func() error {
				_, err := x.b.SeekQueue(ctx, broker.DefaultTenant, group, wild, broker.SeekTarget{
					ToEnd: rng.IntN(2) == 0, At: x.cfg.Now() - rng.Int64N(5*broker.Second),
				})
				return err
			})
		case n < 10:
			err = x.ledger.upsetting(wild, []string{group}, x.cfg.Now, func() error {
				_, err := x.b.DeleteGroup(ctx, broker.DefaultTenant, group, &wild, rng.IntN(2) == 0)
				return err
			})
		case n < 11:
			err = x.ledger.upsetting(wild, stressGroups, x.cfg.Now, func() error {
				_, err := x.b.DeleteQueue(ctx, broker.DefaultTenant, wild)
				return err
			})
		default:
			_, err = x.b.Queues(ctx, broker.DefaultTenant)
		}
		if err != nil {
			x.Errorf("chaos: %v", err)
			return
		}
	}
	for i := range x.queues { // what retention removes later would differ after a restart
		x.must(x.configure(ctx, queueName(wildQueue, i), exactOptions(nil)))
		x.must(x.configure(ctx, queueName(exactQueue, i), exactOptions(nil)))
	}
}
