package segment

import "queend"

// packUUID returns the UUID whose text, in lower case as queend.ID prints it, is
// b, and whether there is one.
func packUUID(b []byte) (id queend.ID, ok bool) {
	if len(b) != 36 {
		return id, false
	}
	if b[8] != '-' || b[13] != '-' || b[18] != '-' || b[23] != '-' {
		return id, false
	}
	var seen byte
	for i, at := range pairs {
		high, low := digits[b[at]], digits[b[at+1]]
		seen |= high | low
		id[i] = high<<4 | low
	}
	return id, seen < noDigit
}

// pairs is where the two digits of each byte stand in the text.
var pairs = [16]uint8{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34}

const noDigit = 16

// digits has the value of every hexadecimal digit in lower case.
var digits = func() (table [256]byte) {
	for c := range table {
		table[c] = noDigit
	}
	for value, c := range "0123456789abcdef" {
		table[c] = byte(value)
	}
	return table
}()
