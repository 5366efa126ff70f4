package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"queend/api"
	"queend/broker"
)

// stopTime bounds how long a stop may take in all.
const stopTime = 5 * time.Second

// serve runs the broker until a signal or a failure ends it.
func serve(c *config, stderr io.Writer) int {
	logger := newLogger(c, stderr)
	paceCollector()
	failed := make(chan error, 1)
	c.broker.Log = logger
	c.broker.Now = newClock()
	c.broker.OnFail = onFail(logger, failed)
	tokens, err := c.jwt.auth(logger)
	if err != nil {
		return startFailed(logger, err)
	}
	server, err := api.New(api.Config{
		MaxBodyBytes: int(c.maxBody), Log: logger, Tenancy: c.tenancy, Version: version, Fsync: c.fsync, Auth: tokens, Now: c.broker.Now,
		SlowRequest:      time.Duration(c.slowMS) * time.Millisecond,
		BodyHold:         time.Duration(c.broker.AdmitHoldMS) * time.Millisecond,
		PushTimeout:      time.Duration(c.broker.DefaultTimeoutMS) * time.Millisecond,
		StatementTimeout: time.Duration(c.stmtMS) * time.Millisecond,
	})
	if err != nil {
		return startFailed(logger, err)
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(c.bind, strconv.FormatInt(c.port, 10)))
	if err != nil {
		return startFailed(logger, err)
	}
	if ln, err = secure(c, ln, logger); err != nil {
		return startFailed(logger, err)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		if err := server.Serve(ln); err != nil {
			failed <- fmt.Errorf("serving HTTP: %w", err)
		}
	}()
	announce(logger, c, ln)
	began := time.Now()
	boot := make(chan booted, 1)
	go func() {
		b, err := broker.Open(c.broker)
		boot <- booted{b, err}
	}()
	var b *broker.Broker
	for {
		select {
		case done := <-boot:
			if b, err = done.broker, done.err; err != nil {
				return startFailed(logger, err)
			}
			server.Attach(b)
			logger.Info("ready", "boot", time.Since(began).Round(time.Millisecond).String())
		case s := <-signals:
			logger.Info("stopping", "signal", s.String())
			if b == nil {
				return exitOK // a boot can be cut off anywhere; the next one goes on from there
			}
			return stop(logger, server, b)
		case err := <-failed:
			logger.Error("failed; ending the process", "error", err)
			return exitLogLost
		}
	}
}

// booted is how a boot ended.
type booted struct {
	broker *broker.Broker
	err    error
}

// onFail reports the first failure of the log; the process ends at once even
// when nobody listens any more.
func onFail(logger *slog.Logger, failed chan<- error) func(error) {
	var once sync.Once
	return func(err error) {
		once.Do(func() {
			select {
			case failed <- err:
			default:
			}
			time.AfterFunc(stopTime, func() {
				logger.Error("failed; the process did not end by itself", "error", err)
				os.Exit(exitLogLost)
			})
		})
	}
}

func startFailed(logger *slog.Logger, err error) int {
	logger.Error("cannot start", "error", err)
	return exitOf(err)
}

// announce writes the boot log: where, what is on, what was ignored.
func announce(logger *slog.Logger, c *config, ln net.Listener) {
	logger.Info("queend", "version", version, "address", ln.Addr().String(), "data", c.broker.Dir, "fsync", c.fsync,
		"tls", c.tlsCert != "", "auth", c.jwt.on)
	if c.fsync != "always" {
		logger.Warn("QUEEN_FSYNC is not always: a power cut loses answered writes", "fsync", c.fsync)
	}
	for _, note := range c.notices {
		if note != "" {
			logger.Warn(note)
		}
	}
	switch {
	case c.keyNote != "":
		logger.Warn(c.keyNote)
	case c.broker.EncryptionKey != nil:
		logger.Info("encryption service initialized (AES-256-GCM)")
	}
}

// stop answers what is parked, lets requests end and closes the log. Closing
// fails when the log does.
func stop(logger *slog.Logger, server *api.Server, b *broker.Broker) int {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime-time.Second)
	defer cancel()
	b.StopWaiting()
	if err := server.Shutdown(ctx); err != nil {
		logger.Warn("some requests were cut off", "error", err)
	}
	if err := b.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		logger.Error("closing", "error", err)
		return exitLogLost
	}
	logger.Info("stopped")
	return exitOK
}

// newClock is wall time at the start plus what a monotonic clock says since,
// in microseconds: steps of the wall clock do not move it.
func newClock() func() int64 {
	start := time.Now()
	wall := start.UnixMicro()
	return func() int64 { return wall + time.Since(start).Microseconds() }
}

func newLogger(c *config, w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.logLevel))
	options := &slog.HandlerOptions{Level: level}
	if c.logJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
