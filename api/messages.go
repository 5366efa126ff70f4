package api

import (
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"queend/broker"
)

// Bounds of a page of messages.
const (
	messageLimit = 200
	maxMessages  = 1000
)

// messages answers GET /api/v1/messages (docs/rules.md, S6).
func (r *request) messages() {
	q := &r.query
	chosen := broker.MessagesQuery{
		Tenant: r.tenant, Queue: q.optional("queue"), Partition: q.text("partition", ""),
		Namespace: q.text("namespace", q.text("ns", "")), Task: q.text("task", ""),
		Status: broker.MessageStatus(q.text("status", "")), From: q.time("from", 0), To: q.time("to", 0),
	}
	chosen.Limit, chosen.Offset = q.page(messageLimit, maxMessages)
	if r.badQuery() {
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	page, err := r.broker.Messages(ctx, chosen)
	if err != nil {
		r.unmanaged(err, "messages")
		return
	}
	r.json(fasthttp.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"messages":`...)
		dst = appendList(dst, len(page.Messages), func(dst []byte, i int) []byte {
			return appendListed(dst, &page.Messages[i])
		})
		dst = appendMode(appendKey(dst, "mode"), &page.Mode)
		return append(appendInt(dst, "total", int64(len(page.Messages))), '}')
	})
}

func appendMode(dst []byte, m *broker.MessageMode) []byte {
	dst = strconv.AppendBool(append(dst, `{"hasQueueMode":`...), m.HasQueueMode)
	dst = appendInt(dst, "busGroupsCount", int64(m.Groups))
	return append(appendText(dst, "type", m.Type), '}')
}

// appendMessage writes the members that a message has in the listing and in
// its detail, and leaves its object open.
func appendMessage(dst []byte, m *broker.Message) []byte {
	dst = append(dst, `{"id":"`...)
	dst = append(m.ID.Append(dst), '"')
	dst = appendText(dst, "transactionId", string(m.TxnID))
	dst = appendID(dst, "partitionId", m.PartitionUUID)
	dst = appendText(dst, "queuePath", m.Queue+"/"+m.Partition)
	dst = appendText(dst, "queue", m.Queue)
	dst = appendText(dst, "partition", m.Partition)
	dst = appendText(dst, "status", string(m.Status))
	dst = appendIDOrNull(dst, "traceId", m.TraceID)
	if m.HasProducer {
		dst = appendText(dst, "producerSub", string(m.Producer))
	} else {
		dst = appendNull(dst, "producerSub")
	}
	dst = appendTime(dst, "createdAt", m.Time, layoutMillis)
	dst = appendExpiry(dst, m.LeaseExpires)
	dst = appendInt(dst, "offset", int64(m.Offset))
	dst = appendRaw(dst, "data", m.Payload)
	dst = appendRaw(dst, "payload", m.Payload)
	if m.Headers != nil {
		dst = appendRaw(dst, "headers", m.Headers)
	}
	return dst
}

func appendExpiry(dst []byte, at *int64) []byte {
	if at == nil {
		return appendNull(dst, "leaseExpiresAt")
	}
	return appendTime(dst, "leaseExpiresAt", *at, layoutMicros)
}

// appendListed writes a message of the listing.
func appendListed(dst []byte, m *broker.Message) []byte {
	dst = appendMessage(dst, m)
	// As text: a number of 64 bits does not survive every JSON parser.
	dst = appendText(dst, "txnHash", strconv.FormatUint(m.TxnHash, 10))
	dst = appendText(dst, "namespace", m.Namespace)
	dst = appendText(dst, "task", m.Task)
	if m.QueueStatus == "" {
		dst = appendNull(dst, "queueStatus")
	} else {
		dst = appendText(dst, "queueStatus", string(m.QueueStatus))
	}
	dst = strconv.AppendInt(append(dst, `,"busStatus":{"consumedBy":`...), int64(m.ConsumedBy), 10)
	dst = append(appendInt(dst, "totalGroups", int64(m.TotalGroups)), '}')
	dst = appendBool(dst, "payloadAvailable", true)
	dst = strconv.AppendUint(append(dst, `,"segment":{"seq":`...), uint64(m.Segment), 10)
	return append(appendInt(dst, "frameIdx", m.FrameIndex), "}}"...)
}

// message answers GET /api/v1/messages/:pid/:txn.
func (r *request) message() {
	ctx, cancel := r.within()
	defer cancel()
	d, err := r.broker.MessageByAddress(ctx, r.tenant, r.param("pid"), []byte(r.param("txn")))
	if err != nil {
		r.unmanaged(err, "message")
		return
	}
	r.json(fasthttp.StatusOK, func(dst []byte) []byte { return appendMessageDetail(dst, d) })
}

func appendMessageDetail(dst []byte, d *broker.MessageDetail) []byte {
	dst = appendMessage(dst, &d.Message)
	namespace, task := labelsOf(&d.Message)
	dst = appendText(dst, "namespace", namespace)
	dst = appendText(dst, "task", task)
	dst = appendBool(dst, "isEncrypted", d.WasEncrypted)
	if d.Dead {
		dst = appendText(dst, "errorMessage", d.Error)
	} else {
		dst = appendNull(dst, "errorMessage")
	}
	dst = appendInt(dst, "retryCount", d.Retries)
	dst = appendKey(dst, "consumerGroups")
	dst = appendList(dst, len(d.Groups), func(dst []byte, i int) []byte {
		g := &d.Groups[i]
		dst = appendString(append(dst, `{"name":`...), g.Group)
		dst = appendText(dst, "group", g.Group)
		dst = appendBool(dst, "consumed", g.Consumed)
		return append(appendExpiry(dst, g.LeaseExpires), '}')
	})
	dst = appendMode(appendKey(dst, "mode"), &d.Mode)
	dst = strconv.AppendInt(append(dst, `,"queueConfig":{"leaseTime":`...), d.Options.LeaseTime, 10)
	dst = appendInt(dst, "retryLimit", d.Options.RetryLimit)
	dst = appendInt(dst, "retryDelay", d.Options.RetryDelay)
	dst = appendInt(dst, "ttl", d.Options.TTL)
	return append(appendInt(dst, "priority", d.Options.Priority), "}}"...)
}

// labelsOf returns namespace and task of a message's queue; where those are
// empty, the parts of its name between dots stand for them.
func labelsOf(m *broker.Message) (namespace, task string) {
	parts := strings.SplitN(m.Queue, ".", 3)
	if namespace = m.Namespace; namespace == "" {
		namespace = parts[0]
	}
	if task = m.Task; task == "" && len(parts) > 1 {
		task = parts[1]
	}
	return namespace, task
}
