package broker

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"queend"
	"queend/log"
	"queend/sched"
)

// Config is what a broker is opened with. Zero values mean the defaults of
// docs/configuration.md, but for Dir and Now, which must be set.
type Config struct {
	Dir  string       // data directory
	Now  func() int64 // microseconds since 1970; monotonic while the process runs
	Rand *rand.Rand   // for ids; used under the broker's lock only; nil: seeded by the system
	Log  *slog.Logger // nil: discards

	Sync         log.SyncMode
	SyncInterval time.Duration

	DefaultTimeoutMS   int64  // DEFAULT_TIMEOUT, 0: 30000
	ReplyMarginMS      int64  // QUEEN_POP_REPLY_MARGIN_MS, 0: 50
	DefaultMode        string // DEFAULT_SUBSCRIPTION_MODE, "": new
	PopMaxBytes        int64  // QUEEN_POP_MAX_BYTES, 0: 64 MiB
	EntryMaxBytes      int64  // QUEEN_ENTRY_MAX_BYTES, 0: 96 MiB
	QuietWindow        bool   // QUEEN_HOTLIST off (R51)
	WindowBatch        int64  // QUEEN_HOTLIST_WINDOW_BATCH, 0: 100
	Autopilot          string // QUEEN_POP_AUTOPILOT: on, off, shadow; "": on
	AutopilotBatch     int    // 0: 100
	TxnWindowSeconds   int64  // QUEEN_TXN_WINDOW_MIN_S, 0: 900
	DedupCacheBytes    int64  // 0: 512 MiB
	TailBytes          int64  // QUEEN_TAIL_MB, 0: 64 MiB
	SegmentBytes       int64  // QUEEN_SEGMENT_BYTES, 0: 64 MiB
	ZstdLevel          int    // 0: 1
	SealAgeSeconds     int64  // QUEEN_SEAL_AGE_S, 0: 600
	CheckpointBytes    int64  // QUEEN_CHECKPOINT_MB, 0: 128 MiB
	CheckpointSeconds  int64  // QUEEN_CHECKPOINT_S, 0: 30
	RetentionMS        int64  // RETENTION_INTERVAL, 0: 5000
	CleanupDays        int64  // PARTITION_CLEANUP_DAYS, 0: 30
	CleanupOff         bool   // QUEEN_PARTITION_CLEANUP_ENABLED=false
	EncryptionKey      []byte // 32 bytes; nil: none
	EncryptionRequired bool
	IV                 io.Reader // randomness of encryption; nil: crypto/rand
	DiskHighPct        int64     // 0: 85
	DiskLowPct         int64     // 0: 80
	AdmitBytes         int64     // QUEEN_ADMIT_MAX_MB, 0: 128 MiB; negative: no budget
	AdmitHoldMS        int64     // 0: 15000
	LogSegmentBytes    int       // size of a file of the log, 0: 4 MiB
	SpoolDir           string    // of push maintenance, "": spool in Dir
	// TraceRetentionSeconds is QUEEN_TRACE_RETENTION_S; 0: for ever.
	TraceRetentionSeconds int64
	HistoryDays           int64 // METRICS_RETENTION_DAYS; 0: no history of traffic is kept
	HistoryFlushMS        int64 // METRICS_FLUSH_MS, 0: 60000, at most an hour
	// Manual opens without goroutines: Tick and Maintain do their work.
	Manual bool
	// StatDisk measures the file system of a directory, in bytes; nil: the
	// system's answer.
	StatDisk func(dir string) (used, total uint64, err error)
	// OnFail is called once when the log failed: the process must end.
	OnFail func(error)
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func (c *Config) fill() {
	orDefault(&c.DefaultTimeoutMS, 30000)
	orDefault(&c.ReplyMarginMS, 50)
	orDefault(&c.DefaultMode, "new")
	orDefault(&c.PopMaxBytes, 64<<20)
	orDefault(&c.EntryMaxBytes, 96<<20)
	orDefault(&c.WindowBatch, 100)
	orDefault(&c.Autopilot, "on")
	orDefault(&c.AutopilotBatch, 100)
	orDefault(&c.TxnWindowSeconds, 900)
	orDefault(&c.DedupCacheBytes, 512<<20)
	orDefault(&c.TailBytes, 64<<20)
	orDefault(&c.SegmentBytes, 64<<20)
	orDefault(&c.ZstdLevel, 1)
	orDefault(&c.SealAgeSeconds, 600)
	orDefault(&c.CheckpointBytes, 128<<20)
	orDefault(&c.CheckpointSeconds, 30)
	orDefault(&c.RetentionMS, 5000)
	orDefault(&c.CleanupDays, 30)
	orDefault(&c.DiskHighPct, 85)
	orDefault(&c.DiskLowPct, 80)
	orDefault(&c.AdmitBytes, 128<<20)
	orDefault(&c.AdmitHoldMS, 15000)
	orDefault(&c.HistoryFlushMS, 60000)
	c.HistoryFlushMS = min(c.HistoryFlushMS, Hour/Millisecond)
	c.HistoryDays = min(c.HistoryDays, 36500)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Rand == nil {
		c.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if c.IV == nil {
		c.IV = crand.Reader
	}
	if c.StatDisk == nil {
		c.StatDisk = statDisk
	}
	if c.OnFail == nil {
		c.OnFail = func(error) {}
	}
}

// Broker is an open data directory. Its methods are safe for concurrent use.
//
// One lock guards the state: plan, append and apply happen under it, disk and
// network never. What waits for the disk waits outside, on the log.
type Broker struct {
	cfg Config

	mu       sync.Mutex
	clock    timekeeper
	state    state
	live     bool // replay has ended; derived structures are kept up to date
	log      *log.Log
	wheel    *sched.Wheel
	delivery delivery
	storage  storage
	tracker  tracker
	meters   meters
	vault    vault
	spool    spool

	traceNames traceNames
	history    history
	bootTime   int64 // that the start took, microseconds

	alarm chan struct{} // told when the wheel's next entry may have come nearer
	quit  chan struct{}
	done  sync.WaitGroup
}

// timekeeper is what the broker knows about time; under its lock.
type timekeeper struct {
	now  int64 // highest value given
	read int64 // last value of Config.Now
	lead int64 // what has to be added to it, since it went back
}

// burstLead is how far stamps of records that follow each other within
// microseconds may run ahead of the clock without it having gone back.
const burstLead = 10 * Millisecond

// now is the broker's clock: it never goes back, not even over a restart, and
// it never stands still. Where Config.Now goes back, or starts below the stamp
// of the newest record, time goes on from where it was.
func (b *Broker) now() int64 {
	c, read := &b.clock, b.cfg.Now()
	if read < c.read {
		c.lead += c.read - read
	}
	c.read = read
	if behind := b.state.lastStamp - (read + c.lead); behind > burstLead {
		c.lead += behind
	}
	c.now = max(c.now, read+c.lead, b.state.lastStamp)
	return c.now
}

// bundle collects the events of one record.
type bundle struct {
	e     encoder
	stamp int64
	count totals
	// How many numbers of each kind its events have taken (reserve).
	queues, partitions, groups uint64
	boxes                      map[queend.QueueID]*letterBox
}

// begin starts a record stamped now. Stamps rise by at least a microsecond,
// so a stamp tells which record a message came with.
func (b *Broker) begin() *bundle {
	t := &bundle{stamp: max(b.now(), b.state.lastStamp+1)}
	t.e.fixed64(uint64(t.stamp))
	return t
}

// add encodes an event into the record.
func (t *bundle) add(ev event) { ev.encode(&t.e) }

// empty reports whether nothing was added.
func (t *bundle) empty() bool { return len(t.e.buf) == 8 }

// size is the bytes collected so far.
func (t *bundle) size() int { return len(t.e.buf) }

// commit appends the record to the log and applies it, by decoding what was
// encoded: live and replayed state come from the same bytes. The caller holds
// the lock and answers only after await(lsn). An empty bundle changes nothing.
func (b *Broker) commit(t *bundle) queend.LSN {
	if t.empty() {
		return b.log.Last()
	}
	if t.count != (totals{}) {
		t.add(&counted{t.count})
	}
	lsn := b.log.Append(t.e.buf)
	b.applyRecord(t.e.buf)
	return lsn
}

// applyRecord applies a record the broker wrote itself.
func (b *Broker) applyRecord(rec []byte) {
	stamp := int64(binary.LittleEndian.Uint64(rec))
	if _, err := decodeRecord(rec, func(ev event) { ev.apply(b, stamp) }); err != nil {
		panic("broker: own record does not decode: " + err.Error())
	}
	b.state.lastStamp = max(b.state.lastStamp, stamp)
}

// await returns when everything up to lsn is durable. An answer that wrote
// nothing waits for the last record appended when it looked: it may rest on
// an event that is not durable yet.
func (b *Broker) await(ctx context.Context, lsn queend.LSN) error {
	if err := b.log.Wait(ctx, lsn); err != nil {
		if ctx.Err() != nil {
			return refuse(CodeTimeout, "deadline passed; the write may have happened")
		}
		return err
	}
	return nil
}

// newID mints a UUIDv7 for the millisecond of now. The caller holds the lock.
func (b *Broker) newID(now int64) queend.ID {
	var id queend.ID
	ms := uint64(now / Millisecond)
	binary.BigEndian.PutUint64(id[0:8], ms<<16)
	binary.BigEndian.PutUint16(id[6:8], 0x7000|uint16(b.cfg.Rand.Uint32())&0x0fff)
	binary.BigEndian.PutUint64(id[8:16], 0x8000000000000000|b.cfg.Rand.Uint64()>>2)
	return id
}
