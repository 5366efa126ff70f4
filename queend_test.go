package queend

import "testing"

func TestAnIDIsReadInEitherCaseAndInNoOtherForm(t *testing.T) {
	want := ID{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10}
	for _, text := range []string{want.String(), "01234567-89AB-CDEF-FEDC-BA9876543210", "01234567-89Ab-cDEF-fedc-ba9876543210"} {
		if id, err := ParseID(text); err != nil || id != want {
			t.Errorf("%q: %v, %v", text, id, err)
		}
	}
	good := want.String()
	for i := range good {
		for c := range 256 {
			text := good[:i] + string([]byte{byte(c)}) + good[i+1:]
			dash := i == 8 || i == 13 || i == 18 || i == 23
			digit := c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
			if _, err := ParseID(text); (err == nil) != (dash && c == '-' || !dash && digit) {
				t.Fatalf("%q: %v", text, err)
			}
		}
	}
	for _, text := range []string{"", good[:35], good + "0", "{" + good[1:]} {
		if _, err := ParseID(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}
