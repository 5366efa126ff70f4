package segment

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// withFooter is a file whose runs are those of sound, and whose descriptors are
// any bytes. Header and trailer are as a writer would make them.
func withFooter(sound, footer []byte, runs uint64) []byte {
	end := binary.LittleEndian.Uint64(sound[len(sound)-trailSize:])
	file := append(bytes.Clone(sound[:end]), footer...)
	trailer := bytes.Clone(sound[len(sound)-trailSize:])
	binary.LittleEndian.PutUint64(trailer[16:], runs)
	file = append(file, trailer...)
	seal(file)
	return file
}

// footerOf are the descriptors of a file.
func footerOf(file []byte) []byte {
	end := binary.LittleEndian.Uint64(file[len(file)-trailSize:])
	return file[end : len(file)-trailSize]
}

// FuzzSegmentFooter reads descriptors and trailer of any content, with the
// right checksums, over runs that are whole.
func FuzzSegmentFooter(f *testing.F) {
	one, _ := encode(f, Config{}, testRun{1, 2, orders(1, 0, 3)})
	two, _ := encode(f, Config{BlockBytes: 2000}, testRun{1, 2, withoutPayload(orders(3, 0, 60), 9)}, testRun{1, 3, orders(2, 5, 40)})
	files := [][]byte{one, two}
	for i, file := range files {
		f.Add(footerOf(file), uint64(i+1), i == 1)
		f.Add(footerOf(file), uint64(1)<<40, i == 1)
	}
	f.Add(footerOf(one), uint64(2), true)
	f.Add([]byte{}, uint64(0), false)
	f.Fuzz(func(t *testing.T, footer []byte, runs uint64, many bool) {
		sound := one
		if many {
			sound = two
		}
		useAll(t, withFooter(sound, footer, runs))
	})
}

func TestASoundFooterVerifies(t *testing.T) {
	file, _ := encode(t, Config{}, testRun{1, 2, orders(1, 0, 3)})
	if !useAll(t, withFooter(file, footerOf(file), 1)) {
		t.Fatal("a file put together again from its parts is not sound")
	}
}
