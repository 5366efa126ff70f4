package broker

import (
	"context"

	"queend"
)

// MaintenanceStatus is how the maintenance switches stand (docs/rules.md, S10).
type MaintenanceStatus struct {
	Maintenance    bool // pushes go to the spool
	PopMaintenance bool // pops are empty
	Buffered       int64
	Healthy        bool  // the last write to the spool, or from it, went well
	FailedFiles    int64 // records set aside, each a file
	FailedBytes    int64
}

// MaintenanceStatus reads the switches and the spool.
func (b *Broker) MaintenanceStatus(ctx context.Context) (MaintenanceStatus, error) {
	s := b.spoolStatus()
	b.locked(func() { s.Maintenance, s.PopMaintenance = b.state.maintenance, b.state.popMaintenance })
	return s, b.settled(ctx)
}

func (b *Broker) spoolStatus() MaintenanceStatus {
	s := &b.spool
	return MaintenanceStatus{
		Buffered: max(s.pending.Load(), 0), Healthy: s.healthy.Load(), FailedFiles: s.failed.Load(),
		FailedBytes: s.failedBy.Load(),
	}
}

// SetMaintenance switches push maintenance (R120), durably. Switched off, the
// spool is drained in the background.
func (b *Broker) SetMaintenance(ctx context.Context, on bool) (MaintenanceStatus, error) {
	err := b.setFlags(ctx, func(f *flagsSet) { f.maintenance = on })
	if err != nil {
		return MaintenanceStatus{}, err
	}
	b.spool.rouse()
	return b.MaintenanceStatus(ctx)
}

// SetPopMaintenance switches pop maintenance (R121), durably. Switched on, it
// answers every parked pop at once.
func (b *Broker) SetPopMaintenance(ctx context.Context, on bool) (MaintenanceStatus, error) {
	err := b.setFlags(ctx, func(f *flagsSet) { f.popMaintenance = on })
	if err != nil {
		return MaintenanceStatus{}, err
	}
	return b.MaintenanceStatus(ctx)
}

func (b *Broker) setFlags(ctx context.Context, change func(*flagsSet)) error {
	var lsn queend.LSN
	b.locked(func() {
		before := flagsSet{b.state.maintenance, b.state.popMaintenance}
		ev := before
		change(&ev)
		t := b.begin()
		if ev != before {
			t.add(&ev)
		}
		lsn = b.commit(t)
	})
	return b.await(ctx, lsn)
}

// flagsChanged lets parked pops find out that they are to be answered.
func (b *Broker) flagsChanged() {
	if !b.live || !b.state.popMaintenance {
		return
	}
	for _, w := range b.delivery.waiters {
		w.rouse()
	}
}
