package broker

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"queend"
	"queend/log"
)

// A backup of a running broker is the newest checkpoint chain, the log behind
// it through one record, and the segment files that are live as of that
// record. The chain's files are held open and the segment files pinned, so
// neither can go while they are sent; the log is copied up to the record,
// which is synced. While that is prepared no checkpoint is made; while it is
// sent everything goes on.

// errBackupBusy and errBackupSpool refuse a backup.
var (
	errBackupBusy  = refuse(CodeRetry, "another backup is being made")
	errBackupSpool = refuse(CodeMaintenance, "pushes are in the spool of maintenance mode, which a backup does not hold")
)

// liveBackup is what is held for one.
type liveBackup struct {
	b      *Broker
	moment Moment
	chain  []*os.File
	pinned []queend.FileID
	log    string // the copied log, a directory
}

// Backup gives the files of a running broker as of one record to a sink. An
// error before Begin is a refusal, later ones leave the backup incomplete.
func (b *Broker) Backup(ctx context.Context, to BackupSink) error {
	if !b.storage.backing.TryLock() {
		return errBackupBusy
	}
	defer b.storage.backing.Unlock()
	l := &liveBackup{b: b, log: filepath.Join(b.storage.dir.path, "backup.tmp")}
	defer l.release()
	if err := l.prepare(ctx); err != nil {
		return err
	}
	if err := to.Begin(l.moment); err != nil {
		return err
	}
	return l.send(to)
}

// prepare makes a checkpoint and holds everything the backup needs.
func (l *liveBackup) prepare(ctx context.Context) error {
	b := l.b
	b.storage.checkpointing.Lock()
	defer b.storage.checkpointing.Unlock()
	if err := b.checkpoint(false, true); err != nil {
		return err
	}
	chains := b.storage.checkpoints.chains
	newest := &chains[len(chains)-1]
	for i := range newest.files {
		f, err := os.Open(newest.files[i].path)
		if err != nil {
			return err
		}
		l.chain = append(l.chain, f)
	}
	spooled := false
	var lsn queend.LSN
	b.locked(func() {
		spooled = b.state.maintenance || b.spool.pending.Load() > 0
		lsn = b.log.Last()
		l.moment = momentOf(lsn, b.state.lastStamp)
		for id := range b.state.files {
			b.storage.files.pin(id)
			l.pinned = append(l.pinned, id)
		}
	})
	if spooled {
		return errBackupSpool
	}
	if err := b.awaitSynced(lsn); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.RemoveAll(l.log); err != nil {
		return err
	}
	return log.Copy(b.storage.dir.wal(), log.Span{First: newest.lsn() + 1, Last: lsn}, filepath.Join(l.log, "wal"))
}

// send gives everything to the sink.
func (l *liveBackup) send(to BackupSink) error {
	dir := l.b.storage.dir
	if err := addFile(dir.path, filepath.Join(dir.path, "FORMAT"), to); err != nil {
		return err
	}
	for _, f := range l.chain {
		st, err := f.Stat()
		if err != nil {
			return err
		}
		if err := to.Add("checkpoints/"+filepath.Base(f.Name()), st.Size(), f); err != nil {
			return err
		}
	}
	if err := addFiles(l.log, to); err != nil {
		return err
	}
	for _, id := range l.pinned {
		if err := addFile(dir.path, dir.segment(id), to); err != nil {
			return err
		}
		l.b.storage.step("backup file")
	}
	return nil
}

// release lets go of what was held.
func (l *liveBackup) release() {
	var errs []error
	for _, f := range l.chain {
		errs = append(errs, f.Close())
	}
	for _, id := range l.pinned {
		l.b.storage.files.unpin(id)
	}
	errs = append(errs, os.RemoveAll(l.log))
	if err := errors.Join(errs...); err != nil {
		l.b.cfg.Log.Warn("backup: not everything was cleaned up", "error", err)
	}
}
