package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The collector's usual pace lets the heap grow to twice what is alive. For a
// broker with a million partitions that is memory a small machine does not have,
// and for an idle one of 30 MB it is a collection for every few pushes. So the
// room for garbage is a fixed part and a share of what is alive, and what a busy
// time has left behind goes back to the system once it is quiet.
const (
	garbageFixed = 64 << 20 // bytes
	garbageShare = 50       // percent of what is alive

	pacePeriod = 2 * time.Second
	quietBytes = 4 << 20  // allocated in a period: less is quiet
	quietTime  = 5        // periods in a row, before memory is given back
	worthBytes = 64 << 20 // of memory: less is not worth a collection
)

// pacer decides the pace of the collector.
type pacer struct {
	percent   int    // set last
	allocated uint64 // in all, at the last look
	quiet     int    // periods in a row without much being allocated
}

// heap is what the runtime says about memory, in bytes.
type heap struct {
	live      uint64 // at the end of the last collection
	allocated uint64 // in all since the start
	held      uint64 // from the system and not given back
}

// look is told the heap once a period. It returns the percent to set, 0 to leave
// it, and whether to give memory back now.
func (p *pacer) look(h heap) (percent int, giveBack bool) {
	if h.allocated-p.allocated > quietBytes {
		p.quiet = 0
	} else {
		p.quiet++
	}
	p.allocated = h.allocated
	want := garbageShare + int(100*garbageFixed/max(h.live, 16<<20))
	if want < p.percent*9/10 || want > p.percent*11/10 { // each change stops the world for a moment
		p.percent, percent = want, want
	}
	return percent, p.quiet == quietTime && h.held > h.live+worthBytes
}

// paceCollector lets a pacer decide until the process ends. Who sets GOGC or
// GOMEMLIMIT has decided otherwise.
func paceCollector() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	p := pacer{percent: 100}
	go func() {
		for range time.Tick(pacePeriod) {
			metrics.Read(samples)
			percent, giveBack := p.look(heap{
				live: samples[0].Value.Uint64(), allocated: samples[1].Value.Uint64(),
				held: samples[2].Value.Uint64() - samples[3].Value.Uint64(),
			})
			if percent > 0 {
				debug.SetGCPercent(percent)
			}
			if giveBack {
				debug.FreeOSMemory()
			}
		}
	}()
}
