package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// recordsDir is where Debian's package iso-codes puts its files.
const recordsDir = "/usr/share/iso-codes/json"

// errNoRecords says how to get the files.
var errNoRecords = errors.New("the package iso-codes is not installed (make deps installs it)")

// address is a partition of a queue.
type address struct{ queue, partition string }

func (a address) String() string { return a.queue + "/" + a.partition }

// record is one entry of one file.
type record struct {
	address
	id      string // unique among all records
	payload []byte // as it stands in the file, white space and all
}

// codeFields are the members that name an entry.
type codeFields struct {
	Code   string `json:"code"`
	Alpha2 string `json:"alpha_2"`
	Alpha3 string `json:"alpha_3"`
	Alpha4 string `json:"alpha_4"`
}

// kinds tell for each file what names an entry and what it is kept together
// with: its country, its language family, or its first letter.
var kinds = []struct {
	file      string
	name      func(codeFields) string
	partition func(codeFields) string
}{
	{"iso_15924", alpha4, func(c codeFields) string { return c.Alpha4[:1] }},
	{"iso_3166-1", alpha2, alpha2},
	{"iso_3166-2", code, func(c codeFields) string { country, _, _ := strings.Cut(c.Code, "-"); return country }},
	{"iso_3166-3", alpha4, alpha2},
	{"iso_4217", alpha3, func(c codeFields) string { return c.Alpha3[:2] }},
	{"iso_639-2", alpha3, func(c codeFields) string { return c.Alpha3[:1] }},
	{"iso_639-3", alpha3, func(c codeFields) string { return c.Alpha3[:1] }},
	{"iso_639-5", alpha3, alpha3},
}

func code(c codeFields) string   { return c.Code }
func alpha2(c codeFields) string { return c.Alpha2 }
func alpha3(c codeFields) string { return c.Alpha3 }
func alpha4(c codeFields) string { return c.Alpha4 }

// readRecords reads all entries of all files in dir.
func readRecords(dir string) ([]record, error) {
	var all []record
	for _, kind := range kinds {
		text, err := os.ReadFile(filepath.Join(dir, kind.file+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %w", errNoRecords, err)
		}
		if err != nil {
			return nil, err
		}
		var lists map[string][]json.RawMessage
		if err := json.Unmarshal(text, &lists); err != nil {
			return nil, fmt.Errorf("%s: %w", kind.file, err)
		}
		for _, raw := range lists[strings.TrimPrefix(kind.file, "iso_")] {
			var c codeFields
			if err := json.Unmarshal(raw, &c); err != nil {
				return nil, fmt.Errorf("%s: %w", kind.file, err)
			}
			if kind.name(c) == "" {
				return nil, fmt.Errorf("%s: an entry without a code: %s", kind.file, raw)
			}
			at := address{kind.file, kind.partition(c)}
			all = append(all, record{at, kind.file + ":" + kind.name(c), raw})
		}
	}
	if err := checkUnique(all); err != nil {
		return nil, err
	}
	return all, nil
}

// checkUnique refuses two records of one id.
func checkUnique(all []record) error {
	seen := make(map[string]bool, len(all))
	for _, r := range all {
		if seen[r.id] {
			return fmt.Errorf("two records are named %s", r.id)
		}
		seen[r.id] = true
	}
	return nil
}

// thin keeps about count of the records, taken evenly from all; 0 keeps all.
func thin(all []record, count int) []record {
	if count <= 0 || count >= len(all) {
		return all
	}
	kept := make([]record, 0, count)
	for i := range count {
		kept = append(kept, all[i*len(all)/count])
	}
	return kept
}

// queuesOf lists the queues of the records.
func queuesOf(records []record) []string {
	var queues []string
	seen := map[string]bool{}
	for _, r := range records {
		if !seen[r.queue] {
			seen[r.queue] = true
			queues = append(queues, r.queue)
		}
	}
	return queues
}

// deal gives every partition to one of n hands and returns what each has, in
// order.
func deal(records []record, n int) [][]record {
	hands := make([][]record, n)
	owner := map[address]int{}
	for _, r := range records {
		hand, known := owner[r.address]
		if !known {
			hand = len(owner) % n
			owner[r.address] = hand
		}
		hands[hand] = append(hands[hand], r)
	}
	return hands
}
