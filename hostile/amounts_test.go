package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// scaled is how much of something a test does: little, or with QUEEND_FAULTS
// set as much as the fault took that the test is about.
func scaled(little, much int) int {
	if os.Getenv("QUEEND_FAULTS") != "" {
		return much
	}
	return little
}

// quickSync is for tests that are about amounts and not about the disk's speed.
const quickSync = "QUEEN_FSYNC=interval:100"

// used is how many bytes of the disk the data directory takes.
func (n *node) used() (bytes int64) {
	n.t.Helper()
	err := filepath.WalkDir(n.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was deleted meanwhile
		}
		var st syscall.Stat_t
		if syscall.Lstat(path, &st) == nil {
			bytes += st.Blocks * 512
		}
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return bytes
}

// written is how many bytes the process has had the disk write; 0 where the
// file system does not count.
func (n *node) written() int64 {
	n.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", n.pid()))
	if err != nil {
		n.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nwrite_bytes: ")
	bytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		n.t.Fatal(err)
	}
	return bytes
}

// pushAll pushes messages 0 to count-1 as they are made, many in a request and
// a few requests at once.
func (n *node) pushAll(count, each int, make func(i int) string) {
	n.t.Helper()
	atOnce((count+each-1)/each, func(k int) {
		var items []string
		for i := k * each; i < min(count, (k+1)*each); i++ {
			items = append(items, make(i))
		}
		a := n.do("POST", "/api/v1/push", `{"items":[`+strings.Join(items, ",")+`]}`)
		if stored := bytes.Count(a.body, []byte(`"queued"`)); a.status != 201 || stored != len(items) {
			n.t.Errorf("push: %d, %d of %d stored", a.status, stored, len(items))
		}
	})
	if n.t.Failed() {
		n.t.FailNow()
	}
}

// F9 (a): a consumer that finds nothing wrote something each time it came.
func TestEmptyPopsOverFreshConnectionsWriteNothing(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.push("q", "p", "1")
	n.ack(n.pop("q", ""))
	before, wrote := n.used(), n.written()
	atOnce(scaled(2000, 20_000), func(int) {
		c := n.dial()
		defer c.Close()
		c.send("GET /api/v1/pop/queue/q HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if a := c.answer(); a.status != 204 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	// A checkpoint may have come in between.
	if after := n.used(); after > before+256<<10 {
		t.Errorf("the directory grew from %d to %d bytes", before, after)
	}
	if more := n.written() - wrote; more > mebi {
		t.Errorf("%d bytes were written", more)
	}
}

// F9 (b): one message that nobody reads kept the disk space of all others.
func TestOneUnreadMessagePinsNobodyElsesData(t *testing.T) {
	t.Parallel()
	n := start(t, quickSync, "RETENTION_INTERVAL=250", "QUEEN_TAIL_MB="+fmt.Sprint(scaled(4, 64)), "QUEEN_CHECKPOINT_MB="+fmt.Sprint(scaled(8, 64)),
		"QUEEN_SEGMENT_BYTES="+fmt.Sprint(scaled(8*mebi, 64*mebi)), "QUEEN_CHECKPOINT_S=5", "QUEEN_SEAL_AGE_S=5", "QUEEN_TXN_WINDOW_MIN_S=1")
	n.must(200, "POST", "/api/v1/configure", `{"queue":"b","options":{"completedRetentionSeconds":1,"retentionEnabled":true,"dedupWindowSeconds":1}}`)
	n.push("a", "p", "unread")
	total := scaled(64, 2048)
	for i := range total {
		n.must(201, "POST", "/api/v1/push", `{"items":[`+item("b", "p", fmt.Sprint(i), noise(i, mebi))+`]}`)
		n.ack(n.pop("b", "batch=10"))
	}
	limit, least := int64(scaled(28, 300))*mebi, int64(1<<62)
	for end := time.Now().Add(time.Minute); least > limit && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		least = min(least, n.used())
	}
	t.Logf("%d MiB went through, %d MiB are left", total, least/mebi)
	if least > limit {
		t.Errorf("of %d MiB that were acked %d MiB stay", total, least/mebi)
	}
	n.restart()
	if got := n.pop("a", "").txns(); len(got) != 1 {
		t.Errorf("the unread message: %v", got)
	}
}

// noise is a JSON string of about so many bytes that do not compress well.
func noise(seed, bytes int) string {
	b := make([]byte, 0, bytes+2)
	b = append(b, '"')
	for x := uint64(seed)*2654435761 + 88172645463325252; len(b) < bytes; {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		for k := 0; k < 64; k += 6 {
			b = append(b, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[x>>k&63])
		}
	}
	return string(append(b, '"'))
}

// F10: every idle queue had space of its own on the disk.
func TestIdleQueuesTakeLittleOfTheDisk(t *testing.T) {
	t.Parallel()
	n := start(t, quickSync, "QUEEN_CHECKPOINT_S=1", "QUEEN_SEAL_AGE_S=1")
	queues := scaled(2000, 10_000)
	n.pushAll(queues, 200, func(i int) string { return item(fmt.Sprint("queue-", i), "p", "t", fmt.Sprint(i)) })
	atOnce(queues, func(i int) {
		if a := n.do("GET", fmt.Sprint("/api/v1/pop/queue/queue-", i), ""); a.status != 200 {
			t.Errorf("queue %d: %d %.100s", i, a.status, a.body)
		}
	})
	at := n.used()
	t.Logf("%d queues take %d KiB", queues, at>>10)
	if limit := int64(queues) * 10_000; at > limit {
		t.Errorf("%d queues take %d MiB, at most %d are meant", queues, at/mebi, limit/mebi)
	}
}

// F10: what is written grew with queues times messages. The clients send one
// message in a request, each to another queue.
func TestManyBusyQueuesWriteInProportion(t *testing.T) {
	t.Parallel()
	settings := []string{}
	if os.Getenv("QUEEND_FAULTS") == "" {
		// Each sync writes whole pages, so how much a few messages on a busy
		// machine write is a matter of how many of them meet in a group.
		settings = append(settings, quickSync)
	}
	n := start(t, settings...)
	const queues, payload = 1000, 1000
	rounds := scaled(3, 300)
	n.pushAll(queues, 200, func(i int) string { return item(fmt.Sprint("q", i), "p", "first", "1") })
	before := n.written()
	var stored atomic.Int64
	began := time.Now()
	for round := range rounds {
		atOnce(queues, func(i int) {
			a := n.do("POST", "/api/v1/push", `{"items":[`+item(fmt.Sprint("q", i), "p", fmt.Sprint(round), noise(round*queues+i, payload))+`]}`)
			if a.status != 201 {
				t.Errorf("push: %d %.100s", a.status, a.body)
			}
			stored.Add(payload)
		})
		if os.Getenv("QUEEND_FAULTS") != "" { // five messages a second
			time.Sleep(time.Until(began.Add(time.Duration(round+1) * 200 * time.Millisecond)))
		}
	}
	wrote := n.written() - before
	t.Logf("%d bytes of payload in %v, %.2f times as many written", stored.Load(), time.Since(began), float64(wrote)/float64(stored.Load()))
	if n.written() == 0 {
		t.Skip("this file system does not count what is written")
	}
	if wrote > 4*stored.Load() {
		t.Errorf("%d bytes were written for %d of payload", wrote, stored.Load())
	}
}

// F16: memory went with the number of partitions that nobody used. The bound
// is what a partition with one message and its id takes.
func TestIdlePartitionsTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	n := start(t, quickSync, "QUEEN_CHECKPOINT_S=5", "QUEEN_SEAL_AGE_S=1")
	count := scaled(50_000, 1_000_000)
	before, _ := n.memory()
	n.pushAll(count, 1000, func(i int) string { return item("q", fmt.Sprint("partition-", i), "t", "1") })
	n.restart()
	after, _ := n.memory()
	t.Logf("%d partitions take %d MiB, %d bytes each", count, (after-before)/mebi, (after-before)/int64(count))
	if limit := 48*mebi + 2000*int64(count); after-before > limit {
		t.Errorf("%d partitions take %d MiB, at most %d are meant", count, (after-before)/mebi, limit/mebi)
	}
}

// F45: retention went over every partition in every cycle and fell behind.
func TestRetentionOfAHotQueueKeepsUpBesideIdlePartitions(t *testing.T) {
	t.Parallel()
	n := start(t, quickSync, "RETENTION_INTERVAL=250", "QUEEN_TAIL_MB="+fmt.Sprint(scaled(4, 64)), "QUEEN_CHECKPOINT_MB="+fmt.Sprint(scaled(8, 128)),
		"QUEEN_SEGMENT_BYTES="+fmt.Sprint(scaled(8*mebi, 64*mebi)), "QUEEN_CHECKPOINT_S=2", "QUEEN_SEAL_AGE_S=2", "QUEEN_TXN_WINDOW_MIN_S=1")
	n.must(200, "POST", "/api/v1/configure", fmt.Sprintf(`{"queue":"hot","options":{"retentionSeconds":%d,"retentionEnabled":true,"dedupWindowSeconds":1}}`, scaled(1, 5)))
	idle := scaled(10_000, 100_000)
	n.pushAll(idle, 1000, func(i int) string { return item("idle", fmt.Sprint("partition-", i), "t", "1") })
	base := n.used()
	const bytesEach = 500 << 10
	var most int64
	var slowest time.Duration
	sent, began := 0, time.Now()
	for lasts := time.Duration(scaled(6, 60)) * time.Second; time.Since(began) < lasts; sent++ {
		asked := time.Now()
		n.must(201, "POST", "/api/v1/push", `{"items":[`+item("hot", "p", fmt.Sprint(sent), noise(sent, bytesEach))+`]}`)
		slowest = max(slowest, time.Since(asked))
		if sent%10 == 0 {
			most = max(most, n.used()-base)
		}
		time.Sleep(time.Until(began.Add(time.Duration(sent+1) * 10 * time.Millisecond))) // 50 MB a second
	}
	rate := int64(sent) * bytesEach / int64(time.Since(began)/time.Millisecond) * 1000
	// What is young enough to stay, twice over for the log, and what is being
	// merged and checkpointed.
	limit := rate*int64(scaled(1, 5)+8)*2 + int64(scaled(64, 600))*mebi
	t.Logf("%d MiB at %d MiB/s beside %d idle partitions: at most %d MiB of disk, bound %d, slowest push %v",
		int64(sent)*bytesEach/mebi, rate/mebi, idle, most/mebi, limit/mebi, slowest)
	if most > limit {
		t.Errorf("%d MiB of disk at %d MiB/s", most/mebi, rate/mebi)
	}
	var depth struct{ Pending int }
	until(t, "what is old is gone", func() bool {
		a := n.must(200, "GET", "/api/v1/resources/queues/hot/depth", "")
		return json.Unmarshal(a.body, &depth) == nil && depth.Pending == 0
	})
	if got := n.pop("idle", "batch=64&partitions=64").Messages; len(got) != 64 {
		t.Errorf("of the idle partitions %d gave a message", len(got))
	}
}

// F17: under concurrent pushes a message was committed behind a cursor that
// had already passed its place, and nobody ever saw it.
func TestAConsumerAmongManyProducersSkipsNothing(t *testing.T) {
	t.Parallel()
	n := start(t, quickSync)
	const producers = 64
	each := scaled(40, 1600)
	var pushing sync.WaitGroup
	for w := range producers {
		pushing.Go(func() {
			for i := range each {
				a := n.do("POST", "/api/v1/push", `{"items":[`+item("q", "p", fmt.Sprint(w, "-", i), "1")+`]}`)
				if a.status != 201 {
					t.Errorf("push: %d %.100s", a.status, a.body)
					return
				}
			}
		})
	}
	seen, next := map[string]bool{}, int64(0)
	for deadline := time.Now().Add(time.Duration(scaled(60, 900)) * time.Second); len(seen) < producers*each; {
		p := n.pop("q", "batch=500&wait=true&timeout=1000")
		for _, m := range p.Messages {
			if m.Offset != next || seen[m.Txn] {
				t.Fatalf("offset %d with %s, want offset %d and an id that did not come yet", m.Offset, m.Txn, next)
			}
			seen[m.Txn], next = true, next+1
		}
		if len(p.Messages) > 0 {
			n.ack(p)
		} else if time.Now().After(deadline) {
			t.Fatalf("%d of %d came", len(seen), producers*each)
		}
	}
	pushing.Wait()
}
