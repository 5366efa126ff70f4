package broker

import (
	"queend"
	"queend/segment"
)

// QueueMode is the reserved group of consumers that name none.
const QueueMode = "__QUEUE_MODE__"

// DefaultPartition is where messages without a partition go.
const DefaultPartition = "Default"

// DefaultTenant owns everything when tenancy is off (docs/rules.md, S1).
var DefaultTenant = queend.ID{15: 1}

// PushItem is one message to store. Its byte slices are read until Push
// returns and not kept.
type PushItem struct {
	Queue     string
	Partition string    // "" is DefaultPartition
	TxnID     []byte    // nil: the minted message id
	TraceID   queend.ID // zero: none
	Headers   []byte    // a JSON object, checked; nil: none
	Payload   []byte    // JSON, verbatim
	id        queend.ID // of the message; zero: minted
	sealed    bool      // Payload is encrypted already and is stored as it is
}

// PushStatus says what became of one pushed item.
type PushStatus uint8

// The statuses of a pushed item; zero is none of them.
const (
	_             PushStatus = iota
	PushQueued               // stored at Offset
	PushDuplicate            // nothing written; ID and Offset are the original's, zero ID when it is gone
	PushBuffered             // spooled by maintenance mode
	PushFailed               // stored nowhere; Error says why
)

// PushResult answers one item, in request order.
type PushResult struct {
	Status PushStatus
	ID     queend.ID
	TxnID  []byte
	Queue  string
	Offset queend.Offset // NoOffset when unknown
	Error  string
}

func (r PushResult) failed() bool { return r.Status == PushFailed }

// PopRequest asks for messages. Exactly one of the three routes is meant:
// Discovery, a pinned partition (Pinned), or a queue.
type PopRequest struct {
	Tenant       queend.ID
	Discovery    bool
	Namespace    string // discovery only
	Task         string // discovery only
	Queue        string
	Pinned       bool
	Partition    string // pinned only
	Group        string // "" is QueueMode
	Batch        int    // 0: not sent
	Partitions   int    // 0: not sent
	Wait         bool
	TimeoutMS    int64 // with Wait; 0: DEFAULT_TIMEOUT
	AutoAck      bool
	LeaseSeconds int64  // 0: the queue's lease time
	Mode         string // subscriptionMode as sent
	From         string // subscriptionFrom as sent
	Conflation   bool
	Autopilot    bool
	// Watch is called before the pop is parked for the first time: gone is
	// closed when the client hangs up, stop ends the watch. StillThere is
	// asked before a pop that was parked claims. Either may be nil.
	Watch      func() (gone <-chan struct{}, stop func())
	StillThere func() bool
}

// EmptyReason says why a pop has no messages (A8).
type EmptyReason string

// The reasons of an empty pop.
const (
	EmptyNothing EmptyReason = "empty"
	EmptyTimeout EmptyReason = "timeout"
	EmptyPaused  EmptyReason = "paused"
)

// Delivered is one message of a pop. Its slices must not be changed.
type Delivered struct {
	segment.Message
	Queue         string
	Partition     string
	PartitionUUID queend.ID
	Attempt       int
}

// AutopilotChoice is what autopilot resolved (R78).
type AutopilotChoice struct {
	Partitions int
	Batch      int
	WaitMS     int64
}

// PopResult is the answer of a pop.
type PopResult struct {
	LeaseID    queend.ID // zero with autoAck or when empty
	Group      string
	Messages   []Delivered
	Claimed    int // partitions
	Empty      EmptyReason
	Conflation bool // conflation applies to this group
	Conflict   bool // asked for, but stored as off
	Autopilot  *AutopilotChoice
	giveBack   []claimed
}

// Signal is what an ack item asks for.
type Signal uint8

// The signals in rising precedence at one offset (R22).
const (
	_ Signal = iota
	Completed
	Retry
	Failed
	DLQ
)

// AckItem settles one message.
type AckItem struct {
	TxnID     []byte
	Partition string // public partition id as sent
	Lease     string // as sent; "" is lease-less
	Signal    Signal
	Error     string
	DelayMS   int64 // A2, -1: not sent
}

// AckResult answers one item, in request order (docs/rules.md, S4).
type AckResult struct {
	Success       bool
	Error         string // "" is none
	LeaseReleased bool
	DLQ           bool
	Noop          bool
	Dropped       bool
	Conflated     int64
}

// TxnOp is one flattened operation of a transaction: a push or an ack.
type TxnOp struct {
	Push  *PushItem
	Ack   *AckItem
	Group string // of the ack; "" is QueueMode
}

// TxnResult answers one flattened operation.
type TxnResult struct {
	Push      bool
	Success   bool
	TxnID     []byte
	MessageID queend.ID
	Queue     string
	Duplicate bool
	DLQ       bool
	Error     string
}

// TxnOutcome is the answer of a transaction.
type TxnOutcome struct {
	ID      queend.ID // minted for the call
	Success bool
	Reason  string // "" when committed: duplicate, rejected_ack, too_large, name_too_long
	Error   string
	Results []TxnResult
}

// ErrorCode is the machine-readable word of a refusal (docs/rules.md, S1).
type ErrorCode string

// The codes the broker refuses with.
const (
	CodeBadRequest  ErrorCode = "bad_request"
	CodeNameTooLong ErrorCode = "name_too_long"
	CodeOverloaded  ErrorCode = "overloaded"
	CodeStorageFull ErrorCode = "storage_full"
	CodeTimeout     ErrorCode = "timeout"
	CodeRetry       ErrorCode = "retry"
	CodeMaintenance ErrorCode = "maintenance"
	CodeNotFound    ErrorCode = "not_found"
	CodeInternal    ErrorCode = "internal"
)

// Refusal is an error the client may see: it did nothing.
type Refusal struct {
	Code ErrorCode
	Text string
}

// Error prints the text meant for the client.
func (r *Refusal) Error() string { return r.Text }

func refuse(code ErrorCode, text string) error { return &Refusal{Code: code, Text: text} }
