package api

import (
	"fmt"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"queend/broker"
)

// popQueue, popPartition and popDiscover answer the three pop routes
// (docs/rules.md, S4).
func (r *request) popQueue() {
	r.pop(broker.PopRequest{Queue: r.param("queue")})
}

func (r *request) popPartition() {
	r.pop(broker.PopRequest{Queue: r.param("queue"), Pinned: true, Partition: r.param("partition")})
}

func (r *request) popDiscover() {
	r.pop(broker.PopRequest{
		Discovery: true, Namespace: r.query.text("namespace", ""), Task: r.query.text("task", ""),
	})
}

// popMargin is what a pop may take beyond its own time-out before its
// deadline passes.
const popMargin = 5 * time.Second

func (r *request) pop(req broker.PopRequest) {
	r.readPop(&req)
	if err := r.query.err(); err != nil {
		r.popRefused(fasthttp.StatusBadRequest, string(broker.CodeBadRequest), err.Error())
		return
	}
	if r.leftPop(&req) {
		r.noContent(emptyHeader, string(broker.EmptyNothing))
		return
	}
	ctx, cancel := r.deadline(time.Duration(max(req.TimeoutMS, 0))*time.Millisecond + r.server.limits.push + popMargin)
	defer cancel()
	res, err := r.broker.Pop(ctx, req)
	if err != nil {
		r.popFailed(err)
		return
	}
	if len(res.Messages) == 0 {
		r.popEmpty(&req, res)
		return
	}
	if !res.LeaseID.IsZero() && r.leftPop(&req) {
		r.broker.GiveBack(r.server.background, res)
		r.noContent(emptyHeader, string(broker.EmptyNothing))
		return
	}
	r.unwritten(func() { r.broker.GiveBack(r.server.background, res) })
	r.json(200, func(dst []byte) []byte { return appendPop(dst, &req, res) })
}

// leftPop reports whether the client of a long poll has hung up by now (R11).
// Writing to it would not fail: the system takes the bytes all the same.
func (r *request) leftPop(req *broker.PopRequest) bool { return req.Wait && r.gone() }

// readPop reads the parameters. An absent and a zero batch differ: below 1
// means 1.
func (r *request) readPop(req *broker.PopRequest) {
	q := &r.query
	req.Tenant = r.tenant
	if q.has("batch") {
		req.Batch = int(min(max(q.int("batch", 1), 1), 1<<30))
	}
	if q.has("partitions") {
		req.Partitions = int(min(max(q.int("partitions", 1), 1), 1<<30))
	}
	req.Wait = q.bool("wait", false)
	req.TimeoutMS = min(max(q.int("timeout", 0), 0), 60000)
	auto, commit := q.bool("autoAck", false), q.bool("commitOnDelivery", false)
	req.AutoAck = auto || commit
	req.LeaseSeconds = max(q.int("leaseSeconds", 0), 0)
	req.Group = q.text("consumerGroup", "")
	req.Mode = q.text("subscriptionMode", "")
	req.From = q.text("subscriptionFrom", "")
	req.Conflation = q.bool("conflation", false)
	req.Autopilot = q.bool("autopilot", false)
	if req.Wait {
		r.mayWait = maxDeadline.Microseconds()
		if req.TimeoutMS > 0 {
			r.mayWait = req.TimeoutMS * broker.Millisecond
		}
		req.Watch = r.watch
		req.StillThere = func() bool { return !r.gone() }
	}
}

// popRefused answers in the error shape of pops.
func (r *request) popRefused(status int, code, text string) {
	r.code = code
	r.json(status, func(dst []byte) []byte {
		dst = append(dst, `{"success":false`...)
		dst = appendText(dst, "error", text)
		dst = appendText(dst, "code", code)
		return append(dst, `,"messages":[]}`...)
	})
}

func (r *request) popFailed(err error) {
	status, code, text := r.refusalOf(err, "pop")
	if status == fasthttp.StatusInternalServerError {
		text = "pop failed"
	}
	r.popRefused(status, code, text)
}

// popEmpty answers 204 with the reason (A8), or the bodies that conflation
// asks for (docs/rules.md, S4 and S20).
func (r *request) popEmpty(req *broker.PopRequest, res *broker.PopResult) {
	switch {
	case res.Empty == broker.EmptyPaused && req.Conflation:
		r.setHeader(emptyHeader, string(res.Empty))
		r.json(200, func(dst []byte) []byte { return append(dst, `{"messages":[],"paused":true,"conflation":true}`...) })
	case res.Empty != broker.EmptyPaused && (res.Conflation || res.Conflict):
		r.setHeader(emptyHeader, string(res.Empty))
		r.json(200, func(dst []byte) []byte {
			dst = append(dst, `{"success":true`...)
			dst = appendText(dst, "queue", req.Queue)
			dst = append(dst, `,"partition":null,"partitionId":null,"leaseId":""`...)
			dst = appendText(dst, "consumerGroup", res.Group)
			dst = append(dst, `,"messages":[],"partitionsClaimed":0`...)
			return append(appendConflation(dst, res), '}')
		})
	default:
		reason := res.Empty
		if reason == "" {
			reason = broker.EmptyNothing
		}
		r.noContent(emptyHeader, string(reason))
	}
}

// emptyHeader says why a pop is empty.
const emptyHeader = "X-Queen-Empty"

func appendConflation(dst []byte, res *broker.PopResult) []byte {
	if res.Conflation {
		dst = appendBool(dst, "conflation", true)
	}
	if res.Conflict {
		dst = appendBool(dst, "conflationConflict", true)
	}
	return dst
}

// deliveredBytes is about what a message takes in the answer beside its payload.
const deliveredBytes = 512

func appendPop(dst []byte, req *broker.PopRequest, res *broker.PopResult) []byte {
	first := &res.Messages[0]
	size := deliveredBytes * len(res.Messages)
	for i := range res.Messages {
		size += len(res.Messages[i].Payload)
	}
	dst = slices.Grow(dst, size)
	dst = append(dst, `{"success":true`...)
	dst = appendText(dst, "queue", req.Queue)
	dst = appendText(dst, "partition", first.Partition)
	dst = appendID(dst, "partitionId", first.PartitionUUID)
	dst = appendIDOrEmpty(dst, "leaseId", res.LeaseID)
	dst = appendText(dst, "consumerGroup", res.Group)
	dst = appendKey(dst, "messages")
	var done written
	dst = appendList(dst, len(res.Messages), func(dst []byte, i int) []byte {
		return done.appendDelivered(dst, &res.Messages[i], res)
	})
	dst = appendInt(dst, "partitionsClaimed", int64(res.Claimed))
	dst = appendConflation(dst, res)
	if a := res.Autopilot; a != nil {
		dst = fmt.Appendf(dst, `,"autopilot":{"partitions":%d,"batch":%d,"waitMs":%d}`, a.Partitions, a.Batch, a.WaitMS)
	}
	return append(dst, '}')
}

// written remembers what the message before has in the answer, for what the
// next one has in common with it.
type written struct {
	message *broker.Delivered // nil: there is none before
	place   span              // from createdAt to partition
	lease   span              // from leaseId to deliveryAttempt
}

// span is a part of the answer.
type span struct{ from, to int }

// appendDelivered writes a message. Of a batch, most have time, partition and
// attempt in common.
func (w *written) appendDelivered(dst []byte, m *broker.Delivered, res *broker.PopResult) []byte {
	dst = append(dst, `{"id":"`...)
	dst = append(m.ID.Append(dst), '"')
	dst = appendText(dst, "transactionId", m.TxnID)
	dst = appendIDOrNull(dst, "traceId", m.TraceID)
	dst = appendRaw(dst, "data", m.Payload)
	if m.HasProducer {
		dst = appendText(dst, "producerSub", m.Producer)
	} else {
		dst = appendNull(dst, "producerSub")
	}
	before := w.message
	w.message = m
	at := len(dst)
	if before != nil && before.Time == m.Time && before.PartitionUUID == m.PartitionUUID {
		dst = append(dst, dst[w.place.from:w.place.to]...)
	} else {
		dst = appendTime(dst, "createdAt", m.Time, layoutMicros)
		dst = appendText(dst, "queue", m.Queue)
		dst = appendID(dst, "partitionId", m.PartitionUUID)
		dst = appendText(dst, "partition", m.Partition)
	}
	w.place = span{at, len(dst)}
	dst = appendInt(dst, "offset", int64(m.Offset))
	at = len(dst)
	if before != nil && before.Attempt == m.Attempt {
		dst = append(dst, dst[w.lease.from:w.lease.to]...)
	} else {
		dst = appendIDOrEmpty(dst, "leaseId", res.LeaseID)
		dst = appendText(dst, "consumerGroup", res.Group)
		dst = appendInt(dst, "deliveryAttempt", int64(m.Attempt))
	}
	w.lease = span{at, len(dst)}
	if m.Headers != nil {
		dst = appendRaw(dst, "headers", m.Headers)
	}
	return append(dst, '}')
}
