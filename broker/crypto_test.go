package broker

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

func sealing(key byte) *Broker {
	return &Broker{cfg: Config{EncryptionKey: bytes.Repeat([]byte{key}, 32), IV: strings.NewReader(strings.Repeat("0123456789abcdef", 100))}}
}

func TestR100_TheStoredFormIsAES256GCMUnderThePublishedShape(t *testing.T) {
	stored, err := sealing(7).seal([]byte(`{"eur":12}`))
	if err != nil {
		t.Fatal(err)
	}
	var e map[string][]byte
	if err := json.Unmarshal(stored, &e); err != nil || len(e) != 3 {
		t.Fatalf("%s: %v", stored, err)
	}
	if string(e["iv"]) != "0123456789abcdef" || len(e["authTag"]) != 16 {
		t.Errorf("%s", stored)
	}
	block, err := aes.NewCipher(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := gcm.Open(nil, e["iv"][:12], append(e["encrypted"], e["authTag"]...), nil)
	if err != nil || string(plain) != `{"eur":12}` {
		t.Errorf("%s, %v", plain, err)
	}
}

func TestR101_ReadingDecidesByShape(t *testing.T) {
	b := sealing(7)
	stored, err := b.seal([]byte("null"))
	if err != nil {
		t.Fatal(err)
	}
	if plain, opened := b.open(stored); !opened || string(plain) != "null" {
		t.Fatalf("%s, %v", plain, opened)
	}
	var parts map[string]string
	if err := json.Unmarshal(stored, &parts); err != nil {
		t.Fatal(err)
	}
	reordered := `{ "authTag" : "` + parts["authTag"] + `", "iv":"` + parts["iv"] + `","encrypted":"` + parts["encrypted"] + `" }`
	if plain, opened := b.open([]byte(reordered)); !opened || string(plain) != "null" {
		t.Errorf("members in another order: %s", plain)
	}
	text := string(stored)
	short := base64.StdEncoding.EncodeToString([]byte("short"))
	for name, other := range map[string]string{
		"plain":          `{"eur":12}`,
		"no object":      `"authTag"`,
		"another member": strings.TrimSuffix(text, "}") + `,"x":"y"}`,
		"twice":          strings.TrimSuffix(text, "}") + `,"iv":"` + parts["iv"] + `"}`,
		"a missing one":  `{"encrypted":"` + parts["encrypted"] + `","authTag":"` + parts["authTag"] + `"}`,
		"no string":      `{"encrypted":1,"iv":"` + parts["iv"] + `","authTag":"` + parts["authTag"] + `"}`,
		"an object":      `{"encrypted":{"iv":1},"iv":"` + parts["iv"] + `","authTag":"` + parts["authTag"] + `"}`,
		"bad base64":     strings.Replace(text, parts["iv"], "*", 1),
		"short iv":       strings.Replace(text, parts["iv"], short, 1),
		"short tag":      strings.Replace(text, parts["authTag"], short, 1),
		"other tag":      strings.Replace(text, parts["authTag"], parts["iv"], 1),
		"cut":            text[:len(text)-2],
	} {
		if plain, opened := b.open([]byte(other)); opened || string(plain) != other {
			t.Errorf("%s: opened as %s", name, plain)
		}
	}
	for name, other := range map[string]*Broker{"another key": sealing(8), "no key": {}} {
		if plain, opened := other.open(stored); opened || !bytes.Equal(plain, stored) {
			t.Errorf("%s: opened as %s", name, plain)
		}
	}
}

func TestAnEnvelopeIsNeverMadeWithoutAKeyOrRandomness(t *testing.T) {
	if _, err := (&Broker{}).seal([]byte("1")); err == nil {
		t.Error("sealed without a key")
	}
	b := sealing(1)
	b.cfg.IV = strings.NewReader("short")
	if _, err := b.seal([]byte("1")); err == nil {
		t.Error("sealed without an iv")
	}
}
