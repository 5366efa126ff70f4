package broker

import (
	"sync/atomic"
	"syscall"
)

// diskGate refuses pushes while the disk is nearly full.
type diskGate struct {
	full atomic.Bool
	used atomic.Int64 // percent
}

// statDisk is how full the file system of a directory is, in bytes.
func statDisk(path string) (used, total uint64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, 0, err
	}
	size := uint64(st.Bsize)
	// Bavail is what is left for us, as df counts it.
	usedBlocks := st.Blocks - st.Bfree
	return usedBlocks * size, (usedBlocks + st.Bavail) * size, nil
}

// checkDisk closes the gate at DiskHighPct and opens it below DiskLowPct, which
// counts as no higher.
func (b *Broker) checkDisk() {
	used, total, err := b.cfg.StatDisk(b.storage.dir.path)
	if err != nil || total == 0 {
		b.cfg.Log.Error("disk: its size is not known", "error", err)
		return
	}
	g := &b.storage.disk
	pct := int64(used * 100 / total)
	g.used.Store(pct)
	switch was := g.full.Load(); {
	case !was && pct >= b.cfg.DiskHighPct:
		g.full.Store(true)
		b.cfg.Log.Error("disk is nearly full: pushes are refused", "percent", pct)
	case was && pct < min(b.cfg.DiskLowPct, b.cfg.DiskHighPct):
		g.full.Store(false)
		b.cfg.Log.Info("disk has room again: pushes are taken", "percent", pct)
	}
	b.storage.admit.changed()
}

// DiskFull reports whether pushes are refused for lack of space, and how much
// of the disk is used, in percent.
func (b *Broker) DiskFull() (full bool, percent int64) {
	return b.storage.disk.full.Load(), b.storage.disk.used.Load()
}
