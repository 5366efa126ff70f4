package api

import (
	"math"

	"github.com/valyala/fasthttp"

	"queend"
	"queend/broker"
)

// group returns the group that the path names; an empty one is queue mode.
func (r *request) group() string {
	if name := r.param("group"); name != "" {
		return name
	}
	return broker.QueueMode
}

// groupRow is a group on one queue as GET /consumer-groups lists it
// (docs/rules.md, S7).
type groupRow struct {
	Name              string   `json:"name"`
	Topics            []string `json:"topics"`
	Queue             string   `json:"queueName"`
	Members           int      `json:"members"`
	Cursors           int      `json:"partitionCursors"`
	PartitionsWithLag int      `json:"partitionsWithLag"`
	TotalLag          int64    `json:"totalLag"`
	MaxTimeLag        int64    `json:"maxTimeLag"`
	State             string   `json:"state"`
	Storage           string   `json:"storage"`
	Mode              string   `json:"subscriptionMode"`
	Since             *instant `json:"subscriptionTimestamp"`
	Created           instant  `json:"subscriptionCreatedAt"`
	Conflation        bool     `json:"conflation"`
	Consumers         int      `json:"consumers"` // parked pops; members counts cursors
}

// consumerGroups answers GET /api/v1/consumer-groups.
func (r *request) consumerGroups() {
	ctx, cancel := r.within()
	defer cancel()
	groups, err := r.broker.ConsumerGroups(ctx, r.tenant)
	if err != nil {
		r.unmanaged(err, "consumer groups")
		return
	}
	rows := make([]groupRow, len(groups))
	for i := range groups {
		g := &groups[i]
		rows[i] = groupRow{
			Name: g.Group, Topics: []string{g.Queue}, Queue: g.Queue, Members: g.Cursors, Cursors: g.Cursors,
			PartitionsWithLag: g.PartitionsWithLag, TotalLag: g.TotalLag, MaxTimeLag: g.MaxTimeLag / broker.Second,
			State: string(g.State), Storage: "segments", Mode: g.Mode, Created: instant(g.Created),
			Conflation: g.Conflation, Consumers: g.Consumers,
		}
		if g.Since >= 0 {
			rows[i].Since = instantOf(&g.Since)
		}
	}
	r.answer(fasthttp.StatusOK, rows)
}

// lagRow is a group on one partition as GET /consumer-groups/lagging lists it.
type lagRow struct {
	Group       string   `json:"consumer_group"`
	Queue       string   `json:"queue_name"`
	Partition   string   `json:"partition_name"`
	PartitionID string   `json:"partition_id"`
	Worker      *string  `json:"worker_id"`
	Lag         int64    `json:"offset_lag"`
	Seconds     int64    `json:"time_lag_seconds"`
	Hours       float64  `json:"lag_hours"`
	Oldest      *instant `json:"oldest_unconsumed_at"`
	Consumed    *instant `json:"last_consumed_at"` // not kept: always null
}

// lagging answers GET /api/v1/consumer-groups/lagging.
func (r *request) lagging() {
	least := r.query.int("minLagSeconds", 3600)
	if r.badQuery() {
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	least = min(max(least, 0), math.MaxInt64/broker.Second)
	found, err := r.broker.Lagging(ctx, r.tenant, least*broker.Second)
	if err != nil {
		r.unmanaged(err, "lagging")
		return
	}
	rows := make([]lagRow, len(found))
	for i := range found {
		l := &found[i]
		rows[i] = lagRow{
			Group: l.Group, Queue: l.Queue, Partition: l.Partition, PartitionID: l.PartitionID.String(),
			Worker: workerOf(l.Worker), Lag: l.Lag, Oldest: instantOf(l.OldestUnconsumed),
		}
		if l.TimeLag != nil {
			rows[i].Seconds = *l.TimeLag / broker.Second
			rows[i].Hours = math.Round(float64(rows[i].Seconds)/36) / 100
		}
	}
	r.answer(fasthttp.StatusOK, rows)
}

// workerOf is the live lease as clients see it: null without one.
func workerOf(lease queend.ID) *string {
	if lease.IsZero() {
		return nil
	}
	text := lease.String()
	return &text
}

// groupPartition is one partition in GET /consumer-groups/:group.
type groupPartition struct {
	Partition    string   `json:"partition"`
	Worker       *string  `json:"workerId"`
	LastConsumed *instant `json:"lastConsumedAt"` // not kept: always null
	Consumed     int64    `json:"totalConsumed"`
	Lag          int64    `json:"offsetLag"`
	Seconds      int64    `json:"timeLagSeconds"`
	Leased       bool     `json:"leaseActive"`
}

// groupQueue is one queue in it.
type groupQueue struct {
	Conflation bool             `json:"conflation"`
	Partitions []groupPartition `json:"partitions"`
}

// consumerGroup answers GET /api/v1/consumer-groups/:group.
func (r *request) consumerGroup() {
	ctx, cancel := r.within()
	defer cancel()
	queues, err := r.broker.GroupDetail(ctx, r.tenant, r.group())
	if err != nil {
		r.unmanaged(err, "consumer group")
		return
	}
	out := make(map[string]groupQueue, len(queues))
	for i := range queues {
		q := groupQueue{Conflation: queues[i].Conflation, Partitions: make([]groupPartition, len(queues[i].Partitions))}
		for j := range queues[i].Partitions {
			l := &queues[i].Partitions[j]
			q.Partitions[j] = groupPartition{
				Partition: l.Partition, Worker: workerOf(l.Worker), Consumed: l.Consumed, Lag: l.Lag, Leased: !l.Worker.IsZero(),
			}
			if l.TimeLag != nil {
				q.Partitions[j].Seconds = *l.TimeLag / broker.Second
			}
		}
		out[queues[i].Queue] = q
	}
	r.answer(fasthttp.StatusOK, out)
}
