package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"queend"
	"queend/log"
	"queend/sched"
)

// Open opens a data directory and makes it if there is none: the newest
// checkpoint that is whole, the log after it, and a check that nothing which
// was acknowledged is missing. The broker runs until Close.
//
// Errors wrap ErrLocked, ErrFormat, ErrDamaged or what the system said. After
// an error nothing in the directory has changed but for the lock.
func Open(cfg Config) (*Broker, error) {
	cfg.fill()
	began := cfg.Now()
	dir, err := openDataDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	b := &Broker{
		cfg: cfg, state: newState(), alarm: make(chan struct{}, 1), quit: make(chan struct{}),
	}
	b.storage.init(b, dir)
	if err := b.boot(); err != nil {
		if b.log != nil {
			_ = b.log.Close() // the first error is the one that counts
		}
		dir.close()
		return nil, err
	}
	b.start()
	b.bootTime = cfg.Now() - began
	return b, nil
}

// boot brings memory to where the disk is.
func (b *Broker) boot() error {
	found, err := findChains(b.storage.dir.checkpoints())
	if err != nil {
		return err
	}
	after, proven, err := b.loadChain(found)
	if err != nil {
		return err
	}
	b.log, err = b.openLog(after, proven)
	if err != nil {
		return err
	}
	if err := b.setAside(found); err != nil {
		return err
	}
	c := &b.storage.checkpoints
	c.chains, c.serial = found.chains, found.serial
	return nil
}

// start makes the broker live.
func (b *Broker) start() {
	now := b.now()
	b.wheel = sched.New(now)
	b.storage.checkpoints.cutAt = b.cfg.Now()
	b.storage.made.cutAt.Store(b.storage.checkpoints.cutAt)
	b.deriveStorage()
	b.live = true
	b.checkDisk()
	b.rebuild()
	b.initSpool()
	b.initTraces()
	b.initHistory()
	if b.cfg.Manual {
		return
	}
	b.done.Add(2)
	go b.timerLoop()
	go b.loop("drain of the spool", time.Second, b.spool.wake, b.DrainSpool)
	b.startStorage()
}

// checkWhole refuses a state that the files do not hold, before anything is
// changed on disk.
func (b *Broker) checkWhole() error {
	if err := b.checkHoles(); err != nil {
		return err
	}
	return b.checkFiles()
}

// openLog replays the log after an LSN.
func (b *Broker) openLog(after, proven queend.LSN) (*log.Log, error) {
	var refused error // it speaks of other files than those of the log
	c := log.Config{
		Dir: b.storage.dir.wal(), SegmentBytes: b.cfg.LogSegmentBytes, Sync: b.cfg.Sync, SyncInterval: b.cfg.SyncInterval, Proven: proven,
		Quarantine: b.storage.dir.quarantine(), OnFail: b.cfg.OnFail,
		Check: func() error {
			refused = b.checkWhole()
			return refused
		},
		Now: func() time.Time { return time.UnixMicro(b.cfg.Now()) },
	}
	l, rec, err := log.Open(c, after, b.replay)
	if refused != nil {
		return nil, refused
	}
	if errors.Is(err, log.ErrDamaged) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, err
	}
	if rec.Cut > 0 {
		b.cfg.Log.Warn("log: the tail was torn and has been cut", "bytes", rec.Cut, "kept", rec.CutFile)
	}
	b.cfg.Log.Info("log replayed", "after", after, "last", rec.Last, "records", rec.Records, "clean", rec.Clean)
	return l, nil
}

// replay applies one record of the log.
func (b *Broker) replay(lsn queend.LSN, rec []byte) error {
	stamp, err := recordStamp(rec)
	var gap error
	if err == nil {
		_, err = decodeRecord(rec, func(ev event) {
			gap = cmp.Or(gap, b.follows(ev))
			ev.apply(b, stamp)
		})
	}
	if err = cmp.Or(err, gap); err != nil {
		return fmt.Errorf("%w: log record %d: %w", ErrDamaged, lsn, err)
	}
	b.state.lastStamp = max(b.state.lastStamp, stamp)
	return nil
}

// follows refuses messages that do not begin where their partition ends: then
// records before them are missing, and apply would leave them out unsaid.
func (b *Broker) follows(ev event) error {
	v, ok := ev.(*pushed)
	if !ok {
		return nil
	}
	if p := b.state.partitions.get(v.partition); p != nil && v.first > p.end {
		return fmt.Errorf("queue %q, partition %q: messages %d to %d are missing", p.q.name, p.name, p.end, v.first-1)
	}
	return nil
}

// recordStamp reads the stamp in front of a record.
func recordStamp(rec []byte) (int64, error) {
	d := decoder{buf: rec}
	stamp := int64(d.fixed64())
	return stamp, d.err
}

// foundChains is what the checkpoint directory holds.
type foundChains struct {
	chains []chain // older first, whole
	bad    []string
	why    []error
	serial uint64 // highest number seen
}

// findChains reads every checkpoint and joins them to chains. A chain ends
// before its first file that is damaged or missing.
func findChains(dir string) (foundChains, error) {
	var found foundChains
	infos := map[uint64]chainFileInfo{}
	for _, suffix := range []string{".base", ".delta"} {
		files, _, err := numbered(dir, suffix)
		if err != nil {
			return found, fmt.Errorf("checkpoints: %w", err)
		}
		for n, e := range files {
			found.serial = max(found.serial, n)
			path := filepath.Join(dir, e.Name())
			info, err := readChainFile(path, nil)
			if err == nil && (info.serial != n || info.isBase() != (suffix == ".base")) {
				err = fmt.Errorf("%w: checkpoint %s is another one's content", ErrDamaged, path)
			}
			switch {
			case errors.Is(err, errCheckpointVersion):
				return found, fmt.Errorf("%w: %w", ErrFormat, err)
			case err != nil:
				found.bad, found.why = append(found.bad, path), append(found.why, err)
			default:
				infos[n] = info
			}
		}
	}
	found.join(infos)
	return found, nil
}

// join puts files into chains; files that no chain reaches are bad, and so is
// a delta when a newer one stands on the same checkpoint: it had failed.
func (found *foundChains) join(infos map[uint64]chainFileInfo) {
	next := map[uint64]chainFileInfo{}
	for _, serial := range slices.Sorted(maps.Keys(infos)) {
		info := infos[serial]
		if info.isBase() {
			found.chains = append(found.chains, chain{files: []chainFileInfo{info}})
			continue
		}
		if older, ok := next[info.prev]; ok {
			found.bad = append(found.bad, older.path)
			found.why = append(found.why, fmt.Errorf("checkpoint %s: checkpoint %d was made in its place", older.path, serial))
		}
		next[info.prev] = info
	}
	slices.SortFunc(found.chains, func(a, b chain) int { return int(a.files[0].serial) - int(b.files[0].serial) })
	for i := range found.chains {
		c := &found.chains[i]
		for {
			info, ok := next[c.newest().serial]
			if !ok || info.base != c.files[0].serial || info.lsn < c.lsn() {
				break
			}
			delete(next, c.newest().serial)
			c.files = append(c.files, info)
		}
	}
	for _, info := range next {
		found.bad = append(found.bad, info.path)
		found.why = append(found.why, fmt.Errorf("checkpoint %s: the one before it is missing", info.path))
	}
}

// loadChain loads the newest chain and says after which LSN the log goes on,
// and which one was durable. Checkpoints of which none can be used are
// damage: the log before them is gone.
func (b *Broker) loadChain(found foundChains) (after, proven queend.LSN, err error) {
	if len(found.chains) == 0 {
		if len(found.bad) > 0 {
			return 0, 0, fmt.Errorf("%w: no checkpoint can be used: %w", ErrDamaged, errors.Join(found.why...))
		}
		b.tracker.loaded()
		return 0, 0, nil
	}
	for _, why := range found.why {
		b.cfg.Log.Error("a checkpoint cannot be used, an older one is", "error", why)
	}
	best := &found.chains[0]
	for i := range found.chains {
		c := &found.chains[i]
		proven = max(proven, c.newest().durable)
		if c.lsn() >= best.lsn() {
			best = c
		}
	}
	b.tracker.epoch = loadedEpoch
	for i := range best.files {
		if err := b.loadFile(best.files[i].path); err != nil {
			return 0, 0, err
		}
	}
	b.state.settle()
	b.storage.files.forgetRetired()
	b.tracker.loaded()
	return best.lsn(), proven, nil
}

// loadFile puts a checkpoint file into the state: queues first, since the
// rest refers to them, and labels that are gone last, since a file may also
// have a new one of the same name.
func (b *Broker) loadFile(path string) error {
	isQueue := func(entry []byte) bool { return len(entry) > 0 && entry[0] == kindQueueSet }
	if _, err := readChainFile(path, func(entry []byte) error {
		if !isQueue(entry) {
			return nil
		}
		return b.load(entry)
	}); err != nil {
		return err
	}
	made := map[labelKey]bool{}
	gone := map[labelKey][]byte{}
	if _, err := readChainFile(path, func(entry []byte) error {
		if isQueue(entry) {
			return nil
		}
		if len(entry) > 0 && entry[0] == kindLabelSet {
			var l labelSet
			l.decode(&decoder{buf: entry[1:]})
			if l.gone {
				gone[l.labelKey] = slices.Clone(entry)
				return nil
			}
			made[l.labelKey] = true
		}
		return b.load(entry)
	}); err != nil {
		return err
	}
	for key, entry := range gone {
		if !made[key] {
			if err := b.load(entry); err != nil {
				return fmt.Errorf("%w: checkpoint %s: %w", ErrDamaged, path, err)
			}
		}
	}
	return nil
}

// checkHoles makes sure that runs and tail hold every retained message.
func (b *Broker) checkHoles() error {
	for p := range b.state.partitions.all() {
		if why := b.hole(p); why != "" {
			return fmt.Errorf("%w: queue %q, partition %q: %s", ErrDamaged, p.q.name, p.name, why)
		}
	}
	return nil
}

func (b *Broker) hole(p *partition) string {
	if p.tailFrom() != p.flushed || p.end != p.tailFrom()+queend.Offset(len(p.inMemory())) {
		return fmt.Sprintf("messages from %d on are neither in segments nor in the log, which has %d to %d",
			p.flushed, p.tailFrom(), p.tailFrom()+queend.Offset(len(p.inMemory()))-1)
	}
	next := p.start
	for i := range p.runs() {
		r := &p.runs()[i]
		if i > 0 && r.First != p.runs()[i-1].Last+1 || i == 0 && r.First > next {
			return fmt.Sprintf("messages before %d are in no segment", r.First)
		}
		if b.state.files[r.File] == nil {
			return fmt.Sprintf("messages from %d on are in segment file %d, which is not live", r.First, r.File)
		}
		next = max(next, r.Last+1)
	}
	if next < p.flushed || len(p.runs()) > 0 && p.runs()[len(p.runs())-1].Last+1 != p.flushed {
		return fmt.Sprintf("messages %d to %d are in no segment", next, p.flushed-1)
	}
	return ""
}

// checkFiles makes sure that every live segment file is there in its size, and
// that there are none without a log: a log is durable before the first of them.
func (b *Broker) checkFiles() error {
	s := &b.storage
	onDisk, _, err := numbered(s.dir.segments(), ".seg")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("segments: %w", err)
	}
	if len(onDisk) > 0 && isEmpty(s.dir.wal()) && isEmpty(s.dir.checkpoints()) {
		return fmt.Errorf("%w: %s has files, but there is neither a log nor a checkpoint", ErrDamaged, s.dir.segments())
	}
	wrong, err := b.wrongFiles(onDisk)
	if err != nil {
		return err
	}
	if len(wrong) > 0 {
		more := ""
		if n := len(wrong) - 1; n > 0 {
			more = fmt.Sprintf(", and %d more are missing or have another size", n)
		}
		return fmt.Errorf("%w: segment file %s %s%s", ErrDamaged, wrong[0].path, wrong[0].why, more)
	}
	s.nextFile = b.state.lastFile
	for n := range onDisk {
		s.nextFile = max(s.nextFile, queend.FileID(n))
	}
	kept, _, err := numbered(s.dir.quarantine(), ".seg")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("quarantine: %w", err)
	}
	for n := range kept {
		s.nextFile = max(s.nextFile, queend.FileID(n))
	}
	return nil
}

// wrongFile is a live segment file that is not there as it was written.
type wrongFile struct{ path, why string }

// wrongFiles are those among the live segment files, by number. onDisk is what
// the directory has.
func (b *Broker) wrongFiles(onDisk map[uint64]os.DirEntry) (wrong []wrongFile, err error) {
	for _, id := range slices.Sorted(maps.Keys(b.state.files)) {
		path := b.storage.dir.segment(id)
		e := onDisk[uint64(id)]
		if e == nil {
			wrong = append(wrong, wrongFile{path, "is missing"})
			continue
		}
		st, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("segments: %w", err)
		}
		if want := b.state.files[id].bytes; st.Size() != want {
			wrong = append(wrong, wrongFile{path, fmt.Sprintf("has %d bytes, not %d", st.Size(), want)})
		}
	}
	return wrong, nil
}

// isEmpty reports whether a directory has nothing in it or is not there.
func isEmpty(dir string) bool {
	names, err := os.ReadDir(dir)
	return len(names) == 0 && (err == nil || errors.Is(err, os.ErrNotExist))
}

// setAside clears away what is no part of the state: files that the log says
// are retired go, files that nobody names move to quarantine, and so do
// checkpoints that cannot be used.
func (b *Broker) setAside(found foundChains) error {
	s := &b.storage
	segments, rest, err := numbered(s.dir.segments(), ".seg")
	if err != nil {
		return fmt.Errorf("segments: %w", err)
	}
	for n := range segments {
		id := queend.FileID(n)
		if b.state.files[id] != nil || s.files.isRetired(id) {
			continue
		}
		b.cfg.Log.Warn("a segment file that nothing names was moved to quarantine", "file", s.dir.segment(id))
		if err := s.dir.setAside(s.dir.segment(id)); err != nil {
			return fmt.Errorf("segments: %w", err)
		}
	}
	for _, name := range rest {
		if err := s.dir.setAside(filepath.Join(s.dir.segments(), name)); err != nil {
			return fmt.Errorf("segments: %w", err)
		}
	}
	for _, path := range found.bad {
		if err := s.dir.setAside(path); err != nil {
			return fmt.Errorf("checkpoints: %w", err)
		}
	}
	return removeTemporary(s.dir.checkpoints())
}

// removeTemporary deletes what a checkpoint that was not finished left.
func removeTemporary(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("checkpoints: %w", err)
		}
	}
	return nil
}

// Close ends the broker: parked pops are answered, the tail is flushed, a
// checkpoint is made unless ctx is over, and the log is closed with a mark
// that says so. Calls after it fail. It returns the failure of the log, if
// there was one.
func (b *Broker) Close(ctx context.Context) error {
	b.StopWaiting()
	close(b.quit)
	b.done.Wait()
	b.spool.seal()
	if ctx.Err() == nil {
		b.saveHistory(true)
		b.storage.checkpointing.Lock()
		if err := b.checkpoint(false, true); err != nil {
			b.cfg.Log.Error("no checkpoint at the end", "error", err)
		}
		b.storage.checkpointing.Unlock()
	}
	close(b.storage.stopped)
	err := b.log.Close()
	b.storage.files.close()
	b.storage.dir.close()
	return err
}
