package api

import (
	"runtime"
	"syscall"

	"github.com/valyala/fasthttp"

	"queend/broker"
)

// metered is a count with its mean rate per second since the start.
type metered struct {
	Total uint64 `json:"total"`
	Rate  two    `json:"rate"`
}

// metricsPage is the answer of GET /metrics (docs/rules.md, S9).
type metricsPage struct {
	Uptime   two     `json:"uptime"` // seconds
	Requests metered `json:"requests"`
	Messages metered `json:"messages"`
	Memory   struct {
		RSS       int64  `json:"rss"`
		HeapUsed  uint64 `json:"heapUsed"`
		HeapTotal uint64 `json:"heapTotal"`
	} `json:"memory"`
	CPU struct {
		User   int64 `json:"user"` // microseconds
		System int64 `json:"system"`
		Cores  int   `json:"cores"`
	} `json:"cpu"`
}

// metrics answers GET /metrics.
func (r *request) metrics() {
	seconds := r.server.uptime().Seconds()
	page := metricsPage{Uptime: two(seconds)}
	if r.broker != nil {
		c := r.broker.Stats().Counters
		page.Requests = meteredOf(c.PushRequests+c.PopRequests+c.AckRequests, seconds)
		page.Messages = meteredOf(c.PushMessages, seconds)
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	page.Memory.RSS, page.Memory.HeapUsed, page.Memory.HeapTotal = residentMemory(), memory.HeapAlloc, memory.HeapSys
	page.CPU.User, page.CPU.System = processorTime()
	page.CPU.Cores = runtime.GOMAXPROCS(0)
	r.answer(fasthttp.StatusOK, page)
}

func meteredOf(total uint64, seconds float64) metered {
	return metered{total, two(float64(total) / max(seconds, 1))}
}

// processorTime is what the process has used, microseconds.
func processorTime() (user, system int64) {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0, 0
	}
	return usage.Utime.Sec*broker.Second + usage.Utime.Usec, usage.Stime.Sec*broker.Second + usage.Stime.Usec
}
