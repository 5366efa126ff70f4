package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"strings"
)

// manual prints the manual page, made of what -help prints.
func manual(args []string, c *console) int {
	f := newFlags(c, "man", "", "Prints the manual page of queend, for man(1):\n\n"+
		"  queend man > /usr/local/share/man/man1/queend.1")
	if code, ok := f.parse(args, 0, 0); !ok {
		return code
	}
	writeManual(c.stdout)
	return exitOK
}

// writeManual writes the page in the language of man(7).
func writeManual(w io.Writer) {
	fmt.Fprintf(w, ".TH QUEEND 1 \"\" %s \"User Commands\"\n", quoted("queend "+version))
	fmt.Fprint(w, `.SH NAME
queend \- a partitioned message broker in one binary
.SH SYNOPSIS
.B queend
.RB [ \-data
.IR DIR ]
.RB [ \-profile
.IR MODE ]
.br
.B queend \-version
.br
.B queend
.I COMMAND
.RI [ flags ]
.RI [ arguments ]
.SH DESCRIPTION
Without a command
.B queend
serves its HTTP API on the port
.B PORT
(6632) and keeps everything in one directory.
SIGTERM and SIGINT stop it in order; SIGHUP reads the TLS certificate again.
.SH OPTIONS
`)
	new(serveOptions).flags().VisitAll(func(f *flag.Flag) {
		arg, about := flag.UnquoteUsage(f)
		term(w, "-"+f.Name+" "+arg, about)
	})
	fmt.Fprint(w, ".SH COMMANDS\n")
	for _, c := range commands() {
		fmt.Fprintf(w, ".SS %s\n", quoted("queend "+c.name))
		fmt.Fprintf(w, "%s\n.PP\n.nf\n%s\n.fi\n", roff(c.about+"."), roff(helpOf(&c)))
	}
	fmt.Fprint(w, ".SH ENVIRONMENT\nThe default stands in brackets.\n")
	for _, s := range allSettings() {
		about := s.effect
		if s.def != "" {
			about += " [" + s.def + "]"
		}
		term(w, s.name, about)
	}
	fmt.Fprint(w, ".SH EXIT STATUS\n")
	for _, e := range exitCodes {
		term(w, fmt.Sprint(e.code), e.about)
	}
	fmt.Fprint(w, ".SH FILES\n")
	term(w, "./queen-data", "the data directory, where QUEEN_DATA_DIR and -data say nothing else")
}

// helpOf is what the command prints for -help.
func helpOf(c *command) string {
	var help bytes.Buffer
	c.run([]string{"-help"}, &console{stdout: &help, stderr: io.Discard})
	return strings.TrimSpace(help.String())
}

// term writes a word with what it means.
func term(w io.Writer, word, about string) {
	fmt.Fprintf(w, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(word)), roff(about))
}

func quoted(text string) string { return `"` + strings.ReplaceAll(roff(text), `"`, `\(dq`) + `"` }

// roff escapes text: backslashes and hyphens stay what they are, and no line
// is taken for a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\t", "        ").Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
