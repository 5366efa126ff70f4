package api

import "github.com/valyala/fasthttp"

// health answers GET /health (docs/rules.md, S9, A9): 200 when writes can be
// made, 503 while booting or when the log cannot be written. A full disk is
// healthy: acks are served.
func (r *request) health() {
	if r.broker == nil {
		r.json(fasthttp.StatusServiceUnavailable, func(dst []byte) []byte {
			dst = append(dst, `{"status":"unhealthy","database":"disconnected","engine":"queend"`...)
			dst = appendText(dst, "version", r.server.config.Version)
			return append(appendText(dst, "progress", "reading the data directory"), '}')
		})
		return
	}
	h := r.broker.Health()
	status, words := 200, `{"status":"healthy","database":"connected","engine":"queend"`
	if !h.Writable {
		status, words = fasthttp.StatusServiceUnavailable, `{"status":"unhealthy","database":"disconnected","engine":"queend"`
	}
	r.json(status, func(dst []byte) []byte {
		dst = append(dst, words...)
		dst = appendText(dst, "version", r.server.config.Version)
		dst = appendText(dst, "fsync", r.server.config.Fsync)
		dst = appendText(dst, "encryption", h.Encryption)
		dst = appendKey(dst, "disk")
		dst = append(dst, `{"usedPct":`...)
		dst = appendFloat(dst, h.DiskUsedPct)
		dst = appendBool(dst, "full", h.DiskFull)
		dst = append(dst, '}')
		if len(h.Damaged) > 0 {
			dst = appendTexts(dst, "damaged", h.Damaged)
		}
		return append(dst, '}')
	})
}
