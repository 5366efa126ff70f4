package main

import (
	"context"
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

// newFloor describes a floor server on dir that answers every push with answer.
func newFloor(dir string, answer []byte) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "answer")
	if err := os.WriteFile(path, answer, 0o600); err != nil {
		return nil, err
	}
	return &process{dir: dir, target: newTarget(), health: "/health", args: func(port string) (string, []string, []string) {
		return self, []string{serveFloorName, "-port", port, "-file", filepath.Join(dir, "log"), "-answer", path}, nil
	}}, nil
}

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

// runFloor measures the floor alone.
func runFloor(ctx context.Context, args []string, out io.Writer) error {
	var c common
	flags := flag.NewFlagSet("floor", flag.ContinueOnError)
	seconds := flags.Float64("seconds", 3, "how long each row runs")
	if err := c.parse(flags, args, out); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	dir, remove, err := c.workspace()
	if err != nil {
		return err
	}
	defer remove()
	for _, s := range shapes {
		m, err := measureFloor(ctx, filepath.Join(dir, s.name), s, time.Duration(*seconds*float64(time.Second)))
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(out, "%-10s %s\n", s.name, m)
	}
	return nil
}

// measureFloor runs one shape against a floor of its own.
func measureFloor(ctx context.Context, dir string, s shape, d time.Duration) (measure, error) {
	floor, err := newFloor(dir, exampleAnswer(s.batch))
	if err != nil {
		return measure{}, err
	}
	defer floor.kill()
	if err := floor.start(ctx); err != nil {
		return measure{}, err
	}
	l, err := newLoad(ctx, s, floor)
	if err != nil {
		return measure{}, err
	}
	defer l.close()
	if _, err := l.run(ctx, warmUp); err != nil {
		return measure{}, err
	}
	return l.run(ctx, d)
}
