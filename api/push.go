package api

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"queend"
	"queend/api/jsonscan"
	"queend/broker"
)

// Bounds of message headers (A1).
const (
	maxHeaderKeys  = 64
	maxHeaderBytes = 16 << 10
)

var errItemsRequired = errors.New("items must be an array")

// pushItems are lists of items to be used again. The broker keeps none.
var pushItems = sync.Pool{New: func() any { return new([]broker.PushItem) }}

// maxPooledItems keeps a rare huge push from holding its list for ever.
const maxPooledItems = 4096

// pushResultBytes is about what one result of a push takes in the answer.
const pushResultBytes = 192

// push answers POST /api/v1/push (docs/rules.md, S4).
func (r *request) push() {
	room, ok := r.server.bodies.unpack(r.body())
	defer room.release()
	if !ok {
		tooMany(r)
		return
	}
	scratch := pushItems.Get().(*[]broker.PushItem)
	defer func() {
		if clear(*scratch); cap(*scratch) <= maxPooledItems {
			*scratch = (*scratch)[:0]
			pushItems.Put(scratch)
		}
	}()
	items, err := decodePush(*scratch, r.body())
	*scratch = items
	if err != nil {
		r.badBody(err)
		return
	}
	ctx := r.server.pushes.from(r.server.background, time.Now())
	results, err := r.broker.Push(ctx, r.tenant, r.producer, items)
	if err != nil {
		r.refuse(err, "push")
		return
	}
	r.json(201, func(dst []byte) []byte {
		return appendList(slices.Grow(dst, pushResultBytes*len(results)), len(results), func(dst []byte, i int) []byte {
			return appendPushResult(dst, i, &results[i])
		})
	})
}

// pushWords are the statuses as clients read them.
var pushWords = [...]string{
	broker.PushQueued: "queued", broker.PushDuplicate: "duplicate", broker.PushBuffered: "buffered",
	broker.PushFailed: "failed",
}

func appendPushResult(dst []byte, i int, p *broker.PushResult) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(i), 10)
	dst = appendID(dst, "message_id", p.ID)
	dst = appendText(dst, "transaction_id", p.TxnID)
	dst = appendText(dst, "queueName", p.Queue)
	dst = appendText(dst, "status", pushWords[p.Status])
	if p.Offset != queend.NoOffset {
		dst = appendInt(dst, "offset", int64(p.Offset))
	}
	if p.Error != "" {
		dst = appendText(dst, "error", p.Error)
	}
	return append(dst, '}')
}

// decodePush reads the body of a push and appends its items to those given.
// They point into it.
func decodePush(items []broker.PushItem, body []byte) ([]broker.PushItem, error) {
	s, err := jsonscan.New(body)
	if err != nil {
		return items, err
	}
	if s.Kind() != jsonscan.Object {
		if _, err := s.Value(); err != nil {
			return items, err
		}
		return items, errItemsRequired
	}
	found := false
	err = s.Object(func(key []byte) error {
		if string(key) != "items" {
			return nil
		}
		if s.Kind() != jsonscan.Array {
			return errItemsRequired
		}
		found = true
		return s.Array(func(i int) error {
			if s.Kind() != jsonscan.Object {
				return fmt.Errorf("items[%d] must be an object", i)
			}
			item, err := decodeItem(&s, pushItemFields, last(items))
			if err != nil {
				return within(fmt.Sprintf("items[%d]", i), err)
			}
			items = append(items, item)
			return nil
		})
	})
	if err == nil {
		err = s.End()
	}
	if err == nil && !found {
		err = errItemsRequired
	}
	return items, err
}

// last is the item before the next one, nil when there is none.
func last(items []broker.PushItem) *broker.PushItem {
	if len(items) == 0 {
		return nil
	}
	return &items[len(items)-1]
}

// itemRules are what differs between the routes that take messages.
type itemRules struct {
	needPayload bool // else {} stands for a missing one
	dataAlias   bool // data is another name of payload
	trace       bool // traceId is stored
}

var (
	pushItemFields        = itemRules{needPayload: true}
	transactionItemFields = itemRules{dataAlias: true, trace: true}
)

// fieldError is about one field of a value: it prints as ".field problem".
type fieldError struct{ text string }

func (e fieldError) Error() string { return e.text }

func errField(field, problem string) error { return fieldError{"." + field + " " + problem} }

// within says in which value of the body an error is.
func within(place string, err error) error {
	var field fieldError
	if errors.As(err, &field) {
		return fmt.Errorf("%s%w", place, err)
	}
	return fmt.Errorf("%s: %w", place, err)
}

// nameProblem says what is wrong with a value that is to be a name.
func nameProblem(err error) string {
	switch {
	case errors.Is(err, jsonscan.ErrControl):
		return "has a control character"
	case errors.Is(err, jsonscan.ErrSurrogate):
		return "has half of a surrogate pair"
	}
	return "must be a string"
}

var errQueueRequired = errField("queue", "is required")

// nameField reads a string that is a name or an id; null is absent.
func nameField(v jsonscan.Value, field string) ([]byte, error) {
	if v.Kind == jsonscan.Null {
		return nil, nil
	}
	text, err := v.Name()
	if err != nil {
		return nil, errField(field, nameProblem(err))
	}
	if text == nil {
		text = []byte{}
	}
	return text, nil
}

// decodeItem reads one message to push; the scanner is at its object. before is
// an item whose names this one may well have, nil without one.
func decodeItem(s *jsonscan.Scanner, rules itemRules, before *broker.PushItem) (broker.PushItem, error) {
	var it broker.PushItem
	if before == nil {
		before = &it
	}
	var hasQueue bool
	err := s.Object(func(key []byte) error {
		switch string(key) {
		case "queue", "partition", "transactionId", "payload", "data", "headers", "traceId":
		default:
			return nil
		}
		v, err := s.Value()
		if err != nil {
			return err
		}
		return setItemField(&it, &hasQueue, rules, before, string(key), v)
	})
	if err != nil {
		return it, err
	}
	if !hasQueue {
		return it, errQueueRequired
	}
	if it.Payload == nil {
		if rules.needPayload {
			return it, errField("payload", "is required")
		}
		it.Payload = []byte("{}")
	}
	return it, nil
}

func setItemField(it *broker.PushItem, hasQueue *bool, rules itemRules, before *broker.PushItem, key string, v jsonscan.Value) error {
	switch key {
	case "payload":
		it.Payload = v.Raw
		return nil
	case "data":
		if rules.dataAlias && it.Payload == nil {
			it.Payload = v.Raw
		}
		return nil
	case "headers":
		return setHeaders(it, v)
	case "traceId":
		if text, err := v.String(); rules.trace && err == nil {
			it.TraceID, _ = queend.ParseID(text)
		}
		return nil
	}
	text, err := nameField(v, key)
	if err != nil || text == nil {
		return err
	}
	switch key {
	case "queue":
		it.Queue, *hasQueue = sameText(text, before.Queue), true
	case "partition":
		it.Partition = sameText(text, before.Partition)
	case "transactionId":
		it.TxnID = text
	}
	return nil
}

// sameText is text as a string, without a copy when known is the same.
func sameText(text []byte, known string) string {
	if string(text) == known {
		return known
	}
	return string(text)
}

// setHeaders checks and keeps the headers of a message (A1).
func setHeaders(it *broker.PushItem, v jsonscan.Value) error {
	if v.Kind == jsonscan.Null {
		return nil
	}
	if v.Kind != jsonscan.Object {
		return errField("headers", "must be an object of strings")
	}
	if len(v.Raw) > maxHeaderBytes {
		return errField("headers", "are larger than 16 KiB")
	}
	keys := 0
	s := v.Scanner()
	err := s.Object(func([]byte) error {
		if keys++; s.Kind() != jsonscan.String {
			return errField("headers", "must be an object of strings")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if keys > maxHeaderKeys {
		return errField("headers", "have more than 64 keys")
	}
	it.Headers = v.Raw
	return nil
}
