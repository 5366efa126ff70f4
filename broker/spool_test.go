package broker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"queend"
	"queend/log"
)

func (r *rig) maintenance(on bool) {
	r.Helper()
	_, err := r.b.SetMaintenance(context.Background(), on)
	r.must(err)
}

// spoolTo pushes in maintenance; a txn of "" is left out.
func (r *rig) spoolTo(queue, part string, txns ...string) []PushResult {
	r.Helper()
	var items []PushItem
	for _, txn := range txns {
		it := PushItem{Queue: queue, Partition: part, Payload: []byte(`"` + txn + `"`)}
		if txn != "" {
			it.TxnID = []byte(txn)
		}
		items = append(items, it)
	}
	sub := "me"
	results, err := r.b.Push(context.Background(), DefaultTenant, &sub, items)
	r.must(err)
	for _, res := range results {
		if res.Status != PushBuffered {
			r.Fatalf("spooled push: %+v", res)
		}
	}
	return results
}

func (r *rig) buffered(want int64) MaintenanceStatus {
	r.Helper()
	s, err := r.b.MaintenanceStatus(context.Background())
	r.must(err)
	if s.Buffered != want {
		r.Fatalf("%d items are buffered, want %d", s.Buffered, want)
	}
	return s
}

func TestSpooledPushesComeInOrderOnceMaintenanceEnds(t *testing.T) {
	r := newRig(t)
	r.push("a")
	r.maintenance(true)
	minted := r.spoolTo("q", "p", "b", "a", "")[2]
	r.spoolTo("q", "p", "c")
	r.buffered(4)
	r.must(r.b.DrainSpool())
	r.buffered(4) // still on
	r.reopen()
	r.buffered(4)
	r.maintenance(false)
	r.push("d") // goes straight in
	r.must(r.b.DrainSpool())
	r.buffered(0)
	got := r.pop(10).want("a d b " + string(minted.TxnID) + " c")
	if m := got.Messages[3]; m.ID != minted.ID || string(m.Producer) != "me" || string(m.Payload) != `""` {
		t.Errorf("the minted message came as %+v, want id %s", m, minted.ID)
	}
	if files, _ := r.b.spoolFiles(); len(files) != 0 {
		t.Errorf("spool files %v are left", files)
	}
}

func TestADrainThatStopsGoesOnWhereItWas(t *testing.T) {
	r := newRig(t)
	r.options(func(o *Options) { o.DedupWindowSeconds = 0 })
	r.maintenance(true)
	r.spoolTo("q", "p", "a", "b")
	r.maintenance(false)
	// The file of a drained part is kept, as after a crash before it was
	// removed, and has more behind it.
	path := r.b.spool.path(r.b.spool.number)
	whole, err := os.ReadFile(path)
	r.must(err)
	r.must(r.b.DrainSpool())
	r.reopen()
	r.must(os.WriteFile(path, append(whole, whole[len(spoolMagic):]...), 0o600))
	r.reopen()
	r.buffered(2)
	r.must(r.b.DrainSpool())
	r.pop(10).want("a b a b")
}

func TestADamagedSpoolRecordIsSetAsideAlone(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"a bit of the body": func(b []byte) []byte { b[bytes.LastIndex(b, []byte("second"))] ^= 1; return b },
		"a length":          func(b []byte) []byte { b[bytes.Index(b[20:], []byte(spoolMark))+20+5] ^= 1; return b },
		"a mark":            func(b []byte) []byte { b[bytes.Index(b[20:], []byte(spoolMark))+20] ^= 1; return b },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.maintenance(true)
			r.spoolTo("q", "p", "first")
			r.spoolTo("q", "p", "second")
			r.spoolTo("q", "p", "third")
			path := r.b.spool.path(r.b.spool.number)
			r.close()
			raw, err := os.ReadFile(path)
			r.must(err)
			r.must(os.WriteFile(path, damage(raw), 0o600))
			r.open()
			r.maintenance(false)
			r.must(r.b.DrainSpool())
			r.pop(10).want("first third")
			if s, _ := r.b.MaintenanceStatus(context.Background()); s.FailedFiles != 1 {
				t.Errorf("status %+v", s)
			}
		})
	}
}

func TestATornSpoolRecordIsSetAside(t *testing.T) {
	r := newRig(t)
	r.maintenance(true)
	r.spoolTo("q", "p", "a", "b")
	path := r.b.spool.path(r.b.spool.number)
	r.close()
	st, err := os.Stat(path)
	r.must(err)
	r.must(os.Truncate(path, st.Size()-3))
	r.open()
	r.spoolTo("q", "p", "c")
	r.maintenance(false)
	r.must(r.b.DrainSpool())
	r.pop(10).want("a c")
}

// What a power cut left of a file that nobody was told of must not stop the
// files behind it. A file of a later version does.
func TestATornBeginningOfASpoolFileStopsNothing(t *testing.T) {
	for _, row := range []struct{ magic, want string }{
		{"", "a b"}, {"QSP", "a b"}, {"QSPOOL0\x00", "a b"}, {"QSPOOL\x00\x00", "a b"}, {"QSPOOL0\x00\x00\x00\x00\x00", "a b"}, {"QSPOOL02", "a"},
	} {
		t.Run(row.magic, func(t *testing.T) {
			r := newRig(t)
			r.maintenance(true)
			r.spoolTo("q", "p", "a")
			torn := r.b.spool.path(r.b.spool.number + 1)
			r.close()
			r.must(os.WriteFile(torn, []byte(row.magic), 0o600))
			r.open()
			r.spoolTo("q", "p", "b")
			r.maintenance(false)
			if err := r.b.DrainSpool(); (err != nil) != (row.want == "a") {
				t.Fatalf("drain: %v", err)
			}
			r.pop(10).want(row.want)
		})
	}
}

func TestTheSpoolEncryptsByTheQueuesFlag(t *testing.T) {
	r := newRig(t, func(c *Config) { c.EncryptionKey = bytes.Repeat([]byte{7}, 32) })
	r.options(func(o *Options) { o.EncryptionEnabled = true })
	r.maintenance(true)
	r.spoolTo("q", "p", "secret-text")
	raw, err := os.ReadFile(r.b.spool.path(r.b.spool.number))
	r.must(err)
	if strings.Contains(string(raw), `"secret-text"`) {
		t.Error("the spool holds the payload as plain text")
	}
	r.maintenance(false)
	r.must(r.b.DrainSpool())
	if m := r.pop(1).want("secret-text").Messages[0]; string(m.Payload) != `"secret-text"` || !m.Encrypted {
		t.Errorf("popped %s, encrypted %v", m.Payload, m.Encrypted)
	}
}

func TestTenantsInTheSpoolStayApart(t *testing.T) {
	r := newRig(t)
	r.maintenance(true)
	other := queend.ID{15: 9}
	r.spoolTo("q", "p", "mine")
	_, err := r.b.Push(context.Background(), other, nil, []PushItem{{Queue: "q", TxnID: []byte("theirs"), Payload: []byte("1")}})
	r.must(err)
	r.maintenance(false)
	r.must(r.b.DrainSpool())
	r.pop(10).want("mine")
	res := r.popReq(func(q *PopRequest) { q.Tenant = other })
	(&popped{r, res}).want("theirs")
	if m := res.Messages[0]; m.HasProducer {
		t.Errorf("its producer is %q", m.Producer)
	}
}

func TestAPushThatCannotBeSpooledFails(t *testing.T) {
	r := newRig(t)
	r.must(os.WriteFile(filepath.Join(r.cfg.Dir, "spool"), nil, 0o600))
	r.maintenance(true)
	_, err := r.b.Push(context.Background(), DefaultTenant, nil, []PushItem{{Queue: "q", Payload: []byte("1")}})
	if err == nil {
		t.Fatal("the push was taken")
	}
	if s := r.buffered(0); s.Healthy {
		t.Error("the spool counts as healthy")
	}
}

func TestPopMaintenanceAnswersParkedPops(t *testing.T) {
	r := newRig(t)
	done := make(chan *PopResult)
	go func() {
		res, err := r.b.Pop(context.Background(), PopRequest{Tenant: DefaultTenant, Queue: "q", Wait: true, TimeoutMS: 60000})
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	r.parked(1)
	_, err := r.b.SetPopMaintenance(context.Background(), true)
	r.must(err)
	if res := <-done; res == nil || res.Empty != EmptyPaused {
		t.Errorf("parked pop: %+v", res)
	}
	r.reopen()
	if res := r.popReq(); res.Empty != EmptyPaused {
		t.Errorf("pop after a restart: %+v", res)
	}
}

func TestPushesDuringTheSwitchAreStoredOnce(t *testing.T) {
	r := newRig(t)
	const pushers, each = 8, 40
	var sent sync.WaitGroup
	for w := range pushers {
		sent.Go(func() {
			for i := range each {
				items := []PushItem{{Queue: "q", Partition: "p", TxnID: fmt.Appendf(nil, "%d-%d", w, i), Payload: []byte("1")}}
				if _, err := r.b.Push(context.Background(), DefaultTenant, nil, items); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 20 {
		r.maintenance(i%2 == 0)
		r.must(r.b.DrainSpool())
	}
	sent.Wait()
	r.maintenance(false)
	r.must(r.b.DrainSpool())
	r.buffered(0)
	res := r.popReq(func(q *PopRequest) { q.Batch = 2 * pushers * each })
	seen := map[string]bool{}
	for i := range res.Messages {
		seen[string(res.Messages[i].TxnID)] = true
	}
	if len(seen) != pushers*each || len(res.Messages) != len(seen) {
		t.Errorf("%d messages, %d of them different, want %d", len(res.Messages), len(seen), pushers*each)
	}
}

// TestASpoolFileStaysUntilTheLogIsSynced: where answers do not wait for the
// sync of the log, the file is what a power cut leaves of the messages.
func TestASpoolFileStaysUntilTheLogIsSynced(t *testing.T) {
	for _, mode := range []log.SyncMode{log.SyncAlways, log.SyncInterval, log.SyncNever} {
		r := newRig(t)
		r.close()
		r.cfg.Sync, r.cfg.SyncInterval = mode, time.Hour
		r.open()
		r.maintenance(true)
		r.spoolTo("q", "p", "a")
		r.maintenance(false)
		r.must(r.b.DrainSpool())
		r.buffered(0)
		if left := byName(t, r.b.spool.dir); len(left) > 0 {
			t.Fatalf("the spool has %v", left)
		}
		if st := r.b.log.Stats(); st.Synced < r.b.log.Last() {
			t.Errorf("mode %d: the file is gone, the log is synced to record %d of %d", mode, st.Synced, r.b.log.Last())
		}
	}
}
