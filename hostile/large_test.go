package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// underWay makes one request and serves others until it is answered. It
// returns the answer and the longest that another one had to wait.
func underWay(n *node, method, path string, body []byte) (a answer, longest time.Duration) {
	n.t.Helper()
	done := make(chan error, 1)
	go func() {
		var err error
		a, err = n.try(context.Background(), method, path, bytes.NewReader(body))
		done <- err
	}()
	for i := 0; ; i++ {
		began := time.Now()
		n.push("others", "p", fmt.Sprint(path, i, began.UnixNano()))
		n.ack(n.pop("others", "batch=1"))
		longest = max(longest, time.Since(began))
		select {
		case err := <-done:
			if err != nil {
				n.t.Fatal(err)
			}
			return a, longest
		default:
		}
	}
}

// atOnce calls do for every number below count, several at a time.
func atOnce(count int, do func(i int)) {
	const workers = 16
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			for i := w; i < count; i += workers {
				do(i)
			}
		})
	}
	running.Wait()
}

// bodyOf builds a push of count items.
func bodyOf(count int, write func(b *bytes.Buffer, i int)) []byte {
	var b bytes.Buffer
	b.WriteString(`{"items":[`)
	for i := range count {
		if i > 0 {
			b.WriteByte(',')
		}
		write(&b, i)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

// largest is the most memory one body may take, however it is made.
const largest = 3 << 30

func TestOnePushOfVeryManyNamesIsCarriedOutAndSurvived(t *testing.T) {
	for name, make := range map[string]func(b *bytes.Buffer, i int){
		"queues":     func(b *bytes.Buffer, i int) { fmt.Fprintf(b, `{"queue":"q%d","payload":%d}`, i, i) },
		"partitions": func(b *bytes.Buffer, i int) { fmt.Fprintf(b, `{"queue":"q","partition":"p%d","payload":%d}`, i, i) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t)
			const count = 200_000
			a, longest := underWay(n, "POST", "/api/v1/push", bodyOf(count, make))
			var results []pushed
			if a.status != 201 || json.Unmarshal(a.body, &results) != nil || len(results) != count {
				t.Fatalf("%d %.200s", a.status, a.body)
			}
			_, peak := n.memory()
			t.Logf("others waited %v, peak %d MiB", longest, peak/mebi)
			if longest > 20*time.Second {
				t.Errorf("others waited %v", longest)
			}
			if peak > largest {
				t.Errorf("it took %d MiB", peak/mebi)
			}
			n.restart()
			if name == "queues" {
				for _, i := range []int{0, 1, count / 2, count - 1} {
					if got := n.pop(fmt.Sprint("q", i), "").Messages; len(got) != 1 || string(got[0].Data) != fmt.Sprint(i) {
						t.Errorf("queue %d: %v", i, got)
					}
				}
				return
			}
			if got := n.pop("q", "partitions=64&batch=64&autoAck=true").Messages; len(got) != 64 {
				t.Errorf("popped %d of 64", len(got))
			}
		})
	}
}

func TestOnePushOfVeryManyItemsIsCarriedOutAndSurvived(t *testing.T) {
	t.Parallel()
	n := start(t)
	const count = 500_000
	body := bodyOf(count, func(b *bytes.Buffer, i int) { b.WriteString(`{"queue":"q","payload":1}`) })
	a, longest := underWay(n, "POST", "/api/v1/push", body)
	if a.status != 201 || bytes.Count(a.body, []byte(`"queued"`)) != count {
		t.Fatalf("%d %.200s", a.status, a.body)
	}
	_, peak := n.memory()
	t.Logf("others waited %v, peak %d MiB", longest, peak/mebi)
	if longest > 20*time.Second {
		t.Errorf("others waited %v", longest)
	}
	if peak > largest {
		t.Errorf("it took %d MiB", peak/mebi)
	}
	// A pop of all of them is cut, so that what acks them fits into a body.
	for left := count; left > 400_000; {
		p := n.pop("q", "batch=1000000000&partitions=64")
		if len(p.Messages) == 0 {
			t.Fatalf("nothing to pop with %d left", left)
		}
		n.ack(p)
		left -= len(p.Messages)
	}
	n.restart()
	if got := n.pop("q", "batch=1000").Messages; len(got) != 1000 || got[0].Offset != 100_000 {
		t.Errorf("popped %d messages", len(got))
	}
}

// F16: memory grew with ids, partitions or a slow disk.
func TestManyPushesOfVeryManyItemsTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	n := start(t, "QUEEN_ADMIT_HOLD_MS=200")
	const count = 64*mebi/30 - 10
	body := bodyOf(count, func(b *bytes.Buffer, i int) { b.WriteString(`{"queue":"q","payload":1}`) })
	body = append(body[:len(body)-2], `,{}]}`...)
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			// The last item is refused, after all others were read.
			if a := n.do("POST", "/api/v1/push", string(body)); a.status != 400 && a.status != 429 {
				t.Errorf("%d %.200s", a.status, a.body)
			}
		})
	}
	senders.Wait()
	if _, peak := n.memory(); peak > largest {
		t.Errorf("it took %d MiB", peak/mebi)
	}
	n.healthy()
}

func TestTheSameIdsAgainAreFoundInBoundedTime(t *testing.T) {
	t.Parallel()
	n := start(t, "QUEEN_SEAL_AGE_S=1")
	const count = 100_000
	body := bodyOf(count, func(b *bytes.Buffer, i int) {
		fmt.Fprintf(b, `{"queue":"q","transactionId":"%d","payload":1}`, i)
	})
	for round := range 3 {
		a, longest := underWay(n, "POST", "/api/v1/push", body)
		want := `"queued"`
		if round > 0 {
			want = `"duplicate"`
		}
		if a.status != 201 || bytes.Count(a.body, []byte(want)) != count {
			t.Fatalf("round %d: %d %.200s", round, a.status, a.body)
		}
		if longest > 20*time.Second {
			t.Errorf("others waited %v", longest)
		}
		if round == 1 {
			n.restart()
		}
	}
}

func TestManyGroupsOnAQueueDoNotSlowItDown(t *testing.T) {
	t.Parallel()
	n := start(t)
	const groups = 1500
	n.push("q", "p", "first")
	atOnce(groups, func(i int) {
		n.do("GET", fmt.Sprintf("/api/v1/pop/queue/q?consumerGroup=g%d&subscriptionMode=all&autoAck=true", i), "")
	})
	began := n.cpu()
	const pushes = 200
	for i := range pushes {
		n.push("q", "p", fmt.Sprint(i))
	}
	used := n.cpu() - began
	t.Logf("%d pushes past %d groups took %v", pushes, groups, used)
	if used > 5*time.Second {
		t.Errorf("%d pushes past %d groups took %v of the processor", pushes, groups, used)
	}
	if got := n.pop("q", "consumerGroup=g7&batch=1000").Messages; len(got) != pushes {
		t.Errorf("popped %d", len(got))
	}
}

func TestManyLabelsDoNotSlowNewQueuesDown(t *testing.T) {
	t.Parallel()
	n := start(t)
	const labels = 1500
	atOnce(labels, func(i int) {
		n.do("GET", fmt.Sprintf("/api/v1/pop?namespace=n%d&consumerGroup=g&subscriptionMode=all", i), "")
	})
	began := n.cpu()
	body := bodyOf(20_000, func(b *bytes.Buffer, i int) { fmt.Fprintf(b, `{"queue":"n%d.x","payload":%d}`, i, i) })
	a, _ := underWay(n, "POST", "/api/v1/push", body)
	if a.status != 201 {
		t.Fatalf("%d %.200s", a.status, a.body)
	}
	used := n.cpu() - began
	t.Logf("20000 new queues past %d labels took %v", labels, used)
	if used > 6*time.Second {
		t.Errorf("20000 new queues past %d labels took %v of the processor", labels, used)
	}
	got := parsePop(t, n.do("GET", "/api/v1/pop?namespace=n1499&consumerGroup=g", "")).Messages
	if len(got) != 1 || !strings.Contains(string(got[0].Data), "1499") {
		t.Errorf("popped %v", got)
	}
}
