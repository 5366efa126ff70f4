package api

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"queend"
	"queend/broker"
)

// deadSample is how many dead letters, the newest, a summary looks at.
const deadSample = 500

// signature sums up the dead letters with one error.
type signature struct {
	Error  string  `json:"error"`
	Count  int     `json:"count"`
	First  instant `json:"firstSeen"`
	Last   instant `json:"lastSeen"`
	Groups int     `json:"groups"`
	Sample string  `json:"sampleId"` // newest dead letter
}

// deadSummary is the dead letters in GET /api/v1/status. Partitions is null
// when there are too many to look at.
type deadSummary struct {
	Total      int         `json:"totalMessages"`
	Partitions *int        `json:"affectedPartitions"`
	Top        []signature `json:"topErrors"`
}

// topErrors is how many of them a summary shows.
const topErrors = 10

// summarizeDead looks at the dead letters of the queue that the parameters
// name, or of all.
func (r *request) summarizeDead(ctx context.Context) (deadSummary, error) {
	page, err := r.sampleDead(ctx, r.query.optional("queue"))
	if err != nil {
		return deadSummary{}, err
	}
	partitions := map[queend.ID]bool{}
	for i := range page.Letters {
		partitions[page.Letters[i].PartitionUUID] = true
	}
	s := deadSummary{Total: page.Total, Top: signaturesOf(page.Letters)}
	if len(page.Letters) == page.Total {
		n := len(partitions)
		s.Partitions = &n
	}
	s.Top = s.Top[:min(len(s.Top), topErrors)]
	return s, nil
}

func (r *request) sampleDead(ctx context.Context, queue *string) (broker.DeadLetterPage, error) {
	return r.broker.DeadLetters(ctx, broker.DeadLetterQuery{Tenant: r.tenant, Queue: queue, Limit: deadSample})
}

// signaturesOf groups dead letters, the newest first, by their errors; the
// most frequent comes first.
func signaturesOf(letters []broker.DeadLetter) []signature {
	place := map[string]int{}
	groups := map[string]map[string]bool{}
	out := []signature{}
	for i := range letters {
		l := &letters[i]
		n, known := place[l.Error]
		if !known {
			n = len(out)
			place[l.Error], groups[l.Error] = n, map[string]bool{}
			out = append(out, signature{Error: l.Error, Last: instant(l.FailedAt), Sample: l.ID.String()})
		}
		out[n].Count++
		out[n].First = instant(l.FailedAt)
		groups[l.Error][l.Group] = true
		out[n].Groups = len(groups[l.Error])
	}
	slices.SortStableFunc(out, func(x, y signature) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), strings.Compare(x.Error, y.Error))
	})
	return out
}

// signaturesPage is the answer of GET /api/v1/analytics/dlq-signatures.
type signaturesPage struct {
	Queue      string      `json:"queue"`
	Total      int         `json:"total"`
	Sampled    int         `json:"sampled"`
	Signatures []signature `json:"signatures"`
}

// deadSignatures answers GET /api/v1/analytics/dlq-signatures.
func (r *request) deadSignatures() {
	queue := r.query.optional("queue")
	if r.badQuery() {
		return
	}
	if queue == nil {
		r.badRequest("queue required")
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	page, err := r.sampleDead(ctx, queue)
	if err != nil {
		r.unmanaged(err, "dlq signatures")
		return
	}
	r.answer(fasthttp.StatusOK, signaturesPage{*queue, page.Total, len(page.Letters), signaturesOf(page.Letters)})
}
