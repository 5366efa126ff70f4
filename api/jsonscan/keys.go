package jsonscan

import "bytes"

// keys is the set of the keys of one object. Up to fewKeys it allocates
// nothing; more, which no request of ours has, go into a map, and beyond
// maxKeys the object is refused.
type keys struct {
	marks uint64 // one bit per length and first byte, roughly
	count int
	few   [fewKeys][]byte
	many  map[string]struct{}
}

const (
	fewKeys = 16
	maxKeys = 1 << 16
)

func (k *keys) full() bool { return k.count == maxKeys }

// add reports false if the key is there already.
func (k *keys) add(key []byte) bool {
	mark := uint64(1)
	if len(key) > 0 {
		mark = 1 << ((len(key)*7 + int(key[0])) & 63)
	}
	if k.marks&mark != 0 && k.has(key) {
		return false
	}
	k.marks |= mark
	switch {
	case k.count < fewKeys:
		k.few[k.count] = key
	default:
		if k.many == nil {
			k.many = map[string]struct{}{}
		}
		k.many[string(key)] = struct{}{}
	}
	k.count++
	return true
}

func (k *keys) has(key []byte) bool {
	for _, other := range k.few[:min(k.count, fewKeys)] {
		if bytes.Equal(other, key) {
			return true
		}
	}
	_, ok := k.many[string(key)]
	return ok
}
