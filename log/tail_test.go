package log

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"

	"queend"
)

// tearings change a file so that what stands from byte at on is not what was
// written. end is the end of the last group.
var tearings = map[string]func(data []byte, at int) []byte{
	"cut":       func(data []byte, at int) []byte { return data[:at] },
	"zero fill": func(data []byte, at int) []byte { clear(data[at:]); return data },
	"long zero fill": func(data []byte, at int) []byte {
		return append(data[:at], make([]byte, 4096)...)
	},
	"garbage": func(data []byte, at int) []byte {
		r := rand.NewPCG(1, uint64(at))
		for i := at; i < len(data); i++ {
			data[i] ^= byte(r.Uint64()) | 1
		}
		return data
	},
	"bit flip": func(data []byte, at int) []byte {
		if at < len(data) {
			data[at] ^= 1 << (at % 8)
		}
		return data
	},
}

// F4: a record that a crash had cut off kept the server from starting.
func TestTornTailAtEveryByteIsCut(t *testing.T) {
	d := newDisk(t)
	l, _ := d.open(t)
	add(t, l, 3)
	last := d.groups(t)[2]
	whole, err := os.ReadFile(last.File)
	must(t, err)
	crashed := d.crash(t)
	path := crashed.segmentPath(1, 1)
	for name, tear := range tearings {
		t.Run(name, func(t *testing.T) {
			for at := int(last.Offset); at < len(whole); at++ {
				torn := tear(bytes.Clone(whole), at)
				must(t, os.RemoveAll(crashed.root))
				must(t, os.MkdirAll(crashed.c.Dir+"/"+numberName(1), dirPerm))
				must(t, os.WriteFile(path, torn, filePerm))
				checkCut(t, crashed, torn[last.Offset:])
				if info, err := os.Stat(path); err != nil || info.Size() != last.Offset {
					t.Errorf("the tail is still in the log: %v, %v", info.Size(), err)
				}
				if t.Failed() {
					t.Fatalf("torn at byte %d", at)
				}
			}
		})
	}
}

// checkCut opens a log of two records with a tail, and again after the repair.
func checkCut(t *testing.T, d disk, tail []byte) {
	t.Helper()
	l, rec, err := d.tryOpen(t)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Last != 2 || rec.Cut != int64(len(tail)) {
		t.Errorf("recovered %+v, want LSN 2 and %d bytes cut", rec, len(tail))
	}
	if len(tail) > 0 {
		kept, err := os.ReadFile(rec.CutFile)
		if err != nil || !bytes.Equal(kept, tail) {
			t.Errorf("%d bytes kept of %d: %v", len(kept), len(tail), err)
		}
	}
	add(t, l, 1)
	must(t, l.Close())
	l, rec, err = d.tryOpen(t)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Last != 3 || rec.Cut != 0 {
		t.Errorf("second boot recovered %+v", rec)
	}
	must(t, l.Close())
}

// F4: a record that a crash had cut off kept the server from starting.
func TestGarbageBehindWholeGroupsIsCut(t *testing.T) {
	d := newDisk(t)
	l, _ := d.open(t)
	add(t, l, 2)
	garbage := make([]byte, 64)
	r := rand.NewPCG(1, 2)
	tails := [][]byte{{0}, make([]byte, 100), make([]byte, 4096), bytes.Repeat([]byte{1}, 32), []byte(magic)}
	for range 50 {
		for i := range garbage {
			garbage[i] = byte(r.Uint64())
		}
		tails = append(tails, bytes.Clone(garbage))
	}
	for _, tail := range tails {
		crashed := d.crash(t)
		edit(t, crashed.segmentPath(1, 1), func(data []byte) []byte { return append(data, tail...) })
		checkCut(t, crashed, tail)
	}
}

func TestCopyOfAGroupInsideATornRecordIsNoProof(t *testing.T) {
	d := newDisk(t)
	l, _ := d.open(t)
	add(t, l, 2)
	// A message that holds a valid group which claims a high durable LSN.
	forged := appendGroup(nil, header{generation: 1, salt: 7, first: 900, durable: 899}, [][]byte{{1}})
	lsn := l.Append(append(forged, make([]byte, 50)...))
	must(t, l.Wait(t.Context(), lsn))
	crashed := d.crash(t)
	edit(t, crashed.segmentPath(1, 1), func(data []byte) []byte { return data[:len(data)-10] })
	if _, rec := crashed.open(t); rec.Last != 2 {
		t.Fatalf("recovered %+v", rec)
	}
}

// unsynced writes five groups that were never synced.
func unsynced(t *testing.T) (disk, []Group) {
	d := newDisk(t)
	d.c.Sync = SyncNever
	l, _ := d.open(t)
	add(t, l, 5)
	return d.crash(t), d.groups(t)
}

func TestSeveralUnsyncedGroupsMayBeLost(t *testing.T) {
	d, groups := unsynced(t)
	for i, g := range groups {
		crashed := d.crash(t)
		edit(t, crashed.segmentPath(1, 1), func(data []byte) []byte {
			clear(data[g.Offset:][:g.length]) // a page that did not get to the disk; later ones did
			return data
		})
		_, rec := crashed.open(t)
		if rec.Last != queend.LSN(i) || rec.Copied != i {
			t.Fatalf("hole at group %d: %+v", i, rec)
		}
	}
}

func TestUnprovenGroupsSurviveTheLossOfTheirFirstCopy(t *testing.T) {
	d, groups := unsynced(t)
	l, rec := d.open(t)
	if rec.Copied != 5 {
		t.Fatalf("%d records copied, want 5", rec.Copied)
	}
	add(t, l, 1)
	crashed := d.crash(t)
	// The old generation's pages never reach the disk.
	edit(t, crashed.segmentPath(1, 1), func(data []byte) []byte { return data[:groups[0].Offset] })
	if _, rec := crashed.open(t); rec.Last != 6 {
		t.Fatalf("recovered %+v", rec)
	}
}

// F5: so did a newest file without a whole header.
func TestEmptyAndHalfBegunNewestFilesAreDropped(t *testing.T) {
	half := appendGroup(nil, header{generation: 1, salt: 1, first: 3}, nil)[:headerBytes/2]
	for name, file := range map[string]struct {
		generation, segment uint64
		data                []byte
	}{
		"empty next segment":           {1, 4, nil},
		"half a header, next segment":  {1, 4, half},
		"empty far segment":            {1, 9, nil},
		"half a header, far segment":   {1, 9, half},
		"empty first segment":          {2, 1, nil},
		"half a header, first segment": {2, 1, half},
		"zeros in a generation":        {2, 1, make([]byte, 4096)},
		"far segment in a generation":  {2, 7, half},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t)
			l, _ := d.open(t)
			add(t, l, 2)
			crashed := d.crash(t)
			path := crashed.segmentPath(file.generation, file.segment)
			must(t, os.MkdirAll(crashed.c.Dir+"/"+numberName(file.generation), dirPerm))
			must(t, os.WriteFile(path, file.data, filePerm))
			checkCut(t, crashed, file.data)
		})
	}
}

// F5: so did a newest file without a whole header.
func TestEmptyNewestGenerationIsDropped(t *testing.T) {
	d := newDisk(t)
	l, _ := d.open(t)
	add(t, l, 2)
	crashed := d.crash(t)
	must(t, os.Mkdir(crashed.c.Dir+"/"+numberName(2), dirPerm))
	must(t, os.Mkdir(crashed.c.Dir+"/"+numberName(3)+tmpSuffix, dirPerm))
	must(t, os.Mkdir(crashed.c.Dir+"/"+numberName(4)+droppedSuffix, dirPerm))
	checkCut(t, crashed, nil)
}
