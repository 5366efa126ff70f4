package log

import (
	"errors"
	"io"

	"queend"
)

// chain is what a log directory holds.
type chain struct {
	gens   []*generation // by number
	hollow []*generation // the newest ones, as long as they hold no valid group
	mark   queend.LSN    // from the clean-shutdown mark
	clean  bool          // there is a mark
}

// readChain lists what is in dir without changing anything.
func readChain(dir string) (*chain, error) {
	c := &chain{}
	var err error
	if c.mark, c.clean, err = readMark(dir); err != nil {
		return nil, err
	}
	if c.gens, err = readGenerations(dir); err != nil {
		return nil, err
	}
	for n := len(c.gens); n > 0 && c.gens[n-1].bad != nil; n-- {
		hollow, err := c.gens[n-1].hollow()
		if err != nil {
			return nil, err
		}
		if !hollow {
			break
		}
		c.gens, c.hollow = c.gens[:n-1], append(c.hollow, c.gens[n-1])
	}
	return c, nil
}

// successor is the generation that stands in for generation i from its first LSN
// on; nil for the last.
func (c *chain) successor(i int) *generation {
	for _, g := range c.gens[i+1:] {
		if g.bad == nil {
			return g
		}
	}
	return nil
}

// follow hands visit every group in order, each LSN once. At a bad spot in
// generation i it asks broken, whose error ends the walk; without one the walk
// goes on at the next valid group. It returns the LSN that would come next.
func (c *chain) follow(visit func(Group) error, broken func(i int, w *walker, d *Damage) error) (queend.LSN, error) {
	var next queend.LSN
	for i := range c.gens {
		end, err := c.followOne(i, visit, broken)
		next = max(next, end)
		if err != nil {
			return next, err
		}
	}
	return next, nil
}

// followOne is follow for generation i.
func (c *chain) followOne(i int, visit func(Group) error, broken func(int, *walker, *Damage) error) (queend.LSN, error) {
	w, limit := newWalker(c.gens[i]), queend.LSN(maxLSN)
	later := c.successor(i)
	if later != nil {
		limit = later.first
	}
	next := w.expect
	d := c.badStart(w, limit)
	for {
		if d != nil {
			if err := broken(i, w, d); err != nil {
				return next, err
			}
			if found, err := w.resync(); err != nil || !found {
				return next, err
			}
		}
		if w.expect == limit {
			return next, nil
		}
		var group Group
		var err error
		group, d, err = w.nextBelow(limit)
		switch {
		case err == io.EOF && later != nil:
			d = w.damage("generation ends before LSN %d, with which generation %d begins", limit, later.number)
		case err == io.EOF || group.First >= limit:
			return next, nil
		case err != nil:
			return next, err
		case d == nil:
			next = group.Last + 1
			if err := visit(group); err != nil {
				return next, err
			}
		}
	}
}

// badStart says what is wrong with the beginning of w's generation. It was synced
// before the generation had its name, so that is no tear.
func (c *chain) badStart(w *walker, limit queend.LSN) *Damage {
	var d *Damage
	switch {
	case w.gen.bad != nil:
		d = w.damage("%v", w.gen.bad)
	case w.expect > limit:
		d = w.damage("generation begins with LSN %d, a later one with %d", w.expect, limit)
	default:
		return nil
	}
	d.certain = true
	return d
}

// nextBelow is next with the damage apart from other errors. A group that reaches
// over limit from below is damage too.
func (w *walker) nextBelow(limit queend.LSN) (Group, *Damage, error) {
	group, err := w.next()
	var d *Damage
	if errors.As(err, &d) {
		return Group{}, d, nil
	}
	if err == nil && group.First < limit && group.Last >= limit {
		d = w.damage("group of LSNs %d to %d, but a later generation begins with %d", group.First, group.Last, limit)
		d.Offset, d.certain = group.Offset, true
	}
	return group, d, err
}
