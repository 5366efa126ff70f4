package main

import (
	"context"
	"time"
)

const (
	soakShare  = 0.6 // of what the broker can do
	soakSlices = 30  // of the time, each a point
)

// runSoak finds how fast the broker can push and give out at once, lets it do 60 %
// of that for long, with retention on, and compares the end with the beginning.
func runSoak(ctx context.Context, r *runner, f *scenarioFile) ([]result, error) {
	return r.one(ctx, f, func(b *bed, found *result) error {
		c := caller{target: b.server().target}
		defer c.close()
		if err := c.configure(ctx, loadQueue, `{"leaseTime":60,"dedupWindowSeconds":120,"retentionEnabled":true,"completedRetentionSeconds":60}`); err != nil {
			return err
		}
		feeders, err := b.connect(ctx, b.shape.flow())
		if err != nil {
			return err
		}
		defer hangUp(feeders)
		slice := seconds(f.Seconds) / soakSlices
		how := b.shape.consumption(time.Second)
		var top figures
		for range 3 { // the first warms up
			if top, err = b.measureBoth(ctx, feeders, pace{time: seconds(f.WarmUp)}, how); err != nil {
				return err
			}
			r.say("ceiling %.0f msg/s", top["msg_per_s"])
		}
		rate := soakShare * top["msg_per_s"]
		var points []figures
		for i := range soakSlices {
			p, err := b.measureBoth(ctx, feeders, pace{time: slice, rate: rate}, how)
			if err != nil {
				return err
			}
			if err := b.holding(p, b.total, "message"); err != nil {
				return err
			}
			p["x"] = float64(i+1) * slice.Minutes()
			points = append(points, p)
			r.say("%d/%d at %.0f msg/s: end-to-end p99 %.1f ms, RSS %.0f MB, disk %.0f MB", i+1, soakSlices, rate, p["e2e_p99_us"]/1000, p["rss_mb"], p["disk_mb"])
		}
		found.Series = map[string][]figures{"minutes": points}
		found.Rounds = points
		found.Median = medians(points)
		delete(found.Median, "x")
		found.Median["ceiling_msg_per_s"] = round4(top["msg_per_s"])
		for _, name := range []string{"rss_mb", "disk_mb", "e2e_p99_us"} {
			found.Median[name+"_drift"] = drift(points, name)
		}
		found.Checked = b.tally.total.Load()
		return b.tally.complete(b.sent)
	})
}

// drift is the last sixth of the points over the second sixth: of half an hour the
// last five minutes over minutes five to ten.
func drift(points []figures, name string) float64 {
	n := len(points) / 6
	var early, late []float64
	for i := range n {
		early = append(early, points[n+i][name])
		late = append(late, points[len(points)-n+i][name])
	}
	if median(early) == 0 {
		return 0
	}
	return round4(median(late) / median(early))
}
