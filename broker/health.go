package broker

// Health is what the broker says of itself (A9).
type Health struct {
	Writable    bool    // the log takes writes
	Encryption  string  // "on"; "off": no queue asks for it; "plaintext": one does, without a key
	DiskUsedPct float64 // of the data directory's file system
	DiskFull    bool    // pushes are refused with storage_full
	// Damaged is what was found damaged while reading since the start: file,
	// place and reason. What it held is not served; all else is.
	Damaged []string
}

// Health looks at the broker without waiting for anything durable.
func (b *Broker) Health() Health {
	h := Health{
		Writable: b.log.Err() == nil, Encryption: "off",
		DiskUsedPct: float64(b.storage.disk.used.Load()), DiskFull: b.storage.disk.full.Load(), Damaged: b.storage.files.damaged(),
	}
	if b.cfg.EncryptionKey != nil {
		h.Encryption = "on"
		return h
	}
	b.locked(func() {
		for _, q := range b.state.queues {
			if q.opts.EncryptionEnabled {
				h.Encryption = "plaintext"
			}
		}
	})
	return h
}
