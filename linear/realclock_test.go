package linear

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// No process here can be given another wall clock of its own: time namespaces
// move the monotonic clocks only, a program without libc asks the kernel past
// any preloaded library, and setting the clock of the machine is not for a
// test. A running broker does not look at the wall clock anyway: it reads it
// once, at its start. So the step is put there: the directory is written at
// a time that is an hour away, and the real program starts on it.
func TestTheRealProgramStartsAfterAStepOfTheClock(t *testing.T) {
	for _, step := range []struct {
		name    string
		written time.Duration // when, seen from now
		least   time.Duration // what is left of what was held, at the start
	}{
		{"an hour back", time.Hour, 1900 * time.Millisecond},
		{"an hour on", -time.Hour, 0},
	} {
		t.Run(step.name, func(t *testing.T) {
			s := newStill(t)
			s.now.Store(time.Now().Add(step.written).UnixMicro())
			s.push("leased")
			s.pop("leased") // for two seconds
			s.close()

			began := time.Now()
			n := startNode(t, "QUEEN_DATA_DIR="+s.cfg.Dir)
			addr, _ := n.target.get()
			c := &http.Client{Timeout: patience}
			resp, err := c.Get(fmt.Sprintf("http://%s/api/v1/pop/queue/q?batch=10&wait=true&timeout=20000", addr))
			s.must(err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			s.must(err)
			if !strings.Contains(string(body), `"transactionId":"leased"`) {
				t.Fatalf("popped %d %s", resp.StatusCode, body)
			}
			if took := time.Since(began); took < step.least {
				t.Errorf("the message came after %v, under a lease of %v", took, 2*time.Second)
			}

			// A message of today stands behind it, with a later stamp.
			resp, err = c.Post("http://"+addr+"/api/v1/push", "", strings.NewReader(`{"items":[{"queue":"q","transactionId":"x","payload":1}]}`))
			s.must(err)
			resp.Body.Close()
			n.end(syscall.SIGTERM)
			s.open()
			if n := s.rising(); n != 2 {
				t.Errorf("%d messages, want 2", n)
			}
		})
	}
}
