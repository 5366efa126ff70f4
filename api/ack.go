package api

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"queend/api/jsonscan"
	"queend/broker"
)

// maxDelayMS bounds the spacing of a retry (A2): a day.
const maxDelayMS = 86400000

// ackEntry is an ack item as read. problem refuses the item before the
// broker sees it: nothing in an item makes the whole call fail.
type ackEntry struct {
	item    broker.AckItem
	group   string // of transactions' acks
	problem string
}

// ack answers POST /api/v1/ack (docs/rules.md, S4).
func (r *request) ack() {
	s, err := jsonscan.New(r.body())
	if err == nil && s.Kind() != jsonscan.Object {
		if _, err = s.Value(); err == nil {
			err = errors.New("must be an object")
		}
	}
	var entry ackEntry
	if err == nil {
		entry, err = decodeAck(&s, &ackEntry{})
	}
	if err == nil {
		err = s.End()
	}
	if err != nil {
		r.badBody(err)
		return
	}
	r.settle(entry.group, []ackEntry{entry})
}

var errAcknowledgments = errors.New("acknowledgments must be an array")

// ackBatch answers POST /api/v1/ack/batch.
func (r *request) ackBatch() {
	room, ok := r.server.bodies.unpack(r.body())
	defer room.release()
	if !ok {
		tooMany(r)
		return
	}
	group, entries, err := decodeAckBatch(r.body())
	if err != nil {
		r.badBody(err)
		return
	}
	r.settle(group, entries)
}

// usualAck is about what an item of a batch takes, in bytes; not more than what
// it becomes.
const usualAck = 160

// decodeAckBatch reads the body of a batch. The entries point into it.
func decodeAckBatch(body []byte) (group string, entries []ackEntry, err error) {
	s, err := jsonscan.New(body)
	if err != nil {
		return "", nil, err
	}
	if s.Kind() != jsonscan.Object {
		if _, err := s.Value(); err != nil {
			return "", nil, err
		}
		return "", nil, errAcknowledgments
	}
	found := false
	err = s.Object(func(key []byte) error {
		switch string(key) {
		case "consumerGroup":
			v, err := s.Value()
			if err != nil {
				return err
			}
			group, err = groupField(v)
			return err
		case "acknowledgments":
			if s.Kind() != jsonscan.Array {
				return errAcknowledgments
			}
			found = true
			entries = make([]ackEntry, 0, len(body)/usualAck+1)
			before := &ackEntry{}
			return s.Array(func(int) error {
				entry, err := decodeAck(&s, before)
				entries = append(entries, entry)
				before = &entries[len(entries)-1]
				return err
			})
		}
		return nil
	})
	if err == nil {
		err = s.End()
	}
	if err == nil && !found {
		err = errAcknowledgments
	}
	return group, entries, err
}

// groupField reads a consumer group; null is absent.
func groupField(v jsonscan.Value) (string, error) {
	if v.Kind == jsonscan.Null {
		return "", nil
	}
	text, err := v.Name()
	if err != nil {
		return "", errors.New("consumerGroup " + nameProblem(err))
	}
	return string(text), nil
}

// decodeAck reads one ack item; the scanner is at it. What is wrong inside is
// the item's own problem. What it has in common with the item before it shares,
// which most items do.
func decodeAck(s *jsonscan.Scanner, before *ackEntry) (ackEntry, error) {
	e := ackEntry{item: broker.AckItem{Signal: broker.Completed, DelayMS: -1}}
	if s.Kind() != jsonscan.Object {
		e.problem = "must be an object"
		_, err := s.Value()
		return e, err
	}
	err := s.Object(func(key []byte) error {
		v, err := s.Value()
		if err == nil && v.Kind != jsonscan.Null {
			e.set(key, v, before)
		}
		return err
	})
	switch {
	case e.problem != "":
	case e.item.TxnID == nil:
		e.problem = "transactionId is required"
	case e.item.Partition == "":
		e.problem = "partitionId is required"
	}
	return e, err
}

func (e *ackEntry) set(key []byte, v jsonscan.Value, before *ackEntry) {
	switch string(key) {
	case "transactionId":
		e.item.TxnID = e.text(key, v)
	case "partitionId":
		e.item.Partition = shared(before.item.Partition, e.text(key, v))
	case "consumerGroup":
		e.group = shared(before.group, e.text(key, v))
	case "leaseId":
		e.item.Lease = shared(before.item.Lease, e.text(key, v))
	case "status":
		e.item.Signal = signalOf(v)
	case "error":
		if text, err := v.String(); err == nil {
			e.item.Error = text
		} else {
			e.item.Error = string(v.Raw)
		}
	case "delayMs":
		n, err := v.Int64()
		if err != nil || n < 0 || n > maxDelayMS {
			e.problem = "delayMs must be a whole number from 0 to 86400000"
			return
		}
		e.item.DelayMS = n
	}
}

// text reads an id; some clients send numbers for ids they took for numbers.
// The text points into the body.
func (e *ackEntry) text(key []byte, v jsonscan.Value) []byte {
	if v.Kind == jsonscan.Number {
		return v.Raw
	}
	text, err := v.Text()
	if err != nil {
		e.problem = string(key) + " " + nameProblem(err)
		return []byte{}
	}
	return text
}

// shared is text as a string: the one before if it is the same.
func shared(before string, text []byte) string {
	if before == string(text) {
		return before
	}
	return string(text)
}

// signalOf reads the status words, exact and case-sensitive.
func signalOf(v jsonscan.Value) broker.Signal {
	text, err := v.Text()
	if err != nil {
		return broker.Failed
	}
	switch string(text) {
	case "completed", "success", "acked", "ok":
		return broker.Completed
	case "retry":
		return broker.Retry
	case "dlq":
		return broker.DLQ
	}
	return broker.Failed
}

// settle has the broker carry out the good items and answers for all.
func (r *request) settle(group string, entries []ackEntry) {
	items := make([]broker.AckItem, 0, len(entries))
	for i := range entries {
		if entries[i].problem == "" {
			items = append(items, entries[i].item)
		}
	}
	ctx := r.server.statements.from(r.server.background, time.Now())
	results, err := r.broker.Ack(ctx, r.tenant, group, items)
	if err != nil {
		r.refuse(err, "ack")
		return
	}
	r.json(200, func(dst []byte) []byte {
		next := 0
		return appendList(dst, len(entries), func(dst []byte, i int) []byte {
			res := broker.AckResult{Error: entries[i].problem}
			if entries[i].problem == "" {
				res = results[next]
				next++
			}
			return appendAck(dst, i, entries[i].item.TxnID, &res)
		})
	})
}

func appendAck(dst []byte, i int, txn []byte, a *broker.AckResult) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(i), 10)
	dst = appendText(dst, "transactionId", txn)
	dst = appendBool(dst, "success", a.Success)
	if a.Error == "" {
		dst = appendNull(dst, "error")
	} else {
		dst = appendText(dst, "error", a.Error)
	}
	dst = appendBool(dst, "leaseReleased", a.LeaseReleased)
	dst = appendBool(dst, "dlq", a.DLQ)
	dst = appendBool(dst, "noop", a.Noop)
	if a.Dropped {
		dst = appendBool(dst, "dropped", true)
	}
	if a.Conflated > 0 {
		dst = appendInt(dst, "conflated", a.Conflated)
	}
	return append(dst, '}')
}

// leaseSeconds reads the body of an extend: anything that is not understood
// means 60, and less than 1 means 1.
func leaseSeconds(body []byte) int64 {
	seconds := int64(60)
	s, err := jsonscan.New(body)
	if err != nil || s.Kind() != jsonscan.Object {
		return seconds
	}
	err = s.Object(func(key []byte) error {
		if string(key) != "seconds" {
			return nil
		}
		v, err := s.Value()
		if err != nil {
			return err
		}
		if n, err := v.Int64(); err == nil {
			seconds = max(n, 1)
		}
		return nil
	})
	if err != nil || s.End() != nil {
		return 60
	}
	return seconds
}

// extendLease answers POST /api/v1/lease/:leaseId/extend (docs/rules.md, S4).
func (r *request) extendLease() {
	id := r.param("leaseId")
	ctx, cancel := r.deadline(r.server.limits.statement)
	defer cancel()
	renewed, earliest, err := r.broker.Extend(ctx, r.tenant, id, leaseSeconds(r.body()))
	if err != nil {
		status, code, text := r.refusalOf(err, "renew")
		r.fail(status, code, text)
		return
	}
	r.json(200, func(dst []byte) []byte {
		dst = appendString(append(dst, `{"leaseId":`...), id)
		dst = appendBool(dst, "success", renewed > 0)
		dst = appendInt(dst, "renewed", int64(renewed))
		for _, key := range []string{"newExpiresAt", "expiresAt", "lease_expires_at"} {
			if renewed == 0 {
				dst = appendNull(dst, key)
			} else {
				dst = appendTime(dst, key, earliest, layoutMicros)
			}
		}
		return append(dst, '}')
	})
}

// releaseLease answers DELETE /api/v1/lease/:leaseId (A6).
func (r *request) releaseLease() {
	id := r.param("leaseId")
	ctx, cancel := r.deadline(r.server.limits.statement)
	defer cancel()
	released, err := r.broker.Release(ctx, r.tenant, id)
	if err != nil {
		r.refuse(err, "release")
		return
	}
	r.json(200, func(dst []byte) []byte {
		dst = appendString(append(dst, `{"leaseId":`...), id)
		dst = appendBool(dst, "success", released > 0)
		return append(appendInt(dst, "released", int64(released)), '}')
	})
}

// requiredIDs reads an array of strings.
func requiredIDs(s *jsonscan.Scanner, field string) ([]string, error) {
	if s.Kind() == jsonscan.Null {
		return nil, nil
	}
	if s.Kind() != jsonscan.Array {
		return nil, fmt.Errorf("%s must be an array of strings", field)
	}
	var ids []string
	err := s.Array(func(i int) error {
		v, err := s.Value()
		if err != nil {
			return err
		}
		text, err := v.String()
		if err != nil {
			return fmt.Errorf("%s[%d] is %w", field, i, err)
		}
		ids = append(ids, text)
		return nil
	})
	return ids, err
}
