package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"queend/api/jsonscan"
	"queend/broker"
)

// within is the context of one management call.
func (r *request) within() (context.Context, context.CancelFunc) {
	return r.deadline(r.server.limits.statement)
}

// answer answers with a value as encoding/json writes it. It is for answers
// without payloads, which must go out byte for byte.
func (r *request) answer(status int, value any) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic(fmt.Sprintf("api: %T has no JSON: %v", value, err))
	}
	r.json(status, func(dst []byte) []byte { return append(dst, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...) })
}

// unmanaged answers for a management call that failed: as a refusal asks for,
// else 404 when the text says that something was not found, else 500.
func (r *request) unmanaged(err error, operation string) {
	var refused *broker.Refusal
	if !errors.As(err, &refused) && strings.Contains(strings.ToLower(err.Error()), "not found") {
		r.fail(fasthttp.StatusNotFound, string(broker.CodeNotFound), err.Error())
		return
	}
	r.refuse(err, operation)
}

// badQuery reports whether a parameter is not of its type, and answers then.
func (r *request) badQuery() bool {
	err := r.query.err()
	if err != nil {
		r.fail(fasthttp.StatusBadRequest, string(broker.CodeBadRequest), err.Error())
	}
	return err != nil
}

// badRequest answers 400 with a text.
func (r *request) badRequest(text string) {
	r.fail(fasthttp.StatusBadRequest, string(broker.CodeBadRequest), text)
}

// optional returns a parameter, nil when it is absent. Unlike text it keeps
// "", which is the name of a queue.
func (q *query) optional(name string) *string {
	if !q.has(name) {
		return nil
	}
	value := q.text(name, "")
	return &value
}

// page reads limit and offset and brings them into their bounds.
func (q *query) page(limit, most int64) (int, int) {
	return int(min(max(q.int("limit", limit), 1), most)), int(min(max(q.int("offset", 0), 0), 1<<40))
}

// time returns an instant in microseconds, absent when the parameter is empty
// too.
func (q *query) time(name string, absent int64) int64 {
	value := strings.TrimSpace(q.text(name, ""))
	if value == "" {
		return absent
	}
	at, ok := broker.ParseTime(value)
	if !ok {
		// The + of a zone that was not escaped arrives as a space.
		if i := strings.LastIndexByte(value, ' '); i > 0 {
			at, ok = broker.ParseTime(value[:i] + "+" + value[i+1:])
		}
	}
	if !ok {
		q.refuse(name, "not an ISO-8601 time with a zone")
		return absent
	}
	return at
}

var errObject = errors.New("must be an object")

// readBody shows field every member of the body, which must be an object.
// Members that are null are left out: they are absent. An empty body has no
// members where allowed.
func (r *request) readBody(emptyAllowed bool, field func(key string, v jsonscan.Value) error) error {
	body := r.body()
	if emptyAllowed && len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	s, err := jsonscan.New(body)
	if err != nil {
		return err
	}
	if s.Kind() != jsonscan.Object {
		if _, err := s.Value(); err != nil {
			return err
		}
		return errObject
	}
	err = s.Object(func(key []byte) error {
		v, err := s.Value()
		if err != nil || v.Kind == jsonscan.Null {
			return err
		}
		return field(string(key), v)
	})
	if err == nil {
		err = s.End()
	}
	return err
}

// readText, readInt, readBool and readTime store a member of a body.

func readText(key string, v jsonscan.Value, into *string) error {
	text, err := v.Name()
	if err != nil {
		return fmt.Errorf("%s is %w", key, err)
	}
	*into = string(text)
	return nil
}

func readInt(key string, v jsonscan.Value, into *int64) (err error) {
	if *into, err = v.Int64(); err != nil {
		return fmt.Errorf("%s is %w", key, err)
	}
	return nil
}

func readBool(key string, v jsonscan.Value, into *bool) (err error) {
	if *into, err = v.Bool(); err != nil {
		return fmt.Errorf("%s is %w", key, err)
	}
	return nil
}

func readTime(key string, v jsonscan.Value, into *int64) error {
	text, err := v.String()
	if err != nil {
		return fmt.Errorf("%s is %w", key, err)
	}
	at, ok := broker.ParseTime(strings.TrimSpace(text))
	if !ok {
		return fmt.Errorf("%s is not an ISO-8601 time with a zone", key)
	}
	*into = at
	return nil
}

// instant is microseconds since 1970, written as in listings.
type instant int64

// MarshalJSON writes milliseconds in UTC.
func (at instant) MarshalJSON() ([]byte, error) {
	return time.UnixMicro(int64(at)).UTC().AppendFormat(nil, `"`+layoutMillis+`"`), nil
}

// instantOf turns a time that may be missing into one to write.
func instantOf(at *int64) *instant { return (*instant)(at) }

// secondsOf turns microseconds into seconds, cut to milliseconds.
func secondsOf(micros int64) float64 { return float64(micros/1000) / 1000 }
