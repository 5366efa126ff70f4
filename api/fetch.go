package api

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"queend"
	"queend/api/jsonscan"
	"queend/broker"
	"queend/segment"
)

// Bounds of the reads by offset (docs/rules.md, S11).
const (
	maxFetchEntries = 1024
	maxFetchBytes   = 8 << 20
	fetchBytes      = 1 << 20 // when an entry names no maxBytes
	maxFetchWaitMS  = 30000
	maxChanged      = 1000
)

// readEntries shows entry every element of the array entries of the body, and
// other every member beside it.
func (r *request) readEntries(entry func(i int, v jsonscan.Value) error, other func(key string, v jsonscan.Value) error) error {
	found := false
	err := r.readBody(false, func(key string, v jsonscan.Value) error {
		if key != "entries" {
			return other(key, v)
		}
		if v.Kind != jsonscan.Array {
			return errors.New("entries must be an array")
		}
		found = true
		s := v.Scanner()
		return s.Array(func(i int) error {
			if i >= maxFetchEntries {
				return fmt.Errorf("entries has more than %d elements", maxFetchEntries)
			}
			v, err := s.Value()
			if err == nil && v.Kind != jsonscan.Object {
				err = errObject
			}
			if err == nil {
				err = entry(i, v)
			}
			if err != nil {
				return fmt.Errorf("entries[%d]: %w", i, err)
			}
			return nil
		})
	})
	if err == nil && !found {
		err = errors.New("entries must be an array")
	}
	return err
}

// noOther ignores what stands beside the entries.
func noOther(string, jsonscan.Value) error { return nil }

// readMembers shows field the members of an object that are not null.
func readMembers(v jsonscan.Value, field func(key string, v jsonscan.Value) error) error {
	s := v.Scanner()
	return s.Object(func(key []byte) error {
		v, err := s.Value()
		if err != nil || v.Kind == jsonscan.Null {
			return err
		}
		return field(string(key), v)
	})
}

// readPlace reads the queue or the partition of an entry; a partition may be
// a number.
func readPlace(key string, v jsonscan.Value, queue **string, partition *string) error {
	if key == "queue" {
		*queue = new(string)
		return readText(key, v, *queue)
	}
	if v.Kind == jsonscan.Number {
		*partition = string(v.Raw)
		return nil
	}
	return readText(key, v, partition)
}

var errNoQueue = errors.New("queue is required")

// fetch answers POST /api/v1/fetch.
func (r *request) fetch() {
	q := broker.FetchRequest{Tenant: r.tenant, MinBytes: 1}
	err := r.readEntries(func(_ int, v jsonscan.Value) error {
		e, err := readFetchEntry(v)
		q.Entries = append(q.Entries, e)
		return err
	}, func(key string, v jsonscan.Value) error {
		switch key {
		case "maxWaitMs":
			return readInt(key, v, &q.MaxWaitMS)
		case "minBytes":
			return readInt(key, v, &q.MinBytes)
		}
		return nil
	})
	if err == nil && (q.MaxWaitMS < 0 || q.MinBytes < 0) {
		err = errors.New("maxWaitMs and minBytes must not be negative")
	}
	if err != nil {
		r.badBody(err)
		return
	}
	q.MaxWaitMS = min(q.MaxWaitMS, maxFetchWaitMS)
	r.mayWait = q.MaxWaitMS * broker.Millisecond
	ctx, cancel := r.deadline(r.server.limits.statement + time.Duration(q.MaxWaitMS)*time.Millisecond)
	defer cancel()
	out, err := r.broker.Fetch(ctx, q)
	if err != nil {
		r.unmanaged(err, "fetch")
		return
	}
	r.json(fasthttp.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"entries":`...)
		dst = appendList(dst, len(out), func(dst []byte, i int) []byte { return appendFetched(dst, &out[i]) })
		return append(dst, '}')
	})
}

func readFetchEntry(v jsonscan.Value) (e broker.FetchEntry, err error) {
	var queue *string
	offset := int64(0)
	e.MaxBytes = fetchBytes
	err = readMembers(v, func(key string, v jsonscan.Value) error {
		switch key {
		case "queue", "partition":
			return readPlace(key, v, &queue, &e.Partition)
		case "offset":
			return readInt(key, v, &offset)
		case "maxBytes":
			return readInt(key, v, &e.MaxBytes)
		}
		return nil
	})
	switch {
	case err != nil:
		return e, err
	case queue == nil:
		return e, errNoQueue
	case offset < 0:
		return e, errors.New("offset must not be negative")
	}
	e.Queue, e.Offset = *queue, queend.Offset(offset)
	e.MaxBytes = min(max(e.MaxBytes, 1), maxFetchBytes)
	return e, nil
}

// appendPlaceOf opens the object of an entry.
func appendPlaceOf(dst []byte, queue, partition string) []byte {
	dst = appendString(append(dst, `{"queue":`...), queue)
	return appendText(dst, "partition", partition)
}

func appendFetched(dst []byte, f *broker.Fetched) []byte {
	dst = appendPlaceOf(dst, f.Queue, f.Partition)
	dst = appendKey(dst, "records")
	dst = appendList(dst, len(f.Records), func(dst []byte, i int) []byte { return appendRecord(dst, &f.Records[i]) })
	return append(appendMarks(dst, f.HighWatermark, f.LogStart, f.Error), '}')
}

func appendMarks(dst []byte, end, start queend.Offset, problem broker.FetchError) []byte {
	dst = appendInt(dst, "highWatermark", int64(end))
	dst = appendInt(dst, "logStartOffset", int64(start))
	if problem != "" {
		dst = appendText(dst, "error", string(problem))
	}
	return dst
}

func appendRecord(dst []byte, m *segment.Message) []byte {
	dst = strconv.AppendInt(append(dst, `{"offset":`...), int64(m.Offset), 10)
	dst = appendText(dst, "transactionId", string(m.TxnID))
	dst = appendRaw(dst, "payload", m.Payload)
	dst = appendTime(dst, "ts", m.Time, layoutMicros)
	if m.Headers != nil {
		dst = appendRaw(dst, "headers", m.Headers)
	}
	return append(dst, '}')
}

// fetchOffsets answers POST /api/v1/fetch/offsets.
func (r *request) fetchOffsets() {
	var entries []broker.OffsetEntry
	err := r.readEntries(func(_ int, v jsonscan.Value) error {
		e, err := readOffsetEntry(v)
		entries = append(entries, e)
		return err
	}, noOther)
	if err != nil {
		r.badBody(err)
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	out, err := r.broker.FetchOffsets(ctx, r.tenant, entries)
	if err != nil {
		r.unmanaged(err, "fetch offsets")
		return
	}
	r.json(fasthttp.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"entries":`...)
		dst = appendList(dst, len(out), func(dst []byte, i int) []byte { return appendFoundOffset(dst, &out[i]) })
		return append(dst, '}')
	})
}

func readOffsetEntry(v jsonscan.Value) (e broker.OffsetEntry, err error) {
	var queue *string
	timed := false
	err = readMembers(v, func(key string, v jsonscan.Value) error {
		switch key {
		case "queue", "partition":
			return readPlace(key, v, &queue, &e.Partition)
		case "timestamp":
			timed = true
			return readMoment(key, v, &e.Time)
		}
		return nil
	})
	switch {
	case err != nil:
		return e, err
	case queue == nil:
		return e, errNoQueue
	case !timed:
		return e, errors.New("timestamp is required")
	}
	e.Queue = *queue
	return e, nil
}

// maxMillis is the largest number of milliseconds that fits in microseconds.
const maxMillis = (1<<63 - 1) / 1000

// readMoment reads a time that is a number of milliseconds since 1970, or
// text.
func readMoment(key string, v jsonscan.Value, into *int64) error {
	if v.Kind != jsonscan.Number {
		return readTime(key, v, into)
	}
	ms, err := v.Int64()
	if err != nil || ms > maxMillis || ms < -maxMillis {
		return fmt.Errorf("%s is not a whole number of milliseconds", key)
	}
	*into = ms * broker.Millisecond
	return nil
}

func appendFoundOffset(dst []byte, f *broker.FoundOffset) []byte {
	dst = appendPlaceOf(dst, f.Queue, f.Partition)
	if f.Found {
		dst = appendInt(dst, "offset", int64(f.Offset))
		dst = appendTime(dst, "ts", f.Time, layoutMicros)
	} else {
		dst = appendNull(appendNull(dst, "offset"), "ts")
	}
	return append(appendMarks(dst, f.HighWatermark, f.LogStart, f.Error), '}')
}

// partitionsChanged answers POST /api/v1/partitions/changed.
func (r *request) partitionsChanged() {
	var entries []broker.ChangedEntry
	err := r.readEntries(func(_ int, v jsonscan.Value) error {
		e, err := readChangedEntry(v)
		entries = append(entries, e)
		return err
	}, noOther)
	if err != nil {
		r.badBody(err)
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	safe, out, err := r.broker.PartitionsChanged(ctx, r.tenant, entries)
	if err != nil {
		r.unmanaged(err, "partitions changed")
		return
	}
	r.json(fasthttp.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"safeTimeDegraded":false`...)
		dst = appendTime(dst, "safeTime", safe, layoutMicros)
		dst = appendKey(dst, "entries")
		dst = appendList(dst, len(out), func(dst []byte, i int) []byte { return appendChanged(dst, &out[i]) })
		return append(dst, '}')
	})
}

func readChangedEntry(v jsonscan.Value) (e broker.ChangedEntry, err error) {
	limit := int64(maxChanged)
	err = readMembers(v, func(key string, v jsonscan.Value) error {
		switch key {
		case "queue":
			return readText(key, v, &e.Queue)
		case "since":
			e.Since = new(int64)
			return readMoment(key, v, e.Since)
		case "after":
			return readText(key, v, &e.After)
		case "limit":
			return readInt(key, v, &limit)
		}
		return nil
	})
	if err == nil && strings.TrimSpace(e.Queue) == "" {
		err = errNoQueue
	}
	e.Limit = int(min(max(limit, 1), maxChanged))
	return e, err
}

func appendChanged(dst []byte, c *broker.Changed) []byte {
	dst = appendString(append(dst, `{"queue":`...), c.Queue)
	dst = appendKey(dst, "partitions")
	dst = appendList(dst, len(c.Partitions), func(dst []byte, i int) []byte {
		p := &c.Partitions[i]
		dst = append(dst, `{"id":"`...)
		dst = append(p.ID.Append(dst), '"')
		dst = appendText(dst, "name", p.Name)
		dst = appendInt(dst, "lastOffset", int64(p.Last))
		dst = appendInt(dst, "logStart", int64(p.LogStart))
		if p.LastWrite == nil {
			return append(appendNull(dst, "lastWriteAt"), '}')
		}
		return append(appendTime(dst, "lastWriteAt", *p.LastWrite, layoutMicros), '}')
	})
	if c.Next == "" {
		dst = appendNull(dst, "next")
	} else {
		dst = appendText(dst, "next", c.Next)
	}
	if c.Error != "" {
		dst = appendText(dst, "error", string(c.Error))
	}
	return append(dst, '}')
}
