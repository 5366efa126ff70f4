package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"queend"
	"queend/index"
	"queend/sched"
)

// chainHouse is where a fuzzer puts checkpoints: a directory without a log.
type chainHouse struct {
	dir  *dataDir
	base []byte // a checkpoint that is whole
}

// chainPrev is where a header has the number of the checkpoint before.
const chainPrev = 28

// exampleSegment is the size of the one segment file that is there.
const exampleSegment = 1000

func newChainHouse(t testing.TB) chainHouse {
	h := chainHouse{&dataDir{path: t.TempDir()}, chainFileOf(t, exampleImages())}
	for _, dir := range []string{h.dir.checkpoints(), h.dir.segments()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(h.dir.segment(1), make([]byte, exampleSegment), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// put writes a checkpoint. The one who calls it removes it.
func (h chainHouse) put(t testing.TB, name string, file []byte) (path string) {
	path = filepath.Join(h.dir.checkpoints(), name)
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// load takes a file as boot takes a checkpoint, a delta as that of the base in
// h: what cannot be used is an error, and the rest is a state that a broker can
// go on from.
func (h chainHouse) load(t testing.TB, file []byte) error {
	name := "00000000000000000001.base"
	if len(file) >= chainHeader && binary.LittleEndian.Uint64(file[chainPrev:]) != 0 {
		name = "00000000000000000002.delta"
		defer os.Remove(h.put(t, "00000000000000000001.base", h.base))
	}
	defer os.Remove(h.put(t, name, file))
	found, err := findChains(h.dir.checkpoints())
	if err != nil {
		return err
	}
	b := &Broker{state: newState()}
	b.cfg.Dir, b.cfg.StatDisk, b.cfg.Now = h.dir.path, roomy, func() int64 { return 1_700_000_000 * Second }
	b.cfg.fill()
	b.storage.init(b, h.dir)
	if _, _, err := b.loadChain(found); err != nil {
		return err
	}
	if err := b.checkWhole(); err != nil {
		return err
	}
	b.wheel = sched.New(b.now())
	b.deriveStorage()
	b.live = true
	b.rebuild()
	b.initTraces()
	return nil
}

// sealChain makes the checksums of a checkpoint right as far as its structure
// leads, and makes it the first base or a delta of it. It leaves frames alone
// that claim more than a MiB, which is not worth a fuzzer's time.
func sealChain(file []byte) {
	if len(file) < chainHeader {
		return
	}
	sum := func(b []byte) {
		binary.LittleEndian.PutUint32(b[len(b)-4:], crc32.Checksum(b[:len(b)-4], crcTable))
	}
	serial := uint64(1)
	if binary.LittleEndian.Uint64(file[chainPrev:]) != 0 {
		serial = 2
		binary.LittleEndian.PutUint64(file[chainPrev:], 1)
	}
	binary.LittleEndian.PutUint64(file[12:], serial)
	binary.LittleEndian.PutUint64(file[20:], 1)
	sum(file[:chainHeader])
	pos, frames := chainHeader, uint32(0)
	for len(file)-pos >= chainFrame {
		b := file[pos:]
		stored := binary.LittleEndian.Uint32(b)
		if stored == 0 {
			if len(b) >= chainTrailer {
				binary.LittleEndian.PutUint32(b[4:], frames)
				binary.LittleEndian.PutUint64(b[16:], uint64(len(file)))
				sum(b[:chainTrailer])
			}
			return
		}
		if uint64(stored) > uint64(len(b)-chainFrame) || binary.LittleEndian.Uint32(b[4:]) > 1<<20 {
			return
		}
		data := b[chainFrame : chainFrame+stored]
		binary.LittleEndian.PutUint32(b[8:], frameSum(serial, frames, b[:8], data))
		pos += chainFrame + int(stored)
		frames++
	}
}

// FuzzCheckpointFile reads whole checkpoint files, with checksums as they come
// and with right ones. The seeds under testdata are those of a running broker.
func FuzzCheckpointFile(f *testing.F) {
	h := newChainHouse(f)
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, file []byte, sealed bool) {
		file = bytes.Clone(file)
		if sealed {
			sealChain(file)
		}
		_ = h.load(t, file)
	})
}

// chainFileOf is the base checkpoint with these entries, in one frame.
func chainFileOf(t testing.TB, entries []byte) []byte {
	var file bytes.Buffer
	w := &chainWriter{w: &file, link: chainLink{serial: 1, base: 1}, zstd: chainEncoder()}
	if err := errors.Join(w.write(w.link.encode()), w.frame(entries), w.write(make([]byte, chainTrailer))); err != nil {
		t.Fatal(err)
	}
	sealChain(file.Bytes())
	return file.Bytes()
}

// chainEncoder is made once: that takes longer than what a fuzzer does with it.
var chainEncoder = sync.OnceValue(func() *zstd.Encoder {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	return enc
})

// cutEntries makes whole entries of any bytes: every length is cut to what is
// there.
func cutEntries(b []byte) []byte {
	b = bytes.Clone(b)
	for pos := 0; pos < len(b); {
		if len(b)-pos < 4 {
			return b[:pos]
		}
		n := min(binary.LittleEndian.Uint32(b[pos:]), uint32(len(b)-pos-4))
		binary.LittleEndian.PutUint32(b[pos:], n)
		pos += 4 + int(n)
	}
	return b
}

// FuzzCheckpointEntries loads any entries as a checkpoint without a fault in
// its frames: an error or a state, and memory in proportion.
func FuzzCheckpointEntries(f *testing.F) {
	h := newChainHouse(f)
	for _, entries := range exampleEntries() {
		f.Add(entries)
	}
	f.Fuzz(func(t *testing.T, entries []byte) {
		entries = cutEntries(entries)
		if len(entries) == 0 || len(entries) > frameBytes {
			return
		}
		file := chainFileOf(t, entries)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_ = h.load(t, file)
		runtime.ReadMemStats(&after)
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 64<<20+400*uint64(len(entries)) {
			t.Fatalf("%d bytes of entries took %d bytes of memory", len(entries), spent)
		}
	})
}

// exampleEntries are the image of a small world, and each event alone.
func exampleEntries() [][]byte {
	all := [][]byte{exampleImages()}
	for _, ev := range exampleEvents() {
		var e encoder
		e.entry(ev.encode)
		all = append(all, e.buf)
	}
	return all
}

// exampleImages are the entries of a checkpoint that has one of every record.
func exampleImages() []byte {
	b := &Broker{state: newState()}
	b.cfg.fill()
	b.storage.init(b, &dataDir{})
	b.tracker.loaded()
	id := func(n byte) queend.ID { return queend.ID{0: 1, 6: 0x70, 15: n} }
	run := index.Run{File: 1, First: 0, Last: 4, PayloadFrom: 1, Pos: 24, Size: 35, Bytes: 36, LastTime: 37}
	for _, ev := range []event{
		&queueSet{id: 1, uuid: id(1), tenant: DefaultTenant, name: "q.t", namespace: "q", task: "t", opts: DefaultOptions()},
		&partitionNew{id: 1, queue: 1, uuid: id(2), name: "p", created: 6},
		&partitionNew{id: 2, queue: 1, uuid: id(3), created: 6, internal: true},
		&groupSet{id: 1, queue: 1, name: "g", mode: "all", seed: always, start: always, seedMax: 2, popped: true},
		&fileNew{id: 1, bytes: exampleSegment},
		&fileRuns{id: 1, runs: []placedRun{{partition: 1, run: run}}},
		&rowSet{partition: 1, row: row{group: 1, committed: 1, lane: &lane{lease: id(4), leaseUntil: 16, batchEnd: 3, attemptEnd: 3, attempts: 1}}},
		&labelSet{labelKey: labelKey{tenant: DefaultTenant, namespace: "q", group: "g"}, mode: "all", seed: always},
		&deadLettered{id: id(5), queue: 1, group: "g", partition: 1, offset: 0, at: 0},
		&spoolDrained{spoolPlace{file: 5, pos: 39}},
	} {
		ev.apply(b, int64(Second))
	}
	b.tracker.cut()
	b.state.miscImage(&b.tracker.images)
	(&walk{b: b, every: 1 << 30}).everything()
	return b.tracker.take(nil)
}

// A world that the fuzzer starts from must be one that loads, or it fuzzes
// nothing but refusals.
func TestTheExampleCheckpointLoads(t *testing.T) {
	h := newChainHouse(t)
	if err := h.load(t, chainFileOf(t, exampleImages())); err != nil {
		t.Fatal(err)
	}
}
