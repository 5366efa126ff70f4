package crash

import (
	"queend/broker"
	"queend/log"
)

// past is what is known of a broker when the power goes.
//
// With log.SyncAlways every answer is certain. In the other modes an answer is
// certain once the log was synced behind it; a push that went to the spool is
// certain at once with log.SyncInterval, which syncs the spool. Of all other
// answers a cut may take back the newest ones: those that were asked for after
// something that is gone must be gone too.
type past struct {
	certain *history // an answer that may be taken back counts as none
	told    *history // with all answers
}

// past is what is known when the power goes behind step k of a disk.
func (c *campaign) past(d *disk, h *history, k int) past {
	told := h.until(k)
	if c.sync == log.SyncAlways {
		return past{told, told}
	}
	return past{told.through(syncedThrough(d.trace()[:k]), c.sync), told}
}

// syncedThrough is the step through which all answers are in log files that
// were synced since. A log file is finished, with a sync, before the next one
// is written to.
func syncedThrough(ops []op) int {
	through := -1
	for i := range ops {
		if o := &ops[i]; o.kind == opSync && !o.isDir && filesOf(o.path) == "log file" {
			through = max(through, o.begin)
		}
	}
	return through
}

// through is the history without the answers that came behind a step.
func (h *history) through(step int, sync log.SyncMode) *history {
	out := &history{}
	for _, e := range h.events {
		own := *e
		if e.done > step && !(sync == log.SyncInterval && e.spooled()) {
			own.done, own.reply = never, reply{}
		}
		out.events = append(out.events, &own)
	}
	return out
}

// spooled reports whether a push was answered from the spool.
func (e *event) spooled() bool {
	return e.Op == "push" && len(e.Pushed) > 0 && e.Pushed[0].Status == broker.PushBuffered
}

// checkEnd makes sure that what is gone is the end: whoever was asked for
// after an answer that is gone is gone too.
func (c *checker) checkEnd() {
	newest, because := -1, ""
	for _, e := range c.told.events {
		if there, _ := c.traceOf(e); there && e.sent > newest {
			newest, because = e.sent, e.what()
		}
	}
	for _, e := range c.told.events {
		if _, gone := c.traceOf(e); gone && e.done <= newest {
			c.fail("%s was answered at step %d and is gone, %s was asked for at step %d and is there", e.what(), e.done, because, newest)
		}
	}
}

// traceOf looks for what a call left. Both answers can be no: what another call
// may have done too shows nothing.
func (c *checker) traceOf(e *event) (there, gone bool) {
	if e.done != never && e.Refused != "" || len(e.Items) > 0 && (e.Items[0].Queue == spooledQueue || e.spooled()) {
		return false, false
	}
	switch e.Op {
	case "push", "transaction":
		for _, it := range e.Items {
			if it.Queue == retainedQueue {
				continue
			}
			_, ok := c.stored[place{it.Queue, it.Part}].byID[it.Txn]
			there, gone = there || ok, gone || !ok
		}
	case "ack":
		for i, a := range e.Acks {
			at, known := c.cursor[reader{place{a.Queue, a.Part}, e.Group}]
			moved := e.done != never && e.Acked[i].Success && (a.Signal == broker.Completed || e.Acked[i].DLQ)
			if known && moved && a.Queue != retainedQueue {
				gone = gone || at < a.Offset
			}
		}
	case "replay":
		it := e.Items[0]
		_, there = c.stored[place{it.Queue, it.Part}].byID[replayed+e.Of]
		gone = !there
	}
	return there, gone && e.done != never
}

// what names a call.
func (e *event) what() string {
	if len(e.Items) > 0 {
		return e.Op + " of " + e.Items[0].Txn
	}
	return e.Op
}
