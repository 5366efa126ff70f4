package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// natsMode is how NATS keeps and takes messages.
type natsMode struct {
	always bool // sync before the acknowledgement
	atomic bool // a batch is one atomic batch, not many messages in flight

	confirmed bool // consumers wait until the server confirms their acks
	one       bool // all lanes are subjects of one stream
}

var (
	natsAlways  = natsMode{always: true}
	natsSure    = natsMode{always: true, confirmed: true}
	natsAtomic  = natsMode{always: true, atomic: true}
	natsOne     = natsMode{always: true, atomic: true, one: true}
	natsDefault = natsMode{}
)

// natsStreams is how many streams the lanes are spread over: one has one writer,
// with eight the syncs of several overlap, and with more it gets slower again.
const natsStreams = 8

// streams is how many there are in this mode.
func (m natsMode) streams() int {
	if m.one {
		return 1
	}
	return natsStreams
}

// natsPeer is NATS JetStream.
type natsPeer struct {
	process *process
	mode    natsMode
	admin   *nats.Conn
}

func newNATS(dir string, mode natsMode) (system, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir, target: newTarget(), ready: natsReady, args: func(port string) (string, []string, []string) {
		return self, []string{serveNATSName, "-port", port, "-store", filepath.Join(dir, "store"), "-sync-always=" + strconv.FormatBool(mode.always)}, nil
	}}
	return &natsPeer{process: p, mode: mode}, nil
}

func natsReady(_ context.Context, addr string) bool {
	nc, err := nats.Connect("nats://"+addr, nats.NoReconnect(), nats.Timeout(2*time.Second))
	if err != nil {
		return false
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err = js.AccountInfo(ctx)
	return err == nil
}

func (p *natsPeer) promise() string {
	text := "a message is acknowledged once it is written to its file, which is synced every 2 minutes (the default): an acknowledged message can be lost at a power cut"
	if p.mode.always {
		text = "a message is acknowledged after it is written and synced (sync_interval always)"
	}
	if p.mode.atomic {
		text += "; a batch is one atomic batch publish, acknowledged as a whole"
	} else {
		text += "; the messages of a batch are published at once and all acknowledgements awaited"
	}
	text += fmt.Sprintf("; one server, file storage, 1 replica, the lanes are subjects of %d stream(s); no duplicate window is used; pull consumers that ask ahead, one ack per message", p.mode.streams())
	if p.mode.confirmed {
		return text + ", those of a batch sent at once and all confirmed by the server"
	}
	return text + ", which the server does not confirm"
}

func (p *natsPeer) server() *process { return p.process }

func (p *natsPeer) ordered() bool { return true }

func (p *natsPeer) close() {
	if p.admin != nil {
		p.admin.Close()
	}
}

// connect makes a connection of its own for a producer or consumer.
func (p *natsPeer) connect(ctx context.Context) (*nats.Conn, jetstream.JetStream, error) {
	addr, err := p.process.target.wait(ctx)
	if err != nil {
		return nil, nil, err
	}
	nc, err := nats.Connect("nats://"+addr, nats.NoReconnect())
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4096))
	if err != nil {
		nc.Close()
	}
	return nc, js, err
}

func streamName(n int) string { return "bench" + strconv.Itoa(n) }

// subject is where the messages of a lane go.
func (m natsMode) subject(lane uint32) string {
	return streamName(int(lane)%m.streams()) + "." + laneName(int(lane))
}

// open makes the streams.
func (p *natsPeer) open(ctx context.Context, _ int) error {
	nc, js, err := p.connect(ctx)
	if err != nil {
		return err
	}
	p.admin = nc
	for n := range p.mode.streams() {
		stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
			Name: streamName(n), Subjects: []string{streamName(n) + ".*"}, Storage: jetstream.FileStorage, AllowAtomicPublish: p.mode.atomic,
		})
		if err != nil {
			return err
		}
		_, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
			Durable: loadGroup, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 10000, AckWait: time.Minute,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *natsPeer) producer(ctx context.Context, batch int) (producer, error) {
	nc, js, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	n := &natsProducer{conn: nc, js: js, mode: p.mode}
	if p.mode.atomic && batch > 1 {
		return &natsBatcher{*n}, nil
	}
	return n, nil
}

// natsProducer publishes the messages of a batch at once and awaits all
// acknowledgements.
type natsProducer struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	mode    natsMode
	futures []jetstream.PubAckFuture
}

func (n *natsProducer) close() { n.conn.Close() }

func (n *natsProducer) push(items []slot, at int64) error {
	n.futures = n.futures[:0]
	for _, s := range items {
		f, err := n.js.PublishAsync(n.mode.subject(s.lane), newPayload(s, at))
		if err != nil {
			return err
		}
		n.futures = append(n.futures, f)
	}
	for _, f := range n.futures {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return err
		}
	}
	return nil
}

// natsBatcher publishes a batch as one atomic batch.
type natsBatcher struct{ natsProducer }

func (n *natsBatcher) push(items []slot, at int64) error {
	id := nuid.Next()
	for i, s := range items {
		m := &nats.Msg{Subject: n.mode.subject(s.lane), Data: newPayload(s, at), Header: nats.Header{
			"Nats-Batch-Id": {id}, "Nats-Batch-Sequence": {strconv.Itoa(i + 1)},
		}}
		if i < len(items)-1 {
			if err := n.conn.PublishMsg(m); err != nil {
				return err
			}
			continue
		}
		m.Header["Nats-Batch-Commit"] = []string{"1"}
		answer, err := n.conn.RequestMsg(m, callLimit)
		if err != nil {
			return err
		}
		var ack struct {
			Count int             `json:"count"`
			Error json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(answer.Data, &ack); err != nil {
			return err
		}
		if ack.Error != nil || ack.Count != len(items) {
			return fmt.Errorf("a batch of %d messages was answered %s", len(items), answer.Data)
		}
	}
	return nil
}

// natsAhead is how many messages a consumer asks for ahead.
const natsAhead = 1000

func (p *natsPeer) consumer(ctx context.Context, n int, how consumption) (consumer, error) {
	if how.pinned {
		return nil, &missingError{"consumers of one subject each are not part of this setup"}
	}
	nc, js, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &natsConsumer{conn: nc, batch: how.batch, wait: max(how.wait, 200*time.Millisecond), confirmed: p.mode.confirmed,
		arrived: make(chan jetstream.Msg, 2*natsAhead*natsStreams)}
	for stream := n; stream < p.mode.streams(); stream += how.consumers {
		from, err := js.Consumer(ctx, streamName(stream), loadGroup)
		if err != nil {
			nc.Close()
			return nil, err
		}
		c.from = append(c.from, from)
	}
	if !c.confirmed {
		return c, nil
	}
	c.inbox = nc.NewInbox()
	if c.answers, err = nc.SubscribeSync(c.inbox); err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// natsConsumer takes from the streams that are its own.
type natsConsumer struct {
	conn      *nats.Conn
	batch     int
	wait      time.Duration
	from      []jetstream.Consumer // asked as soon as somebody takes
	arrived   chan jetstream.Msg
	taken     []jetstream.Msg
	confirmed bool
	inbox     string // where the server confirms
	answers   *nats.Subscription
}

// start asks for messages ahead.
func (c *natsConsumer) start() error {
	for _, from := range c.from {
		if _, err := from.Consume(func(m jetstream.Msg) { c.arrived <- m }, jetstream.PullMaxMessages(natsAhead)); err != nil {
			return err
		}
	}
	c.from = nil
	return nil
}

// ack acknowledges what was taken.
func (c *natsConsumer) ack() error {
	for _, m := range c.taken {
		if !c.confirmed {
			if err := m.Ack(); err != nil {
				return err
			}
			continue
		}
		if err := c.conn.PublishRequest(m.Reply(), c.inbox, []byte("+ACK")); err != nil {
			return err
		}
	}
	if !c.confirmed {
		return nil
	}
	for range c.taken {
		if _, err := c.answers.NextMsg(callLimit); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until the server has read all acks.
func (c *natsConsumer) settle() error { return c.conn.Flush() }

func (c *natsConsumer) close() { c.conn.Close() }

func (c *natsConsumer) take(in *intake) error {
	if err := c.start(); err != nil {
		return err
	}
	began := in.clock.now()
	c.taken = c.taken[:0]
	select {
	case m := <-c.arrived:
		c.taken = append(c.taken, m)
	case <-time.After(c.wait):
		return nil
	}
	for more := true; more && len(c.taken) < c.batch; {
		select {
		case m := <-c.arrived:
			c.taken = append(c.taken, m)
		default:
			more = false
		}
	}
	in.arrived(began)
	for _, m := range c.taken {
		if err := in.message(m.Data()); err != nil {
			return err
		}
	}
	in.flush()
	return c.ack()
}

// audit reads the streams from their beginning.
func (p *natsPeer) audit(ctx context.Context, _ int, message func([]byte) error) error {
	js, err := jetstream.New(p.admin)
	if err != nil {
		return err
	}
	for n := range p.mode.streams() {
		if err := auditStream(ctx, js, streamName(n), message); err != nil {
			return fmt.Errorf("stream %s: %w", streamName(n), err)
		}
	}
	return nil
}

func auditStream(ctx context.Context, js jetstream.JetStream, name string, message func([]byte) error) error {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return err
	}
	left := stream.CachedInfo().State.Msgs
	if left == 0 {
		return nil
	}
	reader, err := js.OrderedConsumer(ctx, name, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return err
	}
	messages, err := reader.Messages(jetstream.PullMaxMessages(4 * natsAhead))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for ; left > 0; left-- {
		m, err := messages.Next(jetstream.NextMaxWait(callLimit))
		if err != nil {
			return errors.Join(err, ctx.Err())
		}
		if err := message(m.Data()); err != nil {
			return err
		}
	}
	return nil
}
