package api

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"time"

	"queend/backup"
	"queend/broker"
)

// backupRequest is the body of POST /internal/backup, which may be left out.
type backupRequest struct {
	Have []string `json:"have"` // names of segment files that need not be sent
}

var errHave = errors.New("have must be an array of strings, in an object")

// backup answers POST /internal/backup with a backup of everything, as package
// backup writes it. A refusal comes before the first byte; an answer that the
// broker could not finish ends without its manifest and without its last
// chunk.
func (r *request) backup() {
	var asked backupRequest
	if body := r.body(); len(body) > 0 {
		err := json.Unmarshal(body, &asked)
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			err = errHave
		}
		if err != nil {
			r.badBody(err)
			return
		}
	}
	ctx, cancel := r.within()
	defer cancel()
	out, in := io.Pipe()
	s := &backupSink{pipe: in, begun: make(chan struct{}), have: map[string]bool{}}
	for _, name := range asked.Have {
		s.have[name] = backup.Keepable(name)
	}
	failed := make(chan error, 1)
	b := r.broker
	go func() {
		err := b.Backup(ctx, s)
		if err == nil {
			err = s.w.Close()
		}
		failed <- err
		_ = in.CloseWithError(err) // nil ends the body well
	}()
	select {
	case <-s.begun:
		r.ctx.SetContentType("application/x-tar")
		r.ctx.SetBodyStream(&backupBody{out, r.ctx.Conn()}, -1)
	case err := <-failed:
		r.unmanaged(err, "backup")
	}
}

// backupSink writes a backup into a pipe.
type backupSink struct {
	pipe  io.Writer
	begun chan struct{}
	have  map[string]bool // files that are only named
	w     *backup.Writer
}

func (s *backupSink) Begin(m broker.Moment) (err error) {
	close(s.begun)
	s.w, err = backup.NewWriter(s.pipe, backup.Point{LSN: uint64(m.LSN), Time: m.Time})
	return err
}

func (s *backupSink) Add(name string, size int64, r io.Reader) error {
	if s.have[name] {
		return s.w.Keep(name, size, r)
	}
	return s.w.Add(name, size, r)
}

// backupBody is the reading end of the pipe. The time for writing an answer
// begins anew with every piece of it. The server closes it when the client is
// gone, which ends the backup.
type backupBody struct {
	*io.PipeReader
	conn net.Conn
}

func (b *backupBody) Read(p []byte) (int, error) {
	if err := b.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return b.PipeReader.Read(p)
}
