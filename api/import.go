package api

import (
	"errors"
	"fmt"

	"github.com/valyala/fasthttp"

	"queend"
	"queend/api/jsonscan"
	"queend/broker"
)

// imported is the answer of POST /internal/import.
type imported struct {
	Success bool `json:"success"`
	Groups  int  `json:"groups"`
	Cursors int  `json:"cursors"`
	Letters int  `json:"deadLetters"`
	Known   int  `json:"known"`
}

// importState answers POST /internal/import with what it made of the groups
// and dead letters of a queue.
func (r *request) importState() {
	room, ok := r.server.bodies.unpack(r.body())
	defer room.release()
	if !ok {
		tooMany(r)
		return
	}
	in := broker.Import{Tenant: r.tenant}
	named := false
	err := r.readBody(false, func(key string, v jsonscan.Value) error {
		switch key {
		case "queue":
			named = true
			return readText(key, v, &in.Queue)
		case "groups":
			return readObjects(key, v, func(v jsonscan.Value) error {
				g, err := readImportGroup(v)
				in.Groups = append(in.Groups, g)
				return err
			})
		case "deadLetters":
			return readObjects(key, v, func(v jsonscan.Value) error {
				l, err := readImportLetter(v)
				in.Letters = append(in.Letters, l)
				return err
			})
		}
		return nil
	})
	if err == nil && !named {
		err = errNoQueue
	}
	if err != nil {
		r.badBody(err)
		return
	}
	ctx, cancel := r.within()
	defer cancel()
	out, err := r.broker.Import(ctx, in)
	if err != nil {
		r.unmanaged(err, "import")
		return
	}
	r.answer(fasthttp.StatusOK, imported{true, out.Groups, out.Cursors, out.Letters, out.Known})
}

// readObjects shows each every element of an array of objects.
func readObjects(key string, v jsonscan.Value, each func(v jsonscan.Value) error) error {
	if v.Kind != jsonscan.Array {
		return fmt.Errorf("%s must be an array", key)
	}
	s := v.Scanner()
	return s.Array(func(i int) error {
		v, err := s.Value()
		if err == nil && v.Kind != jsonscan.Object {
			err = errObject
		}
		if err == nil {
			err = each(v)
		}
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", key, i, err)
		}
		return nil
	})
}

func readImportGroup(v jsonscan.Value) (g broker.ImportGroup, err error) {
	g.Start = -1
	err = readMembers(v, func(key string, v jsonscan.Value) error {
		switch key {
		case "name":
			return readText(key, v, &g.Name)
		case "mode":
			return readText(key, v, &g.Mode)
		case "start":
			return readTime(key, v, &g.Start)
		case "conflation":
			return readBool(key, v, &g.Conflation)
		case "cursors":
			return readObjects(key, v, func(v jsonscan.Value) error {
				c, err := readImportCursor(v)
				g.Cursors = append(g.Cursors, c)
				return err
			})
		}
		return nil
	})
	return g, err
}

func readImportCursor(v jsonscan.Value) (c broker.ImportCursor, err error) {
	next := int64(-1)
	err = readMembers(v, func(key string, v jsonscan.Value) error {
		switch key {
		case "partition":
			return readText(key, v, &c.Partition)
		case "next":
			return readInt(key, v, &next)
		}
		return nil
	})
	if err == nil && next < 0 {
		err = errors.New("next is required and not negative")
	}
	c.Next = queend.Offset(next)
	return c, err
}

func readImportLetter(v jsonscan.Value) (l broker.ImportLetter, err error) {
	offset, item := int64(queend.NoOffset), broker.PushItem{}
	err = readMembers(v, func(key string, v jsonscan.Value) error {
		switch key {
		case "id":
			text := ""
			if err := readText(key, v, &text); err != nil {
				return err
			}
			if l.ID, err = queend.ParseID(text); err != nil {
				return errors.New("id is not a UUID")
			}
			return nil
		case "partition":
			return readText(key, v, &l.Partition)
		case "consumerGroup":
			return readText(key, v, &l.Group)
		case "offset":
			return readInt(key, v, &offset)
		case "transactionId":
			l.TxnID, err = nameField(v, key)
			return err
		case "producerSub":
			l.Producer = new(string)
			return readText(key, v, l.Producer)
		case "headers":
			return setHeaders(&item, v)
		case "errorMessage":
			return readText(key, v, &l.Error)
		case "retryCount":
			return readInt(key, v, &l.Retries)
		case "attempts":
			return readInt(key, v, &l.Attempts)
		case "enqueuedAt":
			return readTime(key, v, &l.Enqueued)
		}
		return nil
	})
	if err == nil {
		l.Payload, err = payloadMember(v)
	}
	if err == nil && l.TxnID == nil {
		err = errors.New("transactionId is required")
	}
	if offset < 0 {
		offset = int64(queend.NoOffset)
	}
	l.Offset, l.Headers = queend.Offset(offset), item.Headers
	return l, err
}

// payloadMember is the payload of an object, which may be null.
func payloadMember(v jsonscan.Value) (raw []byte, err error) {
	s := v.Scanner()
	err = s.Object(func(key []byte) error {
		v, err := s.Value()
		if string(key) == "payload" {
			raw = v.Raw
		}
		return err
	})
	if err == nil && raw == nil {
		err = errors.New("payload is required")
	}
	return raw, err
}
