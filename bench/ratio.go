package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// round is one round of one row: the broker and then the floor, or the reverse.
type round struct {
	Broker measure `json:"broker"`
	Floor  measure `json:"floor"`
	Ratio  float64 `json:"ratio"` // of messages a second
}

// row is what ratio finds for one shape.
type row struct {
	Row     string  `json:"row"`
	Batch   int     `json:"batch"`
	Conns   int     `json:"connections"`
	Rounds  []round `json:"rounds"`
	Ratio   float64 `json:"ratio_median"`
	Checked int64   `json:"messages_checked"`
}

// ratioRun is one run of the scenario ratio.
type ratioRun struct {
	common
	rounds int
	length time.Duration
}

// runRatio runs broker and floor in turn and reports how far the broker is from
// the floor. A row counts only if everything pushed can be popped, once and
// without a gap.
func runRatio(ctx context.Context, args []string, out io.Writer) error {
	var r ratioRun
	flags := flag.NewFlagSet("ratio", flag.ContinueOnError)
	seconds := flags.Float64("seconds", 3, "how long broker and floor each run in a round")
	only := flags.String("rows", "", "only these rows, separated by commas")
	flags.IntVar(&r.rounds, "rounds", 5, "rounds of each row")
	if err := r.parse(flags, args, out); err != nil {
		return err
	}
	r.length = time.Duration(*seconds * float64(time.Second))
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	var rows []row
	for _, s := range shapes {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), s.name) {
			continue
		}
		found, err := r.row(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		line, err := json.Marshal(found)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", line)
		rows = append(rows, found)
	}
	return printRows(out, rows)
}

// row measures one shape with a broker and a floor of its own.
func (r *ratioRun) row(ctx context.Context, s shape) (row, error) {
	dir, remove, err := r.workspace()
	if err != nil {
		return row{}, err
	}
	defer remove()
	broker, err := newBroker(r.binary, filepath.Join(dir, "broker"))
	if err != nil {
		return row{}, err
	}
	defer broker.kill()
	onBroker, err := started(ctx, s, broker)
	if err != nil {
		return row{}, err
	}
	defer onBroker.close()
	// The floor gives the broker's last answer to all.
	floor, err := newFloor(filepath.Join(dir, "floor"), bytes.Clone(onBroker.pushers[0].conn.body))
	if err != nil {
		return row{}, err
	}
	defer floor.kill()
	onFloor, err := started(ctx, s, floor)
	if err != nil {
		return row{}, err
	}
	defer onFloor.close()
	found := row{Row: s.name, Batch: s.batch, Conns: s.conns}
	for i := range r.rounds {
		measured, err := r.round(ctx, onBroker, onFloor, i%2 == 1)
		if err != nil {
			return row{}, fmt.Errorf("round %d: %w\nlog of the broker:\n%s", i+1, err, broker.logTail(10))
		}
		found.Rounds = append(found.Rounds, measured)
	}
	var ratios []float64
	for _, measured := range found.Rounds {
		ratios = append(ratios, measured.Ratio)
	}
	found.Ratio = median(ratios)
	if err := broker.resume(); err != nil {
		return row{}, err
	}
	if found.Checked, err = checkLoad(ctx, onBroker); err != nil {
		return row{}, err
	}
	broker.stop()
	if code := broker.cmd.ProcessState.ExitCode(); code != 0 {
		return row{}, fmt.Errorf("the broker ended with code %d\n%s", code, broker.logTail(10))
	}
	return found, nil
}

// started starts a server, connects to it and warms both up.
func started(ctx context.Context, s shape, server *process) (*load, error) {
	if err := server.start(ctx); err != nil {
		return nil, err
	}
	l, err := newLoad(ctx, s, server)
	if err != nil {
		return nil, err
	}
	if _, err := l.run(ctx, warmUp); err != nil {
		l.close()
		return nil, fmt.Errorf("warming up: %w\n%s", err, server.logTail(10))
	}
	return l, server.pause()
}

// round runs both once. The one that has no load is stopped meanwhile, so that
// each does its own work in the background in its own time.
func (r *ratioRun) round(ctx context.Context, broker, floor *load, floorFirst bool) (round, error) {
	var found round
	turns := []struct {
		load *load
		into *measure
	}{{broker, &found.Broker}, {floor, &found.Floor}}
	if floorFirst {
		slices.Reverse(turns)
	}
	for _, turn := range turns {
		if err := turn.load.server.resume(); err != nil {
			return found, err
		}
		var err error
		if *turn.into, err = turn.load.run(ctx, r.length); err != nil {
			return found, err
		}
		if err := turn.load.server.pause(); err != nil {
			return found, err
		}
	}
	found.Ratio = found.Broker.PerSecond / found.Floor.PerSecond
	return found, nil
}

// checkLoad pops everything a load has pushed and returns how much that was.
func checkLoad(ctx context.Context, l *load) (int64, error) {
	c := caller{target: l.server.target}
	defer c.close()
	total := int64(0)
	for _, p := range l.pushers {
		for _, lane := range p.lanes {
			if err := checkLane(ctx, &c, lane); err != nil {
				return total, fmt.Errorf("partition %s: %w", lane.partition, err)
			}
			total += lane.count
		}
	}
	return total, nil
}

// checkLane pops one partition to its end. The offsets must have no gap, and
// the ids must be those that were answered: their sum tells.
func checkLane(ctx context.Context, c *caller, lane *prepared) error {
	path := "/api/v1/pop/queue/" + loadQueue + "/partition/" + lane.partition + "?autoAck=true&batch=10000&consumerGroup=check&subscriptionMode=all"
	next, sum := int64(0), uint64(0)
	for {
		status, body, err := c.call(ctx, "GET", path, nil)
		switch {
		case err != nil:
			return err
		case status == 204 && next != lane.count:
			return fmt.Errorf("%d messages were answered, %d come back", lane.count, next)
		case status == 204 && sum != lane.sum:
			return fmt.Errorf("%d messages come back, but not those that were answered", next)
		case status == 204:
			return nil
		case status != 200:
			return &statusError{"GET " + path, status, string(body)}
		}
		if next, sum, err = checkPopped(body, next, sum); err != nil {
			return err
		}
	}
}

var (
	txnKey    = []byte(`"transactionId":"`)
	dataKey   = []byte(`"data":{"event"`)
	offsetKey = []byte(`"offset":`)
)

// checkPopped reads the messages of one answer without decoding it: there may
// be a million.
func checkPopped(body []byte, next int64, sum uint64) (int64, uint64, error) {
	for {
		at := bytes.Index(body, txnKey)
		if at < 0 {
			return next, sum, nil
		}
		body = body[at+len(txnKey):]
		data, offset := bytes.Index(body, dataKey), bytes.Index(body, offsetKey)
		if len(body) < 36 || data < 0 || offset < 0 {
			return next, sum, fmt.Errorf("a message without id, payload or offset: %.300s", body)
		}
		low, err := strconv.ParseUint(string(body[19:23])+string(body[24:36]), 16, 64)
		if err != nil {
			return next, sum, fmt.Errorf("not an id that was pushed: %s", body[:36])
		}
		digits := body[offset+len(offsetKey):]
		if end := bytes.IndexAny(digits, ",}"); end < 0 || string(digits[:end]) != strconv.FormatInt(next, 10) {
			return next, sum, fmt.Errorf("offset %.20s comes where %d belongs", digits, next)
		}
		end := data + len(`"data":`) + payloadBytes
		if end >= len(body) || body[end-1] != '}' || body[end] != ',' && body[end] != '}' {
			return next, sum, fmt.Errorf("a payload is not %d bytes long: %.400s", payloadBytes, body[data:])
		}
		next, sum, body = next+1, sum+low, body[end:]
	}
}

// printRows prints the table for people.
func printRows(out io.Writer, rows []row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "row\tround\tbroker msg/s\tfloor msg/s\tratio\tp50 us\tfloor\tp99 us\tfloor\tCPU us/req\tfloor\tload\t\n")
	for _, found := range rows {
		for i, r := range found.Rounds {
			fmt.Fprintf(w, "%s\t%d\t%.0f\t%.0f\t%.2f\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t%.1f\t\n", found.Row, i+1, r.Broker.PerSecond, r.Floor.PerSecond,
				r.Ratio, r.Broker.P50, r.Floor.P50, r.Broker.P99, r.Floor.P99, r.Broker.CPU, r.Floor.CPU, r.Broker.LoadCPU)
		}
		fmt.Fprintf(w, "%s\tmedian\t\t\t%.2f\t\t\t\t\t\t\t\t%d messages checked\n", found.Row, found.Ratio, found.Checked)
	}
	return w.Flush()
}
