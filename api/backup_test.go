package api

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"queend/backup"
)

func TestABackupIsWholeAndSaysItsMoment(t *testing.T) {
	h := served(t)
	h.ask(201, "POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`)
	got := h.do("POST", "/internal/backup", "")
	names := map[string]bool{}
	p, err := backup.Read(bytes.NewReader([]byte(got.body)), func(name string, _ int64, r io.Reader) error {
		names[name] = true
		_, err := io.Copy(io.Discard, r)
		return err
	})
	if got.status != 200 || err != nil || p.LSN == 0 || p.Time.IsZero() || !names["FORMAT"] || len(names) < 4 {
		t.Fatalf("%d, %v, %+v, %v", got.status, err, p, names)
	}
}

func TestABackupThatWouldMissTheSpoolIsRefused(t *testing.T) {
	h := served(t)
	h.ask(200, "POST", "/api/v1/system/maintenance", `{"enabled":true}`)
	is(t, h.ask(503, "POST", "/internal/backup", ""), "code", "maintenance")
}

// A backup leaves out the segment files its reader has, and nothing else.
func TestABackupLeavesOutOnlySegmentsThatTheReaderHas(t *testing.T) {
	h := served(t)
	h.ask(201, "POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`)
	names := func(body string) (sent, kept map[string]bool) {
		sent, kept = map[string]bool{}, map[string]bool{}
		got := h.do("POST", "/internal/backup", body)
		if _, err := backup.ReadTo(strings.NewReader(got.body), backup.Sink{
			File: func(name string, _ int64, r io.Reader) error {
				sent[name] = true
				_, err := io.Copy(io.Discard, r)
				return err
			},
			Kept: func(name string, _ int64, _ string) error { kept[name] = true; return nil },
		}); err != nil {
			t.Fatal(err)
		}
		return sent, kept
	}
	all, none := names("")
	segment := ""
	for name := range all {
		if strings.HasPrefix(name, "segments/") {
			segment = name
		}
	}
	if segment == "" || len(none) != 0 {
		t.Fatalf("%v, kept %v", all, none)
	}
	sent, kept := names(`{"have":["` + segment + `","FORMAT","segments/none.seg"]}`)
	if sent[segment] || !sent["FORMAT"] || len(kept) != 1 || !kept[segment] {
		t.Errorf("%v, kept %v", sent, kept)
	}
	is(t, h.ask(400, "POST", "/internal/backup", `{"have":"x"}`), "error", "bad body: have must be an array of strings, in an object")
}
