package broker

import "fmt"

// locked runs fn under the state lock. A panic inside leaves memory in doubt:
// it is reported as a failure, which ends the process, before it goes on.
func (b *Broker) locked(fn func()) {
	b.mu.Lock()
	sound := false
	defer func() {
		if !sound {
			b.cfg.OnFail(fmt.Errorf("broker: panic while the state was locked"))
		}
		b.mu.Unlock()
	}()
	fn()
	sound = true
}
