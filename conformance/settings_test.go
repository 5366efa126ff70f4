package conformance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestS13_DataDirectoryIsPrivate(t *testing.T) {
	b, e := own(t)
	e.push(e.queue(), "p", "a")
	info, err := os.Stat(b.dataDir())
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o700 {
		t.Errorf("mode %o, want 700", mode)
	}
}

func TestS13_SecretsAreMaskedInTheLog(t *testing.T) {
	b, _ := own(t, "JWT_ENABLED=true", "JWT_SECRET=do-not-print-me", "QUEEN_ENCRYPTION_KEY="+testKey, "LOG_LEVEL=debug")
	for _, secret := range []string{"do-not-print-me", testKey, testKey[:16]} {
		if strings.Contains(b.logText(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

func TestS13_PopWaitSettingsAreIgnoredWithANotice(t *testing.T) {
	b, e := own(t, "POP_WAIT_INITIAL_INTERVAL_MS=100", "QUEEN_RAFT_MAX_CLOCK_SKEW_MS=500")
	if !strings.Contains(b.logText(), "POP_WAIT") {
		t.Error("the log does not mention the ignored setting")
	}
	e.get("/health").want(http.StatusOK)
}

func TestS13_BindAddressWithAPortIsFatal(t *testing.T) {
	t.Parallel()
	record(t)
	refusesToStart(t, "QUEEN_BIND_ADDR=127.0.0.1:7000")
}

func TestS13_WeakerFsyncIsNamedInHealth(t *testing.T) {
	b, e := own(t, "QUEEN_FSYNC=never")
	covers(t, "A9")
	q := e.queue()
	e.push(q, "p", "a")
	if got := e.get("/health").obj(http.StatusOK).str("fsync"); !strings.Contains(got, "never") {
		t.Errorf("fsync %q", got)
	}
	b.Stop() // an orderly end loses nothing
	e = b.Restart(t, "QUEEN_FSYNC=interval:50")
	if got := e.get("/health").obj(http.StatusOK).str("fsync"); !strings.Contains(got, "interval") {
		t.Errorf("fsync %q", got)
	}
	e.pop(q).want("a")
}

// F7: a failed sync or a full disk was retried or ignored.
func TestS1_FullDiskRefusesGrowingWritesOnly(t *testing.T) {
	b, e := own(t)
	covers(t, "A9", "S13")
	q := e.queue()
	row := e.deadLetter(q, "p", "dead")
	e.push(q, "p", "a", "b")
	// The first figure may take a moment to come.
	used := 0.0
	for end := time.Now().Add(8 * time.Second); used < 3 && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var err error
		if used, err = strconv.ParseFloat(e.get("/health").obj(http.StatusOK).at("disk", "usedPct").text(), 64); err != nil {
			t.Fatal(err)
		}
	}
	if used < 3 {
		t.Logf("the disk of this machine is used to %v %%: the gate cannot be set below that", used)
		return
	}
	b.Stop()
	e = b.Restart(t, "QUEEN_DISK_HIGH_PCT=2", "QUEEN_DISK_LOW_PCT=1")
	e.eventually("the gate closes", func() bool {
		return e.post("/api/v1/push", `{"items":[`+item(q, "p", "c", "1")+`]}`).status == http.StatusInsufficientStorage
	})
	n := e.post("/api/v1/push", `{"items":[`+item(q, "p", "c", "1")+`]}`).obj(http.StatusInsufficientStorage).is("code", "storage_full")
	if n.str("error") == "" {
		t.Error("empty error")
	}
	e.get("/health").obj(http.StatusOK).at("disk").is("full", true)
	c := e.pop(q)
	e.finish("", c)
	e.replay(row.str("id"), "").obj(http.StatusInsufficientStorage).is("success", false, "dlqRowRemoved", false).hasKeys("error")
	e.del("/api/v1/dlq/" + row.str("id")).want(http.StatusOK)
	e.del("/api/v1/resources/queues/" + q).want(http.StatusOK)
	b.Stop()
	e = b.Restart(t, "LOG_LEVEL=info")
	e.push(q, "p", "c")[0].is("status", "queued", "offset", 0)
}

func TestS1_TLS(t *testing.T) {
	t.Parallel()
	record(t)
	covers(t, "S13")
	needBinary(t)
	dir := t.TempDir()
	cert, key := selfSigned(t, dir)
	b := newBroker(dir, "QUEEN_TLS_CERT="+cert, "QUEEN_TLS_KEY="+key)
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.spawn(port); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.end(os.Kill) })
	client := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	newEnv(t, "").eventually("the broker answers over TLS", func() bool {
		resp, err := client.Get("https://127.0.0.1:" + port + "/health")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	if resp, err := client.Get("http://127.0.0.1:" + port + "/health"); err == nil {
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("the port also serves plain HTTP")
		}
	}
}

// selfSigned writes a certificate for 127.0.0.1 and its key.
func selfSigned(t *testing.T, dir string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "EC PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func TestS1_ManagementBooleans(t *testing.T) {
	e := shared(t, "S7")
	for word, want := range map[string]bool{"true": true, "1": true, "yes": true, "false": false, "0": false, "no": false} {
		q, g := e.queue(), e.name("g")
		e.push(q, "p", "a")
		e.pop(q, all(g))
		e.del("/api/v1/consumer-groups/"+g+"?deleteMetadata="+word).obj(http.StatusOK).is("metadataDeleted", want)
	}
}
