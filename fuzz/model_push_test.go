package fuzz

import (
	"queend"
	"queend/broker"
)

// pushItem is one message of a push or a transaction.
type pushItem struct {
	Queue, Part, Txn string // Txn "": minted
	N, Pad           int
	Headers          bool
}

// payload is JSON that tells messages apart.
func (it pushItem) payload() string {
	pad := make([]byte, it.Pad)
	for i := range pad {
		pad[i] = 'a' + byte((i*7+it.N)%26)
	}
	return `{"n":` + itoa(it.N) + `,"pad":"` + string(pad) + `"}`
}

func (it pushItem) headers() string {
	if !it.Headers {
		return ""
	}
	return `{"h":"` + itoa(it.N) + `"}`
}

// mPushed is what must become of an item.
type mPushed struct {
	status broker.PushStatus
	msg    *mMsg // stored, or the original
	gone   bool  // the original is removed: its id is not told
	repeat bool  // of an id of the same request
}

// push stores items by R80-R82. ids of what is stored come later, from the
// answer.
func (m *model) push(items []pushItem, producer *string) []mPushed {
	now := m.stamp()
	inCall := map[string]map[string]*mMsg{} // queue and partition, id
	out := make([]mPushed, len(items))
	for i, it := range items {
		place := it.Queue + "\x00" + orText(it.Part, broker.DefaultPartition)
		if inCall[place] == nil {
			inCall[place] = map[string]*mMsg{}
		}
		if it.Txn != "" {
			if first := inCall[place][it.Txn]; first != nil {
				out[i] = mPushed{status: broker.PushDuplicate, msg: first, repeat: true}
				continue
			}
			if dup, gone := m.inWindow(it, now); dup != nil {
				out[i] = mPushed{status: broker.PushDuplicate, msg: dup, gone: gone}
				continue
			}
		}
		msg := m.store(it, producer, now)
		if it.Txn != "" {
			inCall[place][it.Txn] = msg
		}
		out[i] = mPushed{status: broker.PushQueued, msg: msg}
	}
	return out
}

// inWindow finds the original of a duplicate (R80, R82).
func (m *model) inWindow(it pushItem, now int64) (original *mMsg, gone bool) {
	p := m.find(it.Queue, it.Part)
	if p == nil || p.q.opts.DedupWindowSeconds <= 0 {
		return nil, false
	}
	off, found := p.lookup(it.Txn, now-p.q.opts.DedupWindowSeconds*second, 0, p.end()-1)
	if !found {
		return nil, false
	}
	return p.msgs[off], off < p.start
}

// store appends a message.
func (m *model) store(it pushItem, producer *string, now int64) *mMsg {
	q := m.queue(it.Queue)
	p := m.part(q, orText(it.Part, broker.DefaultPartition), now)
	m.passOver(p, now)
	msg := &mMsg{
		off: p.end(), time: now, txn: it.Txn, payload: it.payload(), headers: it.headers(), producer: producer,
		sealed: q.opts.EncryptionEnabled && m.rules.Encrypts,
	}
	p.msgs = append(p.msgs, msg)
	return msg
}

// passOver gives a row to groups that begin in the future and meet the
// partition now (R40).
func (m *model) passOver(p *mPart, now int64) {
	for _, g := range p.q.groups {
		if p.rows[g] == nil && p.end() > 0 && p.lastTime() < g.seedOn(p) && now >= g.seedOn(p) {
			p.rows[g] = &mRow{committed: p.end() - 1}
		}
	}
}

func (g *mGroup) seedOn(p *mPart) int64 {
	if p.n <= g.seedMax {
		return g.seed
	}
	return g.start
}

// settleID notes the ids that the broker minted for a stored message.
func (msg *mMsg) settleID(id queend.ID) {
	msg.id = id
	if msg.txn == "" {
		msg.txn = id.String()
	}
}
