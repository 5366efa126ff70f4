package log

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"queend"
)

// node is what a power cut leaves of one file or directory: what its last sync
// covered.
type node struct {
	data    []byte
	entries map[string]*node // nil for a file
}

// power follows what is synced under root, and keeps a copy of the directory for
// each step of the log: as a killed process leaves it, and as a power cut does.
type power struct {
	t    *testing.T
	root string

	mu    sync.Mutex
	live  map[uint64]*node // by inode
	step  string           // being done since the last call of hook
	path  string
	acked queend.LSN // the test waited for it
	after queend.LSN // the test dropped through it
	shots []shot
}

type shot struct {
	name         string
	d            disk
	acked, after queend.LSN
}

func newPower(t *testing.T, d disk) *power {
	p := &power{t: t, root: d.root, live: map[uint64]*node{}}
	p.eachLive(p.settle) // what is there now is synced
	return p
}

// eachLive calls f for everything that exists, parents first.
func (p *power) eachLive(f func(path string, info os.FileInfo)) {
	must(p.t, filepath.Walk(p.root, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			f(path, info)
		}
		return err
	}))
}

// at returns the node of an existing path.
func (p *power) at(info os.FileInfo) *node {
	inode := info.Sys().(*syscall.Stat_t).Ino
	n := p.live[inode]
	if n == nil {
		n = &node{}
		if info.IsDir() {
			n.entries = map[string]*node{}
		}
		p.live[inode] = n
	}
	return n
}

// settle takes the present state of a path as synced.
func (p *power) settle(path string, info os.FileInfo) {
	n := p.at(info)
	if !info.IsDir() {
		data, err := os.ReadFile(path)
		must(p.t, err)
		n.data = data
		return
	}
	names, err := os.ReadDir(path)
	must(p.t, err)
	clear(n.entries)
	for _, name := range names {
		info, err := name.Info()
		must(p.t, err)
		n.entries[name.Name()] = p.at(info)
	}
}

// hook is called before each step of the log: the one before is done now.
func (p *power) hook(step, path string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finishStep()
	alive := map[uint64]bool{}
	p.eachLive(func(_ string, info os.FileInfo) { alive[info.Sys().(*syscall.Stat_t).Ino] = true })
	for inode := range p.live {
		if !alive[inode] {
			delete(p.live, inode)
		}
	}
	p.shoot(step)
	p.step, p.path = step, path
	return nil
}

// finishStep does to the model what the last step did to the disk.
func (p *power) finishStep() {
	synced := false
	switch p.step {
	case "sync", "syncdir", "create", "truncate":
		synced = true
	case "write": // the library has synced a segment when it has begun the next
		names, err := os.ReadDir(filepath.Dir(p.path))
		must(p.t, err)
		synced = names[len(names)-1].Name() > filepath.Base(p.path)
	}
	if info, err := os.Stat(p.path); synced && err == nil {
		p.settle(p.path, info)
	}
}

func (p *power) shoot(step string) {
	kill, cut := diskAt(p.t.TempDir()), diskAt(p.t.TempDir())
	disk{root: p.root}.copyTo(p.t, kill.root)
	info, err := os.Stat(p.root)
	must(p.t, err)
	p.at(info).restore(p.t, cut.root)
	p.shots = append(p.shots, shot{"kill at " + step, kill, p.acked, p.after}, shot{"power cut at " + step, cut, p.acked, p.after})
}

// restore writes what was synced to path.
func (n *node) restore(t *testing.T, path string) {
	if n.entries == nil {
		must(t, os.WriteFile(path, n.data, filePerm))
		return
	}
	must(t, os.MkdirAll(path, dirPerm))
	for name, entry := range n.entries {
		entry.restore(t, filepath.Join(path, name))
	}
}

// add appends n records and notes that they are durable.
func (p *power) add(l *Log, n int) {
	for range n {
		add(p.t, l, 1)
		p.mu.Lock()
		p.acked = l.Last()
		p.mu.Unlock()
	}
}

func (p *power) drop(l *Log, lsn queend.LSN) {
	p.mu.Lock()
	p.after = lsn
	p.mu.Unlock()
	must(p.t, l.DropThrough(lsn))
}

// TestCrashAtEveryStepLosesNothingDurable runs repair, boot, segment ends, rolls,
// drops, and clean ends, and looks at what a crash at any step would leave.
// Against F15.
func TestCrashAtEveryStepLosesNothingDurable(t *testing.T) {
	d := newDisk(t)
	l, _ := d.open(t)
	add(t, l, 2)
	d = d.crash(t)
	edit(t, d.segmentPath(1, 1), func(b []byte) []byte { return append(b, "torn"...) })
	must(t, os.Mkdir(filepath.Join(d.c.Dir, numberName(2)), dirPerm))
	must(t, os.WriteFile(d.segmentPath(2, 1), []byte("half"), filePerm))
	d.c.SegmentBytes = 150
	p := newPower(t, d)
	p.acked = 2
	d.c.hook = p.hook

	l, _ = d.open(t)
	p.add(l, 4)
	l.Roll()
	p.add(l, 3)
	p.drop(l, 6)
	l.Roll()
	p.add(l, 1)
	must(t, l.Close())
	d.after = p.after
	l, _ = d.open(t)
	p.add(l, 1)
	p.drop(l, 9)
	must(t, l.Close())

	p.mu.Lock()
	defer p.mu.Unlock()
	for _, shot := range p.shots {
		shot.check(t)
	}
	t.Logf("%d crashes", len(p.shots))
}

// check boots twice, and a third time after a clean end.
func (s shot) check(t *testing.T) {
	t.Helper()
	s.d.after = s.after
	for i, boot := range []string{"first", "second", "third"} {
		l, rec, err := s.d.tryOpen(t)
		if err != nil {
			t.Fatalf("%s, LSN %d durable: %s boot: %v", s.name, s.acked, boot, err)
		}
		if rec.Last < s.acked || rec.Last > s.acked+1 {
			t.Fatalf("%s, LSN %d durable: %s boot finds %+v", s.name, s.acked, boot, rec)
		}
		if i == 0 { // killed right after the boot, before Close
			s.d = s.d.crash(t)
			s.d.after = s.after
		}
		must(t, l.Close())
	}
}
