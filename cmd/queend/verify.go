package main

import (
	"errors"
	"fmt"
	"io"

	"queend/broker"
)

// place is a damage as -json prints it.
type place struct {
	File   string `json:"file,omitempty"`
	Offset *int64 `json:"offset,omitempty"`
	Text   string `json:"text"`
	Moot   bool   `json:"moot,omitempty"`
}

func newPlace(d broker.Damage) place {
	p := place{File: d.File, Text: d.Text, Moot: d.Moot}
	if d.Offset >= 0 {
		p.Offset = &d.Offset
	}
	return p
}

// verify reads a whole directory and reports what is damaged in it.
func verify(args []string, c *console) int {
	f := newFlags(c, "verify", "DIR", "Reads every file of a data directory and reports what is damaged. It changes\n"+
		"nothing. Exit code 3: there is damage; 4: the directory is in use.")
	asJSON := f.Bool("json", false, "print one JSON object per line")
	if code, ok := f.parse(args, 1, 1); !ok {
		return code
	}
	damages, moot := 0, 0
	err := broker.Verify(f.Arg(0), func(d broker.Damage) {
		if d.Moot {
			moot++
		} else {
			damages++
		}
		if *asJSON {
			printJSON(c.stdout, newPlace(d))
		} else {
			printDamage(c.stdout, d)
		}
	})
	if err != nil {
		return c.fail("verify", err)
	}
	if !*asJSON {
		printVerdict(c.stdout, damages, moot)
	}
	if damages > 0 {
		return exitDamaged
	}
	return exitOK
}

func printDamage(w io.Writer, d broker.Damage) {
	kind := "damage"
	if d.Moot {
		kind = "note"
	}
	switch {
	case d.File == "":
		fmt.Fprintf(w, "%s: %s\n", kind, d.Text)
	case d.Offset < 0:
		fmt.Fprintf(w, "%s: %s: %s\n", kind, d.File, d.Text)
	default:
		fmt.Fprintf(w, "%s: %s, byte %d: %s\n", kind, d.File, d.Offset, d.Text)
	}
}

func printVerdict(w io.Writer, damages, moot int) {
	if moot > 0 {
		fmt.Fprintf(w, "%d notes: a start copes with these, nothing that was answered is lost\n", moot)
	}
	if damages == 0 {
		fmt.Fprintln(w, "no damage")
		return
	}
	fmt.Fprintf(w, "%d damaged places; queend repair says what can be done\n", damages)
}

// repair says how a damaged directory can be made to start again, and does it
// with -write.
func repair(args []string, c *console) int {
	f := newFlags(c, "repair", "DIR", "Says how a damaged data directory can be made to start again and what is lost\n"+
		"then. With -write it does so. What it takes away it keeps under quarantine/.\n"+
		"Make a copy of the directory first. Exit code 3: no safe repair is known, or\n"+
		"without -write, one is needed.")
	write := f.Bool("write", false, "do it")
	asJSON := f.Bool("json", false, "print one JSON object")
	if code, ok := f.parse(args, 1, 1); !ok {
		return code
	}
	r, err := broker.RepairDir(f.Arg(0), *write)
	if errors.Is(err, broker.ErrNoRepair) {
		fmt.Fprintf(c.stderr, "queend repair: %v\nNothing was changed.\n", err)
		return exitDamaged
	}
	if err != nil {
		return c.fail("repair", err)
	}
	if *asJSON {
		printJSON(c.stdout, map[string]any{"steps": r.Steps, "losses": r.Losses, "done": *write})
	} else {
		printRepair(c.stdout, r, *write)
	}
	if len(r.Steps) > 0 && !*write {
		return exitDamaged
	}
	return exitOK
}

func printRepair(w io.Writer, r *broker.Repair, done bool) {
	if len(r.Steps) == 0 {
		fmt.Fprintln(w, "nothing to do: a start copes with what is there")
		return
	}
	for _, text := range r.Losses {
		fmt.Fprintf(w, "lost: %s\n", text)
	}
	if len(r.Losses) == 0 {
		fmt.Fprintln(w, "lost: nothing")
	}
	verb := "would"
	if done {
		verb = "done"
	}
	for _, text := range r.Steps {
		fmt.Fprintf(w, "%s: %s\n", verb, text)
	}
	if !done {
		fmt.Fprintln(w, "nothing was changed; add -write to do it, on a copy first if you can")
	}
}
