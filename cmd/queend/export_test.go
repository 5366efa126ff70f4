package main

import (
	"strconv"
	"strings"
	"testing"
)

func TestAnImportHasWhatWasExported(t *testing.T) {
	from, to := newServed(t), newServed(t)
	var in strings.Builder
	for i := range 1200 {
		in.WriteString(strconv.Itoa(i) + "\n")
	}
	from.reads(exitOK, in.String(), "push", "-partition", "p", "-id", "t", "-header", "a=b", "q")
	from.says(exitOK, "push", "-partition", "other", "q", `{"x":"<&>"}`)
	from.says(exitOK, "push", "second", "1")
	text := from.says(exitOK, "export")
	to.has(to.reads(exitOK, text, "import"), "2 queues, 1202 messages queued, 0 known already, 0 failed")
	if again := to.says(exitOK, "export", "-queue", "q"); stripTimes(t, again) != stripTimes(t, from.says(exitOK, "export", "-queue", "q")) {
		t.Errorf("it has:\n%.500s", again)
	}
	to.has(to.reads(exitOK, text, "import"), "0 messages queued, 1202 known already")
}

// stripTimes removes what is of each broker its own.
func stripTimes(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(text) {
		before, rest, ok := strings.Cut(line, `"time":"`)
		if ok {
			_, rest, _ = strings.Cut(rest, `"`)
			line = before + rest
		}
		out.WriteString(line)
	}
	return out.String()
}

func TestAnExportHasDeadLettersAndAnImportLeavesThemOut(t *testing.T) {
	s := newServed(t)
	s.deadLetter("bad")
	text := s.says(exitOK, "export")
	s.has(text, `"kind":"deadLetter"`, `"error":"bad"`)
	s.has(s.reads(exitOK, text, "import"), "1 dead letters left out")
	s.reads(exitFailure, `{"kind":"nonsense"}`, "import")
}
