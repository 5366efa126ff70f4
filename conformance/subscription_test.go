package conformance

import (
	"net/http"
	"testing"
	"time"
)

func TestR40_NewSkipsTheBacklog(t *testing.T) {
	e := shared(t, "F28", "S4")
	for _, mode := range []string{"", "&subscriptionMode=new", "&subscriptionMode=new-only", "&subscriptionMode=new_only", "&subscriptionMode=newonly",
		"&subscriptionMode=NEW-Only", "&subscriptionMode=%20new%20", "&subscriptionFrom=now", "&subscriptionMode="} {
		q, g := e.queue(), e.name("g")
		e.push(q, "p", "old1", "old2")
		e.popNone(q, group(g)+mode)
		e.push(q, "p", "fresh")
		e.pop(q, group(g)).want("fresh")
	}
}

func TestR40_AnyOtherModeIsAll(t *testing.T) {
	e := shared(t, "F28", "S4")
	q := e.queue()
	e.push(q, "p", "a", "b")
	for _, mode := range []string{"all", "ALL", "%20All", "from_beginning", "earliest", "newest", "x"} {
		e.pop(q, group(e.name("g")), "subscriptionMode="+mode).want("a", "b")
	}
}

func TestR40_FromATime(t *testing.T) {
	e := shared(t)
	q := e.queue()
	e.push(q, "p", "a")
	e.push(q, "p", "b")
	e.push(q, "q", "x")
	e.push(q, "p", "c")
	b := e.pin(q, "p")
	cut := b.msgs[1].str("createdAt")
	e.pin(q, "p", group(e.name("g")), "subscriptionFrom="+arg(cut)).want("b", "c")
	// The time beats the mode, in both directions.
	e.pin(q, "p", group(e.name("g")), "subscriptionMode=new", "subscriptionFrom="+arg(cut)).want("b", "c")
	e.pin(q, "p", group(e.name("g")), "subscriptionMode=all", "subscriptionFrom="+arg(cut)).want("b", "c")
	e.get(pinPath(q, "p", group(e.name("g")), "subscriptionMode=all", "subscriptionFrom=now")).empty()
	// Other zones and precisions name the same instant.
	at, err := time.Parse(time.RFC3339Nano, cut)
	if err != nil {
		t.Fatal(err)
	}
	zoned := at.In(time.FixedZone("", 2*3600)).Format("2006-01-02T15:04:05.000000-07:00")
	e.pin(q, "p", group(e.name("g")), "subscriptionFrom="+arg(zoned)).want("b", "c")
	e.pin(q, "p", group(e.name("g")), "subscriptionFrom=2001-02-03").want("a", "b", "c")
	e.pin(q, "p", group(e.name("g")), "subscriptionFrom="+arg("2001-02-03T04:05:06Z")).want("a", "b", "c")
}

func TestS4_UnparsableSubscriptionFromIsIgnored(t *testing.T) {
	e := shared(t, "R40")
	q := e.queue()
	e.push(q, "p", "a")
	e.popNone(q, group(e.name("g")), "subscriptionFrom=yesterday")
	e.pop(q, group(e.name("g")), "subscriptionFrom=yesterday", "subscriptionMode=all").want("a")
}

func TestS20_SubscriptionFromTheFuturePassesOver(t *testing.T) {
	e := shared(t, "R40")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "old")
	start := time.Now().Add(2500 * time.Millisecond).UTC()
	e.popNone(q, group(g), "subscriptionFrom="+arg(start.Format("2006-01-02T15:04:05.000Z")))
	e.push(q, "p", "early")
	e.popNoneUnless(q, g, "early", start)
	time.Sleep(time.Until(start) + 50*time.Millisecond)
	e.push(q, "p", "late")
	ids := e.popSoon(q, group(g)).ids()
	if ids[len(ids)-1] != "late" || ids[0] == "old" {
		t.Errorf("delivered %v", ids)
	}
}

// popNoneUnless expects nothing for the group as long as it is before start.
func (e *env) popNoneUnless(q, g, id string, start time.Time) {
	e.Helper()
	r := e.get(popPath(q, group(g)))
	if r.status != http.StatusNoContent && time.Now().Before(start) {
		e.Errorf("%s was delivered before the start of the group", id)
	}
}

func TestR40_LaterModesChangeNothing(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a")
	e.popNone(q, group(g))
	e.popNone(q, all(g))
	e.popNone(q, group(g), "subscriptionFrom=2001-01-01")
	e.push(q, "p", "b")
	e.pop(q, all(g)).want("b")

	h := e.name("g")
	e.finish(h, e.pop(q, all(h)).want("a", "b"))
	e.popNone(q, group(h), "subscriptionMode=new")
	e.push(q, "p", "c")
	e.pop(q, group(h), "subscriptionMode=new").want("c")
}

func TestR40_RegistrationIsPerQueue(t *testing.T) {
	e := shared(t)
	q1, q2, g := e.queue(), e.queue(), e.name("g")
	e.push(q1, "p", "a")
	e.push(q2, "p", "b")
	e.popNone(q1, group(g))
	e.pop(q2, all(g)).want("b")
}

func TestR40_SeedsEveryExistingPartition(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	for _, p := range []string{"a", "b", "c"} {
		e.push(q, p, "old-"+p)
	}
	e.popNone(q, group(g))
	e.push(q, "b", "fresh")
	e.pop(q, group(g), "partitions=5").want("fresh").is("partitionsClaimed", 1)
}

func TestR41_PartitionsMetLater(t *testing.T) {
	e := shared(t)
	q, g, h := e.queue(), e.name("g"), e.name("g")
	e.push(q, "p", "old")
	e.popNone(q, group(g))
	e.finish(h, e.pop(q, all(h)))
	e.push(q, "later", "x1", "x2")
	e.pop(q, group(g)).want("x1", "x2")
	e.pop(q, group(h)).want("x1", "x2")
}

func TestR41_NewGroupOnAnEmptyQueueMissesNothing(t *testing.T) {
	e := shared(t)
	q, g := e.queue(), e.name("g")
	e.configure(q, `{}`)
	e.popNone(q, group(g))
	e.push(q, "p1", "a")
	e.push(q, "p2", "b")
	if n := len(e.pop(q, group(g), "partitions=2").ids()); n != 2 {
		t.Errorf("%d of 2 messages", n)
	}
}

func TestR42_QueueModeIgnoresTheModes(t *testing.T) {
	e := shared(t)
	for _, param := range []string{"subscriptionMode=new", "subscriptionFrom=now", "subscriptionFrom=2999-01-01", "consumerGroup=__QUEUE_MODE__&subscriptionMode=new"} {
		q := e.queue()
		e.push(q, "p", "a", "b")
		e.pop(q, param).want("a", "b")
	}
}

func TestR43_ThePinnedRouteRegisters(t *testing.T) {
	e := shared(t, "R40")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "old")
	e.push(q, "o", "old")
	e.get(pinPath(q, "p", group(g))).empty()
	e.push(q, "o", "fresh")
	e.get("/api/v1/consumer-groups/" + seg(g)).obj(http.StatusOK).at(q)
	e.pop(q, all(g)).want("fresh")
	list := e.get("/api/v1/consumer-groups").arr(http.StatusOK)
	find(t, list, "name", g).is("queueName", q, "subscriptionMode", "new")
}

func TestR43_DiscoveryRegisters(t *testing.T) {
	e := shared(t, "R40", "R46")
	ns, g := e.name("n"), e.name("g")
	q := ns + ".t"
	e.push(q, "p", "old")
	e.get(discPath("namespace="+ns, group(g))).empty()
	e.push(q, "p", "fresh")
	e.pop(q, all(g)).want("fresh")
}

func TestS13_DefaultSubscriptionModeAll(t *testing.T) {
	_, e := own(t, "DEFAULT_SUBSCRIPTION_MODE=all")
	q := e.queue()
	e.push(q, "p", "a")
	e.pop(q, group(e.name("g"))).want("a")
	e.popNone(q, group(e.name("g")), "subscriptionMode=new")
	e.pop(q, group(e.name("g")), "subscriptionMode=").want("a")
}

func TestR45_DeletedGroupStartsAfresh(t *testing.T) {
	e := shared(t, "F29", "S7")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a", "b")
	b := e.pop(q, all(g), "batch=1").want("a")
	n := e.del("/api/v1/consumer-groups/" + seg(g) + "?deleteMetadata=true").obj(http.StatusOK)
	n.hasKeys("success consumerGroup deletedPartitions metadataDeleted").
		is("success", true, "consumerGroup", g, "deletedPartitions", 1, "metadataDeleted", true)
	refused(noConsumer, e.ack(g, b, "a=completed")...)
	e.leased(b.lease, false)
	if got := e.get("/api/v1/consumer-groups/" + seg(g)).obj(http.StatusOK).keys(); len(got) != 0 {
		t.Errorf("the group still has %v", got)
	}
	e.popNone(q, group(g), "subscriptionMode=new") // its own mode now
	e.push(q, "p", "c")
	e.pop(q, group(g)).want("c").attempt(1)
}

func TestR45_KeptRegistrationDecides(t *testing.T) {
	e := shared(t, "S7")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a", "b")
	e.finish(g, e.pop(q, all(g)))
	e.del("/api/v1/consumer-groups/"+seg(g)+"?deleteMetadata=false").obj(http.StatusOK).is("success", true, "deletedPartitions", 1, "metadataDeleted", false)
	e.pop(q, group(g), "subscriptionMode=new").want("a", "b")

	h := e.name("g")
	e.popNone(q, group(h))
	e.push(q, "p", "c")
	e.finish(h, e.pop(q, group(h)).want("c"))
	e.del("/api/v1/consumer-groups/" + seg(h) + "?deleteMetadata=false").obj(http.StatusOK)
	// The kept registration is "new, from the first pop on".
	e.pop(q, all(h)).want("c")
}

func TestR45_DeleteOnOneQueueOnly(t *testing.T) {
	e := shared(t, "S7")
	q1, q2, g := e.queue(), e.queue(), e.name("g")
	e.push(q1, "p", "a")
	e.push(q2, "p", "b")
	e.finish(g, e.pop(q1, all(g)))
	e.finish(g, e.pop(q2, all(g)))
	e.del("/api/v1/consumer-groups/"+seg(g)+"/queues/"+seg(q1)+"?deleteMetadata=true").obj(http.StatusOK).
		is("success", true, "consumerGroup", g, "queueName", q1, "deletedPartitions", 1, "metadataDeleted", true)
	e.pop(q1, all(g)).want("a")
	e.popNone(q2, all(g))
}

func TestR45_DeleteOfNothing(t *testing.T) {
	e := shared(t, "S7")
	g := e.name("g")
	e.del("/api/v1/consumer-groups/"+g+"?deleteMetadata=true").obj(http.StatusOK).is("success", true, "deletedPartitions", 0)
	e.del("/api/v1/consumer-groups/"+g+"/queues/"+e.queue()+"?deleteMetadata=true").obj(http.StatusOK).is("success", true, "deletedPartitions", 0)
}

func TestS20_DeletedGroupWakesItsParkedPops(t *testing.T) {
	e := shared(t, "R45")
	q, g := e.queue(), e.name("g")
	e.push(q, "p", "a")
	e.finish(g, e.pop(q, all(g)))
	p := e.start("GET", popPath(q, all(g), patiently(20000)), "")
	settle()
	e.del("/api/v1/consumer-groups/" + seg(g) + "?deleteMetadata=true").obj(http.StatusOK)
	p.wakes().want("a")
}

func TestR45_OtherGroupsAreUntouched(t *testing.T) {
	e := shared(t)
	q, g, h := e.queue(), e.name("g"), e.name("g")
	e.push(q, "p", "a")
	e.pop(q, all(g))
	b := e.pop(q, all(h))
	e.del("/api/v1/consumer-groups/" + seg(g) + "?deleteMetadata=true").obj(http.StatusOK)
	e.leased(b.lease, true)
	accepted(e.ack(h, b, "a=completed")...)
}
