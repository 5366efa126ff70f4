package linear

import (
	"fmt"
	"strings"
)

// kind is what an operation asks for.
type kind uint8

const (
	_ kind = iota
	opPush
	opPop
	opAck
	opExtend
	opRelease
	opTxn
	opRead    // the whole log of one partition
	opLetters // all dead letters
)

var kindNames = [...]string{"?", "push", "pop", "ack", "extend", "release", "txn", "read", "letters"}

// signal is a word of an ack. Higher ones win at one offset.
type signal uint8

const (
	_ signal = iota
	completed
	retry
	failed
	dlq
)

var signalNames = [...]string{"?", "completed", "retry", "failed", "dlq"}

// msgRef names a message: the partition it was pushed to and its number,
// which its transaction id is made of.
type msgRef struct{ part, msg int }

// ackOne is one item of an ack call or of a transaction. lease 0 is none.
type ackOne struct {
	msgRef
	signal signal
	lease  int32
}

// ackSaid is the answer to one item. text is the reason of a refusal, reduced
// to one word.
type ackSaid struct {
	ok, released, dlq, dropped, noop bool
	text                             string
}

// pushSaid is the answer to one pushed item.
type pushSaid struct {
	duplicate bool
	offset    int32
}

// run is what a pop got from one partition.
type run struct {
	part    int
	first   int32
	msgs    string // two bytes each, see cell
	attempt int32
}

// op is one call of a client and what came of it. Times are microseconds since
// the test began. The model reads all of it and changes nothing.
type op struct {
	kind   kind
	client int
	call   int64
	ret    int64 // of a lost call: when it can have had no effect any more
	lost   bool  // no answer came

	group int
	part  int // of a push, a pinned pop and a read; -1: a pop of the queue
	msgs  []int
	items []ackOne // of an ack or a transaction

	batch, partitions int
	auto              bool
	seconds           int64 // of the lease or the extension
	patient           bool  // a pop that waits
	hungUp            bool  // the client left: what it claimed may be given back
	lease             int32 // of an extend or a release
	pushes            []msgRef
	required          []int32

	// The answer.
	pushed []pushSaid
	runs   []run
	got    int32 // lease id of the pop
	said   []ackSaid
	count  int // rows renewed or released
	ok     bool
	reason string
	log    string
	sum    uint64 // of the dead letters
}

func (o *op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d: %s", o.client, kindNames[o.kind])
	switch o.kind {
	case opPush:
		fmt.Fprintf(&b, " p%d %v", o.part, o.msgs)
	case opPop:
		fmt.Fprintf(&b, " g%d p%d batch=%d partitions=%d auto=%t lease=%ds patient=%t", o.group, o.part, o.batch, o.partitions, o.auto, o.seconds, o.patient)
	case opAck, opTxn:
		fmt.Fprintf(&b, " g%d", o.group)
		for _, it := range o.items {
			fmt.Fprintf(&b, " p%d:%d=%s/L%d", it.part, it.msg, signalNames[it.signal], it.lease)
		}
		for _, m := range o.pushes {
			fmt.Fprintf(&b, " +p%d:%d", m.part, m.msg)
		}
		if len(o.required) > 0 {
			fmt.Fprintf(&b, " required=%v", o.required)
		}
	case opExtend, opRelease:
		fmt.Fprintf(&b, " L%d %ds", o.lease, o.seconds)
	case opRead:
		fmt.Fprintf(&b, " p%d", o.part)
	}
	return b.String() + " -> " + o.answer()
}

// answer prints what came back.
func (o *op) answer() string {
	if o.lost {
		if o.hungUp {
			return "hung up"
		}
		return "lost"
	}
	switch o.kind {
	case opPush:
		return fmt.Sprintf("%+v", o.pushed)
	case opPop:
		if len(o.runs) == 0 {
			return "empty"
		}
		text := fmt.Sprintf("L%d", o.got)
		for _, r := range o.runs {
			text += fmt.Sprintf(" p%d@%d%v#%d", r.part, r.first, numbers(r.msgs), r.attempt)
		}
		return text
	case opAck:
		return fmt.Sprintf("%+v", o.said)
	case opTxn:
		return fmt.Sprintf("%t %s", o.ok, o.reason)
	case opRead:
		return fmt.Sprint(numbers(o.log))
	case opLetters:
		return fmt.Sprintf("%016x", o.sum)
	}
	return fmt.Sprint(o.count)
}
