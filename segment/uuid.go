package segment

import "queend"

// packUUID returns the UUID whose text, in lower case as queend.ID prints it, is
// b, and whether there is one.
func packUUID(b []byte) (id queend.ID, ok bool) {
	if len(b) != 36 {
		return id, false
	}
	n := 0
	for i, c := range b {
		var digit byte
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return id, false
			}
			continue
		case c >= '0' && c <= '9':
			digit = c - '0'
		case c >= 'a' && c <= 'f':
			digit = c - 'a' + 10
		default:
			return id, false
		}
		id[n/2] = id[n/2]<<4 | digit
		n++
	}
	return id, true
}
