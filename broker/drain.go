package broker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
)

// Bounds of what is drained with one record of the log.
const (
	drainItems = 500
	drainBytes = 4 << 20
)

// DrainSpool pushes what the spool holds, in order, unless push maintenance
// is on (R120). It returns when the spool is empty, maintenance is switched
// on, the broker closes or something fails; what is left is drained the next
// time. Pushes that arrive meanwhile go straight in. Dedup applies now.
func (b *Broker) DrainSpool() error {
	err := b.drainAll()
	if err != nil {
		b.spool.healthy.Store(false)
	}
	return err
}

func (b *Broker) drainAll() error {
	files, err := b.spoolFiles()
	if err != nil || len(files) == 0 || !b.mayDrain() {
		return err
	}
	b.spool.seal()
	// Files that began since then are for the next time.
	for _, n := range files {
		done, err := b.drainFile(n)
		if err != nil || !done {
			return err
		}
		// Where answers do not wait for a sync of the log, the messages are safe
		// in the file alone until then.
		if err := b.awaitSynced(b.log.Last()); err != nil {
			return err
		}
		if err := errors.Join(os.Remove(b.spool.path(n)), syncDir(b.spool.dir)); err != nil {
			return err
		}
	}
	b.spool.healthy.Store(true)
	return nil
}

// mayDrain reports whether pushes go in again.
func (b *Broker) mayDrain() (yes bool) {
	select {
	case <-b.quit:
		return false
	default:
	}
	b.locked(func() { yes = !b.state.maintenance })
	return yes
}

// drainFile pushes a file from where it is drained to. done is false when
// maintenance or the end of the broker came between.
func (b *Broker) drainFile(n uint64) (done bool, err error) {
	var at spoolPlace
	b.locked(func() { at = b.state.spool })
	if n < at.file {
		return true, nil
	}
	r, err := openSpool(b.spool.path(n), at.from(n))
	if err != nil {
		return false, err
	}
	defer r.f.Close()
	d := &drain{b: b, n: n, r: r}
	for b.mayDrain() {
		err := d.batch()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// drain is a file on its way into the log.
type drain struct {
	b    *Broker
	n    uint64
	r    *spoolReader
	held *spooled // read, and for the next batch
}

// batch pushes some records of one tenant and producer, in order; io.EOF says
// that there are none left.
func (d *drain) batch() error {
	var all []*spooled
	size := 0
	for len(all) < drainItems && size < drainBytes {
		rec, err := d.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if len(all) > 0 && (!rec.joins(all[0]) || size+rec.size() > drainBytes) {
			d.held = rec
			break
		}
		size += rec.size()
		all = append(all, rec)
	}
	if len(all) == 0 {
		return io.EOF
	}
	return d.push(all, int64(size))
}

// next returns the next record that can be pushed, and sets aside what
// cannot.
func (d *drain) next() (*spooled, error) {
	if rec := d.held; rec != nil {
		d.held = nil
		return rec, nil
	}
	for {
		at := d.r.pos
		rec, damaged, err := d.r.next()
		switch {
		case errors.Is(err, errSpoolDamaged):
			if err := d.keep(at, damaged, bytes.Count(damaged, []byte(spoolMark)), err.Error()); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		case !d.unseal(rec):
			if err := d.keepRecord(rec, "encrypted with a key that is not the one configured"); err != nil {
				return nil, err
			}
		default:
			return rec, nil
		}
	}
}

// unseal decrypts the payload of a record, which the push encrypts again by
// the flag that the queue has then. Without a key it stays as it is: so it is
// stored, and with the key again it can be read.
func (d *drain) unseal(rec *spooled) bool {
	if !rec.m.Encrypted || d.b.cfg.EncryptionKey == nil {
		return true
	}
	payload, opened := d.b.open(rec.m.Payload)
	rec.item.Payload = payload
	return opened
}

// size is what the record takes up, in bytes.
func (r *spooled) size() int { return int(r.end - r.at) }

// joins reports whether two records can be pushed by one call.
func (r *spooled) joins(o *spooled) bool {
	return r.tenant == o.tenant && r.m.HasProducer == o.m.HasProducer && string(r.m.Producer) == string(o.m.Producer)
}

// push stores records and how far the file is drained, in one record of the
// log, and waits until that is durable. What the queue does not take is set
// aside first.
func (d *drain) push(all []*spooled, size int64) error {
	ctx := context.Background()
	release, err := d.b.admit(ctx, size)
	if err != nil {
		return err
	}
	defer release()
	tenant, last := all[0].tenant, all[len(all)-1]
	var producer *string
	if first := all[0]; first.m.HasProducer {
		sub := string(first.m.Producer)
		producer = &sub
	}
	for {
		items := make([]PushItem, len(all))
		for i, rec := range all {
			items[i] = rec.item
		}
		results, _, err := d.b.storePush(ctx, tenant, producer, items, &spoolDrained{spoolPlace{d.n, last.end}})
		if err != nil {
			return err
		}
		taken, err := d.keepRefused(all, results)
		if err != nil {
			return err
		}
		if len(taken) == len(all) {
			d.b.spool.pending.Add(-int64(len(all)))
			return nil
		}
		all = taken
	}
}

// keepRefused sets aside what the push refused, and with it stored nothing of
// the rest, which it returns.
func (d *drain) keepRefused(all []*spooled, results []PushResult) (rest []*spooled, err error) {
	for i, rec := range all {
		if results[i].Status != PushFailed {
			rest = append(rest, rec)
		} else if err := d.keepRecord(rec, results[i].Error); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// keepRecord sets aside a record that is whole, as it was.
func (d *drain) keepRecord(rec *spooled, why string) error {
	item := rec.item
	return d.keep(rec.at, spoolRecord(nil, rec.tenant, &item, &rec.m), 1, why)
}

// keep sets bytes of the file aside that hold some items.
func (d *drain) keep(at int64, raw []byte, items int, why string) error {
	if err := d.b.keepFailed(d.n, at, raw, why); err != nil {
		return err
	}
	d.b.spool.pending.Add(-int64(items))
	return nil
}
