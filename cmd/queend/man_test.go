package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

func TestTheManualHasEverything(t *testing.T) {
	var page bytes.Buffer
	if code := run([]string{"man"}, nil, &page, &page); code != exitOK {
		t.Fatalf("exit code %d: %s", code, page.String())
	}
	text := strings.ReplaceAll(page.String(), `\-`, "-")
	want := []string{".TH QUEEND 1 ", ".B -data DIR\n", ".B -profile MODE\n", ".B -version\n"}
	for _, c := range commands() {
		want = append(want, ".SS \"queend "+c.name+"\"\n", "Usage: queend "+c.name+" ")
	}
	for _, s := range allSettings() {
		want = append(want, ".B "+s.name+"\n"+s.effect)
	}
	for _, e := range exitCodes {
		want = append(want, e.about)
	}
	for _, s := range want {
		if !strings.Contains(text, s) {
			t.Errorf("the manual does not have %q", s)
		}
	}
}

func TestGroffTakesTheManual(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is missing")
	}
	var page, shown, complaints bytes.Buffer
	writeManual(&page)
	cmd := exec.Command(groff, "-man", "-ww", "-Tascii", "-P-c")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &page, &shown, &complaints
	if err := cmd.Run(); err != nil || complaints.Len() > 0 {
		t.Errorf("%v\n%s", err, complaints.String())
	}
	for _, want := range []string{"QUEEN_DATA_DIR", "queend backup"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("not shown: %s", want)
		}
	}
}

func TestRoffHasNoRequestsInText(t *testing.T) {
	if got, want := roff(".TH a-b\n'c\\d\n e"), "\\&.TH a\\-b\n\\&'c\\ed\n e"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
