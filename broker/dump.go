package broker

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"queend/log"
	"queend/segment"
)

// ErrUnknownFile is wrapped by the error about a file that is none of ours.
var ErrUnknownFile = errors.New("no file of a data directory")

// damageKind is the kind of an item about bytes that are not what was written.
const damageKind = "damage"

// Damaged reports whether the item is about damage.
func (i *Item) Damaged() bool { return i.Kind == damageKind }

// Dump hands visit what is in one file of a data directory, also of one in
// quarantine: a segment file, a checkpoint, a file of the log or of the spool,
// the mark of a closed log, FORMAT. What kind of file it is its first bytes
// say. Damage is an item too, and reading goes on behind it where it can.
func Dump(path string, visit func(Item) error) error {
	head, err := readHead(path)
	if err != nil {
		return err
	}
	d := &dumper{path: path, visit: visit}
	switch {
	case strings.HasPrefix(head, "queenseg"):
		err = d.segment()
	case strings.HasPrefix(head, chainMagic):
		err = d.checkpoint()
	case strings.HasPrefix(head, spoolMagic[:6]):
		err = d.spool()
	case strings.HasPrefix(head, formatName+" "):
		err = d.item(0, "format", []Field{{"text", strings.TrimSpace(head)}})
	default:
		err = d.log([]byte(head))
	}
	return err
}

// readHead returns the first bytes of a file.
func readHead(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 64))
	return string(head), err
}

type dumper struct {
	path  string
	visit func(Item) error
	found bool // anything but damage
}

func (d *dumper) item(at int64, kind string, fields []Field) error {
	d.found = d.found || kind != damageKind
	return d.visit(Item{at, kind, fields})
}

// damage reports an error about bytes; other errors end the dump.
func (d *dumper) damage(err error) error {
	if !errors.Is(err, ErrDamaged) && !errors.Is(err, segment.ErrDamaged) && !errors.Is(err, errDamagedRecord) {
		return err
	}
	return d.item(max(placeOf(err), 0), damageKind, []Field{{"text", err.Error()}})
}

// log dumps a file of the log, or the mark.
func (d *dumper) log(head []byte) error {
	last, ok, err := log.ParseMark(head)
	if err != nil {
		return err
	}
	if ok {
		return d.item(0, "closed", []Field{{"last", uint64(last)}})
	}
	return log.ScanFile(d.path, d.group, func(bad *log.Damage) error {
		if bad.Offset == 0 && !d.found {
			if found, err := d.holdsGroups(); err != nil || !found {
				return errors.Join(err, fmt.Errorf("%s: %w", d.path, ErrUnknownFile))
			}
		}
		return d.item(bad.Offset, damageKind, []Field{{"text", bad.Reason}})
	})
}

// errEnough ends a scan.
var errEnough = errors.New("enough")

// holdsGroups says whether there is a group of the log anywhere in the file.
func (d *dumper) holdsGroups() (bool, error) {
	err := log.ScanFile(d.path, func(log.Group) error { return errEnough }, func(*log.Damage) error { return nil })
	if err == errEnough {
		return true, nil
	}
	return false, err
}

// group dumps a commit group: itself, its records, their events and messages.
func (d *dumper) group(g log.Group) error {
	if err := d.item(g.Offset, "group", []Field{
		{"generation", g.Generation}, {"first", uint64(g.First)}, {"last", uint64(g.Last)}, {"durable", uint64(g.Durable)},
	}); err != nil {
		return err
	}
	for lsn, rec := range g.Records() {
		stamp, _ := recordStamp(rec)
		if err := d.item(g.Offset, "record", []Field{{"lsn", uint64(lsn)}, {"time", timeText(stamp)}}); err != nil {
			return err
		}
		var failed error
		_, err := decodeRecord(rec, func(ev event) {
			if failed == nil {
				failed = d.event(g.Offset, ev)
			}
		})
		if failed != nil {
			return failed
		}
		if err != nil {
			if err := d.item(g.Offset, damageKind, []Field{{"text", err.Error()}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// event dumps an event of a record.
func (d *dumper) event(at int64, ev event) error {
	kind, fields, messages := describeEvent(ev)
	if err := d.item(at, kind, fields); err != nil {
		return err
	}
	for i := range messages {
		if err := d.item(at, "message", describeMessage(&messages[i])); err != nil {
			return err
		}
	}
	return nil
}

// checkpoint dumps what a checkpoint says of itself, and its entries.
func (d *dumper) checkpoint() error {
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	defer f.Close()
	link, err := (&chainReader{r: f, path: d.path}).header()
	if err != nil {
		return d.damage(err)
	}
	if err := d.item(0, "checkpoint", []Field{
		{"serial", link.serial}, {"base", link.base}, {"prev", link.prev}, {"lsn", uint64(link.lsn)},
	}); err != nil {
		return err
	}
	var failed error
	info, err := readChainFile(d.path, func(entry []byte) error {
		kind, fields, err := describeEntry(entry)
		if err == nil {
			failed = d.item(0, kind, fields)
			err = failed
		}
		return err
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		return d.damage(err)
	}
	return d.item(info.size-chainTrailer, "end", []Field{{"durable", uint64(info.durable)}, {"size", info.size}})
}

// spool dumps the records of the spool.
func (d *dumper) spool() error {
	var failed error
	err := readSpool(d.path, func(at int64, damaged []byte, rec *spooled) {
		switch {
		case failed != nil:
		case damaged != nil:
			failed = d.item(at, damageKind, []Field{{"text", spoolDamage(damaged)}})
		default:
			m := describeMessage(&rec.m)[1:] // it has no offset yet
			failed = d.item(at, "spooled", append([]Field{
				{"tenant", rec.tenant.String()}, {"queue", rec.item.Queue}, {"partition", rec.item.Partition},
			}, m...))
		}
	})
	return errors.Join(failed, err)
}

// segment dumps the runs of a segment file and their messages.
func (d *dumper) segment() error {
	err := readSegment(d.path, func(r *segment.Reader) error {
		if err := d.item(0, "segment", []Field{{"file", uint64(r.File())}}); err != nil {
			return err
		}
		return r.Entries(func(e segment.Entry) error { return d.run(r, e) })
	})
	if errors.Is(err, segment.ErrDamaged) {
		return d.damage(err)
	}
	return err
}

// run dumps one run. Messages that cannot be read are passed over one by one.
func (d *dumper) run(r *segment.Reader, e segment.Entry) error {
	if err := d.item(int64(e.Pos), "run", []Field{
		{"queue", uint64(e.Queue)}, {"partition", uint64(e.Partition)}, {"first", int64(e.First)},
		{"last", int64(e.Last)}, {"payloadFrom", int64(e.PayloadFrom)}, {"bytes", e.Bytes}, {"lastTime", timeText(e.LastTime)},
	}); err != nil {
		return err
	}
	told := ""
	for off := e.First; off <= e.Last; {
		messages, err := r.Messages(e, off, 1000, 1<<20)
		if err != nil {
			messages, err = r.Messages(e, off, 1, math.MaxInt)
		}
		if err != nil || len(messages) == 0 {
			if err != nil && err.Error() != told {
				told = err.Error()
				if err := d.damage(err); err != nil {
					return err
				}
			}
			off++
			continue
		}
		for i := range messages {
			if err := d.item(int64(e.Pos), "message", describeMessage(&messages[i])); err != nil {
				return err
			}
		}
		off += max(1, messages[len(messages)-1].Offset+1-off)
	}
	return nil
}
