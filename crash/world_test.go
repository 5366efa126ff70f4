package crash

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// world is what a disk holds safely, and what it may hold, behind a number of
// steps.
type world struct {
	ops   []op
	at    int // steps that have been done
	nodes map[nodeID]*safeNode
}

// safeNode is what is synced of a file or directory, and what is not.
type safeNode struct {
	entries map[string]nodeID // nil: a file
	data    []byte
	pending []int // steps that no sync covers, in order
	doomed  int   // steps below: a sync that was to cover them failed
}

// newWorld begins before the first step of a disk.
func newWorld(base *snap, ops []op) *world {
	w := &world{ops: ops, nodes: map[nodeID]*safeNode{}}
	w.load(base)
	return w
}

func (w *world) load(s *snap) {
	n := &safeNode{data: slices.Clone(s.data)}
	w.nodes[s.id] = n
	if s.dir == nil {
		return
	}
	n.entries = map[string]nodeID{}
	for name, child := range s.dir {
		n.entries[name] = child.id
		w.load(child)
	}
}

// step does the next step.
func (w *world) step() {
	i, o := w.at, &w.ops[w.at]
	w.at++
	switch o.kind {
	case opWrite, opTruncate:
		w.nodes[o.node].pending = append(w.nodes[o.node].pending, i)
	case opLink:
		n := &safeNode{}
		if o.isDir {
			n.entries = map[string]nodeID{}
		}
		w.nodes[o.node] = n
		w.nodes[o.dir].pending = append(w.nodes[o.dir].pending, i)
	case opUnlink:
		w.nodes[o.dir].pending = append(w.nodes[o.dir].pending, i)
	case opRename:
		w.nodes[o.dir].pending = append(w.nodes[o.dir].pending, i)
		if o.dir2 != o.dir {
			w.nodes[o.dir2].pending = append(w.nodes[o.dir2].pending, i)
		}
	case opSync:
		w.settle(o.node, o.begin)
	case opSyncFailed:
		w.nodes[o.node].doomed = max(w.nodes[o.node].doomed, o.begin)
	}
}

// settle makes the steps of a node below begin safe, and forgets those whose
// own sync failed: the system took their pages for clean then.
func (w *world) settle(id nodeID, begin int) {
	n := w.nodes[id]
	for len(n.pending) > 0 && n.pending[0] < begin {
		i := n.pending[0]
		n.pending = n.pending[1:]
		o := &w.ops[i]
		if i < n.doomed {
			continue
		}
		if n.entries == nil {
			n.data = o.change(n.data, o.data)
			continue
		}
		o.relink(id, n.entries)
		if o.kind == opRename && o.dir != o.dir2 {
			// A rename happens in both directories or in none, and with it
			// whatever brought the name to where it was.
			other := o.dir + o.dir2 - id
			w.settleNode(other, o.node, i)
		}
	}
}

// settleNode makes the steps of a directory that concern one node safe,
// through step i.
func (w *world) settleNode(dir, node nodeID, i int) {
	d := w.nodes[dir]
	rest := d.pending[:0:0]
	for _, j := range d.pending {
		if o := &w.ops[j]; o.node == node && j <= i {
			o.relink(dir, d.entries)
		} else {
			rest = append(rest, j)
		}
	}
	d.pending = rest
}

// change does a write of data, or a truncate, to a file.
func (o *op) change(file, data []byte) []byte {
	if o.kind == opTruncate {
		return resize(file, o.size)
	}
	return overwrite(file, data, o.off)
}

// relink does to the entries of a directory what a step does to them.
func (o *op) relink(dir nodeID, entries map[string]nodeID) {
	if o.kind == opLink {
		entries[o.name] = o.node
		return
	}
	if o.dir == dir && entries[o.name] == o.node {
		delete(entries, o.name)
	}
	if o.kind == opRename && o.dir2 == dir {
		entries[o.to] = o.node
	}
}

// fate is what becomes of a step that was not synced.
type fate uint8

const (
	lost fate = iota
	kept
	prefix  // of a write: the first bytes
	zeroed  // of a write: the length, but zeros
	garbled // of a write: the length, and anything
)

// variant is one of the things a disk may hold behind a cut.
type variant struct {
	name    string
	shuffle bool // writes arrive in any order
	// fate decides about one step. last: no write is newer.
	fate func(r *rand.Rand, o *op, last bool) fate
}

// isWrite tells changes of files from those of directories.
func (o *op) isWrite() bool { return o.kind == opWrite || o.kind == opTruncate }

// torn keeps all but the last write, which meets its fate.
func torn(f fate) func(*rand.Rand, *op, bool) fate {
	return func(_ *rand.Rand, o *op, last bool) fate {
		if last && o.kind == opWrite {
			return f
		}
		return kept
	}
}

// subset keeps steps at random, and tears some writes.
func subset(r *rand.Rand, o *op, _ bool) fate {
	if o.kind == opWrite && r.IntN(3) == 0 {
		return prefix + fate(r.IntN(3))
	}
	return fate(r.IntN(2))
}

var variants = []variant{
	{name: "everything unsynced lost", fate: func(*rand.Rand, *op, bool) fate { return lost }},
	{name: "everything kept", fate: func(*rand.Rand, *op, bool) fate { return kept }},
	{name: "last write torn", fate: torn(prefix)},
	{name: "last write zeroed", fate: torn(zeroed)},
	{name: "last write garbled", fate: torn(garbled)},
	{name: "names kept, data lost", fate: func(_ *rand.Rand, o *op, _ bool) fate {
		if o.isWrite() {
			return lost
		}
		return kept
	}},
	{name: "names kept, data zeroed", fate: func(_ *rand.Rand, o *op, _ bool) fate {
		if o.kind == opWrite {
			return zeroed
		}
		return kept
	}},
	{name: "data kept, names lost", fate: func(_ *rand.Rand, o *op, _ bool) fate {
		if o.isWrite() {
			return kept
		}
		return lost
	}},
	{name: "subset 1", shuffle: true, fate: subset},
	{name: "subset 2", shuffle: true, fate: subset},
	{name: "subset 3", shuffle: true, fate: subset},
	{name: "subset of names", fate: func(r *rand.Rand, o *op, _ bool) fate {
		if o.isWrite() {
			return kept
		}
		return fate(r.IntN(2))
	}},
}

// image is what the disk holds when the power goes now. The same number of
// steps, variant and seed give the same image.
func (w *world) image(v *variant, seed uint64) *snap {
	im := imager{w: w, v: v, r: rand.New(rand.NewPCG(seed, uint64(w.at))), fates: map[int]fate{}, last: -1}
	for _, n := range w.nodes {
		for _, i := range n.pending {
			if w.ops[i].kind == opWrite {
				im.last = max(im.last, i)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.nodes)) { // in a fixed order
		for _, i := range w.nodes[id].pending {
			if _, ok := im.fates[i]; !ok {
				im.fates[i] = v.fate(im.r, &w.ops[i], i == im.last)
			}
		}
	}
	return im.node(rootNode)
}

type imager struct {
	w     *world
	v     *variant
	r     *rand.Rand
	fates map[int]fate
	last  int
}

func (im *imager) node(id nodeID) *snap {
	n := im.w.nodes[id]
	if n.entries == nil {
		return &snap{id: id, data: im.file(n)}
	}
	entries := maps.Clone(n.entries)
	for _, i := range n.pending {
		if im.fates[i] != lost {
			im.w.ops[i].relink(id, entries)
		}
	}
	s := &snap{id: id, dir: map[string]*snap{}}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		s.dir[name] = im.node(entries[name])
	}
	return s
}

// file is the content of a file. Truncates stay in their place.
func (im *imager) file(n *safeNode) []byte {
	steps := slices.DeleteFunc(slices.Clone(n.pending), func(i int) bool { return im.fates[i] == lost })
	onlyWrites := !slices.ContainsFunc(steps, func(i int) bool { return im.w.ops[i].kind != opWrite })
	if im.v.shuffle && onlyWrites {
		im.r.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	}
	data := slices.Clone(n.data)
	for _, i := range steps {
		o := &im.w.ops[i]
		data = o.change(data, im.torn(o, im.fates[i]))
	}
	return data
}

// torn is what arrives of a write.
func (im *imager) torn(o *op, f fate) []byte {
	switch data := o.data; f {
	case prefix:
		return data[:im.r.IntN(len(data)+1)]
	case zeroed:
		return make([]byte, len(data))
	case garbled:
		out := make([]byte, len(data))
		for i := range out {
			out[i] = byte(im.r.Uint32())
		}
		return out
	default:
		return data
	}
}

// sum tells images apart.
func (s *snap) sum() uint64 {
	h := xxhash.New()
	s.addTo(h)
	return h.Sum64()
}

func (s *snap) addTo(h *xxhash.Digest) {
	var size [8]byte
	binary.LittleEndian.PutUint64(size[:], uint64(len(s.data)))
	if s.dir == nil {
		_, _ = h.Write(append([]byte{'f'}, size[:]...))
		_, _ = h.Write(s.data)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.dir)) {
		_, _ = h.WriteString(fmt.Sprintf("d%q", name))
		s.dir[name].addTo(h)
	}
	_, _ = h.WriteString("end")
}

// writeTo puts an image on a real file system.
func (s *snap) writeTo(path string) error {
	if s.dir == nil {
		return os.WriteFile(path, s.data, 0o600)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	for name, child := range s.dir {
		if err := child.writeTo(filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}
