package api

import (
	"errors"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"queend"
	"queend/api/jsonscan"
	"queend/broker"
)

// Bounds of a page of dead letters.
const (
	deadLetterLimit = 100
	maxDeadLetters  = 10000
)

// readLetterFilters reads what chooses dead letters, in a listing and in a
// purge alike (docs/rules.md, S6, A4).
func (r *request) readLetterFilters() broker.DeadLetterQuery {
	q := &r.query
	return broker.DeadLetterQuery{
		Tenant: r.tenant, Queue: q.optional("queue"), Group: q.text("consumerGroup", ""),
		Partition: q.text("partition", ""), ErrorContains: q.text("errorContains", ""),
		From: q.time("from", 0), To: q.time("to", 0),
	}
}

// deadLetters answers GET /api/v1/dlq.
func (r *request) deadLetters() {
	chosen := r.readLetterFilters()
	chosen.Limit, chosen.Offset = r.query.page(deadLetterLimit, maxDeadLetters)
	if r.badQuery() {
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	page, err := r.broker.DeadLetters(ctx, chosen)
	if err != nil {
		r.unmanaged(err, "dlq")
		return
	}
	r.json(fasthttp.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"messages":`...)
		dst = appendList(dst, len(page.Letters), func(dst []byte, i int) []byte {
			return appendDeadLetter(dst, &page.Letters[i])
		})
		dst = append(dst, `,"pagination":{"limit":`...)
		dst = strconv.AppendInt(dst, int64(chosen.Limit), 10)
		dst = append(appendInt(dst, "offset", int64(chosen.Offset)), '}')
		dst = appendInt(dst, "total", int64(len(page.Letters)))
		return append(appendInt(dst, "totalCount", int64(page.Total)), '}')
	})
}

func appendDeadLetter(dst []byte, l *broker.DeadLetter) []byte {
	dst = append(dst, `{"id":"`...)
	dst = append(l.ID.Append(dst), '"')
	dst = appendText(dst, "transactionId", string(l.TxnID))
	dst = appendID(dst, "partitionId", l.PartitionUUID)
	dst = appendText(dst, "queue", l.Queue)
	dst = appendText(dst, "partition", l.Partition)
	dst = appendText(dst, "consumerGroup", l.Group)
	dst = appendText(dst, "errorMessage", l.Error)
	dst = appendInt(dst, "retryCount", l.RetryCount)
	dst = appendRaw(dst, "data", l.Payload)
	dst = appendNull(dst, "producerSub")
	// Clients read the time of the failure as the row's creation.
	dst = appendTime(dst, "createdAt", l.FailedAt, layoutMillis)
	dst = appendTime(dst, "failedAt", l.FailedAt, layoutMillis)
	dst = appendInt(dst, "offset", int64(l.Offset))
	dst = appendTime(dst, "enqueuedAt", l.EnqueuedAt, layoutMillis)
	dst = appendInt(dst, "attempts", l.Attempts)
	if l.HasProducer {
		dst = appendText(dst, "originalProducerSub", string(l.Producer))
	} else {
		dst = appendNull(dst, "originalProducerSub")
	}
	if l.Headers != nil {
		dst = appendRaw(dst, "headers", l.Headers)
	}
	if l.Encrypted {
		dst = appendBool(dst, "isEncrypted", true)
	}
	return append(dst, '}')
}

// retryMessage answers POST /api/v1/messages/:pid/:txn/retry.
func (r *request) retryMessage() {
	pid, txn := r.param("pid"), r.param("txn")
	id, err := queend.ParseID(pid)
	if err != nil {
		r.noLetterAt(pid, txn, onlyDeadLetters)
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	out, err := r.broker.ReplayByAddress(ctx, r.tenant, id, []byte(txn), r.producer)
	switch {
	case isNotFound(err):
		r.noLetterAt(pid, txn, onlyDeadLetters)
	case err != nil:
		r.replayRefused(err)
	default:
		r.replayed(&out)
	}
}

// addressDeleted says that the dead letters of an address are gone.
type addressDeleted struct {
	Success       bool   `json:"success"`
	PartitionID   string `json:"partitionId"`
	TransactionID string `json:"transactionId"`
	Message       string `json:"message"`
}

// deleteMessage answers DELETE /api/v1/messages/:pid/:txn: the dead letters
// of the address go, those of all groups.
func (r *request) deleteMessage() {
	pid, txn := r.param("pid"), r.param("txn")
	removed := 0
	if id, err := queend.ParseID(pid); err == nil {
		ctx, cancel := r.within()
		defer cancel()
		if removed, err = r.broker.DeleteAddress(ctx, r.tenant, id, []byte(txn)); err != nil {
			r.unmanaged(err, "delete")
			return
		}
	}
	if removed == 0 {
		r.noLetterAt(pid, txn, liveMessagesStay)
		return
	}
	r.answer(fasthttp.StatusOK, addressDeleted{true, pid, txn, "Message deleted successfully"})
}

// What is said when there is no dead letter.
const (
	onlyDeadLetters  = "No dead-letter row for this address. Only dead-lettered messages can be replayed"
	liveMessagesStay = "No dead-letter row for this address. Live messages live in immutable segments and cannot be deleted"
	noSuchLetter     = "No dead-letter row with this id"
	messageNotFound  = "Message not found"
)

// noLetter says that an address has no dead letter.
type noLetter struct {
	Success       bool   `json:"success"`
	PartitionID   string `json:"partitionId"`
	TransactionID string `json:"transactionId"`
	Error         string `json:"error"`
	Message       string `json:"message"`
}

func (r *request) noLetterAt(pid, txn, message string) {
	r.answer(fasthttp.StatusNotFound, noLetter{false, pid, txn, messageNotFound, message})
}

func isNotFound(err error) bool {
	var refused *broker.Refusal
	return errors.As(err, &refused) && refused.Code == broker.CodeNotFound
}

// noLetterToDelete says that no dead letter has the id.
type noLetterToDelete struct {
	Success bool   `json:"success"`
	ID      string `json:"dlqId"`
	Error   string `json:"error"`
	Message string `json:"message"`
}

// letterDeleted says that a dead letter is gone.
type letterDeleted struct {
	Success bool   `json:"success"`
	Deleted int    `json:"deleted"`
	ID      string `json:"dlqId"`
}

// deleteDeadLetter answers DELETE /api/v1/dlq/:id.
func (r *request) deleteDeadLetter() {
	text := r.param("id")
	found := false
	if id, err := queend.ParseID(text); err == nil {
		ctx, cancel := r.within()
		defer cancel()
		if found, err = r.broker.DeleteDeadLetter(ctx, r.tenant, id); err != nil {
			r.unmanaged(err, "delete")
			return
		}
	}
	if !found {
		r.answer(fasthttp.StatusNotFound, noLetterToDelete{false, text, messageNotFound, noSuchLetter})
		return
	}
	r.answer(fasthttp.StatusOK, letterDeleted{true, 1, text})
}

// lettersPurged is the answer of DELETE /api/v1/dlq.
type lettersPurged struct {
	Success bool    `json:"success"`
	Deleted int     `json:"deleted"`
	Queue   string  `json:"queue"`
	Group   *string `json:"consumerGroup"`
}

// purgeDeadLetters answers DELETE /api/v1/dlq.
func (r *request) purgeDeadLetters() {
	chosen := r.readLetterFilters()
	if r.badQuery() {
		return
	}
	if chosen.Queue == nil {
		r.badRequest("queue is required")
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	deleted, err := r.broker.DeleteDeadLetters(ctx, chosen)
	if err != nil {
		r.unmanaged(err, "delete")
		return
	}
	out := lettersPurged{true, deleted, *chosen.Queue, nil}
	if chosen.Group != "" {
		out.Group = &chosen.Group
	}
	r.answer(fasthttp.StatusOK, out)
}

// lettersReplayed is the answer of POST /api/v1/dlq/replay.
type lettersReplayed struct {
	Success    bool `json:"success"`
	Matched    int  `json:"matched"`
	Replayed   int  `json:"replayed"`
	Duplicates int  `json:"duplicates"`
	Failed     int  `json:"failed"`
	Remaining  int  `json:"remaining"`
}

// replayLetters answers POST /api/v1/dlq/replay (A4).
func (r *request) replayLetters() {
	chosen := broker.DeadLetterQuery{Tenant: r.tenant}
	limit, dryRun := int64(0), false
	err := r.readBody(false, func(key string, v jsonscan.Value) error {
		switch key {
		case "queue":
			chosen.Queue = new(string)
			return readText(key, v, chosen.Queue)
		case "consumerGroup":
			return readText(key, v, &chosen.Group)
		case "partition":
			return readText(key, v, &chosen.Partition)
		case "errorContains":
			return readText(key, v, &chosen.ErrorContains)
		case "from":
			return readTime(key, v, &chosen.From)
		case "to":
			return readTime(key, v, &chosen.To)
		case "limit":
			return readInt(key, v, &limit)
		case "dryRun":
			return readBool(key, v, &dryRun)
		}
		return nil
	})
	switch {
	case err != nil:
		r.badBody(err)
		return
	case chosen.Queue == nil:
		r.badRequest("queue is required")
		return
	case limit < 0:
		r.badRequest("limit must not be negative")
		return
	}
	chosen.Limit = int(min(limit, 1<<31-1))
	ctx, cancel := r.within()
	defer cancel()
	sum, err := r.broker.ReplayDeadLetters(ctx, chosen, dryRun, r.producer)
	if err != nil {
		r.replayRefused(err)
		return
	}
	r.answer(fasthttp.StatusOK, lettersReplayed{true, sum.Matched, sum.Replayed, sum.Duplicates, sum.Failed, sum.Remaining})
}

// replayLetter answers POST /api/v1/dlq/:id/replay.
func (r *request) replayLetter() {
	text := r.param("id")
	to, err := r.readReplayTarget()
	if err != nil {
		r.badBody(err)
		return
	}
	id, err := queend.ParseID(text)
	if err != nil {
		r.letterGone(text)
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	out, err := r.broker.ReplayByID(ctx, r.tenant, id, to, r.producer)
	switch {
	case isNotFound(err):
		r.letterGone(text)
	case err != nil:
		r.replayRefused(err)
	default:
		r.replayed(&out)
	}
}

// readReplayTarget reads where a dead letter shall go. Blanks around names
// are cut off, and nothing may be left of a name that is blank.
func (r *request) readReplayTarget() (to broker.ReplayTarget, err error) {
	err = r.readBody(true, func(key string, v jsonscan.Value) error {
		if key != "queue" && key != "partition" {
			return nil
		}
		name := ""
		if err := readText(key, v, &name); err != nil {
			return err
		}
		if name = strings.TrimSpace(name); name == "" {
			return errors.New(key + " must not be blank")
		}
		if key == "queue" {
			to.Queue = &name
		} else {
			to.Partition = &name
		}
		return nil
	})
	return to, err
}

// goneLetter says that there is no dead letter to replay.
type goneLetter struct {
	Success bool   `json:"success"`
	Result  string `json:"result"`
	ID      string `json:"dlqId"`
	Error   string `json:"error"`
	Message string `json:"message"`
}

func (r *request) letterGone(id string) {
	r.answer(fasthttp.StatusNotFound, goneLetter{false, "gone", id, messageNotFound, noSuchLetter})
}

// replayRefused answers for a replay that the broker refused: the row stays.
func (r *request) replayRefused(err error) {
	status, code, text := r.refusalOf(err, "replay")
	r.code = code
	r.json(status, func(dst []byte) []byte {
		dst = append(dst, `{"success":false`...)
		if code == string(broker.CodeMaintenance) {
			dst = appendText(dst, "result", "maintenance")
		}
		dst = appendText(dst, "error", text)
		dst = appendText(dst, "code", code)
		return append(appendBool(dst, "dlqRowRemoved", false), '}')
	})
}

func (r *request) replayed(out *broker.Replayed) {
	r.json(fasthttp.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"success":true`...)
		dst = appendText(dst, "queue", out.Push.Queue)
		dst = appendText(dst, "partition", out.Partition)
		dst = appendPushResult(appendKey(dst, "replayedAs"), 0, &out.Push)
		dst = appendBool(dst, "dlqRowRemoved", !out.Duplicate)
		if out.Duplicate {
			dst = appendText(dst, "result", "duplicate")
		} else {
			dst = appendText(dst, "result", "moved")
		}
		dst = appendText(dst, "consumerGroup", out.Group)
		dst = appendID(dst, "dlqId", out.LetterID)
		return append(appendText(dst, "originalTransactionId", string(out.OriginalTxn)), '}')
	})
}
