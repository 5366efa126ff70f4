package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

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
		f.showUsage()
		return exitUsage, false
	case n < least || n > most:
		if i := slices.IndexFunc(f.Args(), func(arg string) bool { return strings.HasPrefix(arg, "-") }); i > 0 {
			fmt.Fprintf(f.c.stderr, "%s: %s stands behind an argument; flags stand before them\n", f.Name(), f.Arg(i))
		}
		f.showUsage()
		return exitUsage, false
	}
	return exitOK, true
}

// showUsage says in a line how the command is called.
func (f *flags) showUsage() {
	fmt.Fprintf(f.c.stderr, "usage: %s; -help says more\n", f.usage())
}

// usage is how the command is called. Flags stand in front of the arguments
// unless those say where.
func (f *flags) usage() string {
	args := f.args
	if !strings.Contains(args, "[flags]") {
		args = strings.TrimSpace("[flags] " + args)
	}
	return f.Name() + " " + args
}

// inRange refuses numbers of a flag that are not from least to most.
func inRange(name string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("-%s: %d is not from %d to %d", name, n, least, most)
	}
	return nil
}

// oneOf refuses words of a flag that it does not know; none is fine.
func oneOf(name, word string, known ...string) error {
	if word != "" && !slices.Contains(known, word) {
		return fmt.Errorf("-%s: %q is not one of %s", name, word, strings.Join(known, ", "))
	}
	return nil
}

// misused reports the value of a flag that cannot be.
func (f *flags) misused(err error) int {
	fmt.Fprintf(f.c.stderr, "%s: %v\n", f.Name(), err)
	return exitUsage
}

func (f *flags) help() {
	fmt.Fprintf(f.c.stdout, "Usage: %s\n\n%s\n\nFlags:\n", f.usage(), f.about)
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
