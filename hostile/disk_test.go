package hostile

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// ramDisk mounts a file system of that size for the data directory, or skips
// the test.
func ramDisk(t *testing.T, n *node, size int64) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root, so this is not tested")
	}
	if err := os.MkdirAll(n.data, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprint("size=", size), "tmpfs", n.data).CombinedOutput(); err != nil {
		t.Skipf("a small file system cannot be mounted here, so this is not tested: %v %s", err, out)
	}
	t.Cleanup(func() {
		n.kill()
		if out, err := exec.Command("umount", n.data).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
}

// ballast fills a disk up to what is left of it.
func ballast(t *testing.T, n *node, bytes int64) (remove func()) {
	t.Helper()
	path := filepath.Join(n.data, "ballast")
	if err := os.WriteFile(path, make([]byte, bytes), 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// full reports what /health says about the disk.
func (n *node) full() bool {
	n.t.Helper()
	var h struct{ Disk struct{ Full bool } }
	if err := json.Unmarshal(n.must(200, "GET", "/health", "").body, &h); err != nil {
		n.t.Fatal(err)
	}
	return h.Disk.Full
}

// growing are requests that need disk space to be carried out.
func growing(txn string) map[string]string {
	return map[string]string{
		"/api/v1/push":        `{"items":[` + item("q", "p", txn, "1") + `]}`,
		"/api/v1/transaction": `{"operations":[{"type":"push","queue":"q","partition":"p","transactionId":` + quote(txn) + `,"payload":1}]}`,
	}
}

func TestANearlyFullDiskRefusesWhatGrowsAndNothingElse(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.push("q", "p", "1", "2", "3", "4", "5")
	n.push("other", "p", "1")
	n.must(200, "POST", "/api/v1/configure", `{"queue":"letters","options":{"retryLimit":0}}`)
	n.push("letters", "p", "letter")
	n.kill()
	env := n.env
	n.env = append([]string{"QUEEN_DISK_HIGH_PCT=1", "QUEEN_DISK_LOW_PCT=1"}, env...)
	n.boot()
	if !n.full() {
		t.Skip("less than a percent of this disk is used, so this is not tested")
	}
	for route, body := range growing("refused") {
		a := n.do("POST", route, body)
		a.refused(t, 507)
		if !strings.Contains(string(a.body), `"storage_full"`) {
			t.Errorf("%s: %s", route, a.body)
		}
	}
	p := n.pop("q", "batch=2")
	if len(p.Messages) != 2 {
		t.Fatalf("popped %v", p.txns())
	}
	n.must(200, "POST", "/api/v1/lease/"+p.LeaseID+"/extend", `{"seconds":90}`)
	n.ack(p)
	p = n.pop("q", "batch=1")
	m := p.Messages[0]
	n.must(200, "POST", "/api/v1/transaction", fmt.Sprintf(`{"operations":[{"type":"ack","transactionId":%s,"partitionId":%s,"leaseId":%s}]}`,
		quote(m.Txn), quote(m.PartitionID), quote(p.LeaseID)))
	n.must(200, "DELETE", "/api/v1/resources/queues/other", "")
	n.must(200, "DELETE", "/api/v1/consumer-groups/g", "")
	l := n.pop("letters", "")
	n.must(200, "POST", "/api/v1/ack", fmt.Sprintf(`{"transactionId":"letter","partitionId":%s,"leaseId":%s,"status":"dlq"}`, quote(l.Messages[0].PartitionID), quote(l.LeaseID)))
	n.must(200, "DELETE", "/api/v1/dlq?queue=letters", "")
	n.kill()
	n.env = env
	n.boot()
	n.push("q", "p", "refused") // it left no trace
	if got := n.pop("q", "batch=10").txns(); fmt.Sprint(got) != "[4 5 refused]" {
		t.Errorf("popped %v", got)
	}
}

// F7: a failed sync or a full disk was retried or ignored.
// F13: a node that could not write stayed up and answered nothing.
func TestPushesGoOnWhenTheDiskHasRoomAgain(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	ramDisk(t, n, 96*mebi)
	n.env = []string{"QUEEN_DISK_HIGH_PCT=70", "QUEEN_DISK_LOW_PCT=60"}
	n.boot()
	remove := ballast(t, n, 48*mebi)
	payload := `"` + strings.Repeat("x", 200<<10) + `"`
	stored, refused := 0, ""
	until(t, "the disk is full", func() bool {
		txn := fmt.Sprint(stored)
		a := n.do("POST", "/api/v1/push", `{"items":[`+item("q", "p", txn, payload)+`]}`)
		switch a.status {
		case 201:
			stored++
		case 507:
			refused = txn
		default:
			t.Fatalf("push: %d %.200s", a.status, a.body)
		}
		return refused != ""
	})
	if !n.full() {
		t.Error("/health does not say that the disk is full")
	}
	p := n.pop("q", "batch=1")
	n.ack(p)
	remove()
	removed := time.Now()
	until(t, "pushes are taken again", func() bool {
		a := n.do("POST", "/api/v1/push", `{"items":[`+item("q", "p", refused, payload)+`]}`)
		if a.status == 201 && !strings.Contains(string(a.body), `"queued"`) {
			t.Fatalf("what was refused: %s", a.body)
		}
		return a.status == 201
	})
	if took := time.Since(removed); took > 5*time.Second || n.full() {
		t.Errorf("with room again pushes were taken after %v; /health says full: %v", took, n.full())
	}
	n.restart()
	if got := n.drain("q"); len(got) != stored {
		t.Errorf("%d messages after a restart, want %d", len(got), stored)
	}
}

// F7: a failed sync or a full disk was retried or ignored.
// F13: a node that could not write stayed up and answered nothing.
func TestADiskThatIsFullEndsTheProcessAndNothingAnsweredIsLost(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	ramDisk(t, n, 64*mebi)
	n.env = []string{"QUEEN_DISK_HIGH_PCT=101", "QUEEN_DISK_LOW_PCT=101"}
	n.boot()
	remove := ballast(t, n, 40*mebi)
	var mu sync.Mutex
	stored := map[string]bool{}
	var pushers sync.WaitGroup
	for w := range 4 {
		pushers.Go(func() {
			payload := `"` + strings.Repeat(fmt.Sprint(w), 100<<10) + `"`
			for i := range 1000 {
				txn := fmt.Sprint(w, "-", i)
				resp, err := n.client.Post(n.url+"/api/v1/push", "", strings.NewReader(`{"items":[`+item("q", fmt.Sprint("p", w), txn, payload)+`]}`))
				if err != nil {
					return
				}
				resp.Body.Close()
				if resp.StatusCode == 201 {
					mu.Lock()
					stored[txn] = true
					mu.Unlock()
				}
			}
		})
	}
	pushers.Wait()
	if code := n.ended(patience); code != 5 {
		t.Fatalf("exit code %d, want 5", code)
	}
	if !strings.Contains(n.logText(), "no space left on device") {
		t.Error("the log does not say why")
	}
	remove()
	n.boot()
	got := n.drain("q")
	for txn := range stored {
		if got[txn] != 1 {
			t.Errorf("%s was answered 201 and is there %d times", txn, got[txn])
		}
	}
	t.Logf("%d answered, %d there", len(stored), len(got))
}
