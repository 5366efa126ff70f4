package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"queend"
	"queend/log"
)

// Repair is what makes a damaged data directory start again, and what it
// costs. Nothing is deleted: what leaves its place goes to quarantine.
type Repair struct {
	Steps  []string // what is done, in order
	Losses []string // what is gone then; none: nothing that was acknowledged

	dir     *dataDir
	actions []func() error
}

// ErrNoRepair is wrapped by the error about a directory for which no safe
// repair is known. It says why each way was not taken.
var ErrNoRepair = errors.New("no safe repair is known")

// RepairDir works out how a damaged directory can be made to start again, and
// does it when write is set. A way is taken only when the state it leads to
// has been built in memory, from what can be read, and fits together. Without
// damage there are no steps.
func RepairDir(dir string, write bool) (*Repair, error) {
	unlock, err := lockForReading(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	r := &Repair{dir: &dataDir{path: dir}}
	damaged := false
	v := &verifier{dir: r.dir, report: func(d Damage) { damaged = damaged || !d.Moot }}
	if err := r.format(); err != nil {
		return nil, err
	}
	if err := v.all(); err != nil {
		return nil, err
	}
	if damaged {
		if err := r.plan(v.found); err != nil {
			return nil, err
		}
	}
	if write && len(r.actions) > 0 {
		err = r.do()
	}
	return r, err
}

// step adds something to do.
func (r *Repair) step(text string, action func() error) {
	r.Steps = append(r.Steps, text)
	r.actions = append(r.actions, action)
}

// do takes the steps. A crash in between leaves a directory that is refused as
// damaged until the repair is done again, or one that is repaired.
func (r *Repair) do() error {
	if err := os.MkdirAll(r.dir.quarantine(), 0o700); err != nil {
		return err
	}
	for _, dir := range []string{r.dir.checkpoints(), r.dir.segments()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	for i, action := range r.actions {
		if err := action(); err != nil {
			return fmt.Errorf("%s: %w", r.Steps[i], err)
		}
		for _, dir := range []string{r.dir.quarantine(), r.dir.checkpoints(), r.dir.segments(), r.dir.path} {
			if err := syncDir(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// format plans a new FORMAT in the place of one that names none.
func (r *Repair) format() error {
	err := checkFormat(r.dir.path)
	if err == nil || !errors.Is(err, ErrDamaged) {
		return err
	}
	name := filepath.Join(r.dir.path, "FORMAT")
	r.step("write FORMAT anew", func() error {
		if err := r.dir.setAside(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return writeFile(name, []byte(fmt.Sprintf("%s %d\n", formatName, formatVersion)))
	})
	return nil
}

// trial is a state to start from: a chain, or a part of one from its base on,
// or none, with the log behind it as far as it can be read.
type trial struct {
	chain   *chain // nil: the log alone
	b       *Broker
	after   queend.LSN // what the chain holds
	last    queend.LSN // what chain and log hold
	known   queend.LSN // the highest record there ever was, as far as anything says
	beyond  int64      // records behind last that can be read
	report  log.Report
	lost    []partitionLoss
	record  []byte // takes damaged runs out of service; nil: there are none
	missing []queend.FileID
}

// plan finds the newest state that fits.
func (r *Repair) plan(found foundChains) error {
	var whys []string
	var known queend.LSN
	for _, c := range found.chains {
		known = max(known, c.newest().durable)
	}
	for _, c := range candidates(found.chains) {
		t := &trial{chain: c, known: known}
		err := r.try(t)
		if err == nil {
			r.checkpoints(found, t)
			r.segments(t)
			r.log(t)
			return nil
		}
		if !errors.Is(err, ErrDamaged) {
			return err
		}
		whys = append(whys, fmt.Sprintf("%s: %v", t.name(), err))
	}
	return fmt.Errorf("%w: %s", ErrNoRepair, strings.Join(whys, "; "))
}

// candidates are the states that checkpoints give, the newest first, and at
// the end the one without any.
func candidates(chains []chain) []*chain {
	var out []*chain
	for _, c := range chains {
		for n := range c.files {
			out = append(out, &chain{files: c.files[:n+1]})
		}
	}
	slices.SortStableFunc(out, func(a, b *chain) int { return int(b.lsn()) - int(a.lsn()) })
	return append(out, nil)
}

func (t *trial) name() string {
	if t.chain == nil {
		return "from the log alone"
	}
	return "from " + filepath.Base(t.chain.newest().path)
}

// try builds the state of a trial in memory. An error that wraps ErrDamaged
// says why there is none.
func (r *Repair) try(t *trial) error {
	b := &Broker{state: newState()}
	b.cfg.fill()
	b.storage.init(b, r.dir)
	t.b = b
	var chains []chain
	if t.chain != nil {
		chains = []chain{*t.chain}
	}
	after, proven, err := b.loadChain(foundChains{chains: chains})
	if err != nil {
		return err
	}
	t.after, t.last = after, after
	if err := t.replay(r.dir.wal()); err != nil {
		return err
	}
	switch {
	case t.chain == nil && (t.report.First != 1 || t.last == 0):
		return fmt.Errorf("%w: the log does not begin with its first record", ErrDamaged)
	case t.last < proven:
		return fmt.Errorf("%w: the log can be read to record %d, it is needed to %d", ErrDamaged, t.last, proven)
	}
	if err := b.checkHoles(); err != nil {
		return err
	}
	if err := t.findLost(); err != nil {
		return err
	}
	return b.fits()
}

// replay reads the log behind the checkpoint until a record is missing.
func (t *trial) replay(dir string) error {
	var err error
	t.report, err = log.ScanProven(dir, t.known, func(g log.Group) error {
		t.known = max(t.known, g.Last)
		for lsn, rec := range g.Records() {
			switch {
			case lsn == t.last+1:
				if err := t.b.replay(lsn, slices.Clone(rec)); err != nil {
					return err
				}
				t.last++
			case lsn > t.last:
				t.beyond++
			}
		}
		return nil
	})
	t.known = max(t.known, t.report.Proven)
	return err
}

// checkpoints plans to set aside those that cannot be used, and those that say
// more than the log has.
func (r *Repair) checkpoints(found foundChains, t *trial) {
	aside := slices.Clone(found.bad)
	for _, c := range found.chains {
		for _, f := range c.files {
			if f.lsn > t.after || f.durable > t.last {
				aside = append(aside, f.path)
			}
		}
	}
	for _, path := range aside {
		r.step("move checkpoints/"+filepath.Base(path)+" to quarantine", func() error {
			err := r.dir.setAside(path)
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			return err
		})
	}
}

// log plans a new generation, when the log as it is would be refused or a
// record has to be added.
func (r *Repair) log(t *trial) {
	whole := len(t.report.Damages) == 0 && t.report.First <= t.after+1 && t.report.Last == t.last
	if whole && t.record == nil {
		return
	}
	if t.known > t.last {
		r.Losses = append(r.Losses, fmt.Sprintf(
			"log records %d to %d, %d in all; %d of them can be read and stay in quarantine, but do not fit on what is before them",
			t.last+1, t.known, t.known-t.last, t.beyond))
	}
	var more [][]byte
	what := fmt.Sprintf("cut the log behind record %d", t.last)
	switch {
	case whole:
		what = "write the log anew"
	case t.known <= t.last:
		what = "write the log anew without damage"
	}
	if t.record != nil {
		more = [][]byte{t.record}
		what += ", and add a record that takes the damaged runs out of service"
	}
	r.step(what+"; the old log goes to quarantine", func() error {
		c := log.Config{Dir: r.dir.wal(), Quarantine: r.dir.quarantine()}
		return log.Rewrite(c, log.Span{First: t.after + 1, Last: t.last}, more)
	})
}
