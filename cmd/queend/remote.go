package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"queend/client"
)

// defaultURL is where commands look for a broker.
const defaultURL = "http://127.0.0.1:6632"

// remote is a command that talks to a broker.
type remote struct {
	*flags
	*client.Client
	url, token *string
	json       *bool
	timeout    *time.Duration
}

// newRemote makes the command line of one.
func newRemote(c *console, name, args, about string) *remote {
	r := &remote{flags: newFlags(c, name, args, about)}
	r.url = r.String("url", "", "the broker; QUEEND_URL or "+defaultURL+" when not given")
	r.token = r.String("token", "", "the token to send; QUEEND_TOKEN when not given, which other users cannot see")
	r.json = r.Bool("json", false, "print JSON")
	r.timeout = r.Duration("timeout", 30*time.Second, "time-out of a request")
	return r
}

// connect parses the command line. When ok is false the command is over with
// code.
func (r *remote) connect(args []string, least, most int) (code int, ok bool) {
	if code, ok := r.parse(args, least, most); !ok {
		return code, false
	}
	base, token := *r.url, *r.token
	if base == "" {
		base = r.c.env("QUEEND_URL", defaultURL)
	}
	if token == "" {
		token = r.c.env("QUEEND_TOKEN", "")
	}
	var err error
	if r.Client, err = client.New(base, token); err != nil {
		fmt.Fprintf(r.c.stderr, "%s: %v\n", r.Name(), err)
		return exitUsage, false
	}
	return exitOK, true
}

// env is a variable of the environment, or def when it is unset or blank.
func (c *console) env(name, def string) string {
	for _, pair := range c.environ {
		if value, ok := strings.CutPrefix(pair, name+"="); ok && strings.TrimSpace(value) != "" {
			return value
		}
	}
	return def
}

// ctx bounds one request, plus what the broker may wait for.
func (r *remote) ctx(wait time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), *r.timeout+wait)
}

// failed reports an error of the broker or on the way to it.
func (r *remote) failed(err error) int {
	fmt.Fprintf(r.c.stderr, "%s: %v\n", r.Name(), err)
	return exitFailure
}

// printJSON prints one object on a line.
func (r *remote) printJSON(v any) { printJSON(r.c.stdout, v) }

func printJSON(w io.Writer, v any) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // a closed pipe ends the process anyway
}

// table prints rows of cells under a heading.
type table struct{ w *tabwriter.Writer }

func newTable(out io.Writer, heading ...any) *table {
	t := &table{tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)}
	t.row(heading...)
	return t
}

func (t *table) row(cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(t.w, "\t")
		}
		fmt.Fprint(t.w, clean(fmt.Sprint(cell)))
	}
	fmt.Fprintln(t.w)
}

func (t *table) flush() { _ = t.w.Flush() }

// clean makes text safe for a cell of a terminal: names may hold anything.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// short cuts text to n characters.
func short(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return s
}

// size prints bytes for people.
func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// isTerminal reports whether somebody sees what is written to w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// progress shows on a terminal how far long work is; it is silent elsewhere.
type progress struct {
	w     io.Writer
	on    bool
	shown time.Time
}

func (c *console) progress() *progress { return &progress{w: c.stderr, on: isTerminal(c.stderr)} }

// say replaces what was shown before, a few times a second at most.
func (p *progress) say(format string, args ...any) {
	if p.on && time.Since(p.shown) > 200*time.Millisecond {
		p.shown = time.Now()
		fmt.Fprintf(p.w, "\r\x1b[K"+format, args...)
	}
}

// end wipes the line.
func (p *progress) end() {
	if p.on && !p.shown.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
