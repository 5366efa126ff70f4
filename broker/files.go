package broker

import (
	"container/list"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"

	"queend"
	"queend/segment"
)

// segmentFiles opens segment files by number. At most limit of them are open
// at a time, but for those in use at that moment. A pin keeps a file from
// being deleted, also while it is not open.
type segmentFiles struct {
	dir   *dataDir
	limit int

	opening sync.Mutex // held while a file is opened: never taken under the broker's lock
	open    map[queend.FileID]*openFile
	recent  list.List // of *openFile, the one used last in front

	mu      sync.Mutex
	damage  []string // what was found damaged while reading, the first maxDamage of it
	pins    map[queend.FileID]int
	retired map[queend.FileID]queend.LSN // to delete once that is synced
}

// openFile is a file with its reader.
type openFile struct {
	id    queend.FileID
	f     *os.File
	r     *segment.Reader
	users int
	place *list.Element // nil: dropped from the cache, closed by its last user
}

// maxOpenSegments bounds the cache; a process with few descriptors gets an
// eighth of them.
const maxOpenSegments = 512

func newSegmentFiles(dir *dataDir) *segmentFiles {
	limit := uint64(maxOpenSegments)
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err == nil {
		limit = min(limit, r.Cur/8)
	}
	return &segmentFiles{
		dir: dir, limit: int(max(limit, 4)), open: map[queend.FileID]*openFile{},
		pins: map[queend.FileID]int{}, retired: map[queend.FileID]queend.LSN{},
	}
}

// pin keeps a live file from being deleted until unpin. The caller holds the
// broker's lock, so the file cannot have been retired before.
func (s *segmentFiles) pin(id queend.FileID) {
	s.mu.Lock()
	s.pins[id]++
	s.mu.Unlock()
}

func (s *segmentFiles) unpin(id queend.FileID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins[id]--; s.pins[id] == 0 {
		delete(s.pins, id)
	}
}

// use calls fn with the reader of a pinned file, opening it if needed.
func (s *segmentFiles) use(id queend.FileID, fn func(*segment.Reader) error) error {
	f, err := s.acquire(id)
	if err == nil {
		defer s.release(f)
		err = fn(f.r)
	}
	if isDamage(err) {
		err = fmt.Errorf("%s: %w", s.dir.segment(id), err)
		s.note(err.Error())
	}
	return err
}

// isDamage reports whether an error says that a file does not hold what it
// should.
func isDamage(err error) bool {
	return errors.Is(err, ErrDamaged) || errors.Is(err, segment.ErrDamaged)
}

// maxDamage bounds what is remembered of damage.
const maxDamage = 16

// note remembers damage for those who ask how the broker is.
func (s *segmentFiles) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.damage) < maxDamage && !slices.Contains(s.damage, text) {
		s.damage = append(s.damage, text)
	}
}

// damaged is what was found damaged since the start.
func (s *segmentFiles) damaged() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.damage)
}

func (s *segmentFiles) acquire(id queend.FileID) (*openFile, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	if f := s.open[id]; f != nil {
		f.users++
		s.recent.MoveToFront(f.place)
		return f, nil
	}
	f, err := s.openFile(id)
	if err != nil {
		return nil, err
	}
	f.users = 1
	f.place = s.recent.PushFront(f)
	s.open[id] = f
	for e := s.recent.Back(); e != nil && s.recent.Len() > s.limit; {
		last := e.Value.(*openFile)
		e = e.Prev()
		if last.users == 0 {
			s.drop(last)
		}
	}
	return f, nil
}

// openFile opens a file. The caller holds opening: header and trailer are two
// small reads, and two openings of one file would be worse.
func (s *segmentFiles) openFile(id queend.FileID) (*openFile, error) {
	path := s.dir.segment(id)
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return nil, err
	}
	st, err := f.Stat()
	if err == nil {
		var r *segment.Reader
		if r, err = segment.NewReader(f, st.Size()); err == nil {
			if r.File() == id {
				return &openFile{id: id, f: f, r: r}, nil
			}
			err = fmt.Errorf("%w: it is segment file %d", ErrDamaged, r.File())
		}
	}
	f.Close()
	return nil, fmt.Errorf("segment file %s: %w", path, err)
}

func (s *segmentFiles) release(f *openFile) {
	s.opening.Lock()
	defer s.opening.Unlock()
	f.users--
	if f.place == nil && f.users == 0 {
		f.f.Close()
	}
}

// drop takes a file out of the cache. The caller holds opening.
func (s *segmentFiles) drop(f *openFile) {
	s.recent.Remove(f.place)
	f.place = nil
	delete(s.open, f.id)
	if f.users == 0 {
		f.f.Close()
	}
}

// retire notes that a file is not live any more after lsn.
func (s *segmentFiles) retire(id queend.FileID, lsn queend.LSN) {
	s.mu.Lock()
	s.retired[id] = lsn
	s.mu.Unlock()
}

func (s *segmentFiles) isRetired(id queend.FileID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.retired[id]
	return ok
}

// forgetRetired is for boot, which does not trust an old checkpoint with
// deleting files.
func (s *segmentFiles) forgetRetired() {
	s.mu.Lock()
	clear(s.retired)
	s.mu.Unlock()
}

// sweep deletes retired files that nobody reads and whose retirement is
// synced.
func (s *segmentFiles) sweep(synced queend.LSN) error {
	s.mu.Lock()
	var gone []queend.FileID
	for id, lsn := range s.retired {
		if lsn <= synced && s.pins[id] == 0 {
			gone = append(gone, id)
			delete(s.retired, id)
		}
	}
	s.mu.Unlock()
	var errs []error
	for _, id := range gone {
		s.closeFile(id)
		if err := os.Remove(s.dir.segment(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
			s.retire(id, 0)
		}
	}
	return errors.Join(errs...)
}

func (s *segmentFiles) closeFile(id queend.FileID) {
	s.opening.Lock()
	defer s.opening.Unlock()
	if f := s.open[id]; f != nil {
		s.drop(f)
	}
}

// close closes what is open.
func (s *segmentFiles) close() {
	s.opening.Lock()
	defer s.opening.Unlock()
	for _, f := range s.open {
		s.drop(f)
	}
}

// fileRetired is called by apply when a file stops to be live. Its record is
// at most the newest in the log; while boot replays, every record is synced.
func (b *Broker) fileRetired(id queend.FileID) {
	lsn := queend.LSN(0)
	if b.live {
		lsn = b.log.Last()
	}
	b.storage.files.retire(id, lsn)
}
