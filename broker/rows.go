package broker

import (
	"cmp"
	"iter"
	"slices"

	"queend"
	"queend/index"
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

// runs returns the runs of the partition. They may be written to where they
// are, until place is called. Most partitions have one, which needs no array:
// it is in one, unless many names two or more. One without a file is none.
func (p *partition) runs() index.Runs {
	switch {
	case p.many != nil:
		return *p.many
	case p.one[0].File == 0:
		return nil
	}
	return p.one[:]
}

// place replaces the runs.
func (p *partition) place(runs index.Runs) {
	p.many, p.one = nil, [1]index.Run{}
	switch len(runs) {
	case 0:
	case 1:
		p.one[0] = runs[0]
	default:
		many := runs
		p.many = &many
	}
}
