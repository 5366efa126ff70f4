package broker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"queend"
)

// leasedTenToNineteen is a row whose live lease holds offsets 10 to 19.
func leasedTenToNineteen(charged int64) *row {
	return &row{group: 1, committed: 9, lane: &lane{
		lease: queend.ID{7}, leaseUntil: 1000 * Second, claimed: 1, batchEnd: 19, retry: charged,
		attemptStart: 10, attemptEnd: 19, attempts: 2,
	}}
}

// ackItems reads "10=completed 12=failed:text ..."; a ~n behind a word is its
// delayMs.
func ackItems(t *testing.T, call string) []settleItem {
	t.Helper()
	words := map[string]Signal{"completed": Completed, "retry": Retry, "failed": Failed, "dlq": DLQ}
	var items []settleItem
	for one := range strings.FieldsSeq(call) {
		it := settleItem{delayMS: -1}
		at, rest, _ := strings.Cut(one, "=")
		rest, it.text, _ = strings.Cut(rest, ":")
		word, delay, delayed := strings.Cut(rest, "~")
		if delayed {
			fmt.Sscan(delay, &it.delayMS)
		}
		it.signal = words[word]
		if at == "ghost" {
			it.refused = errUnresolvable
		} else if _, err := fmt.Sscan(at, &it.at); err != nil || it.signal == 0 {
			t.Fatalf("item %q", one)
		}
		items = append(items, it)
	}
	return items
}

func completions(a, b int) string {
	var s []string
	for i := a; i <= b; i++ {
		s = append(s, fmt.Sprintf("%d=completed", i))
	}
	return strings.Join(s, " ")
}

// answers writes the results as words, one per item.
func answers(results []AckResult) string {
	var out []string
	for _, r := range results {
		word := "ok"
		switch {
		case r.Error == errPassed:
			word = "passed"
		case r.Error == errUnresolvable:
			word = "ghost"
		case r.Error == errRejected:
			word = "rejected"
		case r.Error != "":
			word = r.Error
		case r.Noop:
			word = "noop"
		case r.DLQ:
			word = "dlq"
		case r.Dropped:
			word = "dropped"
		}
		if (r.Error == "") != r.Success {
			word += "!"
		}
		out = append(out, word)
	}
	// Runs of the same word are written once.
	return strings.Join(slices.Compact(out), " ")
}

var settleTable = []struct {
	rule      string
	call      string
	charged   int64
	dlqOff    bool
	gone      []queend.Offset
	committed queend.Offset
	kept      bool // the lease
	counter   int64
	filed     string
	answers   string
}{
	// The worked table of docs/rules.md.
	{rule: "R24 last completed", call: "19=completed", charged: 1, committed: 19, answers: "ok"},
	{rule: "R24 middle completed", call: "14=completed", charged: 1, committed: 14, kept: true, counter: 1, answers: "ok"},
	{rule: "R23 failed among completed", call: completions(10, 11) + " 12=failed " + completions(13, 19), charged: 1, committed: 11, counter: 2, answers: "ok"},
	{rule: "R23 failed below the last completed", call: "19=completed 15=failed", charged: 1, committed: 14, counter: 2, answers: "ok"},
	{rule: "R23 failed above a completed", call: "12=completed 15=failed", charged: 1, committed: 12, counter: 2, answers: "ok"},
	{rule: "R23 failed alone", call: "15=failed", charged: 1, committed: 9, counter: 2, answers: "ok"},
	{rule: "R26 dlq alone", call: "15=dlq", charged: 1, committed: 15, filed: "15", answers: "dlq"},
	{rule: "R26 failed without budget", call: "10=failed", charged: 3, committed: 10, filed: "10", answers: "dlq"},
	{rule: "R26 failed without budget, dlq off", call: "10=failed", charged: 3, dlqOff: true, committed: 10, answers: "dropped"},
	{rule: "R22 retry below failed", call: "11=retry 12=failed 10=completed", charged: 1, committed: 10, counter: 1, answers: "ok"},
	{rule: "R26 dlq then completed", call: "10=dlq " + completions(11, 19), charged: 1, committed: 19, filed: "10", answers: "dlq ok"},
	{rule: "R26 dlq then failed", call: "10=dlq 13=failed " + completions(11, 12) + " " + completions(14, 19), charged: 1, committed: 12, filed: "10", answers: "dlq ok"},
	{rule: "R27 completed again", call: "9=completed", charged: 1, committed: 9, kept: true, counter: 1, answers: "noop"},
	{rule: "R27 failed at the cursor", call: "9=failed", charged: 1, committed: 9, kept: true, counter: 1, answers: "passed"},
	{rule: "R27 retry and dlq below the cursor", call: "3=retry 4=dlq", charged: 1, committed: 9, kept: true, counter: 1, answers: "passed"},
	{rule: "R21 never pushed", call: "ghost=completed", charged: 1, committed: 9, kept: true, counter: 1, answers: "ghost"},
	{rule: "R21 a ghost among others", call: "ghost=dlq 9=retry 12=completed", charged: 1, committed: 12, kept: true, counter: 1, answers: "ghost passed ok"},

	// R22: the strongest word at one offset counts.
	{rule: "R22 failed beats completed", call: "19=completed 12=completed 12=failed", committed: 11, counter: 1, answers: "ok"},
	{rule: "R22 failed beats completed alone", call: "12=completed 12=failed", committed: 9, counter: 1, answers: "ok"},
	{rule: "R22 retry beats completed", call: "10=completed 10=retry", committed: 9, answers: "ok"},
	{rule: "R22 failed beats retry", call: "10=failed 10=retry", committed: 9, counter: 1, answers: "ok"},
	{rule: "R22 dlq beats failed", call: "10=dlq 10=failed 10=completed", committed: 10, filed: "10", answers: "dlq"},
	{rule: "R22 lowest signal counts", call: "13=retry 11=failed", committed: 9, counter: 1, answers: "ok"},

	// R25, R29: the budget.
	{rule: "R25 retry charges nothing", call: "10=retry", charged: 2, committed: 9, counter: 2, answers: "ok"},
	{rule: "R25 charged once per call", call: "10=failed 11=failed 12=failed", committed: 9, counter: 1, answers: "ok"},
	{rule: "R29 third failure redelivers", call: "10=failed", charged: 2, committed: 9, counter: 3, answers: "ok"},
	{rule: "R29 limit lowered below the counter", call: "10=failed", charged: 7, committed: 10, filed: "10", answers: "dlq"},
	{rule: "R28 completed above a retry still report success", call: "10=retry " + completions(11, 19), committed: 9, answers: "ok"},

	// R26: the walk above what was filed.
	{rule: "R26 two dlq", call: "10=dlq 12=dlq " + completions(13, 19), committed: 19, filed: "10 12", answers: "dlq ok"},
	{rule: "R26 unmentioned below a completed passes", call: "10=dlq 14=completed", committed: 14, filed: "10", answers: "dlq ok"},
	{rule: "R26 a further dlq above unmentioned is not reached", call: "12=dlq 15=dlq", committed: 12, filed: "12", answers: "dlq ok"},
	{rule: "R26 dlq side by side", call: "10=dlq 11=dlq 12=dlq", committed: 12, filed: "10 11 12", answers: "dlq"},
	{rule: "R26 dlq then retry", call: "10=dlq 11=completed 12=retry " + completions(13, 19), charged: 2, committed: 11, filed: "10", answers: "dlq ok"},
	{rule: "R26 dlq then failed with budget is not charged", call: "10=dlq 11=failed", charged: 2, committed: 10, filed: "10", answers: "dlq ok"},
	{rule: "R26 failed twice, budget spent", call: "10=failed 11=failed 12=completed", charged: 3, committed: 12, filed: "10 11", answers: "dlq ok"},
	{rule: "R26 failed twice, budget spent, dlq off", call: "10=failed 11=failed " + completions(12, 19), charged: 3, dlqOff: true, committed: 19, answers: "dropped ok"},
	{rule: "R26 dlq files with the dead letter queue off", call: "10=dlq", dlqOff: true, committed: 10, filed: "10", answers: "dlq"},
	{rule: "R26 every item naming a filed offset says so", call: "10=completed 10=dlq 11=completed", committed: 11, filed: "10", answers: "dlq ok"},
	{rule: "R26 dlq at the end of the batch", call: completions(10, 18) + " 19=dlq", committed: 19, filed: "19", answers: "ok dlq"},

	// R31: the payload is gone.
	{rule: "R31 alone", call: "10=dlq", charged: 1, gone: []queend.Offset{10}, committed: 9, kept: true, counter: 1, answers: "rejected"},
	{rule: "R31 above completed", call: "10=completed 11=dlq 11=completed 12=completed", charged: 1, gone: []queend.Offset{11}, committed: 10, kept: true, counter: 1, answers: "ok rejected ok"},
	{rule: "R31 above a filed one", call: "10=dlq 11=dlq", charged: 1, gone: []queend.Offset{11}, committed: 10, kept: true, filed: "10", answers: "dlq rejected"},
	{rule: "R31 does not hold what is dropped", call: "10=failed", charged: 3, dlqOff: true, gone: []queend.Offset{10}, committed: 10, answers: "dropped"},
}

func TestSettlingFollowsTheWorkedTable(t *testing.T) {
	for _, c := range settleTable {
		t.Run(c.rule, func(t *testing.T) {
			opts := DefaultOptions()
			opts.DeadLetterQueue, opts.DLQAfterMaxRetries = !c.dlqOff, !c.dlqOff
			before := leasedTenToNineteen(c.charged)
			untouched := *before.lane
			s := settling{row: before, opts: &opts, now: Second, own: true, items: ackItems(t, c.call), gone: map[queend.Offset]bool{}}
			for _, off := range c.gone {
				s.gone[off] = true
			}
			out := s.settle()
			if *before.lane != untouched || before.committed != 9 {
				t.Error("settling wrote to the row it was given")
			}
			checkSettlement(t, out, c.committed, c.kept, c.counter)
			var filed []string
			for _, f := range out.filed {
				filed = append(filed, f.at.String())
				if f.retries != c.charged {
					t.Errorf("dead letter of %v has retryCount %d, want %d", f.at, f.retries, c.charged)
				}
			}
			if got := strings.Join(filed, " "); got != c.filed {
				t.Errorf("filed %q, want %q", got, c.filed)
			}
			if got := answers(out.results); got != c.answers {
				t.Errorf("answers %q, want %q", got, c.answers)
			}
			for _, r := range out.results {
				if r.LeaseReleased == c.kept {
					t.Errorf("leaseReleased %v, lease kept %v", r.LeaseReleased, c.kept)
				}
			}
		})
	}
}

func checkSettlement(t *testing.T, out settlement, committed queend.Offset, kept bool, counter int64) {
	t.Helper()
	r := out.row
	if r.committed != committed {
		t.Errorf("cursor %v, want %v", r.committed, committed)
	}
	if held := r.lane != nil && !r.lane.lease.IsZero(); held != kept {
		t.Errorf("lease kept %v, want %v", held, kept)
	}
	retry := int64(0)
	if r.lane != nil {
		retry = r.lane.retry
	}
	if retry != counter {
		t.Errorf("counter %d, want %d", retry, counter)
	}
	if r.lane != nil && *r.lane == (lane{}) {
		t.Error("an empty lane was kept")
	}
}

// settleOne settles a call on a row with default options.
func settleOne(t *testing.T, r *row, own bool, call string, change ...func(*Options)) settlement {
	t.Helper()
	opts := DefaultOptions()
	for _, f := range change {
		f(&opts)
	}
	s := settling{row: r, opts: &opts, now: 50 * Second, own: own, items: ackItems(t, call)}
	return s.settle()
}

func TestR24_SettlingTheBatchIsRemembered(t *testing.T) {
	r := settleOne(t, leasedTenToNineteen(2), true, "14=completed").row
	if !r.settled.IsZero() {
		t.Error("a partial ack was remembered")
	}
	r = settleOne(t, r, true, "19=completed").row
	if r.settled != (queend.ID{7}) || r.settledFrom != 9 || r.settledTo != 19 {
		t.Errorf("settled %v (%v, %v], want the whole batch (9, 19]", r.settled, r.settledFrom, r.settledTo)
	}
	if r.lane != nil {
		t.Errorf("lane %+v is left", *r.lane)
	}
}

func TestR34_NothingIsRememberedAfterASignalOrALeaselessAck(t *testing.T) {
	for _, call := range []string{"19=dlq", "10=dlq " + completions(11, 19), "10=retry", "19=failed"} {
		if r := settleOne(t, leasedTenToNineteen(0), true, call).row; !r.settled.IsZero() {
			t.Errorf("%s was remembered", call)
		}
	}
	if r := settleOne(t, leasedTenToNineteen(0), false, "19=completed").row; !r.settled.IsZero() {
		t.Error("a lease-less ack was remembered")
	}
}

func TestR10_ANackKeepsTheSpanAndASettledBatchForgetsIt(t *testing.T) {
	r := settleOne(t, leasedTenToNineteen(0), true, "10=completed 12=failed").row
	if l := r.lane; l.attempts != 2 || l.attemptStart != 10 || l.attemptEnd != 19 || l.batchEnd != 0 || l.leaseUntil != 0 {
		t.Errorf("after a nack: %+v", *l)
	}
	if r := settleOne(t, leasedTenToNineteen(0), true, "10=dlq").row; r.lane != nil {
		t.Errorf("after a dead letter: %+v", *r.lane)
	}
}

func TestR30_TheErrorTextOfADeadLetter(t *testing.T) {
	for _, c := range []struct{ call, fallback, want string }{
		{"10=dlq:own", "other", "own"},
		{"10=dlq", "other", "other"},
		{"10=dlq", "", "Retries exhausted"},
		{"10=completed:weak 10=dlq:own", "weak", "own"},
		{"10=dlq:first 10=dlq:second", "first", "first"},
	} {
		opts := DefaultOptions()
		s := settling{row: leasedTenToNineteen(0), opts: &opts, items: ackItems(t, c.call), fallback: c.fallback}
		if got := s.settle().filed[0].text; got != c.want {
			t.Errorf("%s, fallback %q: %q, want %q", c.call, c.fallback, got, c.want)
		}
	}
}

func TestS20_LeaselessAckOfTheEndResetsAfterExpiry(t *testing.T) {
	expired := leasedTenToNineteen(2)
	expired.lane.leaseUntil = 1
	out := settleOne(t, expired, false, "19=completed")
	checkSettlement(t, out, 19, false, 0)
	if !out.results[0].LeaseReleased {
		t.Error("leaseReleased is not set")
	}
	released := &row{committed: 9, lane: &lane{retry: 2, attemptStart: 10, attemptEnd: 19, attempts: 1}}
	out = settleOne(t, released, false, "25=completed")
	checkSettlement(t, out, 25, false, 0)
	if out.results[0].LeaseReleased {
		t.Error("no lease was there to be released")
	}
	checkSettlement(t, settleOne(t, released, false, "18=completed"), 18, false, 2)
}

func TestS20_LeaselessNackReleasesTheLiveLease(t *testing.T) {
	out := settleOne(t, leasedTenToNineteen(1), false, "12=failed")
	checkSettlement(t, out, 9, false, 2)
	if !out.results[0].LeaseReleased {
		t.Error("leaseReleased is not set")
	}
}

func TestR72_CleanAckOfAConflatedBatchCountsWhatItSkipped(t *testing.T) {
	r := leasedTenToNineteen(0)
	r.lane.conflated, r.lane.attemptStart = true, 19
	out := settleOne(t, r, true, "19=completed")
	checkSettlement(t, out, 19, false, 0)
	if out.results[0].Conflated != 9 || out.row.settledFrom != 9 {
		t.Errorf("conflated %d from %v, want 9 from 9", out.results[0].Conflated, out.row.settledFrom)
	}
	for _, call := range []string{"19=retry", "19=dlq"} {
		if out := settleOne(t, r, true, call); out.results[0].Conflated != 0 {
			t.Errorf("%s is no clean ack", call)
		}
	}
}

func TestA2_DelayOfWhatComesBack(t *testing.T) {
	spaced := func(base, most int64) func(*Options) {
		return func(o *Options) { o.RedeliveryDelayMS, o.RedeliveryDelayMaxMS = base, most }
	}
	for _, c := range []struct {
		call    string
		charged int64
		base    int64
		most    int64
		want    int64 // ms
	}{
		{call: "10=retry~700", want: 700},
		{call: "10=failed~700", want: 700},
		{call: "10=failed"},
		{call: "10=failed", base: 300, want: 300},
		{call: "10=failed", charged: 2, base: 300, want: 300},
		{call: "10=failed", charged: 0, base: 300, most: 1000, want: 300},
		{call: "10=failed", charged: 1, base: 300, most: 1000, want: 600},
		{call: "10=failed", charged: 2, base: 300, most: 1000, want: 1000},
		{call: "10=failed~0", base: 300},
		{call: "10=retry", base: 300},
		{call: "10=retry 11=failed~900", want: 900},
		{call: "10=dlq 11=retry~500", want: 500},
		{call: "10=dlq", base: 300},
		{call: "10=failed~500", charged: 3},
		{call: "19=completed"},
	} {
		r := settleOne(t, leasedTenToNineteen(c.charged), true, c.call, spaced(c.base, c.most)).row
		want, got := int64(0), int64(0)
		if c.want > 0 {
			want = 50*Second + c.want*Millisecond
		}
		if r.lane != nil {
			got = r.lane.notBefore
		}
		if got != want {
			t.Errorf("%s, charged %d, %d/%d: not before %d, want %d", c.call, c.charged, c.base, c.most, got, want)
		}
	}
}

func TestA2_LeaselessCompletedEndsADelay(t *testing.T) {
	waiting := &row{committed: 9, lane: &lane{retry: 1, notBefore: 99 * Second, attemptStart: 10, attemptEnd: 19, attempts: 1}}
	if r := settleOne(t, waiting, false, "12=completed").row; r.lane.notBefore != 0 || r.lane.retry != 1 {
		t.Errorf("%+v", *r.lane)
	}
	if r := settleOne(t, waiting, false, "5=completed").row; r != waiting {
		t.Error("a noop changed the row")
	}
}

func TestA3_WhatIsLeftOfASpanGoesOutOneByOne(t *testing.T) {
	limited := func(o *Options) { o.MaxDeliveries = 3 }
	r := leasedTenToNineteen(0)
	r.lane.headOffset, r.lane.headAttempts = 10, 2
	if l := settleOne(t, r, true, "10=failed", limited).row.lane; l.isolate != 19 || l.headOffset != 10 || l.headAttempts != 2 {
		t.Errorf("after a nack of the head: %+v", *l)
	}
	if l := settleOne(t, r, true, "11=completed 12=failed", limited).row.lane; l.isolate != 19 || l.headAttempts != 0 {
		t.Errorf("after the head has passed: %+v", *l)
	}
	if l := settleOne(t, r, true, "15=dlq", limited).row.lane; l == nil || l.isolate != 19 {
		t.Errorf("after a dead letter: %+v", l)
	}
	if l := settleOne(t, r, true, "19=completed", limited).row.lane; l != nil {
		t.Errorf("after the whole span: %+v", *l)
	}
	if l := settleOne(t, r, true, "10=failed").row.lane; l.isolate != 0 {
		t.Errorf("without a limit: %+v", *l)
	}
}

// stepwise is R22-R26 and R31 told offset by offset: how far the cursor goes
// and what is filed or dropped on its way.
func stepwise(s *settling) (cursor queend.Offset, terminal []queend.Offset) {
	words := map[queend.Offset]Signal{}
	highest, lowest := queend.NoOffset, queend.Offset(1000)
	for _, it := range s.items {
		if it.refused == "" && it.at > s.row.committed {
			words[it.at] = max(words[it.at], it.signal)
		}
	}
	for at, word := range words {
		if word == Completed {
			highest = max(highest, at)
		} else {
			lowest = min(lowest, at)
		}
	}
	ends := func(at queend.Offset) bool {
		return words[at] == DLQ || words[at] == Failed && s.retry() >= s.opts.RetryLimit
	}
	cursor = s.row.committed
	for at := cursor + 1; ; at++ {
		switch word := words[at]; {
		case word == Completed, word == 0 && at < highest:
		case word == 0 && at < lowest && ends(lowest) && !s.gone[lowest]:
		case word != 0 && ends(at) && !s.gone[at]:
			terminal = append(terminal, at)
		default:
			return cursor, terminal
		}
		cursor = at
	}
}

func TestSettlingAgreesWithTheRulesToldOffsetByOffset(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		opts := DefaultOptions()
		opts.RetryLimit = rng.Int64N(3)
		s := settling{row: leasedTenToNineteen(rng.Int64N(4)), opts: &opts, own: true, gone: map[queend.Offset]bool{}}
		for range rng.IntN(8) {
			it := settleItem{at: queend.Offset(8 + rng.IntN(12)), signal: Completed, delayMS: -1}
			if rng.IntN(2) == 0 {
				it.signal = Signal(1 + rng.IntN(4))
			}
			s.items = append(s.items, it)
			if rng.IntN(8) == 0 {
				s.gone[it.at] = true
			}
		}
		out := s.settle()
		cursor, terminal := stepwise(&s)
		var filed []queend.Offset
		for _, f := range out.filed {
			filed = append(filed, f.at)
		}
		if out.row.committed != cursor || !slices.Equal(filed, terminal) {
			t.Fatalf("%+v, counter %d, limit %d, gone %v: cursor %v filed %v, want %v %v",
				s.items, s.row.lane.retry, opts.RetryLimit, s.gone, out.row.committed, filed, cursor, terminal)
		}
	}
}
