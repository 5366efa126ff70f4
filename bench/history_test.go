package main

import (
	"fmt"
	"strings"
	"testing"
)

// told is a history of one partition with ten messages, of which m5 is marked,
// and group g that has settled the first two.
type told struct {
	*testing.T
	h    *history
	msgs []*message
}

func newTold(t *testing.T) *told {
	k := &told{T: t, h: newHistory()}
	var records []record
	for i := range 10 {
		records = append(records, record{address{"q", "p"}, fmt.Sprintf("m%d", i), fmt.Appendf(nil, `{"n":%d}`, i)})
	}
	k.msgs = k.h.sending(records, func(r record) bool { return r.id == "m5" })
	k.want("", k.push(true, "queued", 0, 10))
	run := k.messages(0, 2)
	k.want("", k.h.deliveredRun("g", k.h.now(), run))
	k.want("", k.ack(run, nil))
	return k
}

// push answers the pushes of the messages from..to.
func (k *told) push(first bool, status string, from, to int) error {
	var answers []pushed
	for i := from; i < to; i++ {
		offset := int64(i)
		answers = append(answers, pushed{Index: i, MessageID: fmt.Sprintf("id%d", i), Status: status, Offset: &offset})
	}
	return k.h.pushAnswered(k.msgs[from:to], answers, first)
}

// messages are the messages from..to as a pop delivers them.
func (k *told) messages(from, to int) []delivered {
	var run []delivered
	for i := from; i < to; i++ {
		run = append(run, delivered{ID: fmt.Sprintf("id%d", i), TransactionID: fmt.Sprintf("m%d", i), Queue: "q", Partition: "p",
			PartitionID: "pid", Offset: int64(i), Data: fmt.Appendf(nil, `{"n":%d}`, i), LeaseID: "lease"})
	}
	return run
}

// ack settles a run; change makes the answers other than success.
func (k *told) ack(run []delivered, change func([]acked)) error {
	var answers []acked
	for _, item := range k.h.acking("g", run) {
		answers = append(answers, acked{TransactionID: item.TransactionID, Success: true})
	}
	if change != nil {
		change(answers)
	}
	return k.h.ackAnswered("g", run, answers)
}

// want fails unless err says what it must; "" is no error.
func (k *told) want(text string, err error) {
	k.Helper()
	if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
		k.Fatalf("got %v, want %q", err, text)
	}
}

func TestHistoryFindsEveryKindOfFault(t *testing.T) {
	for name, row := range map[string]struct {
		want string
		do   func(k *told) error
	}{
		"all is well": {"", func(k *told) error {
			return k.h.deliveredRun("g", k.h.now(), k.messages(2, 7))
		}},
		"acked comes back": {"everything below 2 was settled before", func(k *told) error {
			return k.h.deliveredRun("g", k.h.now(), k.messages(1, 3))
		}},
		"a message is passed over": {"2 was never acked", func(k *told) error {
			return k.h.deliveredRun("g", k.h.now(), k.messages(3, 5))
		}},
		"a hole in a batch": {"offset 4 comes as number 1", func(k *told) error {
			return k.h.deliveredRun("g", k.h.now(), append(k.messages(2, 3), k.messages(4, 5)...))
		}},
		"another message at the offset": {"where m3 belongs", func(k *told) error {
			run := k.messages(2, 5)
			run[1].TransactionID = "m4"
			return k.h.deliveredRun("g", k.h.now(), run)
		}},
		"another message id": {"it was message id3 before", func(k *told) error {
			run := k.messages(2, 5)
			run[1].ID = "id9"
			return k.h.deliveredRun("g", k.h.now(), run)
		}},
		"another partition id": {"it was pid before", func(k *told) error {
			run := k.messages(2, 5)
			run[2].PartitionID = "pid2"
			return k.h.deliveredRun("g", k.h.now(), run)
		}},
		"a changed payload": {"must have", func(k *told) error {
			run := k.messages(2, 5)
			run[0].Data = []byte(`{"n": 2}`)
			return k.h.deliveredRun("g", k.h.now(), run)
		}},
		"a message nobody sent": {"only 10 messages were sent", func(k *told) error {
			return k.h.deliveredRun("g", k.h.now(), k.messages(2, 11))
		}},
		"an answered id is stored again": {"stored again", func(k *told) error {
			return k.push(false, "queued", 3, 4)
		}},
		"an answered id is a duplicate": {"", func(k *told) error {
			return k.push(false, "duplicate", 3, 4)
		}},
		"a dead letter that nobody failed": {"without having failed", func(k *told) error {
			return k.ack(k.messages(2, 4), func(a []acked) { a[1].DLQ = true })
		}},
		"a dead letter after too few failures": {"after 1 failures", func(k *told) error {
			return k.ack(k.messages(2, 6), func(a []acked) { a[3].DLQ = true })
		}},
		"a dead letter in time": {"", func(k *told) error {
			k.want("", k.ack(k.messages(2, 7), nil))
			k.want("", k.h.deliveredRun("g", k.h.now(), k.messages(5, 7)))
			return k.ack(k.messages(5, 7), func(a []acked) { a[0].DLQ = true })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newTold(t)
			k.want(row.want, row.do(k))
		})
	}
}

func TestHistoryBearsAPopThatWasSentBeforeTheAck(t *testing.T) {
	k := newTold(t)
	asked := k.h.now()
	k.want("", k.ack(k.messages(2, 5), nil))
	k.want("", k.h.deliveredRun("g", asked, k.messages(2, 5)))
	k.want("everything below 5", k.h.deliveredRun("g", k.h.now(), k.messages(2, 5)))
}

func TestHistoryBearsALostAckEitherWay(t *testing.T) {
	for _, start := range []int{2, 5} {
		k := newTold(t)
		k.h.acking("g", k.messages(2, 5)) // its answer never comes
		k.want("", k.h.deliveredRun("g", k.h.now(), k.messages(start, 6)))
	}
}

func TestHistoryRemembersWhereAGroupWasShownToStand(t *testing.T) {
	k := newTold(t)
	k.h.acking("g", k.messages(2, 5))
	k.want("", k.h.deliveredRun("g", k.h.now(), k.messages(5, 6)))
	k.want("everything below 5", k.h.deliveredRun("g", k.h.now(), k.messages(2, 6)))
}

func TestHistoryTellsWhoIsBehind(t *testing.T) {
	k := newTold(t)
	if got := k.h.behind([]string{"g"}); !strings.Contains(got, "acked 2 of the 10") {
		t.Errorf("got %q", got)
	}
	k.h.acking("g", k.messages(2, 6)) // its answer never comes
	k.h.acking("g", k.messages(6, 10))
	if got := k.h.behind([]string{"g"}); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestALeaseRefusedBeforeItsEndIsFound(t *testing.T) {
	refusal := []acked{{Success: true}, {TransactionID: "m1"}}
	if refusedTooSoon(refusal, 1, 2) == nil || refusedTooSoon(refusal, 2, 2) != nil || refusedTooSoon(refusal[:1], 1, 2) != nil {
		t.Error("wrong verdict")
	}
}
