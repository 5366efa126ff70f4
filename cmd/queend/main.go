// Command queend is a partitioned message broker: one binary, one directory.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"queend/broker"
)

// The exit codes, as documented.
const (
	exitOK      = 0
	exitFailure = 1 // something went wrong that none of the others names
	exitUsage   = 2 // bad flag or environment variable
	exitDamaged = 3 // the data directory is damaged; nothing was changed
	exitLocked  = 4 // another process has the data directory
	exitLogLost = 5 // a write or sync of the log failed; a restart recovers
	exitEmpty   = 6 // of commands: there are no messages to show
)

// exitCodes are what they mean, as -help and the manual print them.
var exitCodes = []struct {
	code  int
	about string
}{
	{exitOK, "stopped as asked"},
	{exitFailure, "failure"},
	{exitUsage, "bad flag or variable"},
	{exitDamaged, "damaged data directory"},
	{exitLocked, "the directory belongs to another process"},
	{exitLogLost, "the log could not be written (a restart recovers)"},
	{exitEmpty, "no messages to show"},
}

// version is set by the linker for releases.
var version = "dev"

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run is main with everything passed in; it returns the exit code.
func run(args []string, environ []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		for _, c := range commands() {
			if c.name == args[0] {
				return c.run(args[1:], &console{environ: environ, stdout: stdout, stderr: stderr})
			}
		}
	}
	var o serveOptions
	flags := o.flags()
	flags.SetOutput(stderr)
	flags.Usage = func() { usage(stdout) }
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "queend: unknown argument %q; see queend -help\n", flags.Arg(0))
		return exitUsage
	case o.version:
		fmt.Fprintln(stdout, "queend", versionText())
		return exitOK
	}
	c, err := loadConfig(environ)
	if err != nil {
		fmt.Fprintf(stderr, "queend: %v\n", err)
		return exitUsage
	}
	if o.data != "" {
		c.broker.Dir = o.data
	}
	stop, err := startProfile(o.profile, c.broker.Dir)
	if err != nil {
		fmt.Fprintf(stderr, "queend: -profile: %v\n", err)
		return exitUsage
	}
	defer stop()
	return serve(c, stderr)
}

// serveOptions are the flags of queend without a command.
type serveOptions struct {
	version       bool
	data, profile string
}

// flags binds them; the usage is what -help and the manual print.
func (o *serveOptions) flags() *flag.FlagSet {
	f := flag.NewFlagSet("queend", flag.ContinueOnError)
	f.BoolVar(&o.version, "version", false, "print the version and exit")
	f.StringVar(&o.data, "data", "", "`DIR` is the data directory; wins over QUEEN_DATA_DIR")
	f.StringVar(&o.profile, "profile", "", "write a profile of this run; `MODE` is cpu, mem, mutex, block or trace")
	return f
}

// commands lists them in the order -help prints them.
func commands() []command {
	return []command{
		{"verify", "report every damage in a data directory, change nothing", verify},
		{"repair", "say how a damaged directory can start again; -write does it", repair},
		{"dump", "print one file of a data directory", dump},
		{"backup", "write a verified backup of a data directory", makeBackup},
		{"restore", "make a data directory of a backup", restore},
		{"queues", "list queues or partitions", queues},
		{"groups", "list consumer groups and their lag", groups},
		{"dlq", "list, replay or purge dead letters", dlq},
		{"peek", "show messages without claiming them", peek},
		{"push", "push messages", push},
		{"pop", "claim messages", pop},
		{"tail", "follow the messages of a queue", tail},
		{"top", "watch the busiest queues", top},
		{"export", "print queues with their messages as JSON lines", export},
		{"import", "push the lines of an export", importLines},
		{"config", "print every setting and where it is from", showConfig},
		{"completion", "print completion for bash or zsh", completion},
		{"man", "print the manual page", manual},
	}
}

// versionText is the version with the revision it was built from.
func versionText() string {
	text := version
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return text
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			text += " (" + s.Value[:12] + ")"
		}
	}
	return text + " " + info.GoVersion
}

// exitOf maps a failure to start to its exit code.
func exitOf(err error) int {
	switch {
	case errors.Is(err, broker.ErrDamaged):
		return exitDamaged
	case errors.Is(err, broker.ErrLocked):
		return exitLocked
	}
	return exitFailure
}

func usage(w io.Writer) {
	fmt.Fprint(w, `queend: a partitioned message broker in one binary, with nothing beside it.

Usage:
  queend [-data DIR]     serve the HTTP API on PORT (6632)
  queend -version
  queend COMMAND -help

Commands:
`)
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-14s %s\n", c.name, c.about)
	}
	fmt.Fprint(w, `
First steps, with the broker running:
  curl -X POST localhost:6632/api/v1/push -d '{"items":[{"queue":"jobs","payload":{"n":1}}]}'
  curl 'localhost:6632/api/v1/pop/queue/jobs?batch=1'

Flags:
`)
	new(serveOptions).flags().VisitAll(func(f *flag.Flag) {
		arg, about := flag.UnquoteUsage(f)
		fmt.Fprintf(w, "  %-14s %s\n", "-"+f.Name+" "+arg, about)
	})
	fmt.Fprintf(w, "  %-14s %s\n", "-help", "print this text")
	fmt.Fprint(w, `
Environment (name, default, effect):
`)
	for _, s := range allSettings() {
		def := s.def
		if def == "" {
			def = "-"
		}
		fmt.Fprintf(w, "  %-30s %-14s %s\n", s.name, def, s.effect)
	}
	fmt.Fprint(w, "\nExit codes:\n")
	for _, e := range exitCodes {
		fmt.Fprintf(w, "  %d  %s\n", e.code, e.about)
	}
}
