package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"queend/broker"
)

// console is where a command reads its environment from and writes to.
type console struct {
	environ        []string
	stdout, stderr io.Writer
	in             io.Reader // nil: the standard input
}

// command is what queend does besides serving. It returns the exit code.
type command struct {
	name, about string
	run         func(args []string, c *console) int
}

// flags is the command line of a command.
type flags struct {
	*flag.FlagSet
	c           *console
	args, about string
}

// newFlags makes one; args is how its arguments are shown.
func newFlags(c *console, name, args, about string) *flags {
	f := &flags{flag.NewFlagSet("queend "+name, flag.ContinueOnError), c, args, about}
	f.SetOutput(c.stderr)
	f.Usage = func() {}
	return f
}

// parse takes least to most arguments. When ok is false the command is over
// with code.
func (f *flags) parse(args []string, least, most int) (code int, ok bool) {
	err := f.Parse(args)
	switch n := f.NArg(); {
	case errors.Is(err, flag.ErrHelp):
		f.help()
		return exitOK, false
	case err != nil:
		return exitUsage, false
	case n < least || n > most:
		fmt.Fprintf(f.c.stderr, "usage: %s [flags] %s; -help says more\n", f.Name(), f.args)
		return exitUsage, false
	}
	return exitOK, true
}

func (f *flags) help() {
	fmt.Fprintf(f.c.stdout, "Usage: %s [flags] %s\n\n%s\n\nFlags:\n", f.Name(), f.args, f.about)
	f.SetOutput(f.c.stdout)
	f.PrintDefaults()
}

// fail reports why a command that looks at files could not.
func (c *console) fail(name string, err error) int {
	fmt.Fprintf(c.stderr, "queend %s: %v\n", name, err)
	if errors.Is(err, broker.ErrLocked) {
		fmt.Fprintln(c.stderr, "A directory in use changes while it is read. Stop the broker, or look at a copy.")
	}
	return exitOf(err)
}
