package api

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"queend/api/jsonscan"
	"queend/broker"
)

// riders are parts of a transaction that this broker does not have. A body
// that carries one is refused, never carried out in part (docs/rules.md, S17).
var riders = map[string]bool{"kv": true, "timers": true, "positions": true}

// transactionBody is a transaction as read.
type transactionBody struct {
	ops      []broker.TxnOp
	required []string
	found    bool // operations is there
}

var errOperations = errors.New("operations must be an array")

// transaction answers POST /api/v1/transaction (docs/rules.md, S4).
func (r *request) transaction() {
	room, ok := r.server.bodies.unpack(r.body())
	defer room.release()
	if !ok {
		tooMany(r)
		return
	}
	body, err := decodeTransaction(r.body())
	if err != nil {
		r.badTransaction(err)
		return
	}
	ctx := r.server.statements.from(r.server.background, time.Now())
	out, err := r.broker.Transaction(ctx, r.tenant, r.producer, body.ops, body.required)
	if err != nil {
		r.refuse(err, "transaction")
		return
	}
	r.json(200, func(dst []byte) []byte { return appendTransaction(dst, &out) })
}

// noQueueError is an inline push without a queue, which rolls back (section
// 4.5) where any other mistake of shape is a 400.
type noQueueError struct{ error }

func (e noQueueError) Unwrap() error { return e.error }

// badTransaction answers in the shape of a transaction that nothing was done.
func (r *request) badTransaction(err error) {
	status := fasthttp.StatusBadRequest
	if errors.As(err, new(noQueueError)) {
		status = fasthttp.StatusOK
	}
	r.code = "bad_request"
	r.json(status, func(dst []byte) []byte {
		dst = append(dst, `{"transactionId":"`...)
		dst = append(r.broker.NewID().Append(dst), '"')
		dst = append(dst, `,"success":false,"reason":"bad_request"`...)
		dst = appendText(dst, "error", "bad body: "+err.Error())
		dst = appendText(dst, "code", "bad_request")
		return append(dst, `,"results":[]}`...)
	})
}

func appendTransaction(dst []byte, out *broker.TxnOutcome) []byte {
	dst = append(dst, `{"transactionId":"`...)
	dst = append(out.ID.Append(dst), '"')
	dst = appendBool(dst, "success", out.Success)
	if !out.Success {
		dst = appendText(dst, "reason", out.Reason)
		dst = appendText(dst, "error", out.Error)
	}
	dst = appendKey(dst, "results")
	dst = appendList(dst, len(out.Results), func(dst []byte, i int) []byte {
		return appendTxnResult(dst, i, &out.Results[i])
	})
	return append(dst, '}')
}

func appendTxnResult(dst []byte, i int, t *broker.TxnResult) []byte {
	dst = strconv.AppendInt(append(dst, `{"index":`...), int64(i), 10)
	if t.Push {
		dst = appendText(dst, "type", "push")
	} else {
		dst = appendText(dst, "type", "ack")
	}
	dst = appendBool(dst, "success", t.Success)
	dst = appendText(dst, "transactionId", t.TxnID)
	if t.Push {
		dst = appendID(dst, "messageId", t.MessageID)
		dst = appendText(dst, "queueName", t.Queue)
		if t.Duplicate {
			dst = appendBool(dst, "duplicate", true)
		}
		return append(dst, '}')
	}
	if t.Error == "" {
		dst = appendNull(dst, "error")
	} else {
		dst = appendText(dst, "error", t.Error)
	}
	return append(appendBool(dst, "dlq", t.DLQ), '}')
}

// decodeTransaction reads the body. Pushes point into it.
func decodeTransaction(body []byte) (transactionBody, error) {
	var t transactionBody
	s, err := jsonscan.New(body)
	if err != nil {
		return t, err
	}
	if s.Kind() != jsonscan.Object {
		if _, err := s.Value(); err != nil {
			return t, err
		}
		return t, errOperations
	}
	err = s.Object(func(key []byte) (err error) {
		switch name := string(key); {
		case name == "operations":
			return t.readOperations(&s)
		case name == "requiredLeases":
			t.required, err = requiredIDs(&s, name)
			return err
		case riders[name]:
			return refuseRider(&s, name)
		}
		return nil
	})
	if err == nil {
		err = s.End()
	}
	if err == nil && !t.found {
		err = errOperations
	}
	return t, err
}

// refuseRider accepts an absent or empty rider and refuses any other.
func refuseRider(s *jsonscan.Scanner, name string) error {
	v, err := s.Value()
	if err != nil || v.Kind == jsonscan.Null {
		return err
	}
	if v.Kind != jsonscan.Array {
		return fmt.Errorf("%s must be an array", name)
	}
	inside := v.Scanner()
	return inside.Array(func(int) error { return fmt.Errorf("%s is not supported by this broker", name) })
}

func (t *transactionBody) readOperations(s *jsonscan.Scanner) error {
	if s.Kind() != jsonscan.Array {
		return errOperations
	}
	t.found = true
	return s.Array(func(i int) error {
		if s.Kind() != jsonscan.Object {
			return fmt.Errorf("operations[%d] must be an object", i)
		}
		v, err := s.Value()
		if err != nil {
			return err
		}
		if err := t.addOperation(v); err != nil {
			return within(fmt.Sprintf("operations[%d]", i), err)
		}
		return nil
	})
}

// addOperation reads the type first, since the other keys depend on it.
func (t *transactionBody) addOperation(v jsonscan.Value) error {
	kind := ""
	s := v.Scanner()
	err := s.Object(func(key []byte) error {
		if string(key) != "type" {
			return nil
		}
		word, err := s.Value()
		if err != nil {
			return err
		}
		kind, _ = word.String()
		return nil
	})
	if err != nil {
		return err
	}
	switch kind {
	case "push":
		return t.addPush(v)
	case "ack":
		return t.addAck(v)
	}
	return errField("type", fmt.Sprintf("must be push or ack, got %q", kind))
}

// addPush reads a push operation: items, or one item inline.
func (t *transactionBody) addPush(v jsonscan.Value) error {
	s := v.Scanner()
	many := false
	err := s.Object(func(key []byte) error {
		if string(key) != "items" || s.Kind() == jsonscan.Null {
			return nil
		}
		if s.Kind() != jsonscan.Array {
			return errField("items", "must be an array")
		}
		many = true
		return s.Array(func(i int) error {
			if s.Kind() != jsonscan.Object {
				return errField(fmt.Sprintf("items[%d]", i), "must be an object")
			}
			item, err := decodeItem(&s, transactionItemFields, nil)
			if err != nil {
				return within(fmt.Sprintf(".items[%d]", i), err)
			}
			t.ops = append(t.ops, broker.TxnOp{Push: &item})
			return nil
		})
	})
	if err != nil || many {
		return err
	}
	s = v.Scanner()
	item, err := decodeItem(&s, transactionItemFields, nil)
	switch {
	case errors.Is(err, errQueueRequired):
		return noQueueError{err}
	case err == nil:
		t.ops = append(t.ops, broker.TxnOp{Push: &item})
	}
	return err
}

func (t *transactionBody) addAck(v jsonscan.Value) error {
	s := v.Scanner()
	e, err := decodeAck(&s, &ackEntry{})
	if err != nil {
		return err
	}
	if e.problem != "" {
		return errors.New(e.problem)
	}
	t.ops = append(t.ops, broker.TxnOp{Ack: &e.item, Group: e.group})
	return nil
}
