package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"queend/api"
)

// writeCertificate writes a certificate for 127.0.0.1 with a serial number,
// and its key.
func writeCertificate(t *testing.T, dir string, serial int64) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// serveTLS serves the API with the certificate, and returns its address.
func serveTLS(t *testing.T, c *certificate) string {
	t.Helper()
	server, err := api.New(api.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(c.listen(ln)) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// servedSerial makes one request over a new connection and returns the serial
// number of the certificate it was made with.
func servedSerial(t *testing.T, address string) int64 {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // self-signed
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("https://" + address + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || resp.ProtoMajor != 1 {
		t.Errorf("%d %s %s", resp.StatusCode, resp.Proto, body)
	}
	return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
}

func TestACertificateIsReloadedAtASignal(t *testing.T) {
	dir := t.TempDir()
	c, err := loadCertificate(writeCertificate(t, dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	address := serveTLS(t, c)
	if got := servedSerial(t, address); got != 1 {
		t.Errorf("certificate %d", got)
	}
	var text bytes.Buffer
	signalOnce := func() {
		signals := make(chan os.Signal, 1)
		signals <- syscall.SIGHUP
		close(signals)
		c.reloadOn(signals, slog.New(slog.NewTextHandler(&text, nil)))
	}
	writeCertificate(t, dir, 2)
	if got := servedSerial(t, address); got != 1 {
		t.Errorf("certificate %d before the signal", got)
	}
	signalOnce()
	if got := servedSerial(t, address); got != 2 {
		t.Errorf("certificate %d after the signal", got)
	}
	if err := os.WriteFile(c.cert, []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	signalOnce()
	if got := servedSerial(t, address); got != 2 {
		t.Errorf("certificate %d after a bad file", got)
	}
	if !strings.Contains(text.String(), "the one before stays") {
		t.Errorf("the log says %q", text.String())
	}
}

func TestACertificateThatCannotBeReadStopsTheBoot(t *testing.T) {
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, 1)
	for _, pair := range [][2]string{{cert, filepath.Join(dir, "none")}, {filepath.Join(dir, "none"), key}, {key, cert}} {
		_, err := loadCertificate(pair[0], pair[1])
		if err == nil || !strings.Contains(err.Error(), "QUEEN_TLS_CERT") {
			t.Errorf("%v: %v", pair, err)
		}
	}
}

func TestPlainHTTPOnATLSPortIsRefused(t *testing.T) {
	c, err := loadCertificate(writeCertificate(t, t.TempDir(), 1))
	if err != nil {
		t.Fatal(err)
	}
	address := serveTLS(t, c)
	if resp, err := http.Get("http://" + address + "/status"); err == nil {
		resp.Body.Close()
		if resp.StatusCode < 400 {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
	if got := servedSerial(t, address); got != 1 {
		t.Errorf("certificate %d", got)
	}
}
