package linear

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// history is what the checker gets. A call without an answer can have had its
// effect until the broker that got it was dead.
func (c *cell) history(deaths []time.Time) []porcupine.Operation {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := c.now()
	for _, o := range c.ops {
		if o.ret >= 0 {
			continue
		}
		o.ret = end
		for _, d := range deaths {
			if at := d.Sub(c.began).Microseconds(); at > o.call {
				o.ret = at
				break
			}
		}
	}
	return operations(c.ops)
}

func operations(ops []*op) []porcupine.Operation {
	history := make([]porcupine.Operation, len(ops))
	for i, o := range ops {
		history[i] = porcupine.Operation{ClientId: o.client, Input: o, Call: o.call, Return: o.ret}
	}
	return history
}

// cut is a history up to a moment: what has not been answered by then may or
// may not have happened.
func cut(history []porcupine.Operation, at int64) []porcupine.Operation {
	var ops []*op
	for _, h := range history {
		o := *h.Input.(*op)
		switch {
		case o.call > at:
			continue
		case o.ret > at && !o.lost:
			if o.kind == opRead || o.kind == opLetters {
				continue
			}
			o.lost, o.ret, o.got = true, at, math.MinInt32+int32(len(ops))
		case o.ret > at:
			o.ret = at
		}
		ops = append(ops, &o)
	}
	return operations(ops)
}

// explain shrinks a history that no order explains to the shortest beginning
// of which that is true, and prints its end.
func explain(model porcupine.Model, history []porcupine.Operation, drawing string) string {
	const shown = 25
	var answered []int64
	for _, h := range history {
		if !h.Input.(*op).lost {
			answered = append(answered, h.Return)
		}
	}
	slices.Sort(answered)
	first := sort.Search(len(answered), func(i int) bool {
		return porcupine.CheckOperationsTimeout(model, cut(history, answered[i]), checkLimit) == porcupine.Illegal
	})
	short := history
	if first < len(answered) {
		short = cut(history, answered[first])
	}
	_, info := porcupine.CheckOperationsVerbose(model, short, checkLimit)
	var b strings.Builder
	if drawing != "" {
		if err := porcupine.VisualizePath(model, info, drawing); err != nil {
			fmt.Fprintln(&b, "drawing:", err)
		}
	}
	slices.SortStableFunc(short, func(x, y porcupine.Operation) int { return cmp.Compare(x.Return, y.Return) })
	fmt.Fprintf(&b, "%d of %d calls, milliseconds; the last answer cannot be placed:\n", len(short), len(history))
	for _, h := range short[max(0, len(short)-shown):] {
		fmt.Fprintf(&b, "%9.3f %9.3f %s\n", float64(h.Call)/1000, float64(h.Return)/1000, h.Input)
	}
	b.WriteString(longest(model, info))
	return b.String()
}

// longest prints the states after the longest order that was found.
func longest(model porcupine.Model, info porcupine.LinearizationInfo) string {
	var best []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > len(best) {
				best = order
			}
		}
	}
	state := model.Init()
	for _, h := range best {
		_, state = model.Step(state, h.Input, h.Output)
	}
	return fmt.Sprintf("after the best order of %d calls: %s\n", len(best), model.DescribeState(state))
}
