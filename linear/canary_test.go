package linear

import (
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// canary is a history written by hand: calls one after the other unless a call
// is given the time of the one before.
type canary struct {
	ops []*op
	at  int64
}

// add appends a call that takes a millisecond and begins gap later.
func (c *canary) add(gap time.Duration, o op) *canary {
	c.at += gap.Microseconds() + 1000
	o.call, o.ret = c.at, c.at+1000
	c.at = o.ret
	c.ops = append(c.ops, &o)
	return c
}

// together lets the last call begin with the one before it.
func (c *canary) together() *canary {
	c.ops[len(c.ops)-1].call = c.ops[len(c.ops)-2].call
	return c
}

func (c *canary) push(first int32, msgs ...int) *canary {
	o := op{kind: opPush, msgs: msgs}
	for i := range msgs {
		o.pushed = append(o.pushed, pushSaid{offset: first + int32(i)})
	}
	return c.add(0, o)
}

func (c *canary) pop(gap time.Duration, lease, first, attempt int32, msgs ...int) *canary {
	o := op{kind: opPop, batch: 10, partitions: 1, seconds: 1, got: lease}
	if len(msgs) > 0 {
		r := run{first: first, attempt: attempt}
		for _, msg := range msgs {
			r.msgs = number(r.msgs, msg)
		}
		o.runs = []run{r}
	}
	return c.add(gap, o)
}

func (c *canary) ack(gap time.Duration, lease int32, msg int, s signal, said ackSaid) *canary {
	return c.add(gap, op{kind: opAck, items: []ackOne{{msgRef{0, msg}, s, lease}}, said: []ackSaid{said}})
}

func (c *canary) extend(gap time.Duration, lease int32, renewed int) *canary {
	return c.add(gap, op{kind: opExtend, lease: lease, seconds: 1, count: renewed})
}

// lose takes the answer of the last call away: it may have its effect later.
func (c *canary) lose() *canary {
	o := c.ops[len(c.ops)-1]
	o.lost, o.got = true, -1
	return c
}

// TestModelTellsRightFromWrong: the model allows what the rules allow, and
// nothing else. Otherwise TestLinear would prove nothing.
func TestModelTellsRightFromWrong(t *testing.T) {
	const soon, late = 0, 1200 * time.Millisecond
	released := ackSaid{ok: true, released: true}
	held := ackSaid{ok: true}
	refused := ackSaid{text: saidLease}
	two := func() *canary { return new(canary).push(0, 1, 2).pop(soon, 1, 0, 1, 1, 2) }
	for name, c := range map[string]*canary{
		"ok: an ack of all":                 two().ack(soon, 1, 2, completed, released).pop(soon, 0, 0, 0),
		"ok: redelivery after the end":      two().pop(late, 2, 0, 2, 1, 2),
		"ok: empty under a lease":           two().pop(soon, 0, 0, 0),
		"ok: a refused late ack":            two().ack(late, 1, 2, completed, refused),
		"ok: an ack at the very end":        two().ack(998*time.Millisecond, 1, 2, completed, released),
		"ok: refused at the very end":       two().ack(998*time.Millisecond, 1, 2, completed, refused),
		"ok: a repeated ack":                two().ack(soon, 1, 2, completed, released).ack(late, 1, 2, completed, released),
		"ok: concurrent pushes, either way": new(canary).push(1, 1).push(0, 2).together(),
		"ok: a lost push that happened":     new(canary).push(0, 1).lose().pop(soon, 1, 0, 1, 1),
		"ok: a lost push that did not":      new(canary).push(0, 1).lose().pop(soon, 0, 0, 0),
		"ok: a lost pop that claimed":       new(canary).push(0, 1).pop(soon, 0, 0, 0).lose().pop(soon, 0, 0, 0).pop(late, 2, 0, 2, 1),
		"ok: a lost pop that did not":       new(canary).push(0, 1).pop(soon, 0, 0, 0).lose().pop(soon, 2, 0, 1, 1),
		"ok: an extended lease":             two().extend(900*time.Millisecond, 1, 1).pop(900*time.Millisecond, 0, 0, 0),
		"ok: too late to extend":            two().extend(late, 1, 0),
		"ok: a nack that charges":           two().ack(soon, 1, 1, failed, released).pop(soon, 2, 0, 2, 1, 2),
		"ok: the budget is spent": two().ack(soon, 1, 1, failed, released).pop(soon, 2, 0, 2, 1, 2).
			ack(soon, 2, 1, failed, ackSaid{ok: true, released: true, dlq: true}).pop(soon, 3, 1, 1, 2),
		"no: a lost message":              new(canary).push(0, 1, 2).pop(soon, 1, 1, 1, 2),
		"no: an empty pop":                new(canary).push(0, 1).pop(soon, 0, 0, 0),
		"no: two leases at once":          two().pop(soon, 2, 0, 2, 1, 2),
		"no: too few messages":            new(canary).push(0, 1, 2).pop(soon, 1, 0, 1, 1),
		"no: an offset twice":             new(canary).push(0, 1).push(0, 2),
		"no: an order that turned":        new(canary).push(1, 1).push(0, 2),
		"no: again after an ack":          two().ack(soon, 1, 2, completed, released).pop(soon, 2, 0, 2, 1, 2),
		"no: nothing after the end":       two().pop(late, 0, 0, 0),
		"no: an ack after the end":        two().ack(late, 1, 2, completed, released),
		"no: refused under a live lease":  two().ack(soon, 1, 2, completed, refused),
		"no: kept after the last":         two().ack(soon, 1, 2, completed, held),
		"no: released below the last":     two().ack(soon, 1, 1, completed, released),
		"no: an extension in vain":        two().extend(900*time.Millisecond, 1, 1).pop(500*time.Millisecond, 2, 0, 2, 1, 2),
		"no: extended after the end":      two().extend(late, 1, 1),
		"no: the first delivery, twice":   two().pop(late, 2, 0, 1, 1, 2),
		"no: an answered push forgotten":  two().add(soon, op{kind: opRead, log: number("", 1)}),
		"no: filed with budget":           two().ack(soon, 1, 1, failed, ackSaid{ok: true, released: true, dlq: true}),
		"no: a dead letter from nowhere":  two().add(soon, op{kind: opLetters, sum: letterKey(0, 0, 0)}),
		"no: a duplicate that was queued": new(canary).push(0, 1).push(1, 1),
		"no: half a transaction": new(canary).push(0, 1).
			add(soon, op{kind: opTxn, ok: true, pushes: []msgRef{{0, 2}, {1, 3}}}).
			add(soon, op{kind: opRead, part: 1}),
		"no: a transaction under a dead lease": two().
			add(late, op{kind: opTxn, ok: true, items: []ackOne{{msgRef{0, 2}, completed, 1}}, said: []ackSaid{held}}),
	} {
		model := cellModel{retryLimit: 1, dlqOn: true}
		// A lost call may have its effect until the end.
		for _, o := range c.ops {
			if o.lost {
				o.ret = c.at
			}
		}
		want := porcupine.Illegal
		if strings.HasPrefix(name, "ok") {
			want = porcupine.Ok
		}
		if got := porcupine.CheckOperationsTimeout(model.porcupine(), operations(c.ops), 0); got != want {
			t.Errorf("%s: %s\n%s", name, got, explain(model.porcupine(), operations(c.ops), ""))
		}
	}
}
