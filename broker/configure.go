package broker

import (
	"context"
	"slices"

	"queend"
)

// OptionKind is the JSON type an option takes.
type OptionKind uint8

// The kinds of options.
const (
	OptionNone OptionKind = iota // no such option
	OptionInt                    // a whole number
	OptionBool
	OptionText
)

// option ties a name to its place.
type option struct {
	name   string
	number func(*Options) *int64
	toggle func(*Options) *bool
	hidden bool // an addition of ours: echoed only when sent or not at its default
}

// optionTable lists every option in the order of the answer (docs/rules.md, S5).
var optionTable = []option{
	{name: "leaseTime", number: func(o *Options) *int64 { return &o.LeaseTime }},
	{name: "retryLimit", number: func(o *Options) *int64 { return &o.RetryLimit }},
	{name: "deadLetterQueue", toggle: func(o *Options) *bool { return &o.DeadLetterQueue }},
	{name: "dlqAfterMaxRetries", toggle: func(o *Options) *bool { return &o.DLQAfterMaxRetries }},
	{name: "delayedProcessing", number: func(o *Options) *int64 { return &o.DelayedProcessing }},
	{name: "windowBuffer", number: func(o *Options) *int64 { return &o.WindowBuffer }},
	{name: "retentionEnabled", toggle: func(o *Options) *bool { return &o.RetentionEnabled }},
	{name: "retentionSeconds", number: func(o *Options) *int64 { return &o.RetentionSeconds }},
	{name: "completedRetentionSeconds", number: func(o *Options) *int64 { return &o.CompletedRetentionSeconds }},
	{name: "maxWaitTimeSeconds", number: func(o *Options) *int64 { return &o.MaxWaitTimeSeconds }},
	{name: "minPopWaitTime", number: func(o *Options) *int64 { return &o.MinPopWaitTime }},
	{name: "encryptionEnabled", toggle: func(o *Options) *bool { return &o.EncryptionEnabled }},
	{name: "dedupWindowSeconds", number: func(o *Options) *int64 { return &o.DedupWindowSeconds }},
	{name: "priority", number: func(o *Options) *int64 { return &o.Priority }},
	{name: "maxSize", number: func(o *Options) *int64 { return &o.MaxSize }},
	{name: "retryDelay", number: func(o *Options) *int64 { return &o.RetryDelay }},
	{name: "ttl", number: func(o *Options) *int64 { return &o.TTL }},
	{name: "redeliveryDelayMs", number: func(o *Options) *int64 { return &o.RedeliveryDelayMS }, hidden: true},
	{name: "redeliveryDelayMaxMs", number: func(o *Options) *int64 { return &o.RedeliveryDelayMaxMS }, hidden: true},
	{name: "maxDeliveries", number: func(o *Options) *int64 { return &o.MaxDeliveries }, hidden: true},
	{name: "requireLease", toggle: func(o *Options) *bool { return &o.RequireLease }, hidden: true},
}

// maxOptionSeconds keeps sums of instants and options far from overflow.
const maxOptionSeconds = 1 << 40

// KindOf says what type an option takes, OptionNone for an unknown name.
func KindOf(name string) OptionKind {
	if name == "namespace" || name == "task" {
		return OptionText
	}
	for _, o := range optionTable {
		if o.name == name && o.number != nil {
			return OptionInt
		}
		if o.name == name {
			return OptionBool
		}
	}
	return OptionNone
}

// Setting is one option as sent. Null stands for its default.
type Setting struct {
	Name string
	Null bool
	Int  int64
	Bool bool
	Text string
}

// Configure is a request to set the options of a queue.
type Configure struct {
	Tenant   queend.ID
	Queue    string
	Merge    bool // keep what is not sent
	Settings []Setting
}

// OptionValue is one resolved option of an answer.
type OptionValue struct {
	Name string
	Kind OptionKind
	Int  int64
	Bool bool
	Text string
}

// Configured is the answer.
type Configured struct {
	QueueID         queend.ID
	Namespace, Task string
	Options         []OptionValue
	Changed         []string
	Warnings        []string
}

// Configure creates a queue or sets its options, at once and whole. Errors
// are a *Refusal, which changed nothing, or a failure of the log.
func (b *Broker) Configure(ctx context.Context, c Configure) (Configured, error) {
	if err := checkNames(c.Queue, "", ""); err != nil {
		return Configured{}, err
	}
	var out Configured
	var lsn queend.LSN
	var refused error
	b.locked(func() {
		ev, before, err := b.planConfigure(&c)
		if err != nil {
			refused = err
			return
		}
		t := ev.bundle
		if ev.changed(before) {
			t.add(ev.set)
			if ev.isNew || ev.set.namespace != before.namespace || ev.set.task != before.task {
				b.addLabelGroups(t, ev.set)
			}
			b.endDelays(t, before, ev.set)
		}
		lsn = b.commit(t)
		out = b.configured(&c, ev, before)
	})
	if refused != nil {
		return Configured{}, refused
	}
	return out, b.await(ctx, lsn)
}

// endDelays adds the rows of lanes that wait for a spaced retry, when the
// queue's redelivery delay is set to 0: that ends the wait (A2).
func (b *Broker) endDelays(t *bundle, before, after *queueSet) {
	q := b.state.queues[after.id]
	if q == nil || before.opts.RedeliveryDelayMS == 0 || after.opts.RedeliveryDelayMS != 0 {
		return
	}
	for _, g := range q.groups {
		for id := range g.d.armed {
			p := b.state.partitions.get(id)
			if p == nil {
				continue
			}
			if r := p.rows.find(g.id); r != nil && r.lane != nil && r.lane.notBefore > 0 {
				next := r.clone()
				next.lane.notBefore = 0
				next.tidy()
				t.add(&rowSet{partition: p.id, row: *next})
			}
		}
	}
}

// plannedConfigure is the queue as it will be.
type plannedConfigure struct {
	bundle *bundle
	set    *queueSet
	isNew  bool
}

func (ev *plannedConfigure) changed(before *queueSet) bool {
	return ev.isNew || *ev.set != *before
}

// planConfigure resolves what is sent against the queue as it is.
func (b *Broker) planConfigure(c *Configure) (*plannedConfigure, *queueSet, error) {
	t := b.begin()
	ev := &plannedConfigure{bundle: t}
	if q := b.state.queue(c.Tenant, c.Queue); q != nil {
		ev.set = q.event()
	} else {
		ev.isNew = true
		ev.set = b.addQueue(t, c.Tenant, c.Queue)
		ev.set.opts, ev.set.namespace, ev.set.task = DefaultOptions(), "", ""
	}
	before := *ev.set
	ev.set.implicit = false
	if !c.Merge {
		ev.set.opts, ev.set.namespace, ev.set.task = DefaultOptions(), "", ""
	}
	for i := range c.Settings {
		if err := ev.set.apply1(&c.Settings[i]); err != nil {
			return nil, nil, err
		}
	}
	return ev, &before, nil
}

// event is the queue as it stands.
func (q *queue) event() *queueSet {
	return &queueSet{
		id: q.id, uuid: q.uuid, tenant: q.tenant, name: q.name, created: q.created, namespace: q.namespace,
		task: q.task, implicit: q.implicit, opts: q.opts,
	}
}

// apply1 puts one setting into the planned queue.
func (v *queueSet) apply1(s *Setting) error {
	switch s.Name {
	case "namespace":
		v.namespace = s.Text
		return nil
	case "task":
		v.task = s.Text
		return nil
	}
	defaults := DefaultOptions()
	for _, o := range optionTable {
		if o.name != s.Name {
			continue
		}
		switch {
		case o.toggle != nil && s.Null:
			*o.toggle(&v.opts) = *o.toggle(&defaults)
		case o.toggle != nil:
			*o.toggle(&v.opts) = s.Bool
		case s.Null:
			*o.number(&v.opts) = *o.number(&defaults)
		default:
			n, err := checkNumber(s)
			if err != nil {
				return err
			}
			*o.number(&v.opts) = n
		}
	}
	return nil
}

// checkNumber refuses or clamps a number (docs/rules.md, S20).
func checkNumber(s *Setting) (int64, error) {
	switch s.Name {
	case "dedupWindowSeconds":
		return min(max(s.Int, 0), maxOptionSeconds), nil
	case "minPopWaitTime":
		return min(max(s.Int, 0), maxPopTimeoutMS), nil
	}
	if s.Int < 0 {
		return 0, refuse(CodeBadRequest, s.Name+" must not be negative")
	}
	return min(s.Int, maxOptionSeconds), nil
}

// configured completes the answer: every option resolved, what changed (A10).
func (b *Broker) configured(c *Configure, ev *plannedConfigure, before *queueSet) Configured {
	out := Configured{
		QueueID: ev.set.uuid, Namespace: ev.set.namespace, Task: ev.set.task,
		Options: ev.set.values(c.Settings), Changed: changedOptions(&before.opts, &ev.set.opts),
	}
	if before.namespace != ev.set.namespace {
		out.Changed = append(out.Changed, "namespace")
	}
	if before.task != ev.set.task {
		out.Changed = append(out.Changed, "task")
	}
	if ev.set.opts.EncryptionEnabled && b.cfg.EncryptionKey == nil && !b.cfg.EncryptionRequired {
		out.Warnings = append(out.Warnings,
			"encryptionEnabled has no effect: no QUEEN_ENCRYPTION_KEY is configured, payloads are stored as plaintext")
	}
	if ev.set.opts.EncryptionEnabled && b.cfg.EncryptionKey == nil && b.cfg.EncryptionRequired {
		out.Warnings = append(out.Warnings, "encryption is required but no key is configured: pushes fail")
	}
	return out
}

// values lists the options, the additions only when they were sent or are not
// at their default (docs/rules.md, S19).
func (v *queueSet) values(sent []Setting) []OptionValue {
	o, defaults := &v.opts, DefaultOptions()
	out := []OptionValue{
		{Name: "namespace", Kind: OptionText, Text: v.namespace}, {Name: "task", Kind: OptionText, Text: v.task},
	}
	for _, d := range optionTable {
		v := OptionValue{Name: d.name, Kind: OptionInt}
		atDefault := false
		if d.toggle != nil {
			v.Kind, v.Bool = OptionBool, *d.toggle(o)
			atDefault = v.Bool == *d.toggle(&defaults)
		} else {
			v.Int = *d.number(o)
			atDefault = v.Int == *d.number(&defaults)
		}
		wasSent := slices.ContainsFunc(sent, func(s Setting) bool { return s.Name == d.name })
		if !d.hidden || !atDefault || wasSent {
			out = append(out, v)
		}
	}
	return out
}

// changedOptions names the options whose values differ.
func changedOptions(a, b *Options) []string {
	changed := []string{}
	for _, d := range optionTable {
		if d.toggle != nil && *d.toggle(a) != *d.toggle(b) || d.number != nil && *d.number(a) != *d.number(b) {
			changed = append(changed, d.name)
		}
	}
	return changed
}

// DeleteQueue removes a queue with its messages, cursors, dead letters,
// registrations and options; existed is false when there was none.
func (b *Broker) DeleteQueue(ctx context.Context, tenant queend.ID, name string) (existed bool, err error) {
	var lsn queend.LSN
	b.locked(func() {
		t := b.begin()
		if q := b.state.queue(tenant, name); q != nil && !q.isHidden() {
			existed = true
			t.add(&queueGone{q.id})
		}
		lsn = b.commit(t)
	})
	return existed, b.await(ctx, lsn)
}
