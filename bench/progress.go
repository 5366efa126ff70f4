package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// progressLine tells whoever waits what is going on: one line that is written over on
// a terminal, or a line a step elsewhere.
type progressLine struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	began    time.Time
	last     int // length of the line on the terminal
}

func newProgress(out io.Writer) *progressLine {
	p := &progressLine{out: out, began: time.Now()}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// say shows a step.
func (p *progressLine) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := time.Since(p.began).Round(time.Second)
	line := fmt.Sprintf("[%02d:%02d] %s", int(d.Minutes()), int(d.Seconds())%60, fmt.Sprintf(format, args...))
	if !p.terminal {
		fmt.Fprintln(p.out, line)
		return
	}
	fmt.Fprintf(p.out, "\r%s%s", line, strings.Repeat(" ", max(0, p.last-len(line))))
	p.last = len(line)
}

// end leaves the line of the terminal.
func (p *progressLine) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal && p.last > 0 {
		fmt.Fprintln(p.out)
	}
	p.last = 0
}
