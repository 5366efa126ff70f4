package linear

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// alone is a queue with one client.
func alone(t *testing.T, n *node, queue string) (*cell, *worker) {
	t.Helper()
	r := &round{t: t, node: n}
	c := &cell{queue: queue, began: time.Now(), leases: map[string]int32{}, texts: []string{""}, model: cellModel{retryLimit: 3, dlqOn: true}}
	w := r.newWorker(c, 0, random(1, 1))
	t.Cleanup(w.http.close)
	if err := w.http.connect(); err != nil {
		t.Fatal(err)
	}
	for p := range parts {
		w.must(t, op{kind: opPush, part: p, msgs: []int{c.newMsg()}})
	}
	return c, w
}

// must carries out a call that has to be answered.
func (w *worker) must(t *testing.T, o op) *op {
	t.Helper()
	if err := w.c.do(w.http, &o, 0); err != nil {
		t.Fatal(err)
	}
	if o.lost {
		t.Fatalf("no answer: %s", &o)
	}
	return &o
}

// freeze stops the process and returns when none of its threads runs any more.
func (n *node) freeze() {
	n.t.Helper()
	n.signal(syscall.SIGSTOP)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", n.cmd.Process.Pid))
		if err != nil || len(stats) == 0 {
			n.t.Fatalf("no threads: %v", err)
		}
		running := slices.ContainsFunc(stats, func(file string) bool {
			text, err := os.ReadFile(file)
			// The state follows the name in brackets, which may hold anything.
			return err != nil || !bytes.HasPrefix(text[bytes.LastIndexByte(text, ')')+1:], []byte(" T"))
		})
		if !running {
			return
		}
	}
	n.t.Fatal("the process does not stop")
}

// TestLeaseIsOverAfterAStopLongerThanIt: the very first pop after the process
// goes on finds what the lease held, on every route, and the old lease is
// worth nothing (F26).
func TestLeaseIsOverAfterAStopLongerThanIt(t *testing.T) {
	n := startNode(t)
	for _, part := range []int{-1, 0} {
		for i := range 2 {
			c, w := alone(t, n, fmt.Sprintf("stopped%d-%d", part, i))
			first := w.must(t, op{kind: opPop, group: 1, part: -1, batch: 9, partitions: 2, seconds: 1})
			n.freeze()
			// The pop waits in the socket, so that nothing comes before it.
			done := make(chan *op)
			go func() {
				o := &op{kind: opPop, group: 1, part: part, batch: 9, partitions: 1, seconds: 1}
				if err := c.do(w.http, o, 0); err != nil {
					t.Error(err)
				}
				done <- o
			}()
			time.Sleep(1300 * time.Millisecond) // longer than the lease: nothing can be polled
			n.signal(syscall.SIGCONT)
			o := <-done
			if len(o.runs) != 1 || o.runs[0].attempt < 2 {
				t.Errorf("after the stop a pop got %s after %d us", o.answer(), o.ret-o.call)
			}
			if late := w.must(t, op{kind: opExtend, lease: first.got, seconds: 1}); late.count != 0 {
				t.Errorf("%d rows of a lease that is over were renewed", late.count)
			}
			msg := numbers(first.runs[0].msgs)[0]
			ack := w.must(t, op{kind: opAck, group: 1, items: []ackOne{{msgRef{first.runs[0].part, msg}, completed, first.got}}})
			if ack.said[0].ok {
				t.Errorf("an ack after the end of the lease was accepted: %s", ack)
			}
		}
	}
}
