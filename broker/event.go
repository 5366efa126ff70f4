package broker

import (
	"fmt"

	"queend"
	"queend/index"
)

// A record of the log is one bundle: a stamp and the events that happen at
// it, all or none.
//
//	| stamp u64, microseconds | event | event | ...
//	event: | kind u8 | fields |
//
// Events hold results. Applying one needs no clock, no randomness, no
// configuration and no file. Kinds and the fields of a kind are on disk: new
// kinds are added at the end, and none ever changes its bytes.
type event interface {
	encode(e *encoder)
	decode(d *decoder)
	apply(b *Broker, stamp int64)
}

// The kinds of events; zero is none, so that zeroed bytes show.
const (
	_ byte = iota
	kindQueueSet
	kindQueueGone
	kindPartitionNew
	kindPartitionGone
	kindGroupSet
	kindGroupGone
	kindLabelSet
	kindPushed
	kindRowSet
	kindLogStart
	kindDeadLetter
	kindDeadLetterGone
	kindFileNew
	kindFileRuns
	kindFileGone
	kindFlags
	kindCounted
	kindIDsGone
	kindSpoolDrained
)

// newEvent returns an empty event of the kind, nil for an unknown kind.
func newEvent(kind byte) event {
	switch kind {
	case kindQueueSet:
		return &queueSet{}
	case kindQueueGone:
		return &queueGone{}
	case kindPartitionNew:
		return &partitionNew{}
	case kindPartitionGone:
		return &partitionGone{}
	case kindGroupSet:
		return &groupSet{}
	case kindGroupGone:
		return &groupGone{}
	case kindLabelSet:
		return &labelSet{}
	case kindPushed:
		return &pushed{}
	case kindRowSet:
		return &rowSet{}
	case kindLogStart:
		return &logStart{}
	case kindDeadLetter:
		return &deadLettered{}
	case kindDeadLetterGone:
		return &deadLetterGone{}
	case kindFileNew:
		return &fileNew{}
	case kindFileRuns:
		return &fileRuns{}
	case kindFileGone:
		return &fileGone{}
	case kindFlags:
		return &flagsSet{}
	case kindCounted:
		return &counted{}
	case kindIDsGone:
		return &idsGone{}
	case kindSpoolDrained:
		return &spoolDrained{}
	}
	return nil
}

// decodeRecord hands the events of a record to visit, in order. It returns
// the stamp. Slices inside the events alias rec.
func decodeRecord(rec []byte, visit func(event)) (int64, error) {
	d := decoder{buf: rec}
	stamp := int64(d.fixed64())
	for d.err == nil && len(d.buf) > 0 {
		kind := d.byte()
		ev := newEvent(kind)
		if ev == nil {
			return stamp, fmt.Errorf("%w: unknown event kind %d", errDamagedRecord, kind)
		}
		ev.decode(&d)
		if d.err == nil {
			visit(ev)
		}
	}
	return stamp, d.err
}

// queueSet creates a queue or replaces its options and labels.
type queueSet struct {
	id              queend.QueueID
	uuid            queend.ID
	tenant          queend.ID
	name            string
	created         int64
	namespace, task string
	implicit        bool
	opts            Options
}

func (v *queueSet) encode(e *encoder) {
	e.byte(kindQueueSet)
	e.uint(uint64(v.id))
	e.id(v.uuid)
	e.id(v.tenant)
	e.string(v.name)
	e.int(v.created)
	e.string(v.namespace)
	e.string(v.task)
	e.bool(v.implicit)
	v.opts.encode(e)
}

func (v *queueSet) decode(d *decoder) {
	v.id = queend.QueueID(d.uint())
	v.uuid = d.id()
	v.tenant = d.id()
	v.name = d.string()
	v.created = d.int()
	v.namespace = d.string()
	v.task = d.string()
	v.implicit = d.bool()
	v.opts.decode(d)
}

// numbers lists the numeric options in their order on disk.
func (o *Options) numbers() []*int64 {
	return []*int64{
		&o.LeaseTime, &o.RetryLimit, &o.DelayedProcessing, &o.WindowBuffer, &o.RetentionSeconds,
		&o.CompletedRetentionSeconds, &o.MaxWaitTimeSeconds, &o.MinPopWaitTime, &o.DedupWindowSeconds,
		&o.Priority, &o.MaxSize, &o.RetryDelay, &o.TTL, &o.RedeliveryDelayMS, &o.RedeliveryDelayMaxMS,
		&o.MaxDeliveries,
	}
}

// switches lists the boolean options in their order on disk.
func (o *Options) switches() []*bool {
	return []*bool{&o.DeadLetterQueue, &o.DLQAfterMaxRetries, &o.RetentionEnabled, &o.EncryptionEnabled, &o.RequireLease}
}

// encode writes the numbers and switches with their counts in front, so that
// options added at the end can be read from older records as zero.
func (o *Options) encode(e *encoder) {
	e.uint(uint64(len(o.numbers())))
	for _, v := range o.numbers() {
		e.int(*v)
	}
	e.uint(uint64(len(o.switches())))
	for _, v := range o.switches() {
		e.bool(*v)
	}
}

func (o *Options) decode(d *decoder) {
	numbers := o.numbers()
	for i := range d.count(1) {
		if v := d.int(); i < len(numbers) {
			*numbers[i] = v
		}
	}
	switches := o.switches()
	for i := range d.count(1) {
		if v := d.bool(); i < len(switches) {
			*switches[i] = v
		}
	}
}

// queueGone removes a queue with everything in it.
type queueGone struct{ id queend.QueueID }

func (v *queueGone) encode(e *encoder) { e.byte(kindQueueGone); e.uint(uint64(v.id)) }
func (v *queueGone) decode(d *decoder) { v.id = queend.QueueID(d.uint()) }

// partitionNew creates an empty partition, internal ones for dead letters.
type partitionNew struct {
	id       queend.PartitionID
	queue    queend.QueueID
	uuid     queend.ID
	name     string
	created  int64
	internal bool
}

func (v *partitionNew) encode(e *encoder) {
	e.byte(kindPartitionNew)
	e.uint(uint64(v.id))
	e.uint(uint64(v.queue))
	e.id(v.uuid)
	e.string(v.name)
	e.int(v.created)
	e.bool(v.internal)
}

func (v *partitionNew) decode(d *decoder) {
	v.id = d.partition()
	v.queue = queend.QueueID(d.uint())
	v.uuid = d.id()
	v.name = d.string()
	v.created = d.int()
	v.internal = d.bool()
}

// partitionGone removes a partition (R94).
type partitionGone struct{ id queend.PartitionID }

func (v *partitionGone) encode(e *encoder) { e.byte(kindPartitionGone); e.uint(uint64(v.id)) }
func (v *partitionGone) decode(d *decoder) { v.id = queend.PartitionID(d.uint()) }

// groupSet registers a group on a queue or replaces its registration.
type groupSet struct {
	id          queend.GroupID
	queue       queend.QueueID
	name        string
	created     int64
	mode        string
	conflation  bool
	seed, start int64
	seedMax     queend.PartitionID
	popped      bool
}

func (v *groupSet) encode(e *encoder) {
	e.byte(kindGroupSet)
	e.uint(uint64(v.id))
	e.uint(uint64(v.queue))
	e.string(v.name)
	e.int(v.created)
	e.string(v.mode)
	e.bool(v.conflation)
	e.int(v.seed)
	e.int(v.start)
	e.uint(uint64(v.seedMax))
	e.bool(v.popped)
}

func (v *groupSet) decode(d *decoder) {
	v.id = queend.GroupID(d.uint())
	v.queue = queend.QueueID(d.uint())
	v.name = d.string()
	v.created = d.int()
	v.mode = d.string()
	v.conflation = d.bool()
	v.seed = d.int()
	v.start = d.int()
	v.seedMax = queend.PartitionID(d.uint())
	v.popped = d.bool()
}

// groupGone removes a group with its cursors. A kept registration is a
// groupSet with a new number in the same bundle (R45).
type groupGone struct{ id queend.GroupID }

func (v *groupGone) encode(e *encoder) { e.byte(kindGroupGone); e.uint(uint64(v.id)) }
func (v *groupGone) decode(d *decoder) { v.id = queend.GroupID(d.uint()) }

// labelSet registers a discovery group; gone removes it.
type labelSet struct {
	labelKey
	mode       string
	conflation bool
	seed       int64
	gone       bool
}

func (v *labelSet) encode(e *encoder) {
	e.byte(kindLabelSet)
	e.id(v.tenant)
	e.string(v.namespace)
	e.string(v.task)
	e.string(v.group)
	e.string(v.mode)
	e.bool(v.conflation)
	e.int(v.seed)
	e.bool(v.gone)
}

func (v *labelSet) decode(d *decoder) {
	v.tenant = d.id()
	v.namespace = d.string()
	v.task = d.string()
	v.group = d.string()
	v.mode = d.string()
	v.conflation = d.bool()
	v.seed = d.int()
	v.gone = d.bool()
}

// pushed appends messages to a partition, all stamped with the bundle's
// stamp. raws are encodings as message.go draws them.
type pushed struct {
	partition queend.PartitionID
	first     queend.Offset
	raws      [][]byte
}

// appendPushed writes a pushed event up to its n messages, which must follow.
func appendPushed(e *encoder, partition queend.PartitionID, first queend.Offset, n int) {
	e.byte(kindPushed)
	e.uint(uint64(partition))
	e.offset(first)
	e.uint(uint64(n))
}

func (v *pushed) encode(e *encoder) {
	appendPushed(e, v.partition, v.first, len(v.raws))
	for _, raw := range v.raws {
		e.buf = append(e.buf, raw...)
	}
}

func (v *pushed) decode(d *decoder) {
	v.partition = queend.PartitionID(d.uint())
	v.first = d.offset()
	n := d.count(18)
	v.raws = make([][]byte, 0, n)
	for range n {
		raw := skipMessage(d)
		if d.err != nil {
			return
		}
		v.raws = append(v.raws, raw)
	}
}

// rowSet puts the row of a group on a partition: the result of a claim, an
// ack, an extend, a release or a seek.
type rowSet struct {
	partition queend.PartitionID
	row       row
}

func (v *rowSet) encode(e *encoder) {
	e.byte(kindRowSet)
	e.uint(uint64(v.partition))
	v.row.encode(e)
}

func (v *rowSet) decode(d *decoder) {
	v.partition = queend.PartitionID(d.uint())
	v.row.decode(d)
}

// The parts of a row that are there, as bits in front of it on disk.
const (
	rowSettled byte = 1 << iota
	rowLane
	rowLease
	rowConflated
	rowAttempts
	rowIsolate
)

func (r *row) encode(e *encoder) {
	e.uint(uint64(r.group))
	at := len(e.buf)
	e.byte(0)
	var has byte
	e.offset(r.committed)
	e.int(r.lastDelivery)
	if !r.settled.IsZero() {
		has |= rowSettled
		e.id(r.settled)
		e.offset(r.settledFrom)
		e.offset(r.settledTo)
	}
	if l := r.lane; l != nil {
		has |= rowLane | l.encode(e)
	}
	e.buf[at] = has
}

func (l *lane) encode(e *encoder) (has byte) {
	if !l.lease.IsZero() {
		has |= rowLease
		e.id(l.lease)
		e.int(l.leaseUntil)
		e.int(l.claimed)
	}
	e.offset(l.batchEnd)
	if l.conflated {
		has |= rowConflated
	}
	e.int(l.retry)
	e.int(l.notBefore)
	if l.attempts > 0 {
		has |= rowAttempts
		e.offset(l.attemptStart)
		e.offset(l.attemptEnd)
		e.int(l.attempts)
	}
	if l.isolate != 0 || l.headAttempts != 0 {
		has |= rowIsolate
		e.offset(l.isolate)
		e.offset(l.headOffset)
		e.int(l.headAttempts)
	}
	return has
}

func (r *row) decode(d *decoder) {
	r.group = queend.GroupID(d.uint())
	has := d.byte()
	r.committed = d.offset()
	r.lastDelivery = d.int()
	if has&rowSettled != 0 {
		r.settled = d.id()
		r.settledFrom = d.offset()
		r.settledTo = d.offset()
	}
	if has&rowLane != 0 {
		r.lane = &lane{conflated: has&rowConflated != 0}
		r.lane.decode(d, has)
	}
}

func (l *lane) decode(d *decoder, has byte) {
	if has&rowLease != 0 {
		l.lease = d.id()
		l.leaseUntil = d.int()
		l.claimed = d.int()
	}
	l.batchEnd = d.offset()
	l.retry = d.int()
	l.notBefore = d.int()
	if has&rowAttempts != 0 {
		l.attemptStart = d.offset()
		l.attemptEnd = d.offset()
		l.attempts = d.int()
	}
	if has&rowIsolate != 0 {
		l.isolate = d.offset()
		l.headOffset = d.offset()
		l.headAttempts = d.int()
	}
}

// logStart moves the first retained message of a partition up.
type logStart struct {
	partition queend.PartitionID
	start     queend.Offset
}

func (v *logStart) encode(e *encoder) {
	e.byte(kindLogStart)
	e.uint(uint64(v.partition))
	e.offset(v.start)
}

func (v *logStart) decode(d *decoder) {
	v.partition = queend.PartitionID(d.uint())
	v.start = d.offset()
}

// deadLettered files the message that the same bundle pushed to the queue's
// internal partition at offset at.
type deadLettered struct {
	id        queend.ID
	queue     queend.QueueID
	group     string
	partition queend.PartitionID
	offset    queend.Offset
	at        queend.Offset
}

func (v *deadLettered) encode(e *encoder) {
	e.byte(kindDeadLetter)
	e.id(v.id)
	e.uint(uint64(v.queue))
	e.string(v.group)
	e.uint(uint64(v.partition))
	e.offset(v.offset)
	e.offset(v.at)
}

func (v *deadLettered) decode(d *decoder) {
	v.id = d.id()
	v.queue = queend.QueueID(d.uint())
	v.group = d.string()
	v.partition = queend.PartitionID(d.uint())
	v.offset = d.offset()
	v.at = d.offset()
}

// deadLetterGone removes a dead letter.
type deadLetterGone struct{ id queend.ID }

func (v *deadLetterGone) encode(e *encoder) { e.byte(kindDeadLetterGone); e.id(v.id) }
func (v *deadLetterGone) decode(d *decoder) { v.id = d.id() }

// fileNew names a finished, synced segment file live and retires the files
// it replaces.
type fileNew struct {
	id    queend.FileID
	bytes int64
	gone  []queend.FileID
}

func (v *fileNew) encode(e *encoder) {
	e.byte(kindFileNew)
	e.uint(uint64(v.id))
	e.int(v.bytes)
	e.uint(uint64(len(v.gone)))
	for _, id := range v.gone {
		e.uint(uint64(id))
	}
}

func (v *fileNew) decode(d *decoder) {
	v.id = queend.FileID(d.uint())
	v.bytes = d.int()
	for range d.count(1) {
		v.gone = append(v.gone, queend.FileID(d.uint()))
	}
}

// fileRuns tells partitions that a file holds runs of theirs. replaces names
// the files whose runs of these partitions it takes the place of; none for a
// flush, whose runs leave the tail.
type fileRuns struct {
	id       queend.FileID
	replaces []queend.FileID
	runs     []placedRun
}

// placedRun is a run and whose it is.
type placedRun struct {
	partition queend.PartitionID
	run       index.Run
}

func (v *fileRuns) encode(e *encoder) {
	e.byte(kindFileRuns)
	e.uint(uint64(v.id))
	e.uint(uint64(len(v.replaces)))
	for _, id := range v.replaces {
		e.uint(uint64(id))
	}
	e.uint(uint64(len(v.runs)))
	for i := range v.runs {
		e.uint(uint64(v.runs[i].partition))
		encodeRun(e, &v.runs[i].run)
	}
}

func (v *fileRuns) decode(d *decoder) {
	v.id = queend.FileID(d.uint())
	for range d.count(1) {
		v.replaces = append(v.replaces, queend.FileID(d.uint()))
	}
	n := d.count(8)
	v.runs = make([]placedRun, n)
	for i := range v.runs {
		v.runs[i].partition = queend.PartitionID(d.uint())
		v.runs[i].run = decodeRun(d, v.id)
	}
}

// encodeRun writes all of a run but its file.
func encodeRun(e *encoder, r *index.Run) {
	e.offset(r.First)
	e.uint(uint64(r.Last - r.First))
	e.offset(r.PayloadFrom)
	e.uint(r.Pos)
	e.uint(uint64(r.Size))
	e.uint(r.Bytes)
	e.int(r.LastTime)
}

func decodeRun(d *decoder, id queend.FileID) index.Run {
	r := index.Run{File: id}
	r.First = d.offset()
	r.Last = r.First + queend.Offset(d.uint())
	r.PayloadFrom = d.offset()
	r.Pos = d.uint()
	r.Size = uint32(d.uint())
	r.Bytes = d.uint()
	r.LastTime = d.int()
	return r
}

// fileGone retires a file that no partition needs any more. Runs in it stop
// to exist.
type fileGone struct{ id queend.FileID }

func (v *fileGone) encode(e *encoder) { e.byte(kindFileGone); e.uint(uint64(v.id)) }
func (v *fileGone) decode(d *decoder) { v.id = queend.FileID(d.uint()) }

// idsGone lets a partition forget the runs whose every offset is below the
// given one: their messages are removed and their ids too old to matter.
type idsGone struct {
	partition queend.PartitionID
	below     queend.Offset
}

func (v *idsGone) encode(e *encoder) {
	e.byte(kindIDsGone)
	e.uint(uint64(v.partition))
	e.offset(v.below)
}

func (v *idsGone) decode(d *decoder) {
	v.partition = queend.PartitionID(d.uint())
	v.below = d.offset()
}

// flagsSet sets the maintenance switches.
type flagsSet struct{ maintenance, popMaintenance bool }

func (v *flagsSet) encode(e *encoder) {
	e.byte(kindFlags)
	e.bool(v.maintenance)
	e.bool(v.popMaintenance)
}

func (v *flagsSet) decode(d *decoder) {
	v.maintenance = d.bool()
	v.popMaintenance = d.bool()
}

// counted adds to the totals what the bundle stands for.
type counted struct{ totals }

func (t *totals) fields() []*uint64 {
	return []*uint64{
		&t.PushRequests, &t.PushMessages, &t.PopRequests, &t.PopMessages, &t.AckRequests, &t.AckMessages,
		&t.AckFailed, &t.Transactions, &t.DeadLetters,
	}
}

func (v *counted) encode(e *encoder) {
	e.byte(kindCounted)
	v.totals.encode(e)
}

func (v *counted) decode(d *decoder) { v.totals.decode(d) }

func (t *totals) encode(e *encoder) {
	e.uint(uint64(len(t.fields())))
	for _, f := range t.fields() {
		e.uint(*f)
	}
}

func (t *totals) decode(d *decoder) {
	fields := t.fields()
	for i := range d.count(1) {
		if v := d.uint(); i < len(fields) {
			*fields[i] = v
		}
	}
}
