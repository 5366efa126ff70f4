package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"queend"
	"queend/log"
	"queend/segment"
)

// A spool file <number>.spool holds pushes that maintenance mode has put off,
// in the order of their coming. Numbers rise and are not reused. It begins
// with spoolMagic; then one record per item, little endian:
//
//	0            4            8         12        12+length
//	| mark "SPRC" | length u32 | crc u32 | body    |
//	body: | tenant 16 | queue | partition | message as message.go draws it |
//
// crc is CRC-32C of the body. With the mark, reading finds the next record
// behind a damaged one. A payload that the queue's flag covers is encrypted
// here too (R100), and the message says so.
const (
	spoolMagic    = "QSPOOL01"
	spoolMark     = "SPRC"
	spoolSuffix   = ".spool"
	spoolHead     = 12
	spoolMaxItems = 10000    // in one file
	spoolMaxBytes = 64 << 20 // of a file, after which the next one begins
)

var spoolCRC = crc32.MakeTable(crc32.Castagnoli)

// spool is the writing side of the spool and its figures.
type spool struct {
	dir  string
	sync bool // wait for the disk
	wake chan struct{}

	mu   sync.Mutex // guards next
	next *spoolGroup

	writing sync.Mutex // guards the rest, held while writing
	file    *os.File   // nil: the next write begins a new one
	number  uint64     // highest ever
	items   int        // in file
	size    int64      // of file

	pending  atomic.Int64 // items not drained yet
	healthy  atomic.Bool  // the last write or drain went well
	failed   atomic.Int64 // files set aside
	failedBy atomic.Int64 // their bytes
}

// spoolGroup collects records that share one write and one sync.
type spoolGroup struct {
	buf   []byte
	items int
	done  bool
	err   error
}

// path is where a spool file is.
func (s *spool) path(n uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%020d%s", n, spoolSuffix))
}

// append makes records durable, together with those of others that wait.
func (s *spool) append(recs []byte, items int) error {
	s.mu.Lock()
	g := s.next
	if g == nil {
		g = &spoolGroup{}
		s.next = g
	}
	g.buf = append(g.buf, recs...)
	g.items += items
	s.mu.Unlock()

	s.writing.Lock()
	defer s.writing.Unlock()
	if g.done {
		return g.err
	}
	s.mu.Lock()
	s.next = nil // nobody joins any more
	s.mu.Unlock()
	g.done, g.err = true, s.write(g)
	s.healthy.Store(g.err == nil)
	if g.err == nil {
		s.pending.Add(int64(g.items))
	}
	g.buf = nil
	return g.err
}

// write appends a group to the file. A file that failed is not written to
// again; what the write left of it is read as far as it is whole.
func (s *spool) write(g *spoolGroup) (err error) {
	if s.file == nil {
		if err = s.begin(); err != nil {
			return err
		}
	}
	if _, err = s.file.Write(g.buf); err == nil && s.sync {
		err = s.file.Sync()
	}
	s.items += g.items
	s.size += int64(len(g.buf))
	if err != nil || s.items >= spoolMaxItems || s.size >= spoolMaxBytes {
		err = errors.Join(err, s.end())
	}
	return err
}

// begin makes the next file.
func (s *spool) begin() error {
	if err := makeDir(s.dir); err != nil {
		return err
	}
	s.number++
	f, err := os.OpenFile(s.path(s.number), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	s.file, s.items, s.size = f, 0, int64(len(spoolMagic))
	if _, err = f.WriteString(spoolMagic); err == nil && s.sync {
		err = syncDir(s.dir)
	}
	if err != nil {
		return errors.Join(err, s.end())
	}
	return nil
}

// end closes the file.
func (s *spool) end() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// seal ends the file that is being written, so that it can be drained, and
// returns the highest number there is.
func (s *spool) seal() (last uint64) {
	s.writing.Lock()
	defer s.writing.Unlock()
	// Every group in it was synced; closing can lose nothing.
	_ = s.end()
	return s.number
}

// rouse tells the drain to look.
func (s *spool) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// spoolRecord appends an item as a record.
func spoolRecord(dst []byte, tenant queend.ID, it *PushItem, m *segment.Message) []byte {
	at := len(dst)
	e := encoder{buf: append(dst, spoolMark+"\x00\x00\x00\x00\x00\x00\x00\x00"...)}
	e.id(tenant)
	e.string(it.Queue)
	e.string(it.Partition)
	appendMessage(&e, m)
	body := e.buf[at+spoolHead:]
	binary.LittleEndian.PutUint32(e.buf[at+4:], uint32(len(body)))
	binary.LittleEndian.PutUint32(e.buf[at+8:], crc32.Checksum(body, spoolCRC))
	return e.buf
}

// spoolPush puts items off until push maintenance ends (R120). They get their
// message and transaction ids now, and are durable when it returns. Items
// that could not be stored later either fail at once.
func (b *Broker) spoolPush(ctx context.Context, tenant queend.ID, producer *string, items []PushItem) ([]PushResult, error) {
	ids, encrypts := make([]queend.ID, len(items)), make([]bool, len(items))
	b.locked(func() {
		now := b.now()
		for i := range items {
			ids[i] = b.newID(now)
			if q := b.state.queue(tenant, items[i].Queue); q != nil {
				encrypts[i] = q.opts.EncryptionEnabled
			}
		}
	})
	var recs []byte
	spooled := 0
	results := make([]PushResult, len(items))
	for i := range items {
		it, m := &items[i], b.spoolMessage(&items[i], ids[i], producer)
		results[i] = PushResult{Status: PushBuffered, ID: m.ID, TxnID: m.TxnID, Queue: it.Queue, Offset: queend.NoOffset}
		if reason := b.spoolable(m, encrypts[i]); reason != "" {
			results[i].Status, results[i].ID, results[i].Error = PushFailed, queend.ID{}, reason
			continue
		}
		recs = spoolRecord(recs, tenant, it, m)
		spooled++
	}
	if spooled > 0 {
		if err := b.spool.append(recs, spooled); err != nil {
			b.cfg.Log.Error("spool: a push was not taken", "error", err)
			return nil, fmt.Errorf("spool: %w", err)
		}
	}
	// Maintenance may have ended since it was looked at.
	b.spool.rouse()
	b.meters.pushed(results)
	return results, b.settled(ctx)
}

func (b *Broker) spoolMessage(it *PushItem, id queend.ID, producer *string) *segment.Message {
	m := &segment.Message{ID: id, TxnID: it.TxnID, TraceID: it.TraceID, Headers: it.Headers, Payload: it.Payload}
	if m.TxnID == nil {
		m.TxnID = id.Append(nil)
	}
	if producer != nil {
		m.Producer, m.HasProducer = []byte(*producer), true
	}
	return m
}

// spoolable encrypts what the queue's flag covers; the reason says why an
// item cannot be taken.
func (b *Broker) spoolable(m *segment.Message, encrypts bool) (reason string) {
	if int64(len(m.Payload)+len(m.TxnID)) > b.cfg.EntryMaxBytes {
		return errTooLarge
	}
	if !encrypts || b.cfg.EncryptionKey == nil && !b.cfg.EncryptionRequired {
		return ""
	}
	if b.cfg.EncryptionKey == nil {
		return errNoKey
	}
	sealed, err := b.seal(m.Payload)
	if err != nil {
		return errSeal
	}
	m.Payload, m.Encrypted = sealed, true
	return ""
}

// initSpool finds out what an earlier run has left in the spool.
func (b *Broker) initSpool() {
	s := &b.spool
	s.dir, s.sync, s.wake = b.cfg.SpoolDir, b.cfg.Sync != log.SyncNever, make(chan struct{}, 1)
	if s.dir == "" {
		s.dir = filepath.Join(b.cfg.Dir, "spool")
	}
	s.number = b.state.spool.file
	s.healthy.Store(true)
	files, err := b.spoolFiles()
	if err != nil {
		s.healthy.Store(false)
		b.cfg.Log.Error("spool: it cannot be read", "error", err)
		return
	}
	for _, n := range files {
		s.number = max(s.number, n)
		if n < b.state.spool.file {
			continue // drained; the drain removes it
		}
		items, err := countSpool(s.path(n), b.state.spool.from(n))
		if err != nil {
			s.healthy.Store(false)
			b.cfg.Log.Error("spool: a file cannot be read", "file", s.path(n), "error", err)
		}
		s.pending.Add(items)
	}
	s.countFailed()
	s.rouse()
}
