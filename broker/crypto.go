package broker

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Sizes of an envelope's parts, in bytes (R100).
const (
	ivBytes    = 16
	nonceBytes = 12 // the first bytes of the iv
	tagBytes   = 16
)

// An encrypted payload is stored as a JSON object (R100):
//
//	{"encrypted":"<base64>","iv":"<base64, 16 bytes>","authTag":"<base64, 16 bytes>"}
//
// AES-256-GCM without additional data. An object with exactly these three
// string members is taken for one when it is read (R101).
type envelope struct {
	Encrypted string
	IV        string
	AuthTag   string
}

// vault holds the cipher of Config.EncryptionKey; aead is nil without a key
// of 32 bytes.
type vault struct {
	once sync.Once
	aead cipher.AEAD
}

func (b *Broker) cipher() cipher.AEAD {
	b.vault.once.Do(func() {
		if len(b.cfg.EncryptionKey) != 32 {
			return
		}
		block, err := aes.NewCipher(b.cfg.EncryptionKey)
		if err != nil {
			return
		}
		b.vault.aead, _ = cipher.NewGCM(block)
	})
	return b.vault.aead
}

// seal returns the stored form of a payload for a queue that encrypts. It
// needs a key; an error means that the payload must not be stored.
func (b *Broker) seal(payload []byte) ([]byte, error) {
	aead := b.cipher()
	if aead == nil {
		return nil, fmt.Errorf("broker: no encryption key")
	}
	var iv [ivBytes]byte
	if _, err := io.ReadFull(b.cfg.IV, iv[:]); err != nil {
		return nil, fmt.Errorf("broker: encryption iv: %w", err)
	}
	sealed := aead.Seal(nil, iv[:nonceBytes], payload, nil)
	text, tag := sealed[:len(payload)], sealed[len(payload):]
	stored := make([]byte, 0, base64.StdEncoding.EncodedLen(len(payload))+96)
	stored = append(stored, `{"encrypted":"`...)
	stored = base64.StdEncoding.AppendEncode(stored, text)
	stored = append(stored, `","iv":"`...)
	stored = base64.StdEncoding.AppendEncode(stored, iv[:])
	stored = append(stored, `","authTag":"`...)
	stored = base64.StdEncoding.AppendEncode(stored, tag)
	return append(stored, `"}`...), nil
}

// open returns the payload as it was pushed. What has no envelope's shape and
// what does not open (no key, another key, wrong sizes, changed bytes) comes
// back as stored, with opened false (R101).
func (b *Broker) open(stored []byte) (payload []byte, opened bool) {
	aead := b.cipher()
	if aead == nil {
		return stored, false
	}
	var e envelope
	if !e.parse(stored) {
		return stored, false
	}
	text, err1 := base64.StdEncoding.DecodeString(e.Encrypted)
	iv, err2 := base64.StdEncoding.DecodeString(e.IV)
	tag, err3 := base64.StdEncoding.DecodeString(e.AuthTag)
	if err1 != nil || err2 != nil || err3 != nil || len(iv) != ivBytes || len(tag) != tagBytes {
		return stored, false
	}
	sealed := append(text, tag...)
	payload, err := aead.Open(sealed[:0], iv[:nonceBytes], sealed, nil)
	if err != nil {
		return stored, false
	}
	return payload, true
}

// isSealed reports whether a payload has the shape of an encrypted one.
func isSealed(stored []byte) bool {
	var e envelope
	return e.parse(stored)
}

// parse reads an object with exactly the three members of an envelope, each a
// string and each once, in any order.
func (e *envelope) parse(stored []byte) bool {
	// Most payloads are told apart here, without parsing.
	stored = bytes.TrimLeft(stored, " \t\r\n")
	if len(stored) == 0 || stored[0] != '{' || !bytes.Contains(stored, []byte(`"authTag"`)) {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(stored))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	seen := map[string]*string{"encrypted": &e.Encrypted, "iv": &e.IV, "authTag": &e.AuthTag}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return false
		}
		key, _ := name.(string)
		to := seen[key]
		value, err := d.Token()
		text, isText := value.(string)
		if err != nil || to == nil || !isText {
			return false
		}
		*to = text
		delete(seen, key)
	}
	_, err := d.Token()
	return err == nil && len(seen) == 0
}
