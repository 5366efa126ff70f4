package broker

import "queend"

// tail holds the messages of a partition that are in no segment yet.
type tail struct {
	from     queend.Offset // of messages[0]
	messages []tailMessage
	top      uint64 // highest place (segment.Place) of an id since it was begun: none above it is in here
}

// tailMessage is a message that is in no segment yet. raw is its encoding
// inside the log record that brought it; nobody changes it.
type tailMessage struct {
	raw  []byte
	time int64
}

// tailFrom is the offset from which on messages are in memory.
func (p *partition) tailFrom() queend.Offset {
	if p.tail == nil {
		return p.end
	}
	return p.tail.from
}

// inMemory returns the messages from tailFrom on. The slice must not be
// changed.
func (p *partition) inMemory() []tailMessage {
	if p.tail == nil {
		return nil
	}
	return p.tail.messages
}
