package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

// serveFloorName is the scenario by which the command starts itself as floor.
const serveFloorName = "serve-floor"

// ground is the floor: the smallest server that could do what the broker does: the same
// HTTP, the same bodies and answers, and the same promise.
type ground struct{ pusherHTTP }

// newFloor describes a floor on dir.
func newFloor(w *workshop, dir string, s shape) (system, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	answer := filepath.Join(dir, "answer")
	if err := os.WriteFile(answer, exampleAnswer(s.Batch), 0o600); err != nil {
		return nil, err
	}
	p := &process{dir: dir, target: newTarget(), health: "/health", args: func(port string) (string, []string, []string) {
		return self, []string{serveFloorName, "-port", port, "-file", filepath.Join(dir, "log"), "-answer", answer}, nil
	}}
	return &ground{pusherHTTP{process: p, queue: loadQueue}}, nil
}

func (f *ground) promise() string {
	return "no broker: fasthttp with the broker's settings appends the body to one file and answers after fdatasync, which requests that wait at the same moment share; parses nothing, keeps nothing in memory, answers as many bytes as the broker"
}

func (f *ground) ordered() bool { return true }

func (f *ground) open(context.Context, int) error { return nil }

func (f *ground) consumer(context.Context, int, consumption) (consumer, error) {
	return nil, &missingError{"a floor keeps messages and does not deliver them"}
}

// audit reads the bodies back from the file.
func (f *ground) audit(_ context.Context, _ int, message func([]byte) error) error {
	file, err := os.Open(filepath.Join(f.process.dir, "log"))
	if err != nil {
		return err
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 1<<20)
	for {
		switch text, err := in.ReadSlice('p'); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		case !bytes.HasSuffix(text, []byte(`"p`)):
			continue
		}
		if next, err := in.Peek(len(payloadAfterP)); err != nil || !bytes.Equal(next, payloadAfterP) {
			continue
		}
		payload, err := in.Peek(len(payloadAfterP) + payloadBytes)
		if err != nil {
			return err
		}
		if err := message(payload[len(payloadAfterP):]); err != nil {
			return err
		}
	}
}

// payloadAfterP is what stands between the p of a payload's name and it.
var payloadAfterP = []byte(`ayload":`)

// runServeFloor is the process of a floor. It serves until it is told to stop.
func runServeFloor(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet(serveFloorName, flag.ContinueOnError)
	flags.SetOutput(out)
	port := flags.String("port", "0", "where to listen on loopback")
	file := flags.String("file", "", "file that takes the bodies")
	answerFile := flags.String("answer", "", "file that holds the answer")
	if err := flags.Parse(args); err != nil {
		return &usageError{err}
	}
	answer, err := os.ReadFile(*answerFile)
	if err != nil {
		return err
	}
	log, err := openAppender(*file)
	if err != nil {
		return err
	}
	defer log.close()
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", *port))
	if err != nil {
		return err
	}
	server := floorServer(log, answer)
	go func() {
		<-ctx.Done()
		_ = server.Shutdown()
	}()
	return server.Serve(ln)
}

// floorServer has the settings of the broker's HTTP server, and does nothing
// but keep the body of a push and answer it.
func floorServer(log *appender, answer []byte) *fasthttp.Server {
	return &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			if ctx.IsGet() {
				return // the check of health: 200
			}
			if err := log.append(ctx.PostBody()); err != nil {
				ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
				return
			}
			ctx.SetStatusCode(fasthttp.StatusCreated)
			ctx.SetContentType("application/json")
			ctx.Response.SetBodyRaw(answer)
		},
		ReadBufferSize:               16 << 10,
		ReadTimeout:                  30 * time.Second,
		WriteTimeout:                 60 * time.Second,
		IdleTimeout:                  180 * time.Second,
		MaxRequestBodySize:           64 << 20,
		ReduceMemoryUsage:            true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		DisablePreParseMultipartForm: true,
		CloseOnShutdown:              true,
	}
}

// appender writes to the end of a file. What comes while a write is being synced
// shares the next write and its sync.
type appender struct {
	file *os.File
	wake chan struct{}

	mu   sync.Mutex
	next *group // takes what comes
	done chan struct{}
}

// group is what is written and synced at once.
type group struct {
	data   []byte
	synced chan struct{} // closed when it is on disk, or failed
	err    error
}

func newGroup(data []byte) *group { return &group{data: data, synced: make(chan struct{})} }

// openAppender creates the file and starts to write.
func openAppender(path string) (*appender, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	a := &appender{file: file, wake: make(chan struct{}, 1), next: newGroup(nil), done: make(chan struct{})}
	go a.run()
	return a, nil
}

// append returns when data is on disk.
func (a *appender) append(data []byte) error {
	a.mu.Lock()
	g := a.next
	g.data = append(g.data, data...)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default: // the writer has been woken and takes this group with the others
	}
	<-g.synced
	return g.err
}

// run writes one group after the other.
func (a *appender) run() {
	defer close(a.done)
	var spare []byte
	for range a.wake {
		a.mu.Lock()
		g := a.next
		a.next = newGroup(spare[:0])
		a.mu.Unlock()
		if _, g.err = a.file.Write(g.data); g.err == nil {
			g.err = syscall.Fdatasync(int(a.file.Fd()))
		}
		close(g.synced)
		spare = g.data
	}
}

// close ends the writer. Nobody may append any more.
func (a *appender) close() {
	close(a.wake)
	<-a.done
	_ = a.file.Close()
}

// exampleAnswer has the size and shape of the broker's answer to a push.
func exampleAnswer(batch int) []byte {
	answer := []byte{'['}
	for i := range batch {
		if i > 0 {
			answer = append(answer, ',')
		}
		answer = append(answer, fmt.Sprintf(`{"index":%d,"message_id":"%s","transaction_id":"%s","queueName":"%s","status":"queued","offset":%d}`,
			i, idHole, idHole, loadQueue, 10000+i)...)
	}
	return append(answer, ']')
}
