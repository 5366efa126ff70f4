package api

import (
	"cmp"
	"math"
	"slices"
	"time"

	"queend/broker"
)

// bucketTime is microseconds since 1970, written as whole seconds: buckets
// begin on minutes.
type bucketTime int64

// MarshalJSON writes seconds in UTC.
func (at bucketTime) MarshalJSON() ([]byte, error) {
	return time.UnixMicro(int64(at)).UTC().AppendFormat(nil, `"2006-01-02T15:04:05Z"`), nil
}

// timeRange shows what time an answer is about.
type timeRange struct {
	From instant `json:"from"`
	To   instant `json:"to"`
}

// window is the stretch of time a page of figures is about, and the width of
// its buckets (docs/rules.md, S9).
type window struct {
	from, to int64 // microseconds
	minutes  int64
}

// widths are the buckets by the longest window they are for.
var widths = []struct{ window, minutes int64 }{
	{broker.Hour, 1}, {6 * broker.Hour, 5}, {broker.Day, 15}, {7 * broker.Day, 60}, {math.MaxInt64, 360},
}

// readWindow reads from and to; span is how far back from is when absent.
func (r *request) readWindow(span int64) window {
	w := window{to: r.query.time("to", r.server.now())}
	w.from = r.query.time("from", w.to-span)
	for _, one := range widths {
		if w.to-w.from <= one.window {
			w.minutes = one.minutes
			break
		}
	}
	return w
}

func (w *window) timeRange() timeRange { return timeRange{instant(w.from), instant(w.to)} }

func (w *window) step() int64 { return w.minutes * broker.Minute }

// perSecond is the mean rate of a count in one bucket.
func (w *window) perSecond(count int64) two { return two(float64(count) / float64(w.minutes*60)) }

// readTraffic reads the traffic of the queues that the parameters choose,
// cleft into the buckets of the window. False when it has answered with a
// failure.
func (r *request) readTraffic(w *window) (series []broker.QueueSeries, ok bool) {
	ctx, cancel := r.within()
	defer cancel()
	series, err := r.broker.Traffic(ctx, broker.TrafficQuery{
		Tenant: r.tenant, Queue: r.query.optional("queue"), Namespace: r.query.text("namespace", ""), Task: r.query.text("task", ""),
		From: w.from - w.from%w.step(), To: w.to, Step: w.step(),
	})
	if err != nil {
		r.unmanaged(err, "history")
		return nil, false
	}
	return series, true
}

// together adds the traffic of queues up, bucket by bucket.
func together(all []broker.QueueSeries) []broker.TrafficPoint {
	at := map[int64]*broker.Traffic{}
	for i := range all {
		for j := range all[i].Points {
			p := &all[i].Points[j]
			if at[p.At] == nil {
				at[p.At] = &broker.Traffic{}
			}
			at[p.At].Add(&p.Traffic)
		}
	}
	points := make([]broker.TrafficPoint, 0, len(at))
	for begin, t := range at {
		points = append(points, broker.TrafficPoint{At: begin, Traffic: *t})
	}
	slices.SortFunc(points, func(x, y broker.TrafficPoint) int { return cmp.Compare(x.At, y.At) })
	return points
}

// totalOf adds buckets up.
func totalOf(points []broker.TrafficPoint) (t broker.Traffic) {
	for i := range points {
		t.Add(&points[i].Traffic)
	}
	return t
}

// lags are the ages of messages at their delivery: null when none was
// delivered.
type lags struct {
	Avg *two `json:"avgLagMs"`
	Max *two `json:"maxLagMs"`
}

func lagsOf(t *broker.Traffic) lags {
	if t.LagCount == 0 {
		return lags{}
	}
	mean, highest := two(float64(t.LagTotal)/float64(t.LagCount)/1000), two(float64(t.LagMax)/1000)
	return lags{&mean, &highest}
}

// consumed is how many messages of a stretch were done with.
func consumed(t *broker.Traffic) int64 { return t.AckSuccess + t.AutoAcked }

// ratio is null without a divisor.
func ratio(a, b int64) *two {
	if b == 0 {
		return nil
	}
	v := two(float64(a) / float64(b))
	return &v
}
