// Package index knows what is where: which runs of which segment files hold
// the messages of a partition, and which files are live, pinned or dead. It
// is rebuilt from the log and its checkpoints, never the only copy.
package index

import (
	"slices"
	"sort"

	"queend"
)

// Run places consecutive offsets of one partition in a segment file.
// Invariant: First <= Last; runs of a partition do not overlap.
type Run struct {
	File        queend.FileID
	First       queend.Offset
	Last        queend.Offset
	PayloadFrom queend.Offset // below it only ids are kept
	Pos         uint64        // of the run's descriptor in the file, bytes
	Size        uint32        // of the descriptor, bytes
	Bytes       uint64        // stored bytes of the run
	LastTime    int64         // of the last message, microseconds
	// Low and High bound the ids of the run as the package that reads it has
	// them. They are no part of what is logged: 0 and 0 until somebody looked.
	Low, High uint64
}

// Runs are the runs of one partition, in rising order of offset, joined
// without gaps.
type Runs []Run

// First is the lowest offset any run holds, ok false when there is none.
func (r Runs) First() (queend.Offset, bool) {
	if len(r) == 0 {
		return queend.NoOffset, false
	}
	return r[0].First, true
}

// At returns the position of the run that holds off, or of the first one
// above it; len(r) when all are below.
func (r Runs) At(off queend.Offset) int {
	return sort.Search(len(r), func(i int) bool { return r[i].Last >= off })
}

// SinceTime returns the position of the first run whose last message is not
// older than t; len(r) when all are.
func (r Runs) SinceTime(t int64) int {
	return sort.Search(len(r), func(i int) bool { return r[i].LastTime >= t })
}

// Overlapping returns the runs that hold offsets in [from, to]. The result
// aliases r.
func (r Runs) Overlapping(from, to queend.Offset) Runs {
	i := r.At(from)
	j := i
	for j < len(r) && r[j].First <= to {
		j++
	}
	return r[i:j]
}

// Insert adds a run above all others; replaying it again changes nothing.
func (r Runs) Insert(run Run) Runs {
	if n := len(r); n > 0 && r[n-1].Last >= run.First {
		return r
	}
	return append(r, run)
}

// Replace puts run in the place of the runs that are in one of the files
// named gone and begin at or below its last offset, and keeps the order.
func (r Runs) Replace(gone []queend.FileID, run Run) Runs {
	kept := slices.DeleteFunc(slices.Clone(r), func(x Run) bool {
		return x.First <= run.Last && slices.Contains(gone, x.File)
	})
	i := sort.Search(len(kept), func(i int) bool { return kept[i].First >= run.First })
	return slices.Insert(kept, i, run)
}
