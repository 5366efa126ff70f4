package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// mount is a mounted file system. Each directory at its top is a disk.
type mount struct {
	fs.Inode
	path string

	mu    sync.Mutex
	disks map[string]*disk
}

var _ = (fs.NodeLookuper)((*mount)(nil))

// newMount mounts a file system until the test ends, and skips the test
// where that is not possible.
func newMount(t *testing.T) *mount {
	t.Helper()
	if os.Getenv("QUEEND_CRASH") == "" {
		t.Skip("run it with: make crash (QUEEND_CRASH=1 go test ./crash, as root, with /dev/fuse)")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		noDisks(t, err)
	}
	path, err := os.MkdirTemp("", "queend-crash-")
	must(t, err)
	m := &mount{path: path, disks: map[string]*disk{}}
	timeout := time.Second
	server, err := fs.Mount(path, m, &fs.Options{
		EntryTimeout: &timeout, AttrTimeout: &timeout,
		MountOptions: fuse.MountOptions{
			DirectMountStrict: true, FsName: "queend-crash", Name: "crash", DisableXAttrs: true, MaxWrite: 128 << 10,
		},
	})
	if err != nil {
		_ = os.Remove(path)
		noDisks(t, err)
	}
	t.Cleanup(func() {
		m.mu.Lock()
		for _, d := range m.disks {
			d.cut()
		}
		m.mu.Unlock()
		if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", path, err)
		}
		done := make(chan struct{})
		go func() { server.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Errorf("the file system at %s does not end", path)
		}
		_ = os.Remove(path)
	})
	return m
}

// noDisks skips a test, and says so where nobody can overlook it.
func noDisks(t *testing.T, err error) {
	t.Helper()
	fmt.Fprintf(os.Stderr, "NO POWER WAS CUT: no file systems of our own here: %v\n"+
		"The order of the system calls is still checked: go test ./hostile, a part of make test\n", err)
	t.SkipNow()
}

// put makes a disk visible and returns its path.
func (m *mount) put(d *disk) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := strconv.Itoa(len(m.disks))
	m.disks[name] = d
	return filepath.Join(m.path, name)
}

// Lookup finds a disk.
func (m *mount) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	m.mu.Lock()
	d := m.disks[name]
	m.mu.Unlock()
	if d == nil {
		return nil, syscall.ENOENT
	}
	number, _ := strconv.ParseUint(name, 10, 32)
	n := &fuseNode{d: d, id: rootNode, inos: (number + 1) << 32}
	return n.enter(ctx, &m.Inode, rootNode, out)
}

// fuseNode shows one file or directory of a disk to the kernel.
type fuseNode struct {
	fs.Inode
	d    *disk
	id   nodeID
	inos uint64 // added to the numbers of nodes
}

var (
	_ = (fs.NodeLookuper)((*fuseNode)(nil))
	_ = (fs.NodeGetattrer)((*fuseNode)(nil))
	_ = (fs.NodeSetattrer)((*fuseNode)(nil))
	_ = (fs.NodeReaddirer)((*fuseNode)(nil))
	_ = (fs.NodeCreater)((*fuseNode)(nil))
	_ = (fs.NodeMkdirer)((*fuseNode)(nil))
	_ = (fs.NodeUnlinker)((*fuseNode)(nil))
	_ = (fs.NodeRmdirer)((*fuseNode)(nil))
	_ = (fs.NodeRenamer)((*fuseNode)(nil))
	_ = (fs.NodeOpener)((*fuseNode)(nil))
	_ = (fs.NodeReader)((*fuseNode)(nil))
	_ = (fs.NodeWriter)((*fuseNode)(nil))
	_ = (fs.NodeFsyncer)((*fuseNode)(nil))
	_ = (fs.NodeFlusher)((*fuseNode)(nil))
	_ = (fs.NodeStatfser)((*fuseNode)(nil))
)

// enter makes the kernel's node for node id below parent.
func (n *fuseNode) enter(ctx context.Context, parent *fs.Inode, id nodeID, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	child := &fuseNode{d: n.d, id: id, inos: n.inos}
	if errno := child.attr(&out.Attr); errno != 0 {
		return nil, errno
	}
	return parent.NewInode(ctx, child, fs.StableAttr{Mode: out.Attr.Mode & syscall.S_IFMT, Ino: out.Attr.Ino}), 0
}

func (n *fuseNode) attr(out *fuse.Attr) syscall.Errno {
	return n.d.with(n.id, func(f *fileNode) syscall.Errno {
		out.Ino, out.Size, out.Nlink, out.Mode = n.inos+uint64(f.id), uint64(len(f.data)), 1, syscall.S_IFREG|0o600
		if f.dir != nil {
			out.Mode = syscall.S_IFDIR | 0o700
		}
		return 0
	})
}

// Lookup finds a name.
func (n *fuseNode) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	var id nodeID
	if errno := n.d.with(n.id, func(f *fileNode) syscall.Errno {
		var ok bool
		if id, ok = f.dir[name]; !ok {
			return syscall.ENOENT
		}
		return 0
	}); errno != 0 {
		return nil, errno
	}
	return n.enter(ctx, &n.Inode, id, out)
}

// Getattr tells kind and size.
func (n *fuseNode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return n.attr(&out.Attr)
}

// Setattr truncates; other attributes do not matter.
func (n *fuseNode) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		if errno := n.d.truncate(n.id, int64(size)); errno != 0 {
			return errno
		}
	}
	return n.attr(&out.Attr)
}

// Readdir lists a directory.
func (n *fuseNode) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	var list []fuse.DirEntry
	errno := n.d.with(n.id, func(f *fileNode) syscall.Errno {
		for name, id := range f.dir {
			mode := uint32(syscall.S_IFREG)
			if n.d.nodes[id].dir != nil {
				mode = syscall.S_IFDIR
			}
			list = append(list, fuse.DirEntry{Name: name, Mode: mode, Ino: n.inos + uint64(id)})
		}
		return 0
	})
	return fs.NewListDirStream(list), errno
}

// Create makes a file and opens it.
func (n *fuseNode) Create(ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	id, errno := n.d.create(n.id, name, false)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	inode, errno := n.enter(ctx, &n.Inode, id, out)
	return inode, nil, 0, errno
}

// Mkdir makes a directory.
func (n *fuseNode) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	id, errno := n.d.create(n.id, name, true)
	if errno != 0 {
		return nil, errno
	}
	return n.enter(ctx, &n.Inode, id, out)
}

// Unlink removes a file's name.
func (n *fuseNode) Unlink(_ context.Context, name string) syscall.Errno {
	return n.d.unlink(n.id, name, false)
}

// Rmdir removes an empty directory.
func (n *fuseNode) Rmdir(_ context.Context, name string) syscall.Errno {
	return n.d.unlink(n.id, name, true)
}

// Rename moves a name.
func (n *fuseNode) Rename(_ context.Context, name string, parent fs.InodeEmbedder, to string, flags uint32) syscall.Errno {
	target, ok := parent.(*fuseNode)
	if !ok || target.d != n.d {
		return syscall.EXDEV
	}
	if flags != 0 {
		return syscall.EINVAL
	}
	return n.d.rename(n.id, name, target.id, to)
}

// Open needs no handle.
func (n *fuseNode) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if flags&syscall.O_TRUNC != 0 {
		if errno := n.d.truncate(n.id, 0); errno != 0 {
			return nil, 0, errno
		}
	}
	return nil, 0, 0
}

// Read reads.
func (n *fuseNode) Read(_ context.Context, _ fs.FileHandle, into []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	got, errno := n.d.read(n.id, into, off)
	return fuse.ReadResultData(into[:got]), errno
}

// Write writes.
func (n *fuseNode) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	return uint32(len(data)), n.d.write(n.id, data, off) // of a failed write nobody counts the bytes
}

// Fsync syncs a file or a directory.
func (n *fuseNode) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return n.d.sync(n.id) }

// Flush must not be asked for at the end of a process.
func (n *fuseNode) Flush(context.Context, fs.FileHandle) syscall.Errno { return syscall.ENOSYS }

// Statfs shows a disk with plenty of room.
func (n *fuseNode) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	out.Bsize, out.Frsize, out.Blocks, out.Bfree, out.Bavail = 4096, 4096, 1<<24, 1<<24, 1<<24
	out.Files, out.Ffree, out.NameLen = 1<<20, 1<<20, 255
	return 0
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// where names a step for a message.
func (o *op) where() string {
	what := map[opKind]string{opWrite: "write", opTruncate: "truncate", opLink: "create", opUnlink: "remove", opRename: "rename", opSync: "sync", opSyncFailed: "failed sync"}[o.kind]
	return fmt.Sprintf("%s of %s", what, o.path)
}
