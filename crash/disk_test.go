package crash

import (
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"
)

// nodeID numbers the files and directories of a disk; the root is rootNode.
type nodeID int

const rootNode nodeID = 1

// snap is a file or a directory as it is at one moment.
type snap struct {
	id   nodeID
	dir  map[string]*snap // nil: a file
	data []byte
}

func emptyDir() *snap { return &snap{dir: map[string]*snap{}} }

// opKind is what a step did to a disk.
type opKind uint8

const (
	opWrite opKind = iota + 1
	opTruncate
	opLink
	opUnlink
	opRename
	opSync
	opSyncFailed // what it was to cover is never safe, whatever is synced later
)

// op is one step: a change, or the end of a sync.
type op struct {
	kind      opKind
	node      nodeID // written, linked, unlinked, renamed, synced
	dir, dir2 nodeID // parent; of a rename the old and the new one
	name, to  string // in dir, and in dir2
	isDir     bool   // opLink
	off, size int64  // of a write; of a truncate
	data      []byte // written
	begin     int    // of a sync: it covers the steps before this one
	path      string // for messages
}

// disk is a file system in memory that notes every step.
type disk struct {
	slow func(path string) time.Duration // how long a sync takes; nil: no time
	// fail is asked before every step, under mu, and may fail it; nil: never.
	fail func(kind opKind, path string) syscall.Errno

	mu    sync.Mutex
	base  *snap // before the first step; its numbers are those of nodes
	nodes map[nodeID]*fileNode
	ops   []op
	dead  bool
	off   chan struct{} // closed by cut
}

// fileNode is a file or a directory as the broker sees it.
type fileNode struct {
	id   nodeID
	path string
	dir  map[string]nodeID // nil: a file
	data []byte
}

// newDisk is a disk that holds what image says, all of it synced.
func newDisk(image *snap) *disk {
	d := &disk{nodes: map[nodeID]*fileNode{}, off: make(chan struct{})}
	d.base = d.load(image, "")
	return d
}

// load makes the nodes of image and returns a copy with their numbers.
func (d *disk) load(image *snap, path string) *snap {
	n := d.add(path, image.dir != nil)
	own := &snap{id: n.id, data: image.data}
	n.data = slices.Clone(image.data)
	if image.dir == nil {
		return own
	}
	own.dir = map[string]*snap{}
	for _, name := range slices.Sorted(maps.Keys(image.dir)) {
		child := d.load(image.dir[name], path+"/"+name)
		own.dir[name], n.dir[name] = child, child.id
	}
	return own
}

func (d *disk) add(path string, isDir bool) *fileNode {
	n := &fileNode{id: nodeID(len(d.nodes)) + rootNode, path: path}
	if isDir {
		n.dir = map[string]nodeID{}
	}
	d.nodes[n.id] = n
	return n
}

// steps is how many there were.
func (d *disk) steps() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.ops)
}

// cut turns the power off: nothing can be done any more.
func (d *disk) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.dead {
		d.dead = true
		close(d.off)
	}
}

// trace is the steps so far. Nobody changes them.
func (d *disk) trace() []op {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ops[:len(d.ops):len(d.ops)]
}

// with runs fn on a node under the lock.
func (d *disk) with(id nodeID, fn func(*fileNode) syscall.Errno) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return syscall.EIO
	}
	return fn(d.nodes[id])
}

// refuses asks whether a step is to fail. The caller holds d.mu.
func (d *disk) refuses(kind opKind, path string) syscall.Errno {
	if d.fail == nil {
		return 0
	}
	return d.fail(kind, path)
}

// create makes a file or a directory.
func (d *disk) create(dir nodeID, name string, isDir bool) (id nodeID, errno syscall.Errno) {
	errno = d.with(dir, func(n *fileNode) syscall.Errno {
		if _, ok := n.dir[name]; ok {
			return syscall.EEXIST
		}
		if errno := d.refuses(opLink, n.path+"/"+name); errno != 0 {
			return errno
		}
		child := d.add(n.path+"/"+name, isDir)
		id, n.dir[name] = child.id, child.id
		d.ops = append(d.ops, op{kind: opLink, node: id, dir: dir, name: name, isDir: isDir, path: child.path})
		return 0
	})
	return id, errno
}

// unlink removes a name, of an empty directory too.
func (d *disk) unlink(dir nodeID, name string, isDir bool) syscall.Errno {
	return d.with(dir, func(n *fileNode) syscall.Errno {
		id, ok := n.dir[name]
		if !ok {
			return syscall.ENOENT
		}
		child := d.nodes[id]
		switch {
		case isDir && child.dir == nil:
			return syscall.ENOTDIR
		case !isDir && child.dir != nil:
			return syscall.EISDIR
		case len(child.dir) > 0:
			return syscall.ENOTEMPTY
		}
		if errno := d.refuses(opUnlink, child.path); errno != 0 {
			return errno
		}
		delete(n.dir, name)
		d.ops = append(d.ops, op{kind: opUnlink, node: id, dir: dir, name: name, path: child.path})
		return 0
	})
}

// rename moves a name over another one or to a new one.
func (d *disk) rename(dir nodeID, name string, dir2 nodeID, to string) syscall.Errno {
	return d.with(dir, func(n *fileNode) syscall.Errno {
		id, ok := n.dir[name]
		if !ok {
			return syscall.ENOENT
		}
		target := d.nodes[dir2]
		if old, ok := target.dir[to]; ok && len(d.nodes[old].dir) > 0 {
			return syscall.ENOTEMPTY
		}
		if errno := d.refuses(opRename, target.path+"/"+to); errno != 0 {
			return errno
		}
		delete(n.dir, name)
		target.dir[to] = id
		d.nodes[id].path = target.path + "/" + to
		d.ops = append(d.ops, op{kind: opRename, node: id, dir: dir, name: name, dir2: dir2, to: to, path: d.nodes[id].path})
		return 0
	})
}

// write overwrites a part of a file. A write that fails has done half of it.
func (d *disk) write(id nodeID, data []byte, off int64) syscall.Errno {
	return d.with(id, func(n *fileNode) syscall.Errno {
		errno := d.refuses(opWrite, n.path)
		if errno != 0 {
			data = data[:len(data)/2]
		}
		data = slices.Clone(data)
		n.data = overwrite(n.data, data, off)
		d.ops = append(d.ops, op{kind: opWrite, node: id, off: off, data: data, path: n.path})
		return errno
	})
}

func (d *disk) truncate(id nodeID, size int64) syscall.Errno {
	return d.with(id, func(n *fileNode) syscall.Errno {
		if errno := d.refuses(opTruncate, n.path); errno != 0 {
			return errno
		}
		n.data = resize(n.data, size)
		d.ops = append(d.ops, op{kind: opTruncate, node: id, size: size, path: n.path})
		return 0
	})
}

func (d *disk) read(id nodeID, into []byte, off int64) (got int, errno syscall.Errno) {
	errno = d.with(id, func(n *fileNode) syscall.Errno {
		if off < int64(len(n.data)) {
			got = copy(into, n.data[off:])
		}
		return 0
	})
	return got, errno
}

// sync makes durable what was done to a file or a directory before.
func (d *disk) sync(id nodeID) syscall.Errno {
	var begin int
	var wait time.Duration
	if errno := d.with(id, func(n *fileNode) syscall.Errno {
		begin = len(d.ops)
		if d.slow != nil {
			wait = d.slow(n.path)
		}
		return 0
	}); errno != 0 {
		return errno
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-d.off:
		}
	}
	return d.with(id, func(n *fileNode) syscall.Errno {
		kind, errno := opSync, d.refuses(opSync, n.path)
		if errno != 0 {
			kind = opSyncFailed
		}
		d.ops = append(d.ops, op{kind: kind, node: id, begin: begin, isDir: n.dir != nil, path: n.path})
		return errno
	})
}

// now is what the broker sees, and with it what it leaves when it is killed
// while the power stays.
func (d *disk) now() *snap {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.look(rootNode)
}

func (d *disk) look(id nodeID) *snap {
	n := d.nodes[id]
	s := &snap{id: id, data: slices.Clone(n.data)}
	if n.dir == nil {
		return s
	}
	s.dir = map[string]*snap{}
	for name, child := range n.dir {
		s.dir[name] = d.look(child)
	}
	return s
}

// overwrite writes data into a file of bytes, with zeros in a gap.
func overwrite(file, data []byte, off int64) []byte {
	if end := off + int64(len(data)); end > int64(len(file)) {
		file = resize(file, end)
	}
	copy(file[off:], data)
	return file
}

func resize(file []byte, size int64) []byte {
	if size <= int64(len(file)) {
		return file[:size:size]
	}
	return append(file, make([]byte, size-int64(len(file)))...)
}
