package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"queend/broker"
)

// dump prints one file of a data directory.
func dump(args []string, c *console) int {
	f := newFlags(c, "dump", "FILE", "Prints what is in a file of a data directory: a file of the log, a checkpoint, a\n"+
		"segment file, a file of the spool, the mark of a closed log, FORMAT, or what is\n"+
		"in quarantine. The file may be in use; its end may then be incomplete. Exit\n"+
		"code 3: the file is damaged.")
	asJSON := f.Bool("json", false, "print one JSON object per line")
	if code, ok := f.parse(args, 1, 1); !ok {
		return code
	}
	out := bufio.NewWriterSize(c.stdout, 64<<10)
	damaged := false
	var line bytes.Buffer
	err := broker.Dump(f.Arg(0), func(i broker.Item) error {
		damaged = damaged || i.Damaged()
		line.Reset()
		if *asJSON {
			jsonItem(&line, i)
		} else {
			textItem(&line, i)
		}
		line.WriteByte('\n')
		_, err := out.Write(line.Bytes())
		return err
	})
	if err = errors.Join(err, out.Flush()); err != nil {
		return c.fail("dump", err)
	}
	if damaged {
		return exitDamaged
	}
	return exitOK
}

// textItem prints "byte kind name=value ...".
func textItem(w *bytes.Buffer, i broker.Item) {
	fmt.Fprintf(w, "%d %s", i.Offset, i.Kind)
	for _, f := range i.Fields {
		w.WriteByte(' ')
		w.WriteString(f.Name)
		w.WriteByte('=')
		textValue(w, f.Value)
	}
}

func textValue(w *bytes.Buffer, value any) {
	switch v := value.(type) {
	case string:
		jsonString(w, v)
	case []broker.Field:
		w.WriteByte('{')
		for n, f := range v {
			if n > 0 {
				w.WriteByte(' ')
			}
			w.WriteString(f.Name)
			w.WriteByte('=')
			textValue(w, f.Value)
		}
		w.WriteByte('}')
	case []any:
		w.WriteByte('[')
		for n, element := range v {
			if n > 0 {
				w.WriteByte(' ')
			}
			textValue(w, element)
		}
		w.WriteByte(']')
	default:
		fmt.Fprint(w, v)
	}
}

// jsonItem prints {"byte":...,"kind":...,name:value,...}, in that order.
func jsonItem(w *bytes.Buffer, i broker.Item) {
	fields := append([]broker.Field{{Name: "byte", Value: i.Offset}, {Name: "kind", Value: i.Kind}}, i.Fields...)
	jsonValue(w, fields)
}

func jsonValue(w *bytes.Buffer, value any) {
	switch v := value.(type) {
	case nil:
		w.WriteString("null")
	case string:
		jsonString(w, v)
	case []broker.Field:
		w.WriteByte('{')
		for n, f := range v {
			if n > 0 {
				w.WriteByte(',')
			}
			jsonString(w, f.Name)
			w.WriteByte(':')
			jsonValue(w, f.Value)
		}
		w.WriteByte('}')
	case []any:
		w.WriteByte('[')
		for n, element := range v {
			if n > 0 {
				w.WriteByte(',')
			}
			jsonValue(w, element)
		}
		w.WriteByte(']')
	default:
		fmt.Fprint(w, v)
	}
}

// jsonString writes a string as JSON, without the escapes for HTML.
func jsonString(w *bytes.Buffer, s string) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	w.Truncate(w.Len() - 1)
}
