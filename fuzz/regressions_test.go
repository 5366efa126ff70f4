package fuzz

import (
	"testing"

	"queend/broker"
)

// Each test is a sequence that once showed a broken rule, cut down to what it
// takes. Seeds that found them are in seedsThatFoundSomething.

// onDisk is a broker that moves every message to segment files at once.
var onDisk = setup{
	settings:  settings{WindowBatch: 100, TxnWindow: 30},
	Seed:      1,
	TailBytes: 1, SegmentBytes: 300, DedupCacheBytes: 1, CheckpointBytes: 1, SealAgeSeconds: 1,
}

func agrees(t *testing.T, s setup, ops ...op) {
	t.Helper()
	if err := replay(s, ops); err != nil {
		t.Fatal(err)
	}
}

// pushes stores messages without ids in a partition of q.
func pushes(part string, n int) op {
	o := pushOp{}
	for range n {
		o.Items = append(o.Items, pushItem{Queue: "q", Part: part, Pad: 10})
	}
	return o
}

func options(set ...broker.Setting) op { return configureOp{Queue: "q", Merge: true, Set: set} }

func number(name string, n int64) broker.Setting { return broker.Setting{Name: name, Int: n} }

// popping is a pop of group all, a conflating one when the group is conf.
func popping(group string, change ...func(*popCall)) op {
	c := popCall{Queue: "q", Group: group, Batch: 10, Partitions: 64}
	c.Sub, c.Conflation = usual(group)
	for _, f := range change {
		f(&c)
	}
	return popOp{c}
}

func pinned(part string) func(*popCall) {
	return func(c *popCall) { c.Pinned, c.Part = true, part }
}

// acks settles one message of a partition of q under the row's lease.
func acks(group, part string, signal broker.Signal, offs ...int) op {
	o := ackOp{Group: group}
	for _, off := range offs {
		o.Items = append(o.Items, ackItem{Queue: "q", Part: part, Off: off, Lease: leaseRef{"row", "q", part, group}, Signal: signal})
	}
	return o
}

func TestR51_WindowOnDiskDoesNotKeepAPopLooking(t *testing.T) {
	for _, option := range []string{"windowBuffer", "delayedProcessing"} {
		agrees(t, onDisk,
			pushes("p1", 2), maintainOp{}, options(number(option, 3)), popping("all", pinned("p1")), popping("all"),
			advanceOp{3000}, popping("all"))
	}
}

func TestR51_WindowOnDiskHoldsAConflatingGroup(t *testing.T) {
	agrees(t, onDisk,
		pushes("p1", 2), options(number("windowBuffer", 8)), maintainOp{}, advanceOp{3000}, popping("conf"),
		advanceOp{6000}, popping("conf"))
}

func TestR2_ALaneThatNeedsTheDiskTwiceIsNotLeftOut(t *testing.T) {
	past := subscription{From: "2026-01-01T00:00:00.001Z", At: startTime + millisecond}
	agrees(t, onDisk,
		pushes("p1", 1), advanceOp{3000}, pushes("p1", 2), maintainOp{}, pushes("p2", 2),
		popping("time", func(c *popCall) { c.Sub = past }))
}

func TestR2_AHiddenLaneLeavesItsShareToTheNext(t *testing.T) {
	agrees(t, onDisk,
		pushes("p1", 1), pushes("p2", 2), popping("all", pinned("p1"), func(c *popCall) { c.AutoAck = true }), advanceOp{3000},
		pushes("p1", 1), maintainOp{}, options(number("delayedProcessing", 2)),
		popping("all", func(c *popCall) { c.Batch, c.Partitions = 2, 2 }))
}

func TestR12_ParkedPopsDoNotWakeEachOtherForEver(t *testing.T) {
	waiting := func(c *popCall) { c.Pinned, c.Part, c.Wait, c.TimeoutMS = true, "p1", true, 20000 }
	agrees(t, onDisk,
		pushes("p1", 2), options(number("delayedProcessing", 10)), advanceOp{3000}, popping("conf", waiting),
		popping("conf", waiting), pushes("p1", 3), maintainOp{}, options(number("retryLimit", 1)), advanceOp{8000})
}

func TestSection20_AnOldIDUnderItsOwnLeaseResolvesAfterRetention(t *testing.T) {
	agrees(t, onDisk,
		pushes("p1", 3), options(number("maxWaitTimeSeconds", 20)), advanceOp{1000 * 1000}, popping("all"),
		maintainOp{}, maintainOp{}, maintainOp{}, acks("all", "p1", broker.Completed, 0, 1, 2))
}

func TestSection20_AMergeKeepsIDsUnderALease(t *testing.T) {
	s := onDisk
	s.TailBytes, s.SegmentBytes = 1<<20, 1<<20
	agrees(t, s,
		pushes("p1", 2), advanceOp{301 * 1000}, maintainOp{}, options(number("maxWaitTimeSeconds", 100), number("dedupWindowSeconds", 5)),
		popping("all"), maintainOp{}, maintainOp{}, acks("all", "p1", broker.Completed, 0))
}

func TestR21_AnIDUsedAgainMeansTheDeliveredMessage(t *testing.T) {
	same := pushOp{Items: []pushItem{{Queue: "q", Part: "p1", Txn: "b"}}}
	agrees(t, onDisk,
		options(number("dedupWindowSeconds", 5), number("maxWaitTimeSeconds", 20)), same, maintainOp{}, advanceOp{25 * 1000},
		maintainOp{}, same, popping("all", pinned("p1")), acks("all", "p1", broker.Completed, 1), popping("all"))
}

func TestA3_DeliveryLimitOfAConflatingGroup(t *testing.T) {
	agrees(t, onDisk,
		options(number("maxDeliveries", 1)), pushes("p2", 3), popping("conf"), releaseOp{leaseRef{"row", "q", "p2", "conf"}},
		popping("conf"), pushes("p2", 1), popping("conf"))
}

func TestR72_SkippedMessagesOfABatchDoNotResolve(t *testing.T) {
	agrees(t, onDisk,
		pushes("p1", 2), popping("conf"), acks("conf", "p1", broker.Completed, 0), acks("conf", "p1", broker.Failed, 0),
		acks("conf", "p1", broker.Completed, 1))
}

func TestR40_MessagesBeforeAFutureStartArePassedOver(t *testing.T) {
	later := subscription{From: "2026-01-01T00:01:00Z", At: startTime + 60*second}
	agrees(t, onDisk,
		pushes("p1", 1), popping("time", func(c *popCall) { c.Sub = later }), pushes("p1", 1), pushes("p1", 1), popping("time"),
		advanceOp{65 * 1000}, pushes("p1", 1), popping("time"))
}

func TestR45_AParkedDiscoveryPopRegistersAfreshWhenItsGroupIsDeleted(t *testing.T) {
	waiting := popOp{popCall{Discovery: true, NS: "orders", Group: "new", Wait: true, TimeoutMS: 20000}}
	message := pushOp{Items: []pushItem{{Queue: "orders.eu", Part: "p1"}}}
	agrees(t, onDisk, message, waiting, deleteGroupOp{Group: "new", Metadata: true}, message)
	agrees(t, onDisk, message, waiting, deleteGroupOp{Group: "new", Queue: ptr("orders.eu"), Metadata: true}, message)
}

func TestR12_AParkedPopIsWokenWhenItsStartMovesBack(t *testing.T) {
	agrees(t, onDisk,
		popping("new", func(c *popCall) { c.Wait, c.TimeoutMS = true, 20000 }), advanceOp{6000},
		subscribeOp{"new", startTime + 11*second}, pushes("p1", 2), subscribeOp{"new", startTime + 5*second})
}

func TestR45_ADiscoveryPopRegistersAfreshAlsoAfterARestart(t *testing.T) {
	discovery := popOp{popCall{Discovery: true, NS: "orders", Group: "all", Batch: 2, Sub: subscription{Mode: "all"}}}
	message := pushOp{Items: []pushItem{{Queue: "orders.eu", Part: "p1"}}}
	for _, metadata := range []bool{false, true} {
		agrees(t, onDisk, message, discovery, deleteGroupOp{Group: "all", Queue: ptr("orders.eu"), Metadata: metadata}, message,
			restartOp{}, discovery)
	}
}

func TestR45_AConfigureDoesNotRegisterADeletedGroup(t *testing.T) {
	discovery := popOp{popCall{Discovery: true, NS: "orders", Group: "new", Batch: 2}}
	message := pushOp{Items: []pushItem{{Queue: "orders.eu", Part: "p1"}}}
	agrees(t, onDisk, message, discovery, deleteGroupOp{Group: "new", Queue: ptr("orders.eu"), Metadata: true},
		configureOp{Queue: "orders.eu", Merge: true, Set: []broker.Setting{number("retryLimit", 1)}}, discovery)
}

func TestR45_AKeptRegistrationIsInUseOnceALabelThatCameToCoverItPops(t *testing.T) {
	by := func(ns, task string) popOp {
		return popOp{popCall{Discovery: true, NS: ns, Task: task, Group: "all", Batch: 2, Sub: subscription{Mode: "all"}}}
	}
	relabel := configureOp{Queue: "orders.us", Merge: true, Set: []broker.Setting{{Name: "task", Text: "eu"}}}
	message := pushOp{Items: []pushItem{{Queue: "orders.us", Part: "p1"}}}
	agrees(t, onDisk, by("", "eu"), message, by("orders", ""), deleteGroupOp{Group: "all"}, relabel, by("", "eu"))
	agrees(t, onDisk, by("", "eu"), message, by("orders", ""), deleteGroupOp{Group: "all"}, relabel, restartOp{}, by("", "eu"))
}

func TestPartitionsAreListedInTheOrderOfTheirCreation(t *testing.T) {
	agrees(t, onDisk, pushes("p2", 3), maintainOp{}, pushes("p1", 1), maintainOp{}, pushes("", 2))
}

// seedsThatFoundSomething are of sequences that once failed, with the
// generator of their day; they cost little to keep.
var seedsThatFoundSomething = []uint64{
	1, 2, 3, 7, 9, 26, 27, 44, 79, 204, 230, 313, 647, 707, 712, 946, 956, 1187, 1291, 1875, 1881, 2546, 10238, 11043,
}

func TestSeedsThatFoundSomething(t *testing.T) {
	for _, seed := range seedsThatFoundSomething {
		check(t, seed, 60)
	}
}
