package fuzz

import (
	"math/rand/v2"
	"slices"
	"time"

	"queend/broker"
)

// The world of a sequence: few names, so that commands meet.
var (
	queueNames = []string{"orders.eu", "orders.us", "jobs"}
	partNames  = []string{"", "p1", "p2"}
	txnNames   = []string{"a", "b", "c", "d", "e", "f"}
	groupNames = []string{"", "", "new", "all", "time", "conf", "confnew"}
	errTexts   = []string{"", "", "boom", "smtp 550"}
)

// gen makes commands that mean something in the present state of the model.
// A sequence uses some of the names only, at times few, so that its commands
// bear on the same rows.
type gen struct {
	*rand.Rand
	h                     *harness
	n                     int // payloads made
	early                 int // commands that configure before all others
	queues, parts, groups []string
}

func newGen(r *rand.Rand, h *harness) *gen {
	some := func(all []string) []string {
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all[:1+r.IntN(len(all))]
	}
	return &gen{
		Rand: r, h: h, queues: some(slices.Clone(queueNames)), parts: some(slices.Clone(partNames)),
		groups: some(slices.Clone(groupNames)), early: r.IntN(3),
	}
}

func pick[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

func (g *gen) oneIn(n int) bool { return g.IntN(n) == 0 }

// newSetup chooses the configuration of a sequence: small buffers, so that
// messages move to disk and ids out of memory.
func newSetup(r *rand.Rand) setup {
	s := setup{
		settings: settings{
			WindowBatch: pick(r, int64(3), 6, 100), Quiet: r.IntN(4) == 0, TxnWindow: pick(r, int64(30), 900),
			Encrypts: r.IntN(2) == 0, CleanupDays: pick(r, int64(0), 1),
		},
		Seed: r.Uint64(), TailBytes: pick(r, int64(1), 400, 4000, 1<<20), SegmentBytes: pick(r, int64(300), 4000, 1<<20),
		DedupCacheBytes: pick(r, int64(1), 2000, 1<<20), CheckpointBytes: pick(r, int64(1), 2000, 1<<20),
		SealAgeSeconds: pick(r, int64(1), 600),
	}
	if !s.Encrypts && r.IntN(3) == 0 {
		s.PopMaxBytes = 600
	}
	return s
}

// next makes one command.
func (g *gen) next() op {
	makers := []struct {
		weight int
		make   func() op
	}{
		{22, func() op { return g.push() }},
		{24, func() op { return g.pop() }},
		{22, func() op { return g.ack() }},
		{12, func() op { return g.advance() }},
		{6, func() op { return maintainOp{} }},
		{5, func() op { return g.configure() }},
		{3, func() op { return extendOp{g.leaseRef("row"), pick(g.Rand, int64(-1), 1, 20, 100)} }},
		{3, func() op { return releaseOp{g.leaseRef("row")} }},
		{3, func() op { return giveBackOp{} }},
		{5, func() op { return g.txn() }},
		{4, func() op { return g.seek() }},
		{1, func() op { return deleteQueueOp{pick(g.Rand, g.queues...)} }},
		{2, func() op { return g.deleteGroup() }},
		{1, func() op { return subscribeOp{g.group(), g.instant()} }},
		{3, func() op { return g.replay() }},
		{1, func() op { return g.letters() }},
		{1, func() op { return deleteLetterOp{g.IntN(9), g.oneIn(2)} }},
		{2, func() op { return restartOp{g.oneIn(2), pick(g.Rand, int64(0), 0, 7*second, 400*second)} }},
		{1, func() op { return setBackOp{pick(g.Rand, 300*millisecond, 90*second)} }},
		{1, func() op { return hangUpOp{g.IntN(9)} }},
		{1, func() op { return logOp{} }},
	}
	total := 0
	for _, m := range makers {
		total += m.weight
	}
	at := g.IntN(total)
	for _, m := range makers {
		if at -= m.weight; at < 0 {
			return m.make()
		}
	}
	return nil
}

func (g *gen) group() string { return orText(pick(g.Rand, g.groups...), broker.QueueMode) }

func (g *gen) item() pushItem {
	g.n++
	it := pushItem{
		Queue: pick(g.Rand, g.queues...), Part: pick(g.Rand, g.parts...), N: g.n, Pad: pick(g.Rand, 0, 10, 100),
		Headers: g.oneIn(4),
	}
	switch {
	case g.oneIn(3):
	case g.oneIn(20) && len(g.h.m.letters) > 0:
		it.Txn = "dlq:" + pick(g.Rand, g.h.m.letters...).id.String()
	default:
		it.Txn = pick(g.Rand, txnNames...)
	}
	return it
}

func (g *gen) producer() *string {
	if g.oneIn(3) {
		return ptr(pick(g.Rand, "", "alice"))
	}
	return nil
}

func (g *gen) push() op {
	o := pushOp{Producer: g.producer()}
	one := g.item()
	together := g.oneIn(2)
	for range 1 + g.IntN(6) {
		it := g.item()
		if together {
			it.Queue, it.Part = one.Queue, one.Part
		}
		o.Items = append(o.Items, it)
	}
	return o
}

// instant is a time that has to do with the messages there are.
func (g *gen) instant() int64 {
	at := g.h.m.clock()
	if p := g.part(); p != nil && p.end() > 0 && g.oneIn(2) {
		at = p.msgs[g.IntN(p.end())].time
	}
	return at - at%millisecond + pick(g.Rand, int64(0), 0, -3600, -1, 5, 60)*second
}

// part is a partition that exists, nil when there is none.
func (g *gen) part() *mPart {
	var all []*mPart
	for _, name := range g.h.m.names() {
		all = append(all, g.h.m.queues[name].order...)
	}
	if len(all) == 0 {
		return nil
	}
	return pick(g.Rand, all...)
}

// usual is how a group subscribes when nothing else is said. Pops that wait
// always do: when two of them register anew, either may be first.
func usual(group string) (s subscription, conflation bool) {
	switch group {
	case "all", "time":
		return subscription{Mode: "all"}, false
	case "conf":
		return subscription{Mode: "everything"}, true
	case "confnew":
		return subscription{}, true
	}
	return subscription{}, false
}

func (g *gen) pop() op {
	c := popCall{
		Queue: pick(g.Rand, g.queues...), Group: g.group(), Batch: pick(g.Rand, 0, 1, 2, 3, 10), Partitions: pick(g.Rand, 0, 1, 2, 64),
		AutoAck: g.oneIn(6), LeaseSeconds: pick(g.Rand, int64(0), 0, 4, 20, 200),
	}
	if g.oneIn(40) {
		c.Batch, c.Partitions = -1, -1
	}
	switch g.IntN(5) {
	case 0:
		c.Pinned, c.Part = true, pick(g.Rand, g.parts...)
	case 1:
		c.Discovery, c.Queue = true, ""
		c.NS, c.Task = pick(g.Rand, "orders", "orders", ""), pick(g.Rand, "eu", "", "us")
		if c.NS == "" {
			c.Task = "eu"
		}
	case 2:
		c.Autopilot = !c.AutoAck && g.oneIn(2)
	}
	c.Sub, c.Conflation = usual(c.Group)
	if c.Conflation {
		c.AutoAck = false
	}
	if g.oneIn(4) {
		c.Wait, c.TimeoutMS = true, pick(g.Rand, int64(1000), 5000, 20000)
	} else if g.oneIn(4) && !c.Discovery {
		g.unusual(&c)
	}
	return popOp{c}
}

// unusual lets a pop say something else about its subscription.
func (g *gen) unusual(c *popCall) {
	c.Sub = subscription{Mode: pick(g.Rand, "", " NEW-only ", "from_beginning")}
	switch g.IntN(4) {
	case 0:
		c.Sub.From = "now"
	case 1:
		c.Sub.From = "no time"
	case 2:
		c.Sub.At = g.instant()
		c.Sub.From = time.UnixMicro(c.Sub.At).UTC().Format(time.RFC3339Nano)
	}
	if c.Group != broker.QueueMode && !c.AutoAck && g.oneIn(3) {
		c.Conflation = !c.Conflation
	}
}

func (g *gen) advance() op {
	ms := pick(g.Rand, int64(200), 1000, 1000, 3000, 3000, 6000, 11000, 35000, 65000, 301000)
	if g.oneIn(40) {
		ms = 1000 * 1000
	}
	if g.oneIn(40) {
		ms = 25 * 3600 * 1000
	}
	return advanceOp{ms}
}

// lanes lists rows that are leased, or else were.
func (g *gen) lanes(wanted func(*mRow) bool) (all []lane) {
	for _, name := range g.h.m.names() {
		q := g.h.m.queues[name]
		var groups []string
		for group := range q.groups {
			groups = append(groups, group)
		}
		slices.Sort(groups)
		for _, p := range q.order {
			for _, group := range groups {
				if r := p.rows[q.groups[group]]; r != nil && wanted(r) {
					all = append(all, lane{q.groups[group], p})
				}
			}
		}
	}
	return all
}

// lane is a lane to ack on: mostly one with a live lease.
func (g *gen) lane() (l lane, found bool) {
	all := g.lanes(func(r *mRow) bool { return r.live(g.h.m.clock()) })
	if len(all) == 0 || g.oneIn(5) {
		all = g.lanes(func(r *mRow) bool { return true })
	}
	if len(all) == 0 {
		return l, false
	}
	return pick(g.Rand, all...), true
}

func (g *gen) leaseRef(kind string) leaseRef {
	l, found := g.lane()
	if !found {
		return leaseRef{Kind: "bogus"}
	}
	if g.oneIn(12) {
		return leaseRef{Kind: pick(g.Rand, "bogus", "text", "")}
	}
	return leaseRef{kind, l.p.q.name, l.p.name, l.g.name}
}

func (g *gen) setting() broker.Setting {
	number := func(name string, values ...int64) broker.Setting {
		return broker.Setting{Name: name, Int: pick(g.Rand, values...), Null: g.oneIn(12)}
	}
	toggle := func(name string) broker.Setting {
		return broker.Setting{Name: name, Bool: g.oneIn(2), Null: g.oneIn(12)}
	}
	switch g.IntN(20) {
	case 0:
		return number("leaseTime", 0, 5, 30)
	case 1, 2:
		return number("retryLimit", 0, 1, 3)
	case 3:
		return toggle("deadLetterQueue")
	case 4:
		return toggle("dlqAfterMaxRetries")
	case 5, 6:
		return number("delayedProcessing", 0, 2, 10)
	case 7, 8:
		return number("windowBuffer", 0, 3, 8)
	case 9:
		return toggle("retentionEnabled")
	case 10:
		return number("retentionSeconds", 0, 10, 60)
	case 11:
		return number("completedRetentionSeconds", 0, 5, 30)
	case 12:
		return number("maxWaitTimeSeconds", 0, 20, 100)
	case 13:
		return number("minPopWaitTime", 0, 3000)
	case 14:
		return number("dedupWindowSeconds", 0, 5, 60, 3600)
	case 15:
		return number("redeliveryDelayMs", 0, 1000, 5000)
	case 16:
		return number("redeliveryDelayMaxMs", 0, 8000)
	case 17, 18:
		return number("maxDeliveries", 0, 1, 2, 3)
	}
	return pick(g.Rand, toggle("requireLease"), toggle("encryptionEnabled"),
		broker.Setting{Name: "namespace", Text: pick(g.Rand, "", "orders")}, broker.Setting{Name: "task", Text: pick(g.Rand, "", "eu")})
}

func (g *gen) configure() op {
	o := configureOp{Queue: pick(g.Rand, g.queues...), Merge: !g.oneIn(3)}
	for range g.IntN(6) {
		o.Set = append(o.Set, g.setting())
	}
	if g.oneIn(3) {
		o.Set = append(o.Set, broker.Setting{Name: "retentionEnabled", Bool: true})
	}
	return o
}

func (g *gen) seek() op {
	o := seekOp{Queue: pick(g.Rand, g.queues...), Group: g.group(), ToEnd: g.oneIn(3)}
	if g.oneIn(2) {
		o.Part = ptr(orText(pick(g.Rand, g.parts...), broker.DefaultPartition))
	}
	if !o.ToEnd {
		o.At = g.instant()
	}
	return o
}

func (g *gen) deleteGroup() op {
	o := deleteGroupOp{Group: g.group(), Metadata: !g.oneIn(3)}
	if g.oneIn(2) {
		o.Queue = ptr(pick(g.Rand, g.queues...))
	}
	return o
}

func (g *gen) replay() op {
	o := replayOp{N: g.IntN(9), Address: g.oneIn(3), Producer: g.producer()}
	if g.oneIn(4) {
		o.Queue = ptr(pick(g.Rand, g.queues...))
	}
	if g.oneIn(4) {
		o.Part = ptr("p1")
	}
	return o
}

func (g *gen) letters() op {
	o := lettersOp{Group: pick(g.Rand, "", "", "all"), Part: pick(g.Rand, "", "", "p1"), Text: pick(g.Rand, "", "", "smtp", "limit"),
		Limit: pick(g.Rand, 0, 2), Replay: g.oneIn(2)}
	if g.oneIn(2) {
		o.Queue = ptr(pick(g.Rand, g.queues...))
	}
	return o
}
