package broker

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"queend"
	"queend/segment"
)

// Item is one thing found in a file of a data directory.
type Item struct {
	Offset int64 // bytes from the start of the file
	Kind   string
	Fields []Field
}

// Field is a named value: a bool, int64, uint64 or string, or a []any of such
// values and of []Field.
type Field struct {
	Name  string
	Value any
}

// describe gives the fields of a struct in their order, those of embedded
// structs among them. Zero ids and nil pointers are left out.
func describe(v reflect.Value) []Field {
	var out []Field
	t := v.Type()
	for i := range t.NumField() {
		f, value := t.Field(i), v.Field(i)
		if f.Anonymous && value.Kind() == reflect.Struct {
			out = append(out, describe(value)...)
		} else if plain := plainValue(value); plain != nil {
			out = append(out, Field{f.Name, plain})
		}
	}
	return out
}

// idType is printed as text.
var idType = reflect.TypeFor[queend.ID]()

// plainValue is a value as Field has it, nil for one that is left out.
func plainValue(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return v.Uint()
	case reflect.String:
		return v.String()
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return plainValue(v.Elem())
	case reflect.Struct:
		return describe(v)
	case reflect.Array:
		if v.Type() == idType && !v.IsZero() {
			return idText(v)
		}
	case reflect.Slice:
		return plainSlice(v)
	}
	return nil
}

func idText(v reflect.Value) string {
	var id queend.ID
	for i := range id {
		id[i] = byte(v.Index(i).Uint())
	}
	return id.String()
}

func plainSlice(v reflect.Value) any {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return string(v.Bytes())
	}
	list := make([]any, 0, v.Len())
	for i := range v.Len() {
		list = append(list, plainValue(v.Index(i)))
	}
	return list
}

// timeText prints microseconds since 1970.
func timeText(us int64) string {
	return time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.000000Z")
}

// describeEvent gives the fields of an event, and of the messages in it.
func describeEvent(ev event) (kind string, fields []Field, messages []segment.Message) {
	v := reflect.ValueOf(ev).Elem()
	if p, ok := ev.(*pushed); ok {
		for i, raw := range p.raws {
			m := segment.Message{Offset: p.first + queend.Offset(i)}
			readMessage(&decoder{buf: raw}, &m)
			messages = append(messages, m)
		}
		return "pushed", []Field{
			{"partition", uint64(p.partition)}, {"first", int64(p.first)}, {"messages", int64(len(p.raws))},
		}, messages
	}
	return v.Type().Name(), describe(v), nil
}

// describeMessage gives the fields of a message; its time is left out when it
// is not known.
func describeMessage(m *segment.Message) []Field {
	fields := []Field{{"offset", int64(m.Offset)}, {"id", m.ID.String()}, {"transactionId", string(m.TxnID)}}
	if m.Time != 0 {
		fields = append(fields, Field{"time", timeText(m.Time)})
	}
	if !m.TraceID.IsZero() {
		fields = append(fields, Field{"traceId", m.TraceID.String()})
	}
	if m.HasProducer {
		fields = append(fields, Field{"producerSub", string(m.Producer)})
	}
	if m.Headers != nil {
		fields = append(fields, Field{"headers", string(m.Headers)})
	}
	if m.Encrypted {
		fields = append(fields, Field{"encrypted", true})
	}
	if m.Gone {
		return append(fields, Field{"gone", true})
	}
	return append(fields, Field{"payload", string(m.Payload)})
}

// describeEntry gives what an entry of a checkpoint holds, by loading it into
// a state that has nothing else.
func describeEntry(entry []byte) (kind string, fields []Field, err error) {
	if len(entry) == 0 {
		return "", nil, fmt.Errorf("%w: empty entry", errDamagedRecord)
	}
	if ev := newEvent(entry[0]); ev != nil {
		d := decoder{buf: entry[1:]}
		ev.decode(&d)
		kind, fields, _ = describeEvent(ev)
		return kind, fields, d.err
	}
	b := &Broker{state: newState()}
	b.cfg.fill()
	b.storage.init(b, &dataDir{})
	b.tracker.epoch = loadedEpoch
	switch entry[0] {
	case kindPartitionImage:
		d := decoder{buf: entry[1:]}
		d.uint()
		b.anyQueue(queend.QueueID(d.uint()))
	case kindLetterImage:
		d := decoder{buf: entry[1:]}
		d.id()
		b.anyQueue(queend.QueueID(d.uint()))
	}
	if err := b.load(entry); err != nil {
		return "", nil, err
	}
	kind, fields = b.describeLoaded(entry[0])
	return kind, fields, nil
}

// anyQueue makes a queue of which only the number is known.
func (b *Broker) anyQueue(id queend.QueueID) {
	b.state.queues[id] = &queue{
		id: id, groups: map[string]*group{}, letters: map[queend.ID]*deadLetter{},
	}
}

// describeLoaded gives what loading one image has made.
func (b *Broker) describeLoaded(kind byte) (string, []Field) {
	s := &b.state
	for p := range s.partitions.all() {
		return "partition", []Field{
			{"id", uint64(p.id)}, {"queue", uint64(p.q.id)}, {"uuid", p.uuid.String()}, {"name", p.name},
			{"internal", p.ord < 0}, {"created", p.created}, {"lastTime", p.lastTime}, {"lastUse", p.lastUse},
			{"start", int64(p.start)}, {"end", int64(p.end)}, {"flushed", int64(p.flushed)},
			{"runs", plainValue(reflect.ValueOf(p.runs()))}, {"rows", plainValue(reflect.ValueOf(slices.Collect(p.rows.all())))},
		}
	}
	for _, l := range s.dead {
		return "deadLetter", []Field{
			{"id", l.id.String()}, {"queue", uint64(l.q.id)}, {"group", l.group}, {"partition", uint64(l.part)},
			{"offset", int64(l.offset)}, {"at", int64(l.at)}, {"failedAt", l.failedAt},
		}
	}
	if kind != kindMiscImage {
		return "nothing", nil
	}
	return "numbers", append([]Field{
		{"lastQueue", uint64(s.lastQueue)}, {"lastPartition", uint64(s.lastPartition)},
		{"lastGroup", uint64(s.lastGroup)}, {"lastFile", uint64(s.lastFile)}, {"lastStamp", s.lastStamp},
		{"maintenance", s.maintenance}, {"popMaintenance", s.popMaintenance},
	}, describe(reflect.ValueOf(s.totals))...)
}
