package api

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/valyala/fasthttp"

	"queend/api/jsonscan"
	"queend/broker"
)

// recordTrace answers POST /api/v1/traces (docs/rules.md, S8). The message
// need not exist.
func (r *request) recordTrace() {
	var e broker.TraceEntry
	err := r.readBody(true, func(key string, v jsonscan.Value) error {
		switch key {
		case "transactionId":
			return readPlainText(key, v, &e.TxnID)
		case "partitionId":
			return readPlainText(key, v, &e.PartitionID)
		case "consumerGroup":
			return readPlainText(key, v, &e.Group)
		case "eventType":
			return readPlainText(key, v, &e.EventType)
		case "data":
			e.Data = bytes.Clone(v.Raw)
		case "traceNames":
			e.Names = traceNamesOf(v)
		}
		return nil
	})
	switch {
	case err != nil:
		r.badBody(err)
		return
	case e.TxnID == "" || e.PartitionID == "":
		r.badRequest("transactionId and partitionId are required")
		return
	case e.Data == nil:
		r.badRequest("data is required")
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	id, err := r.broker.RecordTrace(ctx, r.tenant, e)
	if err != nil {
		r.unmanaged(err, "trace")
		return
	}
	r.json(fasthttp.StatusCreated, func(dst []byte) []byte {
		return append(appendID(append(dst, `{"success":true`...), "traceId", id), '}')
	})
}

// readPlainText reads text that is no name: it may hold anything.
func readPlainText(key string, v jsonscan.Value, into *string) (err error) {
	if *into, err = v.String(); err != nil {
		return fmt.Errorf("%s is %w", key, err)
	}
	return nil
}

// traceNamesOf reads a name or an array of them; what is neither is ignored.
func traceNamesOf(v jsonscan.Value) (names []string) {
	if text, err := v.String(); err == nil {
		return []string{text}
	}
	if v.Kind != jsonscan.Array {
		return nil
	}
	s := v.Scanner()
	_ = s.Array(func(int) error { // checked when the body was read
		v, err := s.Value()
		if text, notText := v.String(); err == nil && notText == nil {
			names = append(names, text)
		}
		return err
	})
	return names
}

// traces answers GET /api/v1/traces/:pid/:txn.
func (r *request) traces() {
	ctx, cancel := r.within()
	defer cancel()
	found, err := r.broker.TracesOf(ctx, r.tenant, r.param("pid"), r.param("txn"))
	if err != nil {
		r.unmanaged(err, "traces")
		return
	}
	r.json(fasthttp.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"traces":`...)
		dst = appendList(dst, len(found), func(dst []byte, i int) []byte { return append(appendTrace(dst, &found[i]), '}') })
		return append(dst, '}')
	})
}

// appendTrace leaves the object open.
func appendTrace(dst []byte, t *broker.Trace) []byte {
	dst = append(dst, `{"id":"`...)
	dst = append(t.ID.Append(dst), '"')
	dst = appendText(dst, "event_type", t.EventType)
	dst = appendRaw(dst, "data", t.Data)
	dst = appendText(dst, "consumer_group", t.Group)
	dst = appendText(dst, "worker_id", t.Worker)
	dst = appendTime(dst, "created_at", t.At, layoutMillis)
	return appendTexts(dst, "trace_names", t.Names)
}

// tracesByName answers GET /api/v1/traces/by-name/:name.
func (r *request) tracesByName() {
	limit, offset := r.query.page(100, 10000)
	if r.badQuery() {
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	page, err := r.broker.TracesByName(ctx, r.tenant, r.param("name"), limit, offset)
	if err != nil {
		r.unmanaged(err, "traces")
		return
	}
	r.json(fasthttp.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"traces":`...)
		dst = appendList(dst, len(page.Traces), func(dst []byte, i int) []byte {
			t := &page.Traces[i]
			dst = appendTrace(dst, t)
			dst = appendText(dst, "transaction_id", t.TxnID)
			dst = appendText(dst, "partition_id", t.PartitionID)
			dst = appendText(dst, "queue_name", t.Queue)
			dst = appendText(dst, "partition_name", t.Partition)
			return append(appendNull(dst, "message_payload"), '}')
		})
		return appendPage(dst, page.Total, limit, offset)
	})
}

// appendPage closes a listing that has a true count.
func appendPage(dst []byte, total, limit, offset int) []byte {
	dst = appendInt(dst, "total", int64(total))
	dst = strconv.AppendInt(append(dst, `,"pagination":{"limit":`...), int64(limit), 10)
	return append(appendInt(dst, "offset", int64(offset)), "}}"...)
}

// traceNames answers GET /api/v1/traces/names.
func (r *request) traceNames() {
	limit, offset := r.query.page(50, 10000)
	if r.badQuery() {
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	page, err := r.broker.TraceNames(ctx, r.tenant, limit, offset)
	if err != nil {
		r.unmanaged(err, "trace names")
		return
	}
	r.json(fasthttp.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"trace_names":`...)
		dst = appendList(dst, len(page.Names), func(dst []byte, i int) []byte {
			n := &page.Names[i]
			dst = appendString(append(dst, `{"trace_name":`...), n.Name)
			dst = appendInt(dst, "trace_count", int64(n.Traces))
			dst = appendInt(dst, "message_count", int64(n.Messages))
			return append(appendTime(dst, "last_seen", n.LastSeen, layoutMillis), '}')
		})
		return appendPage(dst, page.Total, limit, offset)
	})
}
