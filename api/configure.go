package api

import (
	"errors"
	"fmt"

	"queend/api/jsonscan"
	"queend/broker"
)

// configure answers POST /api/v1/configure (docs/rules.md, S5).
func (r *request) configure() {
	c, err := decodeConfigure(r.body())
	if err != nil {
		var mode *modeError
		if errors.As(err, &mode) {
			r.fail(400, "bad_request", err.Error())
			return
		}
		r.badBody(err)
		return
	}
	c.Tenant = r.tenant
	ctx, cancel := r.deadline(r.server.limits.statement)
	defer cancel()
	out, err := r.broker.Configure(ctx, c)
	if err != nil {
		r.refuse(err, "configure")
		return
	}
	r.json(200, func(dst []byte) []byte { return appendConfigured(dst, c.Queue, &out) })
}

func appendConfigured(dst []byte, queue string, out *broker.Configured) []byte {
	dst = append(dst, `{"configured":true`...)
	dst = appendID(dst, "queueId", out.QueueID)
	dst = appendNull(dst, "partitionId")
	dst = appendText(dst, "queue", queue)
	dst = appendText(dst, "namespace", out.Namespace)
	dst = appendText(dst, "task", out.Task)
	dst = appendText(dst, "storage", "segments")
	dst = appendOptions(appendKey(dst, "options"), out.Options)
	dst = appendTexts(dst, "changed", out.Changed)
	dst = appendTexts(dst, "warnings", out.Warnings)
	return append(dst, '}')
}

// appendOptions writes the options as an object.
func appendOptions(dst []byte, options []broker.OptionValue) []byte {
	dst = append(dst, '{')
	for i, o := range options {
		at := len(dst)
		switch o.Kind {
		case broker.OptionBool:
			dst = appendBool(dst, o.Name, o.Bool)
		case broker.OptionText:
			dst = appendText(dst, o.Name, o.Text)
		default:
			dst = appendInt(dst, o.Name, o.Int)
		}
		if i == 0 {
			dst = append(dst[:at], dst[at+1:]...)
		}
	}
	return append(dst, '}')
}

func appendTexts(dst []byte, key string, texts []string) []byte {
	return appendList(appendKey(dst, key), len(texts), func(dst []byte, i int) []byte {
		return appendString(dst, texts[i])
	})
}

// modeError names a mode that does not exist.
type modeError struct{ got string }

func (e *modeError) Error() string {
	return fmt.Sprintf("mode must be \"merge\" or \"replace\", got %s", e.got)
}

// configureBody collects what a configure says where.
type configureBody struct {
	c        broker.Configure
	hasQueue bool
	nested   []broker.Setting // of options
	top      []broker.Setting // beside it
	hasNest  bool
}

func decodeConfigure(body []byte) (broker.Configure, error) {
	s, err := jsonscan.New(body)
	if err != nil {
		return broker.Configure{}, err
	}
	if s.Kind() != jsonscan.Object {
		if _, err := s.Value(); err != nil {
			return broker.Configure{}, err
		}
		return broker.Configure{}, errors.New("must be an object")
	}
	var b configureBody
	err = s.Object(func(key []byte) error { return b.member(&s, string(key)) })
	if err == nil {
		err = s.End()
	}
	if err == nil && !b.hasQueue {
		err = errors.New("queue must be a string")
	}
	return b.resolve(), err
}

func (b *configureBody) member(s *jsonscan.Scanner, key string) error {
	if key == "options" && s.Kind() == jsonscan.Object {
		b.hasNest = true
		return s.Object(func(key []byte) error { return readSetting(s, string(key), &b.nested) })
	}
	if key != "queue" && key != "mode" && key != "options" {
		return readSetting(s, key, &b.top)
	}
	v, err := s.Value()
	if err != nil {
		return err
	}
	switch key {
	case "queue":
		text, err := v.Name()
		if err != nil {
			return fmt.Errorf("queue must be a string: %w", err)
		}
		b.c.Queue, b.hasQueue = string(text), true
	case "mode":
		return b.setMode(v)
	case "options":
		if v.Kind != jsonscan.Null {
			return errors.New("options must be an object")
		}
	}
	return nil
}

func (b *configureBody) setMode(v jsonscan.Value) error {
	text, err := v.String()
	switch {
	case v.Kind == jsonscan.Null:
	case err == nil && text == "replace":
	case err == nil && text == "merge":
		b.c.Merge = true
	default:
		return &modeError{string(v.Raw)}
	}
	return nil
}

// resolve puts the settings in order: what options says wins. Namespace and
// task beside it count when they are not empty; options there only without
// an options object.
func (b *configureBody) resolve() broker.Configure {
	for _, s := range b.top {
		label := broker.KindOf(s.Name) == broker.OptionText
		if label && (s.Null || s.Text == "") || !label && b.hasNest {
			continue
		}
		b.c.Settings = append(b.c.Settings, s)
	}
	b.c.Settings = append(b.c.Settings, b.nested...)
	return b.c
}

// readSetting reads one option; unknown names are ignored.
func readSetting(s *jsonscan.Scanner, name string, into *[]broker.Setting) error {
	kind := broker.KindOf(name)
	if kind == broker.OptionNone {
		return nil
	}
	v, err := s.Value()
	if err != nil {
		return err
	}
	set := broker.Setting{Name: name, Null: v.Kind == jsonscan.Null}
	if !set.Null {
		switch kind {
		case broker.OptionInt:
			if set.Int, err = v.Int64(); err != nil {
				return fmt.Errorf("%s must be a whole number", name)
			}
		case broker.OptionBool:
			if set.Bool, err = v.Bool(); err != nil {
				return fmt.Errorf("%s must be true or false", name)
			}
		case broker.OptionText:
			text, err := v.Name()
			if err != nil {
				return fmt.Errorf("%s must be a string: %w", name, err)
			}
			set.Text = string(text)
		}
	}
	*into = append(*into, set)
	return nil
}

// deleteQueue answers DELETE /api/v1/resources/queues/:queue (docs/rules.md, S5).
func (r *request) deleteQueue() {
	name := r.param("queue")
	ctx, cancel := r.deadline(r.server.limits.statement)
	defer cancel()
	existed, err := r.broker.DeleteQueue(ctx, r.tenant, name)
	if err != nil {
		r.refuse(err, "delete")
		return
	}
	r.json(200, func(dst []byte) []byte {
		dst = append(dst, `{"deleted":`...)
		dst = fmt.Append(dst, existed)
		dst = appendText(dst, "queue", name)
		dst = appendBool(dst, "existed", existed)
		if !existed {
			dst = appendText(dst, "message", "Queue not found, nothing was deleted")
		}
		return append(dst, '}')
	})
}
