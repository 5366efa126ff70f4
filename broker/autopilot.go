package broker

// Bounds of what autopilot resolves (R78).
const (
	autopilotMinBatch = 100
	autopilotMaxBatch = 1000
	// A batch is what the group acks in a fifth of a second.
	autopilotSpan = Second / 5
)

// ackSpeed estimates how many messages per second a group acks: counts of
// the current second and of the one before.
type ackSpeed struct {
	second        int64
	count, before int64
}

// add counts n acked messages at now, microseconds.
func (s *ackSpeed) add(now, n int64) {
	s.turn(now / Second)
	s.count += n
}

func (s *ackSpeed) turn(second int64) {
	switch second - s.second {
	case 0:
		return
	case 1:
		s.before = s.count
	default:
		s.before = 0
	}
	s.second, s.count = second, 0
}

// perSecond is the higher of the two counts; 0 when cold.
func (s *ackSpeed) perSecond(now int64) int64 {
	s.turn(now / Second)
	return max(s.count, s.before)
}

// autopilot resolves the knobs that the request left out: the batch from the
// group's speed, the partitions from what is ready and who waits (R78).
func (p *popper) autopilot(l *popLimits) {
	choice := AutopilotChoice{Partitions: l.partitions, Batch: l.batch}
	if p.r.Batch == 0 {
		perSpan := p.group.d.speed.perSecond(p.b.now()) * autopilotSpan / Second
		choice.Batch = int(min(max(perSpan, autopilotMinBatch), autopilotMaxBatch))
	}
	if p.r.Partitions == 0 {
		waiting := len(p.group.d.waiters.waiters) + 1
		share := (p.group.d.ring.len() + waiting - 1) / waiting
		choice.Partitions = min(max(share, 1), maxPopPartitions)
	}
	if p.r.Batch != 0 && p.r.Partitions != 0 {
		return
	}
	l.batch, l.partitions = choice.Batch, choice.Partitions
	p.result.Autopilot = &choice
}
