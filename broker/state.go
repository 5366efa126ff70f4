package broker

import (
	"hash/maphash"
	"iter"

	"queend"
	"queend/dedup"
	"queend/index"
)

// state is the fold of the log. Only apply changes it, and only what is in
// here goes into checkpoints; everything derived from it lives in delivery.
type state struct {
	queues     map[queend.QueueID]*queue
	names      map[queueKey]*queue
	partitions partitionTable
	publicIDs  partitionIndex // by UUID; without internal ones
	groups     map[queend.GroupID]*group
	labels     map[labelKey]*label
	dead       map[queend.ID]*deadLetter
	files      map[queend.FileID]*file

	lastQueue     queend.QueueID
	lastPartition queend.PartitionID
	lastGroup     queend.GroupID
	lastFile      queend.FileID
	lastStamp     int64 // of the last applied record, microseconds; stamps only rise

	maintenance    bool // pushes go to the spool (R120)
	popMaintenance bool // pops are empty (R121)
	spool          spoolPlace
	totals         totals

	seed      maphash.Seed // of publicIDs and queue.parts; says where things are, never which
	fresh     dedup.Table  // hashes of ids that are in no segment yet
	tailBytes int64        // of messages that are in no segment yet
}

// totals count since the data directory began; they survive a restart.
type totals struct {
	PushRequests, PushMessages uint64
	PopRequests, PopMessages   uint64
	AckRequests, AckMessages   uint64
	AckFailed                  uint64
	Transactions, DeadLetters  uint64
}

func newState() state {
	return state{
		queues: map[queend.QueueID]*queue{},
		names:  map[queueKey]*queue{},
		groups: map[queend.GroupID]*group{},
		labels: map[labelKey]*label{},
		dead:   map[queend.ID]*deadLetter{},
		files:  map[queend.FileID]*file{},
		seed:   maphash.MakeSeed(),
	}
}

// queueKey is how a queue is found by name.
type queueKey struct {
	tenant queend.ID
	name   string
}

// queue is a named set of partitions with options.
type queue struct {
	id   queend.QueueID
	uuid queend.ID
	queueKey
	created   int64
	namespace string
	task      string
	implicit  bool // made by a push or pop and never configured (R5)
	opts      Options

	parts   partitionIndex       // by name
	order   []queend.PartitionID // by ord, rising; 0 where one was deleted
	groups  map[string]*group
	dlq     *partition // internal, holds the dead letters of this queue; nil until the first
	letters map[queend.ID]*deadLetter
	epoch   uint32 // see tracker
	d       queueDelivery
}

// partition is one ordered lane. There may be millions that nobody uses, so
// what only a busy one needs is behind a pointer, and what has no pointers is
// in a place that the garbage collector never reads.
// Invariant: flushed <= end; the tail holds exactly [flushed, end), but while
// boot replays, when it may begin above flushed; runs hold a contiguous span
// that ends at flushed and covers [start, flushed).
type partition struct {
	q    *queue
	name string
	rows rows
	tail *tail       // nil: empty
	many *index.Runs // see runs
	*facts
}

// facts are the fields of a partition without pointers.
type facts struct {
	id       queend.PartitionID
	uuid     queend.ID
	created  int64
	lastTime int64         // stamp of the newest message ever, 0 before the first
	lastUse  int64         // stamp of the last group activity (R94)
	start    queend.Offset // first retained message
	end      queend.Offset // next offset to be given
	flushed  queend.Offset // first offset that is only in the log and the tail
	ord      int32         // in queue.order; -1 for an internal partition
	letters  int32         // dead letters whose original is in this partition
	epoch    uint32        // see tracker

	// What retention and flushes remember of the partition; all of it is derived.
	queued  bool // in the list of partitions with a tail
	watched bool // the wheel has an entry for R94
	listed  bool // in retention.due
	// blocked: messages are past completedRetention, but a group has not
	// consumed them. A change of the partition or its groups lists it.
	blocked bool
	oldest  int64 // at or before the stamp of the first retained message
	lookAt  int64 // the instant of the wheel's next entry for retention; 0: none

	one [1]index.Run // see runs
}

// row is how far one group is on one partition (docs/rules.md, S12).
// A row without a lease, budget or delay has a nil lane, so that a million
// idle ones stay small.
type row struct {
	group        queend.GroupID
	committed    queend.Offset // every message at or below it is done
	lastDelivery int64         // microseconds, for windowBuffer
	settled      queend.ID     // the lease whose ack settled its whole batch last (R34)
	settledFrom  queend.Offset // cursor before that ack; the batch was (settledFrom, settledTo]
	settledTo    queend.Offset
	lane         *lane
}

// lane is what a row holds while work is in flight or was interrupted.
type lane struct {
	lease      queend.ID // zero: none. A lease in the past is dead but remembered
	leaseUntil int64     // microseconds
	batchEnd   queend.Offset
	conflated  bool  // the leased batch is the newest of its span (R71)
	claimed    int64 // when the lease began, microseconds
	retry      int64 // charges of the budget (R29)
	notBefore  int64 // spaced retries (A2): not offered before, microseconds; 0 none
	// The last delivered span and how often one beginning in it was delivered
	// (R10, A3); attempts 0: no delivery since the last clean start.
	attemptStart queend.Offset
	attemptEnd   queend.Offset
	attempts     int64
	// While isolate is above the cursor, messages at or below it go out one
	// per batch (A3); headAttempts counts deliveries of offset committed+1.
	isolate      queend.Offset
	headOffset   queend.Offset
	headAttempts int64
}

// group is a consumer group on one queue, from its first pop on (R40).
type group struct {
	id         queend.GroupID
	q          *queue
	name       string
	created    int64
	mode       string // as stored: "new", "all" or "timestamp"
	conflation bool
	// A partition without a row has an implied cursor: just before its first
	// message stamped at or after seed, when its number is at most seedMax
	// (it existed at registration), else at or after start (R40, R41).
	seed    int64
	seedMax queend.PartitionID
	start   int64
	// popped is false for a registration kept after its cursors were deleted
	// and for one nobody used yet: it holds nothing back (R45).
	popped bool
	epoch  uint32 // see tracker
	d      groupDelivery
}

// labelKey names a durable discovery registration.
type labelKey struct {
	tenant          queend.ID
	namespace, task string
	group           string
}

// label registers a group on every queue that matches, also later ones.
type label struct {
	labelKey
	mode       string
	conflation bool
	seed       int64
	epoch      uint32
	d          labelDelivery
}

// deadLetter is the small row of a dead letter; its message and error are at
// offset at of the queue's internal partition.
type deadLetter struct {
	id       queend.ID
	q        *queue
	group    string
	part     queend.PartitionID // original partition
	offset   queend.Offset      // original offset
	at       queend.Offset
	failedAt int64 // microseconds
	epoch    uint32
}

// file is a live segment file.
type file struct {
	id    queend.FileID
	bytes int64
	runs  int   // runs that partitions still name
	dead  int64 // bytes known to be needed no more; derived
	epoch uint32
}

// live reports whether the row is leased at now (R3).
func (r *row) live(now int64) bool {
	return r != nil && r.lane != nil && !r.lane.lease.IsZero() && now < r.lane.leaseUntil
}

// empty reports whether nothing is retained.
func (p *partition) empty() bool { return p.start >= p.end }

// retained is the number of messages that can still be read.
func (p *partition) retained() int64 { return int64(max(p.end-p.start, 0)) }

// queue looks a queue up by name, nil when there is none.
func (s *state) queue(tenant queend.ID, name string) *queue {
	return s.names[queueKey{tenant, name}]
}

// byUUID looks a partition up, nil when there is none; internal ones are not
// found.
func (s *state) byUUID(id queend.ID) *partition {
	for number := range s.publicIDs.all(s.hashID(id)) {
		if p := s.partitions.get(number); p.uuid == id {
			return p
		}
	}
	return nil
}

// partition looks a partition of a queue up by name, nil when there is none.
func (s *state) partition(q *queue, name string) *partition {
	for number := range q.parts.all(s.hashName(name)) {
		if p := s.partitions.get(number); p.name == name {
			return p
		}
	}
	return nil
}

// partitionsOf yields the partitions of a queue by rising number, without the
// internal one. They may be deleted meanwhile, but none may come.
func (s *state) partitionsOf(q *queue) iter.Seq[*partition] {
	return func(yield func(*partition) bool) {
		for _, id := range q.order {
			if p := s.partitions.get(id); p != nil && !yield(p) {
				return
			}
		}
	}
}

func (s *state) hashID(id queend.ID) uint64  { return maphash.Bytes(s.seed, id[:]) }
func (s *state) hashName(name string) uint64 { return maphash.String(s.seed, name) }

// pending is how many retained messages lie above the cursor.
func (p *partition) pending(committed queend.Offset) int64 {
	return int64(max(p.end-1-max(committed, p.start-1), 0))
}
