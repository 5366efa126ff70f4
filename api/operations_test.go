package api

import (
	"encoding/json"

	"queend"
)

// operation is what the document says of a route beyond the table of routes
// and the text in docs/api.md. Where a handler writes its answer by hand, the
// types below draw it; the conformance suite holds the real answers against
// them.
type operation struct {
	query  string      // parameters as name:type, separated by blanks
	body   any         // value of the type of the body; nil: none is read
	loose  bool        // the body may be left out
	ok     any         // value of the type of the answer with the first status
	status int         // of it; 0 means 200
	also   map[int]any // other answers by status; a nil one has no body
	failed any         // shape of refusals; nil means refusal
	media  mediaOf     // of the answer
}

// mediaOf is a media type; "" is JSON.
type mediaOf string

// moment is a time as text.
type moment struct{}

// momentSent is one in a request, where a date alone will do.
type momentSent = string

// anything is any JSON value.
type anything = json.RawMessage

type refusal struct {
	Error string `json:"error"`
	Code  string `json:"code,omitempty"`
}

type object map[string]string

type pushedItem struct {
	Queue       string   `json:"queue"`
	Payload     anything `json:"payload"`
	Partition   *string  `json:"partition,omitempty"`
	Transaction *string  `json:"transactionId,omitempty"`
	Headers     *object  `json:"headers,omitempty"`
}

// txnItem is a message in a transaction. Without a payload it is {}.
type txnItem struct {
	Queue       string   `json:"queue"`
	Payload     anything `json:"payload,omitempty"`
	Data        anything `json:"data,omitempty"`
	Partition   *string  `json:"partition,omitempty"`
	Transaction *string  `json:"transactionId,omitempty"`
	Trace       anything `json:"traceId,omitempty"`
	Headers     *object  `json:"headers,omitempty"`
}

type pushBody struct {
	Items []pushedItem `json:"items"`
}

type pushResult struct {
	Index       int       `json:"index"`
	ID          queend.ID `json:"message_id"`
	Transaction string    `json:"transaction_id"`
	Queue       string    `json:"queueName"`
	Status      string    `json:"status" enum:"queued duplicate buffered failed"`
	Offset      int64     `json:"offset,omitempty"`
	Error       string    `json:"error,omitempty"`
}

type poppedMessage struct {
	ID          queend.ID  `json:"id"`
	Transaction string     `json:"transactionId"`
	Trace       *queend.ID `json:"traceId"`
	Data        anything   `json:"data"`
	Producer    *string    `json:"producerSub"`
	Created     moment     `json:"createdAt"`
	Queue       string     `json:"queue"`
	PartitionID queend.ID  `json:"partitionId"`
	Partition   string     `json:"partition"`
	Offset      int64      `json:"offset"`
	Lease       string     `json:"leaseId"`
	Group       string     `json:"consumerGroup"`
	Attempt     int        `json:"deliveryAttempt"`
	Headers     object     `json:"headers,omitempty"`
}

type popKnobs struct {
	Partitions int   `json:"partitions"`
	Batch      int   `json:"batch"`
	WaitMS     int64 `json:"waitMs"`
}

// popAnswer has only messages and what conflation asks for while pops are
// paused.
type popAnswer struct {
	Success     bool            `json:"success,omitempty"`
	Queue       string          `json:"queue,omitempty"`
	Partition   *string         `json:"partition,omitempty"`
	PartitionID *queend.ID      `json:"partitionId,omitempty"`
	Lease       string          `json:"leaseId,omitempty"`
	Group       string          `json:"consumerGroup,omitempty"`
	Messages    []poppedMessage `json:"messages"`
	Claimed     int             `json:"partitionsClaimed,omitempty"`
	Conflation  bool            `json:"conflation,omitempty"`
	Conflict    bool            `json:"conflationConflict,omitempty"`
	Paused      bool            `json:"paused,omitempty"`
	Autopilot   popKnobs        `json:"autopilot,omitzero"`
}

type popRefusal struct {
	Success  bool            `json:"success,omitempty"`
	Error    string          `json:"error"`
	Code     string          `json:"code,omitempty"`
	Messages []poppedMessage `json:"messages,omitempty"`
}

type ackItem struct {
	Transaction string  `json:"transactionId"`
	PartitionID string  `json:"partitionId"`
	Lease       *string `json:"leaseId,omitempty"`
	Status      *string `json:"status,omitempty"`
	Error       *string `json:"error,omitempty"`
	DelayMS     *int64  `json:"delayMs,omitempty"`
}

type ackBody struct {
	ackItem
	Group *string `json:"consumerGroup,omitempty"`
}

type ackBatchBody struct {
	Group *string   `json:"consumerGroup,omitempty"`
	Acks  []ackItem `json:"acknowledgments"`
}

type ackAnswer struct {
	Index       int     `json:"index"`
	Transaction string  `json:"transactionId"`
	Success     bool    `json:"success"`
	Error       *string `json:"error"`
	Released    bool    `json:"leaseReleased"`
	DLQ         bool    `json:"dlq"`
	Noop        bool    `json:"noop"`
	Dropped     bool    `json:"dropped,omitempty"`
	Conflated   int64   `json:"conflated,omitempty"`
}

type extendBody struct {
	Seconds *int64 `json:"seconds,omitempty"`
}

type extendAnswer struct {
	Lease    string  `json:"leaseId"`
	Success  bool    `json:"success"`
	Renewed  int     `json:"renewed"`
	New      *moment `json:"newExpiresAt"`
	Expires  *moment `json:"expiresAt"`
	Expires2 *moment `json:"lease_expires_at"`
}

type releaseAnswer struct {
	Lease    string `json:"leaseId"`
	Success  bool   `json:"success"`
	Released int    `json:"released"`
}

// txnOperation is an ack, or a push of items or of one item inline.
type txnOperation struct {
	Type        string    `json:"type" enum:"push ack"`
	Items       []txnItem `json:"items,omitempty"`
	Queue       *string   `json:"queue,omitempty"`
	Partition   *string   `json:"partition,omitempty"`
	Payload     anything  `json:"payload,omitempty"`
	Data        anything  `json:"data,omitempty"`
	Headers     *object   `json:"headers,omitempty"`
	Trace       anything  `json:"traceId,omitempty"`
	Transaction *string   `json:"transactionId,omitempty"`
	PartitionID *string   `json:"partitionId,omitempty"`
	Group       *string   `json:"consumerGroup,omitempty"`
	Lease       *string   `json:"leaseId,omitempty"`
	Status      *string   `json:"status,omitempty"`
	Error       *string   `json:"error,omitempty"`
	DelayMS     *int64    `json:"delayMs,omitempty"`
}

type txnBody struct {
	Operations []txnOperation `json:"operations"`
	Required   *[]string      `json:"requiredLeases,omitempty"`
}

type txnResult struct {
	Index       int       `json:"index"`
	Type        string    `json:"type" enum:"push ack"`
	Success     bool      `json:"success"`
	Transaction string    `json:"transactionId"`
	MessageID   queend.ID `json:"messageId,omitzero"`
	Queue       string    `json:"queueName,omitempty"`
	Duplicate   bool      `json:"duplicate,omitempty"`
	Error       *string   `json:"error,omitempty"`
	DLQ         bool      `json:"dlq,omitempty"`
}

type txnAnswer struct {
	ID      queend.ID   `json:"transactionId"`
	Success bool        `json:"success"`
	Reason  string      `json:"reason,omitempty"`
	Error   string      `json:"error,omitempty"`
	Code    string      `json:"code,omitempty"`
	Results []txnResult `json:"results"`
}

type txnRefusal struct {
	ID      queend.ID   `json:"transactionId,omitzero"`
	Success bool        `json:"success,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	Error   string      `json:"error"`
	Code    string      `json:"code,omitempty"`
	Results []txnResult `json:"results,omitempty"`
}

type configureRequest struct {
	Queue     string       `json:"queue"`
	Namespace *string      `json:"namespace,omitempty"`
	Task      *string      `json:"task,omitempty"`
	Mode      *string      `json:"mode,omitempty"`
	Options   *someOptions `json:"options,omitzero"`
}

// someOptions are options of a queue, each of which may be left out or null.
type someOptions struct{}

type configureAnswer struct {
	Configured bool      `json:"configured"`
	QueueID    queend.ID `json:"queueId"`
	Partition  *string   `json:"partitionId"`
	Queue      string    `json:"queue"`
	Namespace  string    `json:"namespace"`
	Task       string    `json:"task"`
	Storage    string    `json:"storage"`
	Options    options   `json:"options"`
	Changed    []string  `json:"changed"`
	Warnings   []string  `json:"warnings"`
}

type queueDeleted struct {
	Deleted bool   `json:"deleted"`
	Queue   string `json:"queue"`
	Existed bool   `json:"existed"`
	Message string `json:"message,omitempty"`
}

type depthFigures struct {
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
	Ready      int64 `json:"ready"`
}

type depthRow struct {
	Partition string `json:"partition"`
	depthFigures
}

type depthAnswer struct {
	Queue string  `json:"queue"`
	Group *string `json:"group"`
	depthFigures
	PartitionsPending int        `json:"partitionsPending"`
	PartitionsReady   int        `json:"partitionsReady"`
	Conflation        bool       `json:"conflation"`
	EffectivePending  int64      `json:"effectivePending"`
	EffectiveReady    int64      `json:"effectiveReady"`
	Partitions        []depthRow `json:"partitions"`
}

type labelFigures struct {
	Queues     int `json:"queues"`
	Partitions int `json:"partitions"`
	Messages   struct {
		Total   int64 `json:"total"`
		Pending int64 `json:"pending"`
	} `json:"messages"`
}

type namespaceRow struct {
	Namespace string `json:"namespace"`
	labelFigures
}

type namespacesAnswer struct {
	Namespaces []namespaceRow `json:"namespaces"`
}

type taskRow struct {
	Task string `json:"task"`
	labelFigures
}

type tasksAnswer struct {
	Tasks []taskRow `json:"tasks"`
}

type storedMessage struct {
	ID          queend.ID  `json:"id"`
	Transaction string     `json:"transactionId"`
	PartitionID queend.ID  `json:"partitionId"`
	Path        string     `json:"queuePath"`
	Queue       string     `json:"queue"`
	Partition   string     `json:"partition"`
	Status      string     `json:"status" enum:"pending processing completed dead_letter"`
	Trace       *queend.ID `json:"traceId"`
	Producer    *string    `json:"producerSub"`
	Created     moment     `json:"createdAt"`
	Lease       *moment    `json:"leaseExpiresAt"`
	Offset      int64      `json:"offset"`
	Data        anything   `json:"data"`
	Payload     anything   `json:"payload"`
	Headers     object     `json:"headers,omitempty"`
	Namespace   string     `json:"namespace"`
	Task        string     `json:"task"`
}

type listedMessage struct {
	storedMessage
	Hash        string  `json:"txnHash"`
	QueueStatus *string `json:"queueStatus"`
	Bus         struct {
		Consumed int `json:"consumedBy"`
		Groups   int `json:"totalGroups"`
	} `json:"busStatus"`
	Available bool `json:"payloadAvailable"`
	Segment   struct {
		Seq   uint64 `json:"seq"`
		Frame int64  `json:"frameIdx"`
	} `json:"segment"`
}

type messageMode struct {
	HasQueueMode bool   `json:"hasQueueMode"`
	Groups       int    `json:"busGroupsCount"`
	Type         string `json:"type" enum:"queue bus hybrid none"`
}

type messagesAnswer struct {
	Messages []listedMessage `json:"messages"`
	Mode     messageMode     `json:"mode"`
	Total    int             `json:"total"`
}

type messageGroup struct {
	Name     string  `json:"name"`
	Group    string  `json:"group"`
	Consumed bool    `json:"consumed"`
	Lease    *moment `json:"leaseExpiresAt"`
}

type messageAnswer struct {
	storedMessage
	Encrypted bool           `json:"isEncrypted"`
	Error     *string        `json:"errorMessage"`
	Retries   int64          `json:"retryCount"`
	Groups    []messageGroup `json:"consumerGroups"`
	Mode      messageMode    `json:"mode"`
	Config    struct {
		LeaseTime  int64 `json:"leaseTime"`
		RetryLimit int64 `json:"retryLimit"`
		RetryDelay int64 `json:"retryDelay"`
		TTL        int64 `json:"ttl"`
		Priority   int64 `json:"priority"`
	} `json:"queueConfig"`
}

type deadLetterRow struct {
	ID          queend.ID `json:"id"`
	Transaction string    `json:"transactionId"`
	PartitionID queend.ID `json:"partitionId"`
	Queue       string    `json:"queue"`
	Partition   string    `json:"partition"`
	Group       string    `json:"consumerGroup"`
	Error       string    `json:"errorMessage"`
	Retries     int64     `json:"retryCount"`
	Data        anything  `json:"data"`
	Producer    *string   `json:"producerSub"`
	Created     moment    `json:"createdAt"`
	Failed      moment    `json:"failedAt"`
	Offset      int64     `json:"offset"`
	Enqueued    moment    `json:"enqueuedAt"`
	Attempts    int64     `json:"attempts"`
	Original    *string   `json:"originalProducerSub"`
	Headers     object    `json:"headers,omitempty"`
	Encrypted   bool      `json:"isEncrypted,omitempty"`
}

type deadLettersAnswer struct {
	Messages []deadLetterRow `json:"messages"`
	Page     pagination      `json:"pagination"`
	Total    int             `json:"total"`
	Count    int             `json:"totalCount"`
}

type replayBody struct {
	Queue     *string `json:"queue,omitempty"`
	Partition *string `json:"partition,omitempty"`
}

type replayAnswer struct {
	Success   bool       `json:"success"`
	Queue     string     `json:"queue"`
	Partition string     `json:"partition"`
	As        pushResult `json:"replayedAs"`
	Removed   bool       `json:"dlqRowRemoved"`
	Result    string     `json:"result" enum:"moved duplicate"`
	Group     string     `json:"consumerGroup"`
	ID        queend.ID  `json:"dlqId"`
	Original  string     `json:"originalTransactionId"`
}

type replayRefusal struct {
	Success bool   `json:"success,omitempty"`
	Result  string `json:"result,omitempty" enum:"maintenance"`
	Error   string `json:"error"`
	Code    string `json:"code,omitempty"`
	Removed bool   `json:"dlqRowRemoved,omitempty"`
}

type bulkReplayBody struct {
	Queue     string      `json:"queue"`
	Group     *string     `json:"consumerGroup,omitempty"`
	Partition *string     `json:"partition,omitempty"`
	Contains  *string     `json:"errorContains,omitempty"`
	From      *momentSent `json:"from,omitempty"`
	To        *momentSent `json:"to,omitempty"`
	Limit     *int64      `json:"limit,omitempty"`
	DryRun    *bool       `json:"dryRun,omitempty"`
}

type importedCursor struct {
	Partition *string `json:"partition,omitempty"`
	Next      int64   `json:"next"`
}

type importedGroup struct {
	Name       *string           `json:"name,omitempty"`
	Mode       *string           `json:"mode,omitempty"`
	Start      *momentSent       `json:"start,omitempty"`
	Conflation *bool             `json:"conflation,omitempty"`
	Cursors    *[]importedCursor `json:"cursors,omitempty"`
}

type importedLetter struct {
	ID          *string     `json:"id,omitempty"`
	Partition   *string     `json:"partition,omitempty"`
	Group       *string     `json:"consumerGroup,omitempty"`
	Offset      *int64      `json:"offset,omitempty"`
	Transaction string      `json:"transactionId"`
	Producer    *string     `json:"producerSub,omitempty"`
	Payload     anything    `json:"payload"`
	Headers     *object     `json:"headers,omitempty"`
	Error       *string     `json:"errorMessage,omitempty"`
	Retries     *int64      `json:"retryCount,omitempty"`
	Attempts    *int64      `json:"attempts,omitempty"`
	Enqueued    *momentSent `json:"enqueuedAt,omitempty"`
}

type importBody struct {
	Queue   string            `json:"queue"`
	Groups  *[]importedGroup  `json:"groups,omitempty"`
	Letters *[]importedLetter `json:"deadLetters,omitempty"`
}

type subscriptionBody struct {
	At momentSent `json:"subscriptionTimestamp"`
}

type seekRequest struct {
	ToEnd *bool       `json:"toEnd,omitempty"`
	At    *momentSent `json:"timestamp,omitempty"`
}

type fetchEntry struct {
	Queue     string   `json:"queue"`
	Partition anything `json:"partition,omitempty"`
	Offset    *int64   `json:"offset,omitempty"`
	MaxBytes  *int64   `json:"maxBytes,omitempty"`
}

type fetchBody struct {
	Entries  []fetchEntry `json:"entries"`
	MaxWait  *int64       `json:"maxWaitMs,omitempty"`
	MinBytes *int64       `json:"minBytes,omitempty"`
}

type fetchMarks struct {
	End   int64  `json:"highWatermark"`
	Start int64  `json:"logStartOffset"`
	Error string `json:"error,omitempty" enum:"UNKNOWN_TOPIC_OR_PARTITION OFFSET_OUT_OF_RANGE"`
}

type fetchRecord struct {
	Offset      int64    `json:"offset"`
	Transaction string   `json:"transactionId"`
	Payload     anything `json:"payload"`
	At          moment   `json:"ts"`
	Headers     object   `json:"headers,omitempty"`
}

type fetchedEntry struct {
	Queue     string        `json:"queue"`
	Partition string        `json:"partition"`
	Records   []fetchRecord `json:"records"`
	fetchMarks
}

type fetchAnswer struct {
	Entries []fetchedEntry `json:"entries"`
}

type offsetEntry struct {
	Queue     string   `json:"queue"`
	Partition anything `json:"partition,omitempty"`
	At        anything `json:"timestamp"`
}

type offsetsBody struct {
	Entries []offsetEntry `json:"entries"`
}

type foundEntry struct {
	Queue     string  `json:"queue"`
	Partition string  `json:"partition"`
	Offset    *int64  `json:"offset"`
	At        *moment `json:"ts"`
	fetchMarks
}

type offsetsAnswer struct {
	Entries []foundEntry `json:"entries"`
}

type changedRequest struct {
	Queue string   `json:"queue"`
	Since anything `json:"since,omitempty"`
	After *string  `json:"after,omitempty"`
	Limit *int64   `json:"limit,omitempty"`
}

type changedBody struct {
	Entries []changedRequest `json:"entries"`
}

type changedPartition struct {
	ID       queend.ID `json:"id"`
	Name     string    `json:"name"`
	Last     int64     `json:"lastOffset"`
	LogStart int64     `json:"logStart"`
	At       *moment   `json:"lastWriteAt"`
}

type changedEntry struct {
	Queue      string             `json:"queue"`
	Partitions []changedPartition `json:"partitions"`
	Next       *string            `json:"next"`
	Error      string             `json:"error,omitempty" enum:"UNKNOWN_TOPIC_OR_PARTITION BAD_CURSOR"`
}

type changedAnswer struct {
	Degraded bool           `json:"safeTimeDegraded"`
	Safe     moment         `json:"safeTime"`
	Entries  []changedEntry `json:"entries"`
}

type traceBody struct {
	Transaction string   `json:"transactionId"`
	PartitionID string   `json:"partitionId"`
	Data        anything `json:"data"`
	Group       *string  `json:"consumerGroup,omitempty"`
	Event       *string  `json:"eventType,omitempty"`
	Names       anything `json:"traceNames,omitempty"`
}

type traceRecorded struct {
	Success bool      `json:"success"`
	ID      queend.ID `json:"traceId"`
}

type traceRow struct {
	ID      queend.ID `json:"id"`
	Event   string    `json:"event_type"`
	Data    anything  `json:"data"`
	Group   string    `json:"consumer_group"`
	Worker  string    `json:"worker_id"`
	Created moment    `json:"created_at"`
	Names   []string  `json:"trace_names"`
}

type tracesAnswer struct {
	Traces []traceRow `json:"traces"`
}

type namedTraceRow struct {
	traceRow
	Transaction string  `json:"transaction_id"`
	PartitionID string  `json:"partition_id"`
	Queue       string  `json:"queue_name"`
	Partition   string  `json:"partition_name"`
	Payload     *string `json:"message_payload"`
}

type namedTracesAnswer struct {
	Traces []namedTraceRow `json:"traces"`
	Total  int             `json:"total"`
	Page   pagination      `json:"pagination"`
}

type traceNameRow struct {
	Name     string `json:"trace_name"`
	Traces   int    `json:"trace_count"`
	Messages int    `json:"message_count"`
	LastSeen moment `json:"last_seen"`
}

type traceNamesAnswer struct {
	Names []traceNameRow `json:"trace_names"`
	Total int            `json:"total"`
	Page  pagination     `json:"pagination"`
}

type healthAnswer struct {
	Status     string `json:"status" enum:"healthy unhealthy"`
	Database   string `json:"database" enum:"connected disconnected"`
	Engine     string `json:"engine"`
	Version    string `json:"version"`
	Progress   string `json:"progress,omitempty"`
	Fsync      string `json:"fsync,omitempty"`
	Encryption string `json:"encryption,omitempty" enum:"off on plaintext"`
	Disk       struct {
		Used float64 `json:"usedPct"`
		Full bool    `json:"full"`
	} `json:"disk,omitzero"`
	Damaged []string `json:"damaged,omitempty"`
}

type livenessAnswer struct {
	Status string `json:"status"`
	Engine string `json:"engine"`
}

type switchBody struct {
	Enabled bool `json:"enabled"`
}

// Parameters that several routes share.
const (
	popQuery = "batch:integer partitions:integer wait:boolean timeout:integer autoAck:boolean commitOnDelivery:boolean leaseSeconds:integer " +
		"consumerGroup:string subscriptionMode:string subscriptionFrom:string conflation:boolean autopilot:boolean"
	pageQuery    = " limit:integer offset:integer"
	windowQuery  = "from:time to:time queue:string namespace:string task:string"
	lettersQuery = "queue:string consumerGroup:string partition:string errorContains:string from:time to:time"
)

// pops are the three pop routes but for their parameters.
func pops(query string) operation {
	return operation{query: query, ok: popAnswer{}, also: map[int]any{204: nil}, failed: popRefusal{}}
}

func shows(ok any, query string) operation { return operation{query: query, ok: ok} }

// operations are those of the table of routes.
var operations = map[string]operation{
	"POST /api/v1/push":                                 {body: pushBody{}, ok: []pushResult{}, status: 201},
	"GET /api/v1/pop/queue/:queue":                      pops(popQuery),
	"GET /api/v1/pop/queue/:queue/partition/:partition": pops(popQuery),
	"GET /api/v1/pop":                                   pops(popQuery + " namespace:string task:string"),
	"POST /api/v1/ack":                                  {body: ackBody{}, ok: []ackAnswer{}},
	"POST /api/v1/ack/batch":                            {body: ackBatchBody{}, ok: []ackAnswer{}},
	"POST /api/v1/lease/:leaseId/extend":                {body: extendBody{}, loose: true, ok: extendAnswer{}},
	"DELETE /api/v1/lease/:leaseId":                     {ok: releaseAnswer{}},
	"POST /api/v1/transaction":                          {body: txnBody{}, ok: txnAnswer{}, failed: txnRefusal{}},
	"POST /api/v1/configure":                            {body: configureRequest{}, ok: configureAnswer{}},
	"GET /health":                                       {ok: healthAnswer{}, also: map[int]any{503: healthAnswer{}}},
	"GET /metrics":                                      {ok: metricsPage{}},
	"GET /metrics/prometheus":                           {ok: "", media: "text/plain"},
	"GET /openapi.json":                                 {ok: map[string]any{}},
	"GET /api/v1/resources/overview":                    {ok: overviewPage{}},
	"GET /api/v1/resources/queues":                      {ok: queuesPage{}},
	"GET /api/v1/resources/namespaces":                  {ok: namespacesAnswer{}},
	"GET /api/v1/resources/tasks":                       {ok: tasksAnswer{}},
	"GET /api/v1/resources/partitions":                  shows(busyPartitionsPage{}, "queue:string limit:integer"),
	"GET /api/v1/resources/queues/:queue":               {ok: queueDetailPage{}},
	"GET /api/v1/resources/queues/:queue/depth":         shows(depthAnswer{}, "group:string"),
	"DELETE /api/v1/resources/queues/:queue":            {ok: queueDeleted{}},
	"GET /api/v1/messages":                              shows(messagesAnswer{}, "queue:string partition:string namespace:string ns:string task:string status:string from:time to:time"+pageQuery),
	"GET /api/v1/messages/:pid/:txn":                    {ok: messageAnswer{}},
	"DELETE /api/v1/messages/:pid/:txn":                 {ok: addressDeleted{}, also: map[int]any{404: noLetter{}}},
	"POST /api/v1/messages/:pid/:txn/retry":             {ok: replayAnswer{}, also: map[int]any{404: noLetter{}}, failed: replayRefusal{}},
	"GET /api/v1/dlq":                                   shows(deadLettersAnswer{}, lettersQuery+pageQuery),
	"DELETE /api/v1/dlq":                                shows(lettersPurged{}, lettersQuery),
	"DELETE /api/v1/dlq/:id":                            {ok: letterDeleted{}, also: map[int]any{404: noLetterToDelete{}}},
	"POST /api/v1/dlq/replay":                           {body: bulkReplayBody{}, ok: lettersReplayed{}, failed: replayRefusal{}},
	"POST /api/v1/dlq/:id/replay":                       {body: replayBody{}, loose: true, ok: replayAnswer{}, also: map[int]any{404: goneLetter{}}, failed: replayRefusal{}},
	"GET /api/v1/consumer-groups":                       {ok: []groupRow{}},
	"GET /api/v1/consumer-groups/lagging":               shows([]lagRow{}, "minLagSeconds:integer"),
	"GET /api/v1/consumer-groups/:group":                {ok: map[string]groupQueue{}},
	"POST /api/v1/consumer-groups/:group/subscription":  {body: subscriptionBody{}, ok: subscriptionSet{}},
	"POST /api/v1/consumer-groups/:group/queues/:queue/seek": {
		body: seekRequest{}, ok: queueSought{}, also: map[int]any{404: noQueueToSeek{}},
	},
	"POST /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek": {
		body: seekRequest{}, loose: true, ok: partitionSought{}, also: map[int]any{404: noPartitionToSeek{}},
	},
	"DELETE /api/v1/consumer-groups/:group":               shows(groupDeleted{}, "deleteMetadata:boolean"),
	"DELETE /api/v1/consumer-groups/:group/queues/:queue": shows(groupDeleted{}, "deleteMetadata:boolean"),
	"POST /api/v1/fetch":                                  {body: fetchBody{}, ok: fetchAnswer{}},
	"POST /api/v1/fetch/offsets":                          {body: offsetsBody{}, ok: offsetsAnswer{}},
	"POST /api/v1/partitions/changed":                     {body: changedBody{}, ok: changedAnswer{}},
	"POST /api/v1/traces":                                 {body: traceBody{}, ok: traceRecorded{}, status: 201},
	"GET /api/v1/traces/names":                            shows(traceNamesAnswer{}, pageQuery),
	"GET /api/v1/traces/by-name/:name":                    shows(namedTracesAnswer{}, pageQuery),
	"GET /api/v1/traces/:pid/:txn":                        {ok: tracesAnswer{}},
	"GET /api/v1/system/maintenance":                      {ok: maintenancePage{}},
	"POST /api/v1/system/maintenance":                     {body: switchBody{}, ok: maintenanceSet{}},
	"GET /api/v1/system/maintenance/pop":                  {ok: popMaintenancePage{}},
	"POST /api/v1/system/maintenance/pop":                 {body: switchBody{}, ok: popMaintenancePage{}},
	"GET /api/v1/system/shared-state":                     {ok: sharedStatePage{}},
	"POST /internal/backup":                               {body: backupRequest{}, loose: true, ok: "", media: "application/x-tar"},
	"POST /internal/import":                               {body: importBody{}, ok: imported{}},
	"GET /status":                                         {ok: livenessAnswer{}},
	"GET /api/v1/status":                                  shows(statusPage{}, windowQuery),
	"GET /api/v1/status/queues":                           shows(statusQueuesPage{}, windowQuery+pageQuery),
	"GET /api/v1/status/queues/:queue":                    shows(statusQueuePage{}, "includePartitions:boolean"),
	"GET /api/v1/status/analytics":                        shows(analyticsPage{}, windowQuery+" interval:string"),
	"GET /api/v1/status/buffers":                          {ok: buffersPage{}},
	"GET /api/v1/analytics/queue-lag":                     shows([]queueLagRow{}, windowQuery),
	"GET /api/v1/analytics/queue-ops":                     shows(queueOpsPage{}, windowQuery),
	"GET /api/v1/analytics/queue-parked-replicas":         shows(parkedPage{}, windowQuery),
	"GET /api/v1/analytics/retention":                     shows(retentionPage{}, windowQuery+" groupBy:string"),
	"GET /api/v1/analytics/workload":                      shows(workloadPage{}, windowQuery),
	"GET /api/v1/analytics/partition-liveness":            shows(livenessPage{}, windowQuery),
	"GET /api/v1/analytics/dlq-signatures":                shows(signaturesPage{}, "queue:string"),
	"GET /api/v1/analytics/system-metrics":                shows(systemPage{}, "from:time to:time"),
	"GET /api/v1/analytics/worker-metrics":                shows(workerPage{}, windowQuery),
	"POST /api/v1/stats/refresh":                          {ok: statsRefreshed{}},
}
