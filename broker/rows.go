package broker

import (
	"cmp"
	"iter"
	"slices"

	"queend"
)

// rows are those of one partition, by rising group number. Most partitions
// have one or none, which needs no array.
// Invariant: rest is nil or holds rows of higher groups than first.
type rows struct {
	first *row
	rest  *[]*row
}

// find returns the row of a group, nil when there is none.
func (r *rows) find(g queend.GroupID) *row {
	if r.first == nil || r.first.group == g {
		return r.first
	}
	if r.rest == nil {
		return nil
	}
	if i, found := slices.BinarySearchFunc(*r.rest, g, byGroup); found {
		return (*r.rest)[i]
	}
	return nil
}

// put inserts or replaces the row of a group.
func (r *rows) put(x *row) {
	switch {
	case r.first == nil || r.first.group == x.group:
		r.first = x
		return
	case x.group < r.first.group:
		r.first, x = x, r.first
	}
	if r.rest == nil {
		r.rest = &[]*row{x}
		return
	}
	i, found := slices.BinarySearchFunc(*r.rest, x.group, byGroup)
	if found {
		(*r.rest)[i] = x
		return
	}
	*r.rest = slices.Insert(*r.rest, i, x)
}

func byGroup(r *row, g queend.GroupID) int { return cmp.Compare(r.group, g) }

// all yields the rows by rising group number. They must not change meanwhile.
func (r *rows) all() iter.Seq[*row] {
	return func(yield func(*row) bool) {
		if r.first == nil || !yield(r.first) || r.rest == nil {
			return
		}
		for _, x := range *r.rest {
			if !yield(x) {
				return
			}
		}
	}
}
