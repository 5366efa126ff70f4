package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// serveNATSName is the scenario by which the command starts itself as NATS.
const serveNATSName = "serve-nats"

// runServeNATS is the process of a NATS server, made from its Go module. It serves
// until it is told to stop.
func runServeNATS(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet(serveNATSName, flag.ContinueOnError)
	flags.SetOutput(out)
	port := flags.Int("port", 0, "where to listen on loopback")
	store := flags.String("store", "", "directory of the streams")
	always := flags.Bool("sync-always", false, "sync every write before it is acknowledged")
	if err := flags.Parse(args); err != nil {
		return &usageError{err}
	}
	// A taken port is said at once, so that whoever started this takes another.
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(*port)))
	if err != nil {
		return err
	}
	_ = ln.Close()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: *port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: *store, SyncAlways: *always,
	})
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		return errors.New("NATS does not accept connections")
	}
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
