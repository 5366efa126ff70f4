package main

import (
	"context"
	"fmt"
	"time"
)

// system is something that is measured: the broker, the floor or a peer. One
// value is one server on a directory of its own.
type system interface {
	// promise says what has happened when this system acknowledges a write and
	// an ack, and how it was set up.
	promise() string
	// server is the process that does the work.
	server() *process
	// open makes what the lanes of a row need, once the server runs.
	open(ctx context.Context, lanes int) error
	// producer connects a producer of batches of the given size.
	producer(ctx context.Context, batch int) (producer, error)
	// consumer connects the n-th consumer of a row.
	consumer(ctx context.Context, n int, how consumption) (consumer, error)
	// ordered reports whether consumers of one row get a lane in its order.
	ordered() bool
	// audit reads everything that is stored, each lane in its order.
	audit(ctx context.Context, lanes int, message func(payload []byte) error) error
	// close lets go of what is not a producer or consumer.
	close()
}

// producer is one connection that stores messages.
type producer interface {
	// push returns when all items are acknowledged. They are for one lane, with
	// rising seq, or each for another one.
	push(items []slot, at int64) error
	close()
}

// consumer is one connection that takes messages and acknowledges them.
type consumer interface {
	// take waits up to the time of its consumption for messages, gives them to
	// in and acknowledges them. None is no error.
	take(in *intake) error
	// close also ends a take that waits, from another goroutine.
	close()
}

// consumption is how the consumers of a row take messages.
type consumption struct {
	lanes      int  // all lanes of the row
	consumers  int  // of the row, each of which may have lanes of its own
	batch      int  // messages of one take
	partitions int  // of one take, where the system can mix them
	pinned     bool // the n-th consumer takes from lane n only
	wait       time.Duration
}

// own are the lanes of the n-th consumer, for systems that must divide them.
func (c consumption) own(n int) (first, step int) {
	if c.pinned {
		return n, c.lanes
	}
	return n, c.consumers
}

// intake is where a consumer puts what it took. It belongs to one consumer.
type intake struct {
	tally  *tally
	clock  *clock
	ends   *latencies // from the instant a message was due to its arrival; may be nil
	takes  *latencies // of the request that brought messages; may be nil
	now    int64
	lastAt int64 // of run
	run    int64 // messages in a row that were due at one instant
}

// arrived notes that an answer with messages has come, asked for at began.
func (in *intake) arrived(began int64) {
	in.now = in.clock.now()
	if in.takes != nil {
		in.takes.add(time.Duration(in.now-began), 1)
	}
}

// message takes one payload of what has arrived.
func (in *intake) message(payload []byte) error {
	s, at, err := readPayload(payload)
	if err != nil {
		return err
	}
	if in.ends != nil {
		if at != in.lastAt {
			in.flush()
		}
		in.lastAt = at
		in.run++
	}
	return in.tally.take(s)
}

// flush records the latencies of the messages since the last time.
func (in *intake) flush() {
	if in.run > 0 {
		in.ends.add(time.Duration(in.now-in.lastAt), in.run)
		in.run = 0
	}
}

// clock counts nanoseconds from the start of a run.
type clock struct{ zero time.Time }

func (c *clock) now() int64 { return int64(time.Since(c.zero)) }

// laneName is the name of a lane in every system.
func laneName(lane int) string { return fmt.Sprintf("p%0*d", laneDigits, lane) }

// missingError says that a system cannot be measured here, and why.
type missingError struct{ why string }

func (e *missingError) Error() string { return e.why }

// workshop is what all systems of a run are made from.
type workshop struct {
	binary  string // the broker
	profile string // what a broker writes about itself: cpu, mem ...; empty is nothing
}

// makers make the systems, by name, on a directory and for a load.
var makers = map[string]func(w *workshop, dir string, s shape) (system, error){
	"queend":                 newQueend,
	"floor":                  newFloor,
	"nats-always":            func(_ *workshop, dir string, s shape) (system, error) { return newNATS(dir, natsAlways) },
	"nats-always-atomic":     func(_ *workshop, dir string, s shape) (system, error) { return newNATS(dir, natsAtomic) },
	"nats-always-confirmed":  func(_ *workshop, dir string, s shape) (system, error) { return newNATS(dir, natsSure) },
	"nats-always-one-stream": func(_ *workshop, dir string, s shape) (system, error) { return newNATS(dir, natsOne) },
	"nats-default":           func(_ *workshop, dir string, s shape) (system, error) { return newNATS(dir, natsDefault) },
	"redis-always":           func(_ *workshop, dir string, s shape) (system, error) { return newRedis(dir) },
	"postgres":               func(_ *workshop, dir string, s shape) (system, error) { return newPostgres(dir) },
}
