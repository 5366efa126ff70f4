package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"queend"
)

// A data directory:
//
//	LOCK  FORMAT  wal/  checkpoints/  segments/<n>.seg  quarantine/
//
// Numbers in names have 20 digits. LOCK is locked while a process has the
// directory; FORMAT names the layout of all of it.
const (
	formatName    = "queend"
	formatVersion = 1
)

// ErrDamaged is wrapped by errors about a data directory that lost something
// which had been acknowledged. Nothing in it was changed.
var ErrDamaged = errors.New("data directory is damaged")

// ErrLocked is wrapped by the error about a directory in use.
var ErrLocked = errors.New("data directory is in use by another process")

// ErrFormat is wrapped by the error about a directory of a later version.
var ErrFormat = errors.New("data directory was written by a newer version of queend")

// dataDir is an opened data directory.
type dataDir struct {
	path string
	lock *os.File
}

func (d *dataDir) wal() string         { return filepath.Join(d.path, "wal") }
func (d *dataDir) checkpoints() string { return filepath.Join(d.path, "checkpoints") }
func (d *dataDir) segments() string    { return filepath.Join(d.path, "segments") }
func (d *dataDir) quarantine() string  { return filepath.Join(d.path, "quarantine") }

func (d *dataDir) segment(id queend.FileID) string {
	return filepath.Join(d.segments(), fmt.Sprintf("%020d.seg", id))
}

// openDataDir creates what is missing, locks the directory and checks that
// this program knows its format.
func openDataDir(path string) (*dataDir, error) {
	d := &dataDir{path: path}
	if err := makeDir(path); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "LOCK"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrLocked, path)
		}
		return nil, fmt.Errorf("data directory %s: lock: %w", path, err)
	}
	d.lock = lock
	if err := d.prepare(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// close releases the lock.
func (d *dataDir) close() { d.lock.Close() }

// prepare checks FORMAT and makes the directories.
func (d *dataDir) prepare() error {
	if err := checkFormat(d.path); err != nil {
		return err
	}
	for _, dir := range []string{d.checkpoints(), d.segments(), d.quarantine()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
	}
	name := filepath.Join(d.path, "FORMAT")
	if _, err := os.Stat(name); err == nil {
		return syncDir(d.path)
	}
	return writeFile(name, []byte(fmt.Sprintf("%s %d\n", formatName, formatVersion)))
}

// checkFormat refuses a directory that this program does not know. One
// without a FORMAT file must have nothing in it that a broker wrote.
func checkFormat(path string) error {
	text, err := os.ReadFile(filepath.Join(path, "FORMAT"))
	if errors.Is(err, os.ErrNotExist) {
		for _, dir := range []string{"wal", "checkpoints", "segments"} {
			if names, err := os.ReadDir(filepath.Join(path, dir)); err == nil && len(names) > 0 {
				return fmt.Errorf("%w: %s has no FORMAT file but files in %s", ErrDamaged, path, dir)
			}
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	name, number, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	version, err := strconv.Atoi(number)
	if name != formatName || err != nil || version < 1 {
		return fmt.Errorf("%w: %s: FORMAT does not name a format", ErrDamaged, path)
	}
	if version > formatVersion {
		return fmt.Errorf("%w: %s: format %d, this program knows up to %d", ErrFormat, path, version, formatVersion)
	}
	return nil
}

// makeDir creates a directory and what is missing above it. The name of each
// is synced before the next is made, that of the last also when it was there:
// who made it may have died before it could. Where the directory above may not
// be read, somebody else has made it.
func makeDir(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	parent := filepath.Dir(path)
	if _, err := os.Stat(parent); errors.Is(err, os.ErrNotExist) {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := syncDir(parent); !errors.Is(err, os.ErrPermission) {
		return err
	}
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// writeFile makes a small file appear whole and durable, or not at all.
func writeFile(path string, data []byte) error {
	temp := path + ".tmp"
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// numbered lists the files in dir that are called <20 digits><suffix>, by
// number. Others are in rest.
func numbered(dir, suffix string) (byNumber map[uint64]os.DirEntry, rest []string, err error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	byNumber = map[uint64]os.DirEntry{}
	for _, e := range names {
		digits, ok := strings.CutSuffix(e.Name(), suffix)
		n, err := strconv.ParseUint(digits, 10, 64)
		if ok && err == nil && len(digits) == 20 {
			byNumber[n] = e
		} else {
			rest = append(rest, e.Name())
		}
	}
	return byNumber, rest, nil
}

// setAside moves a file to quarantine under a name not yet taken there.
func (d *dataDir) setAside(path string) error {
	to := filepath.Join(d.quarantine(), filepath.Base(path))
	for i := 1; ; i++ {
		if _, err := os.Lstat(to); errors.Is(err, os.ErrNotExist) {
			break
		}
		to = filepath.Join(d.quarantine(), fmt.Sprintf("%s.%d", filepath.Base(path), i))
	}
	return os.Rename(path, to)
}

// backChunk is how much of a file is written before the kernel is asked to
// begin writing it out: one large sync at the end would hold up the log's.
const backChunk = 256 << 10

// backWriter writes a file from its start and keeps the disk busy with it.
type backWriter struct {
	f       *os.File
	at      int64 // bytes written
	started int64 // bytes whose writing out has begun
	pace    func(n int)
}

// The flags of sync_file_range: wait for what is under way in the range, then
// begin writing it out.
const (
	rangeWaitBefore = 1
	rangeWrite      = 2
)

// Write appends to the file.
func (w *backWriter) Write(b []byte) (int, error) {
	n, err := w.f.Write(b)
	w.at += int64(n)
	for w.at-w.started >= backChunk {
		from := max(w.started-backChunk, 0)
		// Only a hint: the sync at the end is what counts.
		_ = syscall.SyncFileRange(int(w.f.Fd()), from, w.started+backChunk-from, rangeWaitBefore|rangeWrite)
		w.started += backChunk
	}
	if w.pace != nil {
		w.pace(n)
	}
	return n, err
}
