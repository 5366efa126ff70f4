package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// certificate is a TLS certificate that can be read from its files again
// while connections are made with it.
type certificate struct {
	cert, key string // PEM files
	current   atomic.Pointer[tls.Certificate]
}

func loadCertificate(cert, key string) (*certificate, error) {
	c := &certificate{cert: cert, key: key}
	return c, c.reload()
}

// reload reads the files. When they are no good the certificate stays.
func (c *certificate) reload() error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("QUEEN_TLS_CERT %s, QUEEN_TLS_KEY %s: %w", c.cert, c.key, err)
	}
	c.current.Store(&pair)
	return nil
}

// listen puts TLS over a listener.
func (c *certificate) listen(ln net.Listener) net.Listener {
	return tls.NewListener(ln, &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current.Load(), nil
		},
	})
}

// reloadOn reloads at every signal, for as long as the process runs.
func (c *certificate) reloadOn(signals <-chan os.Signal, logger *slog.Logger) {
	for range signals {
		if err := c.reload(); err != nil {
			logger.Error("the certificate was not reloaded; the one before stays", "error", err)
			continue
		}
		logger.Info("certificate reloaded", "file", c.cert)
	}
}

// secure puts TLS over a listener if a certificate is configured; SIGHUP
// reads it again.
func secure(c *config, ln net.Listener, logger *slog.Logger) (net.Listener, error) {
	if c.tlsCert == "" {
		return ln, nil
	}
	loaded, err := loadCertificate(c.tlsCert, c.tlsKey)
	if err != nil {
		return nil, err
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go loaded.reloadOn(hangups, logger)
	return loaded.listen(ln), nil
}
