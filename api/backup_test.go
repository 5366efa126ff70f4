package api

import (
	"bytes"
	"io"
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
