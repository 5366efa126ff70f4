package broker

import (
	"cmp"
	"slices"

	"queend"
	"queend/log"
)

// Totals count since the data directory began.
type Totals = totals

// Counters count since the process began.
type Counters struct {
	PushRequests, PushMessages uint64
	PopRequests, PopMessages   uint64
	PopEmpty                   uint64
	AckRequests, AckMessages   uint64
	PopWildcard, PopTargeted   uint64 // pops of queues and labels, and of one partition
	FillWaits, FillMicros      uint64 // claims held for their batch to fill (R52), microseconds
}

// StorageStats are figures of what is on disk and of the caches before it.
type StorageStats struct {
	SegmentFiles int
	SegmentBytes int64
	DeadBytes    int64 // of these, needed no more
	TailBytes    int64 // of messages that are in no segment yet
	FreshIDs     int   // ids of the tail in the dedup table
	FreshBytes   int   // the table's memory
	IDCacheBytes int   // of ids, hashes and filters read from segments
	IDCacheHits  uint64
	IDCacheMiss  uint64 // what was asked for and had to be read
	WheelEntries int
	Checkpoints  uint64 // made since the start
	// CheckpointAge is how long ago the newest checkpoint was cut, or the
	// broker started; microseconds.
	CheckpointAge int64
}

// AdmissionStats are figures of the write budget, bytes.
type AdmissionStats struct {
	Budget  int64 // negative: none
	Taken   int64
	Waiting int // pushes in line
}

// Stats is a snapshot for metrics. Counts of different parts may be some
// moments apart.
type Stats struct {
	Counters                   Counters
	Totals                     Totals
	Queues, Partitions, Groups int
	Parked                     int // pops that wait
	Ready                      int // partitions in the rings of groups, hints included
	Fetches                    int // fetches that wait
	Leases                     int // lease ids with rows, some of them maybe over
	DeadLetters                int
	Log                        log.Stats
	LogLast, LogDurable        queend.LSN
	Storage                    StorageStats
	Admission                  AdmissionStats
	Spool                      MaintenanceStatus
	Health                     Health
	Sync                       log.SyncMode
	BootTime                   int64 // that the start took, microseconds
}

// Stats takes the snapshot. It waits for nothing durable.
func (b *Broker) Stats() Stats {
	s := Stats{
		Counters: b.meters.counters(), Log: b.log.Stats(), LogLast: b.log.Last(), LogDurable: b.log.Durable(),
		Admission: b.storage.admit.stats(), Spool: b.spoolStatus(), Health: b.Health(), Sync: b.cfg.Sync,
		BootTime: b.bootTime,
	}
	b.locked(func() {
		st := &b.state
		s.Totals = st.totals
		s.Queues, s.Partitions, s.Groups = len(st.queues), st.partitions.len(), len(st.groups)
		s.DeadLetters, s.Leases = len(st.dead), len(b.delivery.leases)
		for _, q := range st.queues {
			if q.isHidden() {
				s.Queues--
			}
			for _, g := range q.groups {
				s.Ready += g.d.ring.len()
			}
		}
		for _, w := range b.delivery.waiters {
			if w.parked != nil {
				s.Parked++
			}
		}
		s.Fetches = b.delivery.fetches.count()
		s.Spool.Maintenance, s.Spool.PopMaintenance = st.maintenance, st.popMaintenance
		s.Storage = b.storageStats()
	})
	return s
}

// storageStats reads the figures; the caller holds the lock.
func (b *Broker) storageStats() StorageStats {
	st := &b.state
	s := StorageStats{
		SegmentFiles: len(st.files), TailBytes: st.tailBytes, FreshIDs: st.fresh.Len(), FreshBytes: st.fresh.Bytes(),
		IDCacheBytes: b.storage.ids.parts.Bytes(), WheelEntries: b.wheel.Len(),
		Checkpoints: b.storage.made.count.Load(), CheckpointAge: max(b.cfg.Now()-b.storage.made.cutAt.Load(), 0),
	}
	s.IDCacheHits, s.IDCacheMiss = b.storage.ids.asked()
	for _, f := range st.files {
		s.SegmentBytes += f.bytes
		s.DeadBytes += f.dead
	}
	return s
}

func (m *meters) counters() Counters {
	return Counters{
		PushRequests: m.pushRequests.Load(), PushMessages: m.pushMessages.Load(),
		PopRequests: m.popRequests.Load(), PopMessages: m.popMessages.Load(), PopEmpty: m.popEmpty.Load(),
		AckRequests: m.ackRequests.Load(), AckMessages: m.ackMessages.Load(),
		PopWildcard: m.popWildcard.Load(), PopTargeted: m.popTargeted.Load(),
		FillWaits: m.fillWaits.Load(), FillMicros: m.fillMicros.Load(),
	}
}

func (a *admission) stats() AdmissionStats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return AdmissionStats{Budget: a.budget, Taken: a.taken, Waiting: len(a.waiters)}
}

// count is how many fetches wait.
func (l fetchLines) count() int {
	waiting := map[*waiter]bool{}
	for _, line := range l {
		for w := range line {
			waiting[w] = true
		}
	}
	return len(waiting)
}

// QueueStats are the present figures of a queue.
type QueueStats struct {
	Tenant          queend.ID
	Name            string
	Namespace, Task string
	Partitions      int
	Parked          int // pops of the queue or one of its partitions that wait
	Ready           int // partitions in the rings of its groups, hints included
	DeadLetters     int
	// Last is the traffic of the newest minute that is over, of the running
	// one when there is none; nil when nothing happened for five minutes.
	Last *TrafficPoint
	// Idle is how long ago something happened, microseconds, with Last.
	Idle int64
}

// QueueStats lists the figures of every queue of every tenant, by name.
func (b *Broker) QueueStats() []QueueStats {
	var all []QueueStats
	b.locked(func() {
		now := b.now()
		all = make([]QueueStats, 0, len(b.state.queues))
		for _, q := range b.state.queues {
			if !q.isHidden() {
				all = append(all, q.stats(now))
			}
		}
	})
	slices.SortFunc(all, func(x, y QueueStats) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), slices.Compare(x.Tenant[:], y.Tenant[:]))
	})
	return all
}

// idleAway is how long a queue without traffic stays in the rates.
const idleAway = 5 * Minute

func (q *queue) stats(now int64) QueueStats {
	s := QueueStats{
		Tenant: q.tenant, Name: q.name, Namespace: q.namespace, Task: q.task, Partitions: q.parts.len(),
		DeadLetters: len(q.letters),
	}
	for _, g := range q.groups {
		s.Parked += g.parked()
		s.Ready += g.d.ring.len()
	}
	minutes := q.d.traffic.minutes
	n := len(minutes)
	if n == 0 || now-minutes[n-1].At >= idleAway+Minute {
		return s
	}
	s.Idle = max(now-minutes[n-1].At-Minute, 0)
	last := minutes[n-1]
	if n > 1 && now-last.At < Minute && now-minutes[n-2].At < idleAway {
		last = minutes[n-2]
	}
	s.Last = &last
	return s
}
