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

// create makes a file or a directory.
func (d *disk) create(dir nodeID, name string, isDir bool) (id nodeID, errno syscall.Errno) {
	errno = d.with(dir, func(n *fileNode) syscall.Errno {
		if _, ok := n.dir[name]; ok {
			return syscall.EEXIST
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
		delete(n.dir, name)
		target.dir[to] = id
		d.nodes[id].path = target.path + "/" + to
		d.ops = append(d.ops, op{kind: opRename, node: id, dir: dir, name: name, dir2: dir2, to: to, path: d.nodes[id].path})
		return 0
	})
}

func (d *disk) write(id nodeID, data []byte, off int64) syscall.Errno {
	return d.with(id, func(n *fileNode) syscall.Errno {
		data = slices.Clone(data)
		n.data = overwrite(n.data, data, off)
		d.ops = append(d.ops, op{kind: opWrite, node: id, off: off, data: data, path: n.path})
		return 0
	})
}

func (d *disk) truncate(id nodeID, size int64) syscall.Errno {
	return d.with(id, func(n *fileNode) syscall.Errno {
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
		d.ops = append(d.ops, op{kind: opSync, node: id, begin: begin, isDir: n.dir != nil, path: n.path})
		return 0
	})
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
