package main

import (
	"fmt"
	"strings"
	"testing"
)

// bookOf returns a book of n records of one partition; it fails number 7.
func bookOf(n int) *book {
	var records []record
	for i := range n {
		records = append(records, record{address{"q", "p"}, fmt.Sprintf("m%d", i), fmt.Appendf(nil, "%d", i)})
	}
	return newBook("g", 0, records)
}

// popped are the messages from..to as a pop delivers them.
func popped(from, to int) []delivered {
	var run []delivered
	for i := from; i < to; i++ {
		run = append(run, delivered{TransactionID: fmt.Sprintf("m%d", i), Queue: "q", Partition: "p", Offset: int64(i), Data: fmt.Append(nil, i)})
	}
	return run
}

func TestBookSettlesUpToTheFailure(t *testing.T) {
	b := bookOf(10)
	for try := range retryLimit + 1 {
		from := 0
		if try > 0 {
			from = 7
		}
		v, err := b.judge(popped(from, 10))
		if err != nil {
			t.Fatal(err)
		}
		last := len(v.items) - 1
		if v.items[last].TransactionID != "m7" || v.items[last].Status != "failed" || v.dead[last] != (try == retryLimit) {
			t.Fatalf("try %d ends with %+v, dead %v", try, v.items[last], v.dead[last])
		}
	}
	if _, err := b.judge(popped(8, 10)); err != nil || !b.finished() {
		t.Fatalf("finished %v, %v", b.finished(), err)
	}
	if err := b.checkAll(); err == nil || !strings.Contains(err.Error(), "m7 has 0 replays") {
		t.Errorf("got %v", err)
	}
}

func TestBookFindsEveryKindOfFault(t *testing.T) {
	for want, spoil := range map[string]func(run []delivered){
		"out of order":           func(run []delivered) { run[1].Offset++ },
		"nobody pushed that":     func(run []delivered) { run[1].TransactionID = "x" },
		"settled before":         func(run []delivered) { run[1] = run[0] },
		"pushed to q/p":          func(run []delivered) { run[1].Partition = "other" },
		"has the payload":        func(run []delivered) { run[1].Data = []byte("1 ") },
		"out of order, offset 2": func(run []delivered) { run[2], run[3] = run[3], run[2] },
	} {
		run := popped(0, 5)
		spoil(run)
		if _, err := bookOf(10).judge(run); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

func TestBookFindsWrongDeadLetters(t *testing.T) {
	right := deadLetter{ID: "d", TransactionID: "m7", Queue: "q", Partition: "p", Error: failure("m7"), RetryCount: retryLimit, Data: []byte("7")}
	for want, spoil := range map[string]func(l deadLetter) []deadLetter{
		"":                     func(l deadLetter) []deadLetter { return []deadLetter{l} },
		"is no dead letter":    func(deadLetter) []deadLetter { return nil },
		"there twice":          func(l deadLetter) []deadLetter { return []deadLetter{l, l} },
		"never failed it":      func(l deadLetter) []deadLetter { l.TransactionID = "m6"; return []deadLetter{l} },
		"has the payload":      func(l deadLetter) []deadLetter { l.Data = nil; return []deadLetter{l} },
		"retryCount 2":         func(l deadLetter) []deadLetter { l.RetryCount = 2; return []deadLetter{l} },
		"was pushed to q/p":    func(l deadLetter) []deadLetter { l.Partition = "o"; return []deadLetter{l} },
		`errorMessage "other"`: func(l deadLetter) []deadLetter { l.Error = "other"; return []deadLetter{l} },
	} {
		err := bookOf(10).checkLetters(spoil(right))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", want, err)
		}
	}
}
