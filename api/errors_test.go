package api

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func TestAnErrorBodyIsJSONWhateverTheText(t *testing.T) {
	for _, text := range []string{"", "plain", `"quotes" and \`, "line\nbreak\t\x00\x1f\x7f", "bad \xff\xc3 bytes", "é 語 😀 \u2028"} {
		body := appendError(nil, text, text)
		var got struct{ Error, Code string }
		if err := json.Unmarshal(body, &got); err != nil || !utf8.Valid(body) {
			t.Errorf("%q gives %s: %v", text, body, err)
		}
		if utf8.ValidString(text) && (got.Error != text || got.Code != text) {
			t.Errorf("%q comes out as %+v", text, got)
		}
	}
	if got := string(appendError(nil, "", "x")); got != `{"error":"x"}` {
		t.Error(got)
	}
}

func FuzzStringsAreJSON(f *testing.F) {
	f.Add("a\xff\"\\\n")
	f.Fuzz(func(t *testing.T, text string) {
		var got string
		if err := json.Unmarshal(appendString(nil, text), &got); err != nil {
			t.Fatal(err)
		}
		if utf8.ValidString(text) && got != text {
			t.Fatalf("%q comes out as %q", text, got)
		}
	})
}
