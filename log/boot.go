package log

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"queend"
)

// Recovery is what Open found and did.
type Recovery struct {
	First, Last queend.LSN // of the records in the log; First is Last+1 when there are none
	Records     int        // handed to replay
	Groups      int        // read, with those at or below after
	Clean       bool       // the log had been closed
	Copied      int        // records written again because nothing proved them durable
	Cut         int64      // bytes set aside as tail
	CutFile     string     // where the first of them are kept; empty when there were none
}

// boot reads the log that is there and gets it ready to go on.
type boot struct {
	c        Config
	files    files
	after    queend.LSN
	replay   func(queend.LSN, []byte) error
	chain    *chain
	proven   queend.LSN // the highest LSN that something says was durable
	unproven []Group    // groups beyond it, without their bytes: all in the last generation
	cutFrom  *walker    // stands where the tail begins; nil: it ends well
	rec      Recovery
}

// errTail ends the walk at the tail.
var errTail = errors.New("tail")

// run reads everything, replays, and cuts the tail.
func (b *boot) run() error {
	chain, err := readChain(b.c.Dir)
	if err != nil {
		return err
	}
	b.chain = chain
	b.rec.Clean = chain.clean
	b.proven = max(b.after, b.c.Proven, chain.mark)
	for _, g := range chain.gens {
		b.proven = max(b.proven, g.durable)
	}
	if err := b.checkBegin(); err != nil {
		return err
	}
	next, err := chain.follow(b.visit, b.broken)
	if err != nil && err != errTail {
		return err
	}
	if len(chain.gens) == 0 {
		next = b.after + 1
	}
	b.rec.Last = next - 1
	if err := b.checkEnd(); err != nil {
		return err
	}
	b.rec.First = next
	if len(chain.gens) > 0 {
		b.rec.First = chain.gens[0].first
	}
	if b.c.Check != nil {
		if err := b.c.Check(); err != nil {
			return err
		}
	}
	// Only from here on the disk is changed.
	if err := b.files.mkdirAll(b.c.Dir); err != nil {
		return err
	}
	if err := b.removeLeftovers(); err != nil {
		return err
	}
	return b.cut()
}

// checkBegin refuses a log whose beginning is missing.
func (b *boot) checkBegin() error {
	if len(b.chain.gens) == 0 {
		if b.proven > 0 {
			return &Damage{File: b.c.Dir, Reason: fmt.Sprintf("no generation is left, but LSN %d was durable", b.proven)}
		}
		return nil
	}
	g := b.chain.gens[0]
	if g.bad == nil && g.first > b.after+1 {
		return newWalker(g).damage("log begins with LSN %d, replay needs %d", g.first, b.after+1)
	}
	return nil
}

// checkEnd refuses a log whose end is missing.
func (b *boot) checkEnd() error {
	if b.rec.Last >= b.proven || len(b.chain.gens) == 0 {
		return nil
	}
	g := b.chain.gens[len(b.chain.gens)-1]
	d := newWalker(g).damage("log ends with LSN %d, but %d was durable", b.rec.Last, b.proven)
	if n := len(g.segments); n > 0 {
		d.File, d.Offset = g.segments[n-1].path, g.segments[n-1].size
	}
	return d
}

// visit takes one group: what it proves, and its records.
func (b *boot) visit(g Group) error {
	b.rec.Groups++
	b.proven = max(b.proven, g.Durable)
	for len(b.unproven) > 0 && b.unproven[0].Last <= b.proven {
		b.unproven = b.unproven[1:]
	}
	if g.Last > b.proven {
		kept := g
		kept.body = nil
		b.unproven = append(b.unproven, kept)
	}
	if g.Last <= b.after {
		return nil
	}
	for lsn, rec := range g.Records() {
		if lsn <= b.after {
			continue
		}
		b.rec.Records++
		if err := b.replay(lsn, append(make([]byte, 0, len(rec)), rec...)); err != nil {
			return fmt.Errorf("replay LSN %d: %w", lsn, err)
		}
	}
	return nil
}

// broken decides whether a bad spot is damage or the tail. It is the tail when
// nothing says that what should stand there was ever durable.
func (b *boot) broken(i int, w *walker, d *Damage) error {
	if d.certain || i < len(b.chain.gens)-1 || b.proven >= w.expect {
		return d
	}
	place := *w
	later, err := w.durableLater()
	if err != nil {
		return err
	}
	if later >= place.expect {
		return d
	}
	b.cutFrom = &place
	return errTail
}

// removeLeftovers deletes what a crash left of a generation that was being made
// or deleted.
func (b *boot) removeLeftovers() error {
	names, err := os.ReadDir(b.c.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		base, tmp := strings.CutSuffix(name.Name(), tmpSuffix)
		if !tmp {
			base, _ = strings.CutSuffix(name.Name(), droppedSuffix)
		}
		_, ok := parseNumber(base)
		if base == name.Name() || !ok && base != markName {
			continue
		}
		if err := b.files.removeAll(b.path(name.Name())); err != nil {
			return err
		}
	}
	return nil
}

// newGeneration begins the generation that the log goes on with, copies into it
// what nothing proves durable, and returns its writer.
func (b *boot) newGeneration(l *Log) (*writer, error) {
	number := uint64(1)
	for _, g := range slices.Concat(b.chain.gens, b.chain.hollow) {
		number = max(number, g.number+1)
	}
	return l.createGeneration(number, b.first(), b.proven, func(w *writer) error {
		for _, g := range b.unproven {
			if err := b.copyGroup(w, g); err != nil {
				return fmt.Errorf("copy %s: entry at byte %d: %w", g.File, g.Offset, err)
			}
		}
		return nil
	})
}

// first is the LSN that the new generation begins with.
func (b *boot) first() queend.LSN {
	if len(b.unproven) > 0 {
		return b.unproven[0].First
	}
	return b.rec.Last + 1
}

// copyGroup writes the records of g once more.
func (b *boot) copyGroup(w *writer, g Group) error {
	f, err := os.Open(g.File)
	if err != nil {
		return err
	}
	defer f.Close()
	data := make([]byte, g.length)
	if _, err := f.ReadAt(data, g.Offset); err != nil {
		return err
	}
	entry, _, err := frameEntry(data)
	if err != nil {
		return err
	}
	if _, g.body, err = decodeGroup(entry); err != nil {
		return err
	}
	var recs [][]byte
	for _, rec := range g.Records() {
		recs = append(recs, rec)
	}
	b.rec.Copied += len(recs)
	_, err = w.append(g.First, b.proven, recs)
	return err
}
