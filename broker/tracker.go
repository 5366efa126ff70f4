package broker

import "queend"

// tracker makes checkpoints sharp: what it collects is the state exactly as
// it was after the record of one LSN, though the state goes on changing.
//
// Epochs are even numbers. A record carries the epoch in which it last
// changed, or that epoch plus one once the checkpoint that ended it has saved
// the record; zero is a record that is just being created, and 1 one that
// boot loaded. cut begins a new epoch. From then on the image of a record
// goes to the checkpoint either when it is first touched, before it changes,
// or when the walker comes by, whichever is first.
type tracker struct {
	epoch   uint32  // current, even
	cutting bool    // records of older epochs still have to be saved
	images  encoder // saved and not yet fetched by the writer of the checkpoint
	changed changes // what changed since the last finished checkpoint, or is gone
	held    changes // the same up to the cut, while a checkpoint is made
}

// changes lists records. One that changed in several epochs is listed in
// each.
type changes struct {
	queues     []*queue
	partitions []queend.PartitionID
	gone       []*partition // of them
	groups     []*group
	labels     []*label
	letters    []*deadLetter
	files      []*file
}

// append adds all of other.
func (c *changes) append(other *changes) {
	c.queues = append(c.queues, other.queues...)
	c.partitions = append(c.partitions, other.partitions...)
	c.gone = append(c.gone, other.gone...)
	c.groups = append(c.groups, other.groups...)
	c.labels = append(c.labels, other.labels...)
	c.letters = append(c.letters, other.letters...)
	c.files = append(c.files, other.files...)
}

const (
	loadedEpoch uint32 = 1
	firstEpoch  uint32 = 2
)

// stale reports whether a record is about to change for the first time in
// this epoch, and moves it to it. save says that its image has to be saved
// before.
func (t *tracker) stale(epoch *uint32) (first, save bool) {
	if *epoch == t.epoch {
		return false, false
	}
	save = t.cutting && *epoch != 0 && *epoch <= t.epoch-2
	*epoch = t.epoch
	return true, save
}

// due reports whether the walker still has to save a record, and marks it.
func (t *tracker) due(epoch *uint32) bool {
	if *epoch > t.epoch-2 {
		return false
	}
	*epoch = t.epoch - 1
	return true
}

// cut ends the epoch: what changes from now on is not in the checkpoint.
func (t *tracker) cut() {
	t.epoch += 2
	t.cutting = true
	t.images = encoder{}
	t.held.append(&t.changed)
	t.changed = changes{}
}

// finish ends a checkpoint. After one that failed its changes count as not
// saved.
func (t *tracker) finish(saved bool) {
	t.cutting = false
	t.images = encoder{}
	if !saved {
		t.held.append(&t.changed)
		t.changed = t.held
	}
	t.held = changes{}
}

// loaded starts the tracking after a checkpoint was loaded: what it brought
// is clean.
func (t *tracker) loaded() { *t = tracker{epoch: firstEpoch} }

// take returns the images saved so far. The slice is the caller's; in exchange
// the memory of room is used for the next ones.
func (t *tracker) take(room []byte) []byte {
	buf := t.images.buf
	t.images = encoder{room[:0]}
	return buf
}

// The touch functions are called by apply before it changes a record, also
// when it creates or deletes one.

func (b *Broker) touchQueue(q *queue) {
	first, save := b.tracker.stale(&q.epoch)
	if save {
		q.image(&b.tracker.images)
	}
	if first {
		b.tracker.changed.queues = append(b.tracker.changed.queues, q)
	}
}

func (b *Broker) touchPartition(p *partition) {
	first, save := b.tracker.stale(&p.epoch)
	if save {
		b.partitionImage(&b.tracker.images, p)
	}
	if first {
		b.tracker.changed.partitions = append(b.tracker.changed.partitions, p.id)
	}
	b.noteTouch(p)
}

func (b *Broker) touchGroup(g *group) {
	first, save := b.tracker.stale(&g.epoch)
	if save {
		g.image(&b.tracker.images)
	}
	if first {
		b.tracker.changed.groups = append(b.tracker.changed.groups, g)
	}
	b.noteGroup(g)
}

func (b *Broker) touchLabel(l *label) {
	first, save := b.tracker.stale(&l.epoch)
	if save {
		l.image(&b.tracker.images)
	}
	if first {
		b.tracker.changed.labels = append(b.tracker.changed.labels, l)
	}
}

func (b *Broker) touchLetter(l *deadLetter) {
	first, save := b.tracker.stale(&l.epoch)
	if save {
		l.image(&b.tracker.images)
	}
	if first {
		b.tracker.changed.letters = append(b.tracker.changed.letters, l)
	}
	b.noteLetter(l)
}

func (b *Broker) touchFile(f *file) {
	first, save := b.tracker.stale(&f.epoch)
	if save {
		f.image(&b.tracker.images)
	}
	if first {
		b.tracker.changed.files = append(b.tracker.changed.files, f)
	}
}

// walk is the walker's place: the lists or maps it still has to go through.
// visit saves one record; between two of them pause may give up the lock.
type walk struct {
	b     *Broker
	pause func()
	every int // records that one hold of the lock looks at
	steps int
}

// walkStep is the usual walk.every.
const walkStep = 512

func (w *walk) step() {
	w.steps++
	if w.steps%w.every == 0 || len(w.b.tracker.images.buf) > 256<<10 {
		w.pause()
	}
}

// everything saves all records that the touch functions have not saved yet.
// Ranging over a map stays sound though the map changes during the pauses:
// what is there all along is met once, and what goes was touched before.
func (w *walk) everything() {
	t, s := &w.b.tracker, &w.b.state
	for _, q := range s.queues {
		if t.due(&q.epoch) {
			q.image(&t.images)
		}
		w.step()
	}
	for p := range s.partitions.all() {
		if t.due(&p.epoch) {
			w.b.partitionImage(&t.images, p)
		}
		w.step()
	}
	for _, g := range s.groups {
		if t.due(&g.epoch) {
			g.image(&t.images)
		}
		w.step()
	}
	for _, l := range s.labels {
		if t.due(&l.epoch) {
			l.image(&t.images)
		}
		w.step()
	}
	for _, l := range s.dead {
		if t.due(&l.epoch) {
			l.image(&t.images)
		}
		w.step()
	}
	for _, f := range s.files {
		if t.due(&f.epoch) {
			f.image(&t.images)
		}
		w.step()
	}
}

// difference saves the records that changed since the last checkpoint, and a
// tombstone for each that is gone.
func (w *walk) difference() {
	b := w.b
	s, c := &b.state, &b.tracker.held
	for _, q := range c.queues {
		save(w, &q.epoch, s.queues[q.id] == q, q.image, &queueGone{q.id})
	}
	for _, id := range c.partitions {
		// One that is gone is in c.gone, or went after the cut and was saved then.
		if p := s.partitions.get(id); p != nil {
			save(w, &p.epoch, true, func(e *encoder) { b.partitionImage(e, p) }, nil)
		}
	}
	for _, p := range c.gone {
		save(w, &p.epoch, false, nil, &partitionGone{p.id})
	}
	for _, g := range c.groups {
		save(w, &g.epoch, s.groups[g.id] == g, g.image, &groupGone{g.id})
	}
	for _, l := range c.labels {
		save(w, &l.epoch, s.labels[l.labelKey] == l, l.image, &labelSet{labelKey: l.labelKey, gone: true})
	}
	for _, l := range c.letters {
		save(w, &l.epoch, s.dead[l.id] == l, l.image, &deadLetterGone{l.id})
	}
	for _, f := range c.files {
		save(w, &f.epoch, s.files[f.id] == f, f.image, &fileGone{f.id})
	}
}

// save writes the image of a record that lives, or its tombstone.
func save(w *walk, epoch *uint32, lives bool, image func(*encoder), gone event) {
	t := &w.b.tracker
	if t.due(epoch) {
		if lives {
			image(&t.images)
		} else {
			t.images.entry(gone.encode)
		}
	}
	w.step()
}

// cutPoint is where a checkpoint is sharp.
type cutPoint struct {
	lsn  queend.LSN
	misc []byte // the image of what belongs to no record
}

// cut begins a checkpoint of everything through the newest record.
func (b *Broker) cut() cutPoint {
	b.tracker.cut()
	c := cutPoint{lsn: b.log.Last()}
	b.log.Roll()
	var e encoder
	b.state.miscImage(&e)
	c.misc = e.buf
	return c
}
