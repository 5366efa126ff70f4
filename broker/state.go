package broker

import (
	"cmp"
	"slices"

	"queend"
	"queend/dedup"
	"queend/index"
)

// state is the fold of the log. Only apply changes it, and only what is in
// here goes into checkpoints; everything derived from it lives in delivery.
type state struct {
	queues     map[queend.QueueID]*queue
	names      map[queueKey]*queue
	partitions map[queend.PartitionID]*partition
	publicIDs  map[queend.ID]*partition
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

	fresh     dedup.Table // hashes of ids that are in no segment yet
	tailBytes int64       // of messages that are in no segment yet
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
		queues:     map[queend.QueueID]*queue{},
		names:      map[queueKey]*queue{},
		partitions: map[queend.PartitionID]*partition{},
		publicIDs:  map[queend.ID]*partition{},
		groups:     map[queend.GroupID]*group{},
		labels:     map[labelKey]*label{},
		dead:       map[queend.ID]*deadLetter{},
		files:      map[queend.FileID]*file{},
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

	parts   map[string]*partition
	order   []*partition // by ord; nil where one was deleted
	groups  map[string]*group
	dlq     *partition // internal, holds the dead letters of this queue; nil until the first
	letters map[queend.ID]*deadLetter
	epoch   uint32 // see tracker
	d       queueDelivery
}

// partition is one ordered lane.
// Invariant: flushed <= end; tail holds exactly [flushed, end), but while boot
// replays, when it begins at tailFrom; runs hold a contiguous span that ends
// at flushed and covers [start, flushed).
type partition struct {
	id       queend.PartitionID
	uuid     queend.ID
	q        *queue
	ord      int // in queue.order; -1 for an internal partition
	name     string
	created  int64
	lastTime int64         // stamp of the newest message ever, 0 before the first
	lastUse  int64         // stamp of the last group activity (R94)
	start    queend.Offset // first retained message
	end      queend.Offset // next offset to be given
	flushed  queend.Offset // first offset that is only in the log and the tail
	tail     []tailMessage
	tailFrom queend.Offset // of tail[0]; a checkpoint does not hold the tail
	runs     index.Runs
	rows     []*row // by rising group id
	letters  int    // dead letters whose original is in this partition
	top      uint64 // highest place (segment.Place) of an id since the start: none above it is in the tail
	epoch    uint32 // see tracker
	queued   bool   // in the list of partitions with a tail
	keeping         // see retention
}

// tailMessage is a message that is in no segment yet. raw is its encoding
// inside the log record that brought it; nobody changes it.
type tailMessage struct {
	raw  []byte
	time int64
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

// find returns the row of a group on the partition, nil when it has none.
func (p *partition) find(g queend.GroupID) *row {
	if i, found := slices.BinarySearchFunc(p.rows, g, byGroup); found {
		return p.rows[i]
	}
	return nil
}

// put inserts or replaces the row of a group.
func (p *partition) put(r *row) {
	i, found := slices.BinarySearchFunc(p.rows, r.group, byGroup)
	if found {
		p.rows[i] = r
		return
	}
	p.rows = slices.Insert(p.rows, i, r)
}

func byGroup(r *row, g queend.GroupID) int { return cmp.Compare(r.group, g) }

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

// pending is how many retained messages lie above the cursor.
func (p *partition) pending(committed queend.Offset) int64 {
	return int64(max(p.end-1-max(committed, p.start-1), 0))
}
