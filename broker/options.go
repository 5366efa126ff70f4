package broker

// Options are what configure sets on a queue (docs/rules.md, S5 and S19).
// Numbers are as sent: seconds, or milliseconds where the name says so.
type Options struct {
	LeaseTime                 int64
	RetryLimit                int64
	DeadLetterQueue           bool
	DLQAfterMaxRetries        bool
	DelayedProcessing         int64
	WindowBuffer              int64
	RetentionEnabled          bool
	RetentionSeconds          int64
	CompletedRetentionSeconds int64
	MaxWaitTimeSeconds        int64
	MinPopWaitTime            int64 // ms
	EncryptionEnabled         bool
	DedupWindowSeconds        int64
	Priority                  int64
	MaxSize                   int64
	RetryDelay                int64
	TTL                       int64
	RedeliveryDelayMS         int64 // A2
	RedeliveryDelayMaxMS      int64 // A2
	MaxDeliveries             int64 // A3
	RequireLease              bool  // A7
}

// DefaultOptions are those of a configured queue with nothing sent.
func DefaultOptions() Options {
	return Options{
		LeaseTime: 300, RetryLimit: 3, DeadLetterQueue: true, DLQAfterMaxRetries: true,
		DedupWindowSeconds: 3600, RetryDelay: 1000, TTL: 3600,
	}
}

// implicitOptions are those of a queue that a push or a pop created.
func implicitOptions() Options {
	o := DefaultOptions()
	o.LeaseTime = implicitLeaseSeconds
	return o
}

// implicitLeaseSeconds is the lease of a queue nobody configured, of
// discovery pops, and of leaseTime 0 (R5, S20).
const implicitLeaseSeconds = 60

// Micros per unit: all broker time is int64 microseconds since 1970.
const (
	Millisecond int64 = 1000
	Second      int64 = 1000 * Millisecond
	Minute      int64 = 60 * Second
	Hour        int64 = 60 * Minute
	Day         int64 = 24 * Hour
)

// filesDeadLetters reports whether a terminal failure is filed (R26).
func (o *Options) filesDeadLetters() bool { return o.DeadLetterQueue || o.DLQAfterMaxRetries }

// ackWindow is how long an id stays resolvable, in microseconds (R85).
func (o *Options) ackWindow(floor int64) int64 {
	return max(o.DedupWindowSeconds*Second, o.CompletedRetentionSeconds*Second, floor)
}
