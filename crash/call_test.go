package crash

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"queend"
	"queend/broker"
	"queend/log"
)

// call is one request to a broker, as it travels to the child process.
type call struct {
	ID    int
	Op    string // push, pop, ack, transaction, letters, replay, configure, spool, drain, maintain, advance
	Queue string
	Group string
	Items []item    // push, transaction
	Acks  []ackItem // ack, transaction
	Batch int       // pop
	Auto  bool      // pop: with autoAck
	Keep  int64     // configure: completedRetentionSeconds; 0: none
	N     int64     // configure: leaseTime; advance: seconds
	On    bool      // spool
	Of    string    // replay: id of the dead letter
}

// item is a message to push. Its payload is its id, in quotes and repeated.
type item struct{ Queue, Part, Txn string }

// payload is what is stored under a transaction id. Sizes differ.
func payload(txn string) string {
	text := `"` + txn
	for i := len(txn) * 7 % 23; i >= 0; i-- {
		text += "." + txn
	}
	return text + `"`
}

type ackItem struct {
	Txn, PartID, Lease string
	Signal             broker.Signal
	// For the history only:
	Queue, Part string
	Offset      int64
}

type reply struct {
	ID       int
	Err      string // nothing is known of what happened
	Refused  string // nothing happened
	Pushed   []pushed
	Messages []message
	Lease    string
	Acked    []acked
	Letters  []letter
	N        int64 // configure: leaseTime
}

type pushed struct {
	Status broker.PushStatus
	Offset int64
}

type message struct {
	Queue, Part, PartID, Txn, Payload string
	Offset                            int64
}

type acked struct {
	Success, DLQ bool
	Err          string
}

type letter struct {
	ID, Queue, Part, Group, Txn, Payload string
	Offset                               int64
}

// config is that of a broker under test, with limits so small that files are
// written, merged and dropped all the time.
func config(dir string, ahead *atomic.Int64) broker.Config {
	start := time.Now()
	wall := start.UnixMicro()
	return broker.Config{
		Dir: dir, Now: func() int64 { return wall + time.Since(start).Microseconds() + ahead.Load() },
		Sync: log.SyncAlways, TailBytes: 4 << 10, SegmentBytes: 24 << 10, CheckpointBytes: 12 << 10, CheckpointSeconds: 1,
		SealAgeSeconds: 2, RetentionMS: 100, DedupCacheBytes: 64 << 10, LogSegmentBytes: 6 << 10,
		StatDisk: func(string) (uint64, uint64, error) { return 1, 100, nil },
	}
}

// rig is a broker with its clock.
type rig struct {
	b     *broker.Broker
	ahead *atomic.Int64 // of the clock, microseconds
}

const patience = 20 * time.Second

// flushFailed is what an ack is told when the log could not be written: like
// any failure of the broker's it says nothing of what a start will find. The
// time between a cut and the end of the process is enough for such an answer.
const flushFailed = "ack flush failed; lease will expire and redeliver"

// do carries out a call.
func (r *rig) do(c *call) reply {
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	out := reply{ID: c.ID}
	err := r.run(ctx, c, &out)
	if refusal := (*broker.Refusal)(nil); errors.As(err, &refusal) && refusal.Code != broker.CodeTimeout {
		out.Refused = refusal.Text
	} else if err != nil {
		out.Err = err.Error()
	}
	return out
}

func (r *rig) run(ctx context.Context, c *call, out *reply) (err error) {
	tenant := broker.DefaultTenant
	switch c.Op {
	case "push":
		results, err := r.b.Push(ctx, tenant, nil, pushItems(c.Items))
		for _, p := range results {
			out.Pushed = append(out.Pushed, pushed{p.Status, int64(p.Offset)})
		}
		return err
	case "pop":
		res, err := r.b.Pop(ctx, broker.PopRequest{
			Tenant: tenant, Queue: c.Queue, Group: c.Group, Batch: c.Batch, Partitions: 64, Mode: "all", AutoAck: c.Auto,
		})
		if err != nil {
			return err
		}
		out.Lease = res.LeaseID.String()
		for i := range res.Messages {
			m := &res.Messages[i]
			out.Messages = append(out.Messages, message{
				m.Queue, m.Partition, m.PartitionUUID.String(), string(m.TxnID), string(m.Payload), int64(m.Offset),
			})
		}
	case "ack":
		results, err := r.b.Ack(ctx, tenant, c.Group, ackItems(c.Acks))
		for _, a := range results {
			if err == nil && a.Error == flushFailed {
				err = errors.New(a.Error)
			}
			out.Acked = append(out.Acked, acked{a.Success, a.DLQ, a.Error})
		}
		return err
	case "transaction":
		return r.transaction(ctx, c, out)
	case "letters":
		page, err := r.b.DeadLetters(ctx, broker.DeadLetterQuery{Tenant: tenant, Limit: 100000})
		for i := range page.Letters {
			l := &page.Letters[i]
			out.Letters = append(out.Letters, letter{
				l.ID.String(), l.Queue, l.Partition, l.Group, string(l.TxnID), string(l.Payload), int64(l.Offset),
			})
		}
		return err
	case "replay":
		id, err := queend.ParseID(c.Of)
		if err != nil {
			return err
		}
		res, err := r.b.ReplayByID(ctx, tenant, id, broker.ReplayTarget{}, nil)
		out.Pushed = []pushed{{res.Push.Status, int64(res.Push.Offset)}}
		return err
	case "configure":
		return r.configure(ctx, c, out)
	case "spool":
		_, err = r.b.SetMaintenance(ctx, c.On)
	case "drain":
		err = r.b.DrainSpool()
	case "maintain":
		err = r.b.Maintain()
	case "advance":
		r.ahead.Add(c.N * broker.Second)
		r.b.Tick()
	default:
		err = fmt.Errorf("unknown call %q", c.Op)
	}
	return err
}

func (r *rig) transaction(ctx context.Context, c *call, out *reply) error {
	var ops []broker.TxnOp
	pushes := pushItems(c.Items)
	for i := range pushes {
		ops = append(ops, broker.TxnOp{Push: &pushes[i]})
	}
	acks := ackItems(c.Acks)
	for i := range acks {
		ops = append(ops, broker.TxnOp{Ack: &acks[i], Group: c.Group})
	}
	res, err := r.b.Transaction(ctx, broker.DefaultTenant, nil, ops, nil)
	if err == nil && !res.Success {
		out.Refused = res.Reason + ": " + res.Error
	}
	return err
}

func (r *rig) configure(ctx context.Context, c *call, out *reply) error {
	req := broker.Configure{Tenant: broker.DefaultTenant, Queue: c.Queue, Merge: true}
	if c.N > 0 {
		req.Settings = append(req.Settings, broker.Setting{Name: "leaseTime", Int: c.N})
	}
	if c.Keep > 0 {
		req.Settings = append(req.Settings,
			broker.Setting{Name: "retentionEnabled", Bool: true}, broker.Setting{Name: "completedRetentionSeconds", Int: c.Keep})
	}
	res, err := r.b.Configure(ctx, req)
	for _, o := range res.Options {
		if o.Name == "leaseTime" {
			out.N = o.Int
		}
	}
	return err
}

func pushItems(items []item) []broker.PushItem {
	var out []broker.PushItem
	for _, it := range items {
		out = append(out, broker.PushItem{
			Queue: it.Queue, Partition: it.Part, TxnID: []byte(it.Txn), Payload: []byte(payload(it.Txn)),
		})
	}
	return out
}

func ackItems(items []ackItem) []broker.AckItem {
	var out []broker.AckItem
	for _, it := range items {
		out = append(out, broker.AckItem{
			TxnID: []byte(it.Txn), Partition: it.PartID, Lease: it.Lease, Signal: it.Signal, DelayMS: -1,
		})
	}
	return out
}
