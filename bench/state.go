package main

import (
	"context"
	"fmt"
	"time"
)

// settleTime is how long a broker is left alone before its memory and its files
// are looked at: longer than the time between two of its checkpoints.
const settleTime = 40 * time.Second

// settle waits so long; a quick run does not.
func (r *runner) settle(ctx context.Context) error {
	d := settleTime
	if r.quick {
		d = time.Second
	}
	r.say("waiting %v for the background work", d)
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// holding writes what the server holds: memory, files and bytes of the disk for
// each of n things.
func (b *bed) holding(f figures, n int64, thing string) error {
	u, err := b.server().usage()
	if err != nil {
		return err
	}
	size, files, err := diskUse(b.server().dataDir())
	if err != nil {
		return err
	}
	f["rss_mb"] = round4(float64(u.memory) / (1 << 20))
	f["disk_mb"] = round4(float64(size) / (1 << 20))
	f["files"] = float64(files)
	f["disk_bytes_per_"+thing] = round4(float64(size) / float64(n))
	return nil
}

// restart measures how long the server takes from its start to health, after an
// orderly end and after kill -9, and what it holds in memory then.
func (b *bed) restart(ctx context.Context, f figures) error {
	p := b.server()
	for _, way := range []struct {
		name string
		end  func()
	}{{"boot", p.stop}, {"boot_after_kill", p.kill}} {
		way.end()
		began := time.Now()
		if err := p.start(ctx); err != nil {
			return err
		}
		f[way.name+"_s"] = round4(time.Since(began).Seconds())
		u, err := p.usage()
		if err != nil {
			return err
		}
		f["rss_after_"+way.name+"_mb"] = round4(float64(u.memory) / (1 << 20))
	}
	return nil
}

// one runs a row that is about the broker alone: its first entry.
func (r *runner) one(ctx context.Context, f *scenarioFile, work func(b *bed, found *result) error) ([]result, error) {
	b, found, err := r.setUp(ctx, f, f.Entries[0])
	if err != nil {
		return nil, err
	}
	if b != nil {
		defer b.end()
		if err := work(b, &found); err != nil {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("%w (%w)", err, context.Cause(ctx))
			}
			found.Void = fmt.Sprintf("%v\n%s", err, b.server().logTail(5))
		} else {
			err := b.quit()
			if err == nil {
				found.Profile, err = r.keepProfile(b.server(), f.Row, found.Entry)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return []result{found}, nil
}

// bend is how much the cost has grown at the worst point over the cheapest point
// before it.
func bend(points []figures, figure string) float64 {
	worst := 1.0
	for i, p := range points {
		for _, before := range points[:i] {
			if before[figure] > 0 {
				worst = max(worst, p[figure]/before[figure])
			}
		}
	}
	return round4(worst)
}
