package main

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"slices"

	"queend/client"
)

const dlqAbout = `Dead letters of a queue.

  dlq list QUEUE     lists them, newest failure first
  dlq replay QUEUE   moves them back to their partitions, oldest first
  dlq purge QUEUE    says how many would be deleted; with -yes deletes them`

// dlq lists, replays and deletes dead letters.
func dlq(args []string, c *console) int {
	actions := map[string]func(*letters) int{"list": (*letters).list, "replay": (*letters).replay, "purge": (*letters).purge}
	l := &letters{remote: newRemote(c, "dlq", "list|replay|purge [flags] QUEUE", dlqAbout)}
	l.filters()
	if len(args) == 0 || actions[args[0]] == nil {
		if code, ok := l.parse(args, 0, 0); !ok {
			return code
		}
		l.showUsage()
		return exitUsage
	}
	if code, ok := l.connect(args[1:], 1, 1); !ok {
		return code
	}
	if err := cmp.Or(inRange("limit", l.limit, 0, math.MaxInt32), l.fits(args[0])); err != nil {
		return l.misused(err)
	}
	l.filter.Queue = l.Arg(0)
	return actions[args[0]](l)
}

// letters is the command line of dlq.
type letters struct {
	*remote
	filter client.Filter
	limit  int
	dryRun bool
	yes    bool
}

func (l *letters) filters() {
	l.StringVar(&l.filter.ConsumerGroup, "group", "", "only those of this group")
	l.StringVar(&l.filter.Partition, "partition", "", "only those of this partition")
	l.StringVar(&l.filter.ErrorContains, "contains", "", "only those whose error contains this")
	l.StringVar(&l.filter.From, "from", "", "only those that failed at or after this time, ISO 8601")
	l.StringVar(&l.filter.To, "to", "", "only those that failed before this time")
	l.IntVar(&l.limit, "limit", 0, "list, replay: at most this many; 0: 100 for list, all for replay")
	l.BoolVar(&l.dryRun, "dry-run", false, "replay: say how many match, move none")
	l.BoolVar(&l.yes, "yes", false, "purge: delete them")
}

// fits refuses flags that are not of an action: who gives them expects that less
// is done.
func (l *letters) fits(action string) (err error) {
	others := map[string][]string{"list": {"dry-run", "yes"}, "replay": {"yes"}, "purge": {"dry-run", "limit"}}
	l.Visit(func(f *flag.Flag) {
		if slices.Contains(others[action], f.Name) {
			err = fmt.Errorf("-%s is no flag of %s", f.Name, action)
		}
	})
	return err
}

// letterPage is how many are asked for at once.
const letterPage = 500

func (l *letters) list() int {
	left := l.limit
	if left <= 0 {
		left = 100
	}
	t := newTable(l.c.stdout, "FAILED", "PARTITION", "GROUP", "RETRIES", "TRANSACTION ID", "ERROR", "PAYLOAD")
	for at := 0; left > 0; {
		page, err := l.page(min(left, letterPage), at)
		if err != nil {
			return l.failed(err)
		}
		for i := range page.Messages {
			d := &page.Messages[i]
			if *l.json {
				l.printJSON(d)
				continue
			}
			t.row(d.FailedAt, d.Partition, d.ConsumerGroup, d.RetryCount, d.TransactionID, short(d.ErrorMessage, 60), payloadText(d.Data))
		}
		at += len(page.Messages)
		left -= len(page.Messages)
		if len(page.Messages) == 0 || int64(at) >= page.TotalCount {
			if at == 0 {
				return exitEmpty
			}
			break
		}
	}
	if !*l.json {
		t.flush()
	}
	return exitOK
}

func (l *letters) page(limit, offset int) (client.DeadLetters, error) {
	ctx, cancel := l.ctx(0)
	defer cancel()
	return l.DeadLetters(ctx, l.filter, limit, offset)
}

// replay moves pages until as many were moved as there were at its begin, or a
// page moves none: letters that the broker refuses stay at the head, and moved
// ones may fail and come back.
func (l *letters) replay() int {
	var sum client.Replay
	p := l.c.progress()
	goal := int64(l.limit)
	for first := true; first || sum.Replayed < goal; first = false {
		limit := letterPage
		if goal > 0 {
			limit = min(limit, int(goal-sum.Replayed))
		}
		page, err := l.replayPage(limit)
		if err != nil {
			p.end()
			return l.failed(err)
		}
		if first {
			sum.Matched = page.Matched
			if goal == 0 {
				goal = page.Matched
			}
		}
		sum.Replayed += page.Replayed
		sum.Duplicates, sum.Failed, sum.Remaining = page.Duplicates, page.Failed, page.Remaining
		p.say("%d of %d replayed", sum.Replayed, goal)
		if l.dryRun || page.Replayed == 0 {
			break
		}
	}
	p.end()
	switch {
	case *l.json:
		l.printJSON(sum)
	case l.dryRun:
		fmt.Fprintf(l.c.stdout, "%d match\n", sum.Matched)
	default:
		fmt.Fprintf(l.c.stdout, "%d replayed, %d duplicates, %d failed, %d remain\n", sum.Replayed, sum.Duplicates, sum.Failed, sum.Remaining)
	}
	if sum.Failed > 0 {
		return exitFailure
	}
	return exitOK
}

func (l *letters) replayPage(limit int) (client.Replay, error) {
	ctx, cancel := l.ctx(0)
	defer cancel()
	return l.Replay(ctx, l.filter, limit, l.dryRun)
}

func (l *letters) purge() int {
	ctx, cancel := l.ctx(0)
	defer cancel()
	if !l.yes {
		page, err := l.DeadLetters(ctx, l.filter, 1, 0)
		if err != nil {
			return l.failed(err)
		}
		if *l.json {
			l.printJSON(map[string]any{"matched": page.TotalCount, "deleted": 0})
		} else {
			fmt.Fprintf(l.c.stdout, "%d would be deleted; add -yes to do it\n", page.TotalCount)
		}
		return exitOK
	}
	n, err := l.Purge(ctx, l.filter)
	if err != nil {
		return l.failed(err)
	}
	if *l.json {
		l.printJSON(map[string]any{"deleted": n})
	} else {
		fmt.Fprintf(l.c.stdout, "%d deleted\n", n)
	}
	return exitOK
}
