package linear

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// TestLinear: whatever many clients do at once, killed broker or not, some
// order of their calls explains every answer.
// Against F14.
func TestLinear(t *testing.T) {
	total := duration(t, "LINEAR_TIME", 4*time.Second)
	first := seed(t, "LINEAR_SEED")
	n := startNode(t, tight...)
	var sum tally
	for i, end := 0, time.Now().Add(total); i == 0 || time.Now().Before(end); i++ {
		s := first + uint64(i)
		r := &round{t: t, node: n, seed: s, rng: random(s, 0)}
		r.run(min(4*time.Second, total))
		sum.add(r.tally)
		if t.Failed() {
			t.Fatalf("round %d: LINEAR_SEED=%d", i, s)
		}
	}
	t.Logf("%d histories, %d calls, %d lost, %d kills, %d stops, %d not decided in time", sum.cells, sum.calls, sum.lost, sum.kills, sum.stops, sum.unknown)
}

// tally counts what was checked.
type tally struct{ cells, calls, lost, kills, stops, unknown int }

func (t *tally) add(o tally) {
	t.cells += o.cells
	t.calls += o.calls
	t.lost += o.lost
	t.kills += o.kills
	t.stops += o.stops
	t.unknown += o.unknown
}

// Sizes of a round. Histories are short, so that they can be checked.
const (
	roundCells    = 6
	cellClients   = 5
	checkLimit    = 20 * time.Second
	longestLease  = 2 * time.Second // what clients ask for, also on extension
	bootKillLimit = 30 * time.Millisecond
)

// round is one history on each of some new queues.
type round struct {
	t      *testing.T
	node   *node
	seed   uint64
	rng    *rand.Rand
	cells  []*cell
	deaths []time.Time
	tally
}

func (r *round) run(length time.Duration) {
	if r.setUp(); r.t.Failed() {
		return
	}
	var stop atomic.Bool
	var all sync.WaitGroup
	for i, c := range r.cells {
		for j := range cellClients {
			w := r.newWorker(c, j, random(r.seed, 100*(i+1)+j))
			all.Go(func() {
				if err := w.work(&stop); err != nil {
					r.t.Errorf("%s: %v", c.queue, err)
					stop.Store(true)
				}
			})
		}
	}
	for end := time.Now().Add(length); time.Now().Before(end) && !stop.Load(); {
		r.sleep(&stop, time.Duration(300+r.rng.IntN(2500))*time.Millisecond, end)
		if time.Now().Before(end) && !stop.Load() {
			r.restart()
		}
	}
	stop.Store(true)
	all.Wait()
	if r.drain(); r.t.Failed() {
		return
	}
	r.check()
}

// sleep lets the clients go on for d, but not beyond end.
func (r *round) sleep(stop *atomic.Bool, d time.Duration, end time.Time) {
	until := time.Now().Add(d)
	if end.Before(until) {
		until = end
	}
	for time.Now().Before(until) && !stop.Load() {
		if r.node.gone() {
			r.t.Errorf("the broker ended by itself: %v", r.node.cmd.ProcessState)
			stop.Store(true)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// restart ends the broker, mostly by kill -9, and starts it again; now and
// then it is killed once more while it boots.
func (r *round) restart() {
	sig := syscall.SIGKILL
	if r.rng.IntN(4) == 0 {
		sig = syscall.SIGTERM
		r.stops++
	} else {
		r.kills++
	}
	r.node.end(sig)
	r.deaths = append(r.deaths, time.Now())
	if r.rng.IntN(4) == 0 {
		if _, err := r.node.spawn(); err != nil {
			r.t.Error(err)
			return
		}
		time.Sleep(time.Duration(r.rng.Int64N(int64(bootKillLimit))))
		r.node.end(syscall.SIGKILL)
		r.kills++
	}
	if err := r.node.boot(); err != nil {
		r.t.Error(err)
	}
}

// setUp makes the queues, with a message in each partition, and lets each
// group meet them.
func (r *round) setUp() {
	for i := range roundCells {
		c := &cell{
			queue: fmt.Sprintf("r%d-%d", r.seed, i), began: time.Now(), leases: map[string]int32{}, texts: []string{""},
			model: cellModel{retryLimit: int32(r.rng.IntN(3)), dlqOn: r.rng.IntN(3) > 0},
		}
		r.cells = append(r.cells, c)
		w := r.newWorker(c, cellClients, r.rng)
		if err := w.begin(); err != nil {
			r.t.Errorf("%s: %v", c.queue, err)
		}
		w.http.close()
	}
}

func (w *worker) begin() error {
	if err := w.http.connect(); err != nil {
		return err
	}
	options := map[string]any{
		"retryLimit": w.c.model.retryLimit, "deadLetterQueue": w.c.model.dlqOn, "dlqAfterMaxRetries": w.c.model.dlqOn, "leaseTime": 1,
	}
	var answer struct{ Configured bool }
	if _, err := w.http.call("POST", "/api/v1/configure", map[string]any{"queue": w.c.queue, "options": options}, 0, &answer); err != nil {
		return err
	}
	var err error
	for p := range parts {
		err = errors.Join(err, w.c.do(w.http, &op{client: w.id, kind: opPush, part: p, msgs: []int{w.c.newMsg()}}, 0))
	}
	for g := range groups {
		for p := range parts {
			o := &op{client: w.id, kind: opPop, group: g, part: p, batch: 1, partitions: 1, seconds: 1}
			err = errors.Join(err, w.c.do(w.http, o, 0))
		}
	}
	return err
}

// drain lets each group have what is left, and reads what there is.
func (r *round) drain() {
	var all sync.WaitGroup
	for _, c := range r.cells {
		all.Go(func() {
			w := r.newWorker(c, cellClients, nil)
			defer w.http.close()
			if err := w.finish(); err != nil {
				r.t.Errorf("%s: %v", c.queue, err)
			}
		})
	}
	all.Wait()
}

// finish acks everything that is left. Every lease is over soon.
func (w *worker) finish() error {
	for end := time.Now().Add(2*longestLease + patience); ; {
		left := false
		for g := range groups {
			pending, err := w.pending(g)
			if err != nil {
				return err
			}
			left = left || pending > 0
			if pending == 0 {
				continue
			}
			o := &op{client: w.id, kind: opPop, group: g, part: -1, batch: 20, partitions: parts, seconds: 2, patient: true}
			if err := w.c.do(w.http, o, 0); err != nil {
				return err
			}
			if len(o.runs) == 0 {
				continue
			}
			ack := &op{client: w.id, kind: opAck, group: g}
			for _, r := range o.runs {
				all := numbers(r.msgs)
				ack.items = append(ack.items, ackOne{msgRef{r.part, all[len(all)-1]}, completed, o.got})
			}
			if err := w.c.do(w.http, ack, 0); err != nil {
				return err
			}
		}
		if !left {
			break
		}
		if time.Now().After(end) {
			return errors.New("the groups do not get what is left")
		}
	}
	for p := range parts {
		if err := w.c.do(w.http, &op{client: w.id, kind: opRead, part: p}, 0); err != nil {
			return err
		}
	}
	return w.c.do(w.http, &op{client: w.id, kind: opLetters}, 0)
}

// pending is how many messages a group has before it.
func (w *worker) pending(group int) (int, error) {
	if err := w.http.connect(); err != nil {
		return 0, err
	}
	name := groupNames[group]
	if name == "" {
		name = "__QUEUE_MODE__"
	}
	var answer struct{ Pending int }
	_, err := w.http.call("GET", "/api/v1/resources/queues/"+w.c.queue+"/depth?group="+name, nil, 0, &answer)
	return answer.Pending, err
}

// check looks for an order of each history.
func (r *round) check() {
	var all sync.WaitGroup
	var unknown, lost, calls atomic.Int64
	for _, c := range r.cells {
		all.Go(func() {
			history := c.history(r.deaths)
			calls.Add(int64(len(history)))
			for _, o := range history {
				if o.Input.(*op).lost {
					lost.Add(1)
				}
			}
			model := c.model.porcupine()
			switch porcupine.CheckOperationsTimeout(model, history, checkLimit) {
			case porcupine.Unknown:
				unknown.Add(1)
			case porcupine.Illegal:
				r.t.Errorf("%s with %+v: no order explains this, seed %d:\n%s", c.queue, c.model, r.seed, explain(model, history, drawing(c.queue)))
			}
		})
	}
	all.Wait()
	r.tally.cells, r.calls, r.lost, r.unknown = len(r.cells), int(calls.Load()), int(lost.Load()), int(unknown.Load())
}

// drawing is where the picture of a history goes, "" when nobody wants it.
func drawing(name string) string {
	if dir := os.Getenv("LINEAR_OUT"); dir != "" {
		return filepath.Join(dir, name+".html")
	}
	return ""
}
