package conformance

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testKey is the encryption key of these tests.
const testKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

// sealer is the cipher of testKey.
func sealer(t *testing.T) cipher.AEAD {
	t.Helper()
	key, err := hex.DecodeString(testKey)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return gcm
}

// envelope encrypts a payload as R100 says.
func envelope(t *testing.T, plain string) string {
	t.Helper()
	iv := []byte("0123456789abcdef")
	out := sealer(t).Seal(nil, iv[:12], []byte(plain), nil)
	cut := len(out) - 16
	b64 := base64.StdEncoding.EncodeToString
	return `{"encrypted":"` + b64(out[:cut]) + `","iv":"` + b64(iv) + `","authTag":"` + b64(out[cut:]) + `"}`
}

// opened decrypts an envelope the broker made.
func opened(t *testing.T, n node) string {
	t.Helper()
	n.onlyKeys("encrypted iv authTag")
	part := func(key string, size int) []byte {
		raw, err := base64.StdEncoding.DecodeString(n.str(key))
		if err != nil || (size > 0 && len(raw) != size) {
			t.Fatalf("%s has %d bytes, %v", key, len(raw), err)
		}
		return raw
	}
	iv := part("iv", 16)
	plain, err := sealer(t).Open(nil, iv[:12], append(part("encrypted", 0), part("authTag", 16)...), nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

// holds tells whether any file below dir contains the text.
func holds(t *testing.T, dir, text string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found = found || bytes.Contains(data, []byte(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestR100_PayloadsAreStoredEncrypted(t *testing.T) {
	b, e := own(t, "QUEEN_ENCRYPTION_KEY="+testKey)
	covers(t, "R101", "A9")
	const plain = `{"secret": "tomato-9007199254740993"}`
	q, open := e.queue(), e.queue()
	if w := e.configure(q, `{"encryptionEnabled":true}`).list("warnings"); len(w) != 0 {
		t.Errorf("warnings %v", w[0].text())
	}
	e.pushItems(item(q, "p", "a", plain))
	e.transact(txPush(item(q, "p", "b", plain))).is("success", true)
	e.pushItems(item(open, "p", "c", `"in the clear"`))
	for _, m := range e.pop(q, all(e.name("g"))).want("a", "b").msgs {
		if got := m.at("data").text(); got != plain {
			t.Errorf("data %s", got)
		}
	}
	e.get("/health").obj(http.StatusOK).is("encryption", "on")
	if !strings.Contains(b.logText(), "encryption service initialized (AES-256-GCM)") {
		t.Error("the boot log does not say that encryption is on")
	}
	b.Stop()
	if holds(t, b.dir, "tomato") {
		t.Error("the plain text is in the data directory")
	}

	// Without the key the stored form is served.
	e = b.Restart(t, "LOG_LEVEL=info")
	ivs := map[string]bool{}
	for _, m := range e.pop(q, all(e.name("g"))).want("a", "b").msgs {
		if got := opened(t, m.at("data")); got != plain {
			t.Errorf("envelope holds %s", got)
		}
		ivs[m.str("data", "iv")] = true
	}
	if len(ivs) != 2 {
		t.Error("two messages share an iv")
	}
	b.Kill()

	// With another key too, without an error.
	e = b.Restart(t, "QUEEN_ENCRYPTION_KEY="+strings.Repeat("ab", 32))
	e.pop(q, all(e.name("g"))).msgs[0].at("data").onlyKeys("encrypted iv authTag")
	b.Kill()
	e = b.Restart(t, "QUEEN_ENCRYPTION_KEY="+testKey)
	if got := e.pop(q, all(e.name("g"))).msgs[1].at("data").text(); got != plain {
		t.Errorf("data %s", got)
	}
}

func TestR101_ReadsDecideByShape(t *testing.T) {
	_, e := own(t, "QUEEN_ENCRYPTION_KEY="+testKey)
	q := e.queue()
	good := envelope(t, `{"x":[1, 2]}`)
	damaged := strings.Replace(good, `"authTag":"`, `"authTag":"AAAA`, 1)
	extra := strings.TrimSuffix(good, "}") + `,"more":1}`
	notText := `{"encrypted":1,"iv":2,"authTag":3}`
	badTag := good[:len(good)-6] + "AAA=\"}"
	e.pushItems(item(q, "p", "good", good), item(q, "p", "damaged", damaged), item(q, "p", "extra", extra), item(q, "p", "notText", notText), item(q, "p", "badTag", badTag))
	want := map[string]string{"good": `{"x":[1, 2]}`, "damaged": damaged, "extra": extra, "notText": notText, "badTag": badTag}
	for _, m := range e.pop(q).msgs {
		id := m.str("transactionId")
		if got := m.at("data").text(); got != want[id] {
			t.Errorf("%s read back as %s", id, got)
		}
	}
}

func TestR101_TheFlagIsNotRetroactive(t *testing.T) {
	b, e := own(t, "QUEEN_ENCRYPTION_KEY="+testKey)
	q := e.queue()
	e.pushItems(item(q, "p", "plain", `"one"`))
	e.configure(q, `{"encryptionEnabled":true}`)
	e.pushItems(item(q, "p", "sealed", `"two"`))
	e.configure(q, `{}`)
	e.pushItems(item(q, "p", "again", `"three"`))
	read := func() []string {
		var out []string
		for _, m := range e.pop(q, all(e.name("g"))).msgs {
			out = append(out, m.at("data").text())
		}
		return out
	}
	if got := strings.Join(read(), " "); got != `"one" "two" "three"` {
		t.Errorf("read %s", got)
	}
	b.Kill()
	e = b.Restart(t, "LOG_LEVEL=info")
	got := read()
	if got[0] != `"one"` || !strings.Contains(got[1], "authTag") || got[2] != `"three"` {
		t.Errorf("stored %v", got)
	}
}

func TestR102_WithoutAKeyPlaintextIsStored(t *testing.T) {
	for name, key := range map[string]string{"short": "abcd", "nohex": strings.Repeat("zz", 32)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, "QUEEN_ENCRYPTION_KEY="+key)
			e := newEnv(t, b.url)
			want := "QUEEN_ENCRYPTION_KEY must be 64 hex chars; encryption DISABLED"
			if name == "nohex" {
				want = "is not valid hex"
			}
			if !strings.Contains(b.logText(), want) {
				t.Errorf("the log lacks %q:\n%s", want, b.logTail(20))
			}
			q := e.queue()
			if len(e.configure(q, `{"encryptionEnabled":true}`).list("warnings")) == 0 {
				t.Error("configure does not warn")
			}
			e.push(q, "p", "a")
			if got := e.pop(q).msgs[0].at("data").text(); got != payloadOf("a") {
				t.Errorf("data %s", got)
			}
			e.get("/health").obj(http.StatusOK).is("encryption", "plaintext")
		})
	}
	record(t)
}

func TestR103_DeadLettersOfAnEncryptedQueue(t *testing.T) {
	b, e := own(t, "QUEEN_ENCRYPTION_KEY="+testKey)
	q, open := e.queue(), e.queue()
	e.configure(q, `{"encryptionEnabled":true}`)
	const plain = `{"secret": "aubergine"}`
	for _, id := range []string{"a", "b", "c"} {
		e.pushItems(item(q, "p", id, plain))
	}
	e.ack("", e.pop(q), "a=dlq", "b=dlq", "c=dlq")
	rows := e.dlq(q)
	if len(rows) != 3 {
		t.Fatalf("%d dead letters", len(rows))
	}
	for _, row := range rows {
		if row.is("isEncrypted", true); row.at("data").text() != plain {
			t.Errorf("data %s", row.at("data").text())
		}
	}
	e.post("/api/v1/dlq/"+find(t, rows, "transactionId", "a").str("id")+"/replay", "").obj(http.StatusOK)
	e.post("/api/v1/dlq/"+find(t, rows, "transactionId", "b").str("id")+"/replay", `{"queue":`+quote(open)+`}`).obj(http.StatusOK)
	for _, name := range []string{q, open} {
		if got := e.pop(name).msgs[0].at("data").text(); got != plain {
			t.Errorf("replayed as %s", got)
		}
	}
	// A queue in the clear shows no isEncrypted.
	e.deadLetter(e.queue(), "p", "x").lacks("isEncrypted")

	b.Kill()
	e = b.Restart(t, "LOG_LEVEL=info")
	row := e.dlq(q)[0].lacks("isEncrypted").is("transactionId", "c")
	if got := opened(t, row.at("data")); got != plain {
		t.Errorf("stored %s", got)
	}
	// The destination's flag decided how the replays were stored.
	if got := opened(t, e.pop(q, all(e.name("g")), "batch=10").msgs[3].at("data")); got != plain {
		t.Errorf("stored %s", got)
	}
	if got := e.pop(open, all(e.name("g"))).msgs[0].at("data").text(); got != plain {
		t.Errorf("stored %s", got)
	}
	// What cannot be decrypted is replayed as stored.
	e.post("/api/v1/dlq/"+row.str("id")+"/replay", `{"queue":`+quote(open)+`}`).obj(http.StatusOK)
	if got := opened(t, e.pop(open, all(e.name("g"))).msgs[1].at("data")); got != plain {
		t.Errorf("stored %s", got)
	}
}

func TestR100_TheSpoolIsEncryptedToo(t *testing.T) {
	b, e := own(t, "QUEEN_ENCRYPTION_KEY="+testKey)
	covers(t, "R120")
	q := e.queue()
	e.configure(q, `{"encryptionEnabled":true}`)
	e.maintenance("maintenance", true)
	e.pushItems(item(q, "p", "a", `"courgette"`))[0].is("status", "buffered")
	b.Stop()
	if holds(t, b.dir, "courgette") {
		t.Error("the plain text is on the disk")
	}
	e = b.Restart(t)
	e.maintenance("maintenance", false)
	if got := e.popSoon(q).want("a").msgs[0].at("data").text(); got != `"courgette"` {
		t.Errorf("data %s", got)
	}
	b.Stop()
	if holds(t, b.dir, "courgette") {
		t.Error("the plain text is on the disk")
	}
}

// F44: options were taken and did nothing, unsaid.
func TestS13_EncryptionRequired(t *testing.T) {
	b, e := own(t, "QUEEN_ENCRYPTION_REQUIRED=true", "QUEEN_ENCRYPTION_KEY="+testKey)
	q := e.queue()
	e.configure(q, `{"encryptionEnabled":true}`)
	e.pushItems(item(q, "p", "a", `"cucumber"`))
	e.pop(q).want("a")
	b.Stop()
	if holds(t, b.dir, "cucumber") {
		t.Error("the plain text is in the data directory")
	}
}
