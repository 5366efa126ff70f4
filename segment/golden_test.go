package segment

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/v1.seg and testdata/v1.txt anew")

// goldenRuns have raw and compressed blocks, a spanning payload, every flag,
// dropped payloads and a stripe copied by a merge.
func goldenRuns() []testRun {
	all := edgeMessages()
	flags := append([]Message(nil), all[9:15]...)
	flags[0].Payload = bytes.Repeat([]byte("spans three blocks "), 130_000)
	return []testRun{
		{1, 2, orders(1, 0, 1)},
		{1, 3, orders(2, 70, 200)},
		{300, 70_000, withoutPayload(orders(3, 1<<40, 60), 1<<40+20)},
		{300, 70_001, all[:4:4]},
		{300, 70_002, flags},
	}
}

// render is the whole file as text.
func render(t *testing.T, file []byte) []byte {
	t.Helper()
	r := open(t, file)
	if err := r.Verify(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "file %d\n", r.File())
	if err := r.Entries(func(e Entry) error {
		fmt.Fprintf(&out, "\nqueue %d partition %d offsets %d to %d, payload from %d, last time %d\n",
			e.Queue, e.Partition, e.First, e.Last, e.PayloadFrom, e.LastTime)
		for _, m := range readAll(t, r, e) {
			fmt.Fprintf(&out, "%d time %d id %s txn %q trace %s producer %t %q headers %t %q encrypted %t gone %t payload %d bytes %q hash %016x\n",
				m.Offset, m.Time, m.ID, m.TxnID, m.TraceID, m.HasProducer, m.Producer, m.Headers != nil, m.Headers,
				m.Encrypted, m.Gone, len(m.Payload), m.Payload[:min(len(m.Payload), 40)], Hash(m.Payload))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The bytes of a block depend on the version of the zstd library, so the file
// is read, not compared.
func TestFilesOfVersion1StayReadable(t *testing.T) {
	fresh, _ := encode(t, Config{}, goldenRuns()...)
	if *update {
		for name, content := range map[string][]byte{"testdata/v1.seg": fresh, "testdata/v1.txt": render(t, fresh)} {
			if err := os.WriteFile(name, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	file, err := os.ReadFile("testdata/v1.seg")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/v1.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := render(t, file); !bytes.Equal(got, want) {
		t.Errorf("testdata/v1.seg reads differently: got %d bytes of text, want %d", len(got), len(want))
	}
	if got := render(t, fresh); !bytes.Equal(got, want) {
		t.Errorf("the same messages written today read differently: got %d bytes of text, want %d", len(got), len(want))
	}
}
