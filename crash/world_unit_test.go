package crash

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shape writes an image as "path=content" and "path/".
func (s *snap) shape(path string) string {
	if s.dir == nil {
		return path + "=" + string(s.data) + " "
	}
	out := ""
	if path != "" {
		out = path + "/ "
	}
	for _, name := range slices.Sorted(maps.Keys(s.dir)) {
		out += s.dir[name].shape(path + "/" + name)
	}
	return out
}

// after is the world behind all steps of a disk.
func (d *disk) after() *world {
	w := newWorld(d.base, d.trace())
	for w.at < len(w.ops) {
		w.step()
	}
	return w
}

func (d *disk) shows(t *testing.T, v int, want string) {
	t.Helper()
	if got := strings.TrimSpace(d.after().image(&variants[v], 1).shape("")); got != want {
		t.Fatalf("%s: %q, want %q", variants[v].name, got, want)
	}
}

const (
	allLost  = 0
	allKept  = 1
	dataLost = 5
	nameLost = 7
)

func file(t *testing.T, d *disk, dir nodeID, name, text string) nodeID {
	t.Helper()
	id, errno := d.create(dir, name, false)
	if errno == 0 {
		errno = d.write(id, []byte(text), 0)
	}
	if errno != 0 {
		t.Fatal(errno)
	}
	return id
}

func TestACutKeepsWhatWasSyncedAndNothingElse(t *testing.T) {
	d := newDisk(emptyDir())
	id := file(t, d, rootNode, "a", "one")
	d.shows(t, allLost, "")
	d.shows(t, allKept, "/a=one")
	d.sync(id)
	d.shows(t, allLost, "") // its name is not synced
	d.shows(t, dataLost, "/a=one")
	d.sync(rootNode)
	d.shows(t, allLost, "/a=one")
	d.write(id, []byte("two"), 3)
	d.truncate(id, 4)
	d.shows(t, allLost, "/a=one")
	d.shows(t, allKept, "/a=onet")
	d.sync(rootNode)
	d.shows(t, allLost, "/a=one")
	d.sync(id)
	d.shows(t, allLost, "/a=onet")
}

func TestARenameIsLostOrKeptInBothDirectories(t *testing.T) {
	d := newDisk(emptyDir())
	from, _ := d.create(rootNode, "from", true)
	to, _ := d.create(rootNode, "to", true)
	d.sync(rootNode)
	d.sync(file(t, d, from, "a", "x"))
	d.rename(from, "a", to, "b")
	d.shows(t, allLost, "/from/ /to/")
	d.shows(t, allKept, "/from/ /to/ /to/b=x")
	d.sync(to)
	d.shows(t, allLost, "/from/ /to/ /to/b=x")
	d.sync(from)
	d.shows(t, allLost, "/from/ /to/ /to/b=x")
}

func TestRemovedAndReplacedNamesComeBackAtACut(t *testing.T) {
	d := newDisk(emptyDir())
	d.sync(file(t, d, rootNode, "a", "old"))
	d.sync(rootNode)
	d.sync(file(t, d, rootNode, "a.tmp", "new"))
	d.rename(rootNode, "a.tmp", rootNode, "a")
	d.shows(t, allLost, "/a=old")
	d.shows(t, allKept, "/a=new")
	d.sync(rootNode)
	d.unlink(rootNode, "a", false)
	d.shows(t, nameLost, "/a=new")
	d.shows(t, allKept, "")
	d.sync(rootNode)
	d.shows(t, allLost, "")
}

func TestASyncCoversOnlyWhatWasThereWhenItBegan(t *testing.T) {
	d := newDisk(emptyDir())
	id := file(t, d, rootNode, "a", "one")
	d.sync(rootNode)
	began := make(chan struct{})
	d.slow = func(string) time.Duration { close(began); return 50 * time.Millisecond }
	done := make(chan syscall.Errno)
	go func() { done <- d.sync(id) }()
	<-began
	d.write(id, []byte("two"), 3)
	if errno := <-done; errno != 0 {
		t.Fatal(errno)
	}
	d.shows(t, allLost, "/a=one")
	d.shows(t, allKept, "/a=onetwo")
}

func TestNothingHappensBehindACut(t *testing.T) {
	d := newDisk(emptyDir())
	id := file(t, d, rootNode, "a", "one")
	d.cut()
	if errno := d.write(id, []byte("two"), 0); errno != syscall.EIO {
		t.Fatalf("write: %v", errno)
	}
	if errno := d.sync(id); errno != syscall.EIO {
		t.Fatalf("sync: %v", errno)
	}
	if n := len(d.trace()); n != 2 {
		t.Fatalf("%d steps", n)
	}
}

// Random steps, and a simple rule for each image: what a variant keeps is
// made of what was ever there.
func TestImagesAreTheSameEachTimeAndLoadAsTheyAre(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	d := newDisk(emptyDir())
	dirs, files := []nodeID{rootNode}, []nodeID{}
	for range 400 {
		dir, name := dirs[r.IntN(len(dirs))], string(rune('a'+r.IntN(8)))
		switch r.IntN(7) {
		case 0:
			if id, errno := d.create(dir, name, true); errno == 0 {
				dirs = append(dirs, id)
			}
		case 1, 2:
			if id, errno := d.create(dir, name, false); errno == 0 {
				files = append(files, id)
			}
		case 3:
			d.unlink(dir, name, false)
		case 4:
			d.sync(dir)
		default:
			if len(files) > 0 {
				id := files[r.IntN(len(files))]
				d.write(id, []byte(name), int64(r.IntN(9)))
				if r.IntN(3) == 0 {
					d.sync(id)
				}
			}
		}
	}
	w := newWorld(d.base, d.trace())
	for w.at < len(w.ops) {
		w.step()
		for i := range variants {
			image := w.image(&variants[i], 7)
			if again := w.image(&variants[i], 7); again.sum() != image.sum() {
				t.Fatalf("%s differs behind step %d", variants[i].name, w.at)
			}
			next := newDisk(image)
			if got := newWorld(next.base, nil).image(&variants[allLost], 0); got.sum() != image.sum() {
				t.Fatalf("%s loads as another", variants[i].name)
			}
		}
	}
}

func TestWhatAFailedSyncWasToCoverIsLostAlthoughALaterOneSucceeds(t *testing.T) {
	d := newDisk(emptyDir())
	id := file(t, d, rootNode, "a", "one")
	d.sync(rootNode)
	d.sync(id)
	d.write(id, []byte("two"), 3)
	d.fail = func(opKind, string) syscall.Errno { return syscall.EIO }
	if errno := d.sync(id); errno != syscall.EIO {
		t.Fatalf("sync: %v", errno)
	}
	d.fail = nil
	d.shows(t, allKept, "/a=onetwo")
	d.write(id, []byte("three"), 6)
	d.sync(id)
	d.shows(t, allLost, "/a=one\x00\x00\x00three")
	if got := strings.TrimSpace(d.now().shape("")); got != "/a=onetwothree" {
		t.Fatalf("while the power is on: %q", got)
	}
}

func TestAFailedWriteIsHalfDone(t *testing.T) {
	d := newDisk(emptyDir())
	id := file(t, d, rootNode, "a", "")
	d.fail = func(kind opKind, _ string) syscall.Errno {
		if kind == opWrite {
			return syscall.ENOSPC
		}
		return 0
	}
	if errno := d.write(id, []byte("four"), 0); errno != syscall.ENOSPC {
		t.Fatalf("write: %v", errno)
	}
	d.shows(t, allKept, "/a=fo")
}
