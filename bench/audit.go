package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// audit reads back everything after the last restart and compares it with the
// history. No client is running any more.
type audit struct {
	*history
	caller
	groups []string
}

// all returns the lanes in a fixed order.
func (a *audit) all() []*lane {
	lanes := make([]*lane, 0, len(a.lanes))
	for _, l := range a.lanes {
		lanes = append(lanes, l)
	}
	slices.SortFunc(lanes, func(x, y *lane) int { return strings.Compare(x.String(), y.String()) })
	return lanes
}

// messages checks that every partition holds exactly what was acknowledged, in
// order, each message whole.
func (a *audit) messages(ctx context.Context) (string, error) {
	total := 0
	lanes := a.all()
	for _, l := range lanes {
		rows, err := a.fetchAll(ctx, l.address)
		if err != nil {
			return "", err
		}
		for i, row := range rows {
			if row.Offset != int64(i) || i >= len(l.sent) || l.sent[i].record.id != row.TransactionID {
				return "", fmt.Errorf("%s holds %s at offset %d as number %d", l.address, row.TransactionID, row.Offset, i)
			}
			if err := samePayload(row.TransactionID, row.Payload, l.sent[i].payload); err != nil {
				return "", err
			}
		}
		if len(rows) < len(l.sent) {
			return "", fmt.Errorf("%s was acknowledged at offset %d of %s and is lost: the partition ends at %d",
				l.sent[len(rows)].record.id, len(rows), l.address, len(rows))
		}
		total += len(rows)
	}
	return fmt.Sprintf("%d messages in %d partitions, each at the one place it was acknowledged for", total, len(lanes)), nil
}

// duplicates pushes every id again: all must be known, and nothing be stored.
func (a *audit) duplicates(ctx context.Context) (string, error) {
	total := 0
	for _, l := range a.all() {
		for batch := range slices.Chunk(l.sent, 500) {
			records := make([]record, len(batch))
			for i, m := range batch {
				records[i] = m.record
			}
			answers, err := a.push(ctx, records)
			if err != nil {
				return "", err
			}
			if err := a.pushAnswered(batch, answers, false); err != nil {
				return "", err
			}
			total += len(batch)
		}
	}
	return fmt.Sprintf("%d ids pushed again, all duplicate with the first id and offset", total), nil
}

// letters checks that the dead letters of every group are the marked messages,
// each once and whole.
func (a *audit) letters(ctx context.Context, queues []string) (string, error) {
	type key struct {
		group string
		address
		offset int64
	}
	seen := map[key]bool{}
	for _, queue := range queues {
		rows, err := a.deadLetters(ctx, queue)
		if err != nil {
			return "", err
		}
		for _, row := range rows {
			k := key{row.Group, address{row.Queue, row.Partition}, row.Offset}
			what := fmt.Sprintf("dead letter %s of group %s, %s at %s offset %d", row.ID, row.Group, row.TransactionID, k.address, row.Offset)
			l := a.lanes[k.address]
			switch {
			case l == nil || row.Offset < 0 || row.Offset >= int64(len(l.sent)) || l.sent[row.Offset].record.id != row.TransactionID:
				return "", fmt.Errorf("%s: no such message was sent", what)
			case !l.sent[row.Offset].marked || !slices.Contains(a.groups, row.Group):
				return "", fmt.Errorf("%s: nobody failed it", what)
			case seen[k]:
				return "", fmt.Errorf("%s: it is there twice", what)
			case row.Error != failure(row.TransactionID):
				return "", fmt.Errorf("%s: errorMessage %q", what, row.Error)
			}
			if err := samePayload(what, row.Data, l.sent[row.Offset].payload); err != nil {
				return "", err
			}
			seen[k] = true
		}
	}
	for _, l := range a.all() {
		for offset, m := range l.sent {
			for _, group := range a.groups {
				if m.marked && !seen[key{group, l.address, int64(offset)}] {
					return "", fmt.Errorf("%s at %s offset %d was failed by group %s, does not come again and is no dead letter", m.record.id, l.address, offset, group)
				}
			}
		}
	}
	return fmt.Sprintf("%d, each once and whole", len(seen)), nil
}

// nothingLeft checks that no group gets anything again.
func (a *audit) nothingLeft(ctx context.Context, queues []string) (string, error) {
	for _, queue := range queues {
		for _, group := range a.groups {
			more, err := a.pop(ctx, popOptions{queue: queue, group: group, batch: 1, partitions: 1})
			if err != nil {
				return "", err
			}
			if len(more) > 0 {
				return "", fmt.Errorf("group %s gets %s at %s/%s offset %d again, which it had settled",
					group, more[0].TransactionID, more[0].Queue, more[0].Partition, more[0].Offset)
			}
			pending, err := a.pending(ctx, queue, group)
			if err != nil || pending != 0 {
				return "", fmt.Errorf("group %s has %d pending in %s after all was settled (%v)", group, pending, queue, err)
			}
		}
	}
	return "no group gets anything again, and all depths are 0", nil
}
