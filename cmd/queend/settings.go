package main

import (
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"queend/broker"
	"queend/log"
)

// config is everything the environment and the flags decide.
type config struct {
	broker   broker.Config
	port     int64
	bind     string
	maxBody  int64
	stmtMS   int64
	tenancy  bool
	proxy    bool
	tlsCert  string
	tlsKey   string
	logLevel string
	logJSON  bool
	slowMS   int64
	keyNote  string // what to say about the encryption key at boot
	hotlist  bool
	dedupOn  bool
	cleanup  bool
	fsync    string
	jwt      jwtConfig
	notices  []string // settings that were ignored or replaced, for the boot log
	values   []value  // what each setting came to, in the order of allSettings
}

// setting is one environment variable: its name, default and effect as -help
// and the documentation print them, and how its text is taken.
type setting struct {
	name   string
	def    string
	effect string
	secret bool
	blank  bool // a blank value is one, and not the default
	set    func(c *config, text string) error
}

// errNumber marks a bad number: the default stands, with a warning.
type errNumber struct{ text string }

func (e errNumber) Error() string { return fmt.Sprintf("%q is not a number in its range", e.text) }

// number takes a whole number of at least low.
func number(low int64, field func(*config) *int64) func(*config, string) error {
	return scaled(low, 1, field)
}

// scaled takes a whole number of at least low and stores it times unit.
func scaled(low, unit int64, field func(*config) *int64) func(*config, string) error {
	return func(c *config, text string) error {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil || n < low || n > (1<<62)/unit {
			return errNumber{text}
		}
		*field(c) = n * unit
		return nil
	}
}

// toggle takes true/false, 1/0, yes/no, on/off in any case.
func toggle(field func(*config) *bool) func(*config, string) error {
	return func(c *config, text string) error {
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "true", "1", "yes", "on":
			*field(c) = true
		case "false", "0", "no", "off":
			*field(c) = false
		default:
			return fmt.Errorf("%q is not a boolean (true/false, 1/0, yes/no, on/off)", text)
		}
		return nil
	}
}

func text(field func(*config) *string) func(*config, string) error {
	return func(c *config, value string) error {
		*field(c) = value
		return nil
	}
}

// ignored accepts a variable of the original server that has no meaning here.
func ignored(why string) func(*config, string) error {
	return func(c *config, _ string) error {
		c.notices = append(c.notices, why)
		return nil
	}
}

const mebi = 1 << 20

// settings lists every variable, in the order -help prints them.
var settings = []setting{
	{name: "PORT", def: "6632", effect: "TCP port of the HTTP API",
		set: number(0, func(c *config) *int64 { return &c.port })},
	{name: "QUEEN_BIND_ADDR", def: "0.0.0.0", effect: "address to listen on, without a port", set: setBind},
	{name: "QUEEN_DATA_DIR", def: "./queen-data", effect: "data directory; the flag -data wins",
		set: text(func(c *config) *string { return &c.broker.Dir })},
	{name: "QUEEN_FSYNC", def: "always", effect: "when an answered write is on disk: always, interval:<ms>, never", set: setFsync},
	{name: "QUEEN_MAX_BODY_BYTES", def: "67108864", effect: "largest request body, bytes; 413 above",
		set: number(1, func(c *config) *int64 { return &c.maxBody })},
	{name: "DEFAULT_TIMEOUT", def: "30000", effect: "default long-poll time of a pop, ms",
		set: number(1, func(c *config) *int64 { return &c.broker.DefaultTimeoutMS })},
	{name: "POP_DEFAULT_TIMEOUT_MS", def: "", effect: "older name of DEFAULT_TIMEOUT, which wins",
		set: number(1, func(c *config) *int64 { return &c.broker.DefaultTimeoutMS })},
	{name: "QUEEN_STMT_TIMEOUT_MS", def: "30000", effect: "deadline of ack, extend and transaction, ms",
		set: number(1, func(c *config) *int64 { return &c.stmtMS })},
	{name: "QUEEN_POP_REPLY_MARGIN_MS", def: "50", effect: "an empty long poll is answered this much before its time, ms",
		set: number(1, func(c *config) *int64 { return &c.broker.ReplyMarginMS })},
	{name: "QUEEN_POP_MAX_BYTES", def: "", effect: "payload bytes of one pop answer; QUEEN_MAX_BODY_BYTES when unset",
		set: number(1, func(c *config) *int64 { return &c.broker.PopMaxBytes })},
	{name: "DEFAULT_SUBSCRIPTION_MODE", def: "new", effect: "where a new group begins: new or all",
		set: text(func(c *config) *string { return &c.broker.DefaultMode })},
	{name: "QUEEN_HOTLIST", def: "on", effect: "off: windowBuffer waits for a quiet period",
		set: toggle(func(c *config) *bool { return &c.hotlist })},
	{name: "QUEEN_HOTLIST_WINDOW_BATCH", def: "100", effect: "messages that end a window early",
		set: number(1, func(c *config) *int64 { return &c.broker.WindowBatch })},
	{name: "QUEEN_POP_AUTOPILOT", def: "on", effect: "on, off or shadow", set: setAutopilot},
	{name: "QUEEN_POP_AUTOPILOT_BATCH", def: "100", effect: "accepted; a cold group's batch is 100", set: ignored("")},
	{name: "RETENTION_INTERVAL", def: "5000", effect: "retention cycle, ms",
		set: number(1, func(c *config) *int64 { return &c.broker.RetentionMS })},
	{name: "PARTITION_CLEANUP_DAYS", def: "30", effect: "idle empty partitions older than this are deleted",
		set: number(1, func(c *config) *int64 { return &c.broker.CleanupDays })},
	{name: "QUEEN_PARTITION_CLEANUP_ENABLED", def: "true", effect: "delete idle empty partitions",
		set: toggle(func(c *config) *bool { return &c.cleanup })},
	{name: "QUEEN_TXN_WINDOW_MIN_S", def: "900", effect: "a transaction id stays resolvable for acks at least this long, s",
		set: number(1, func(c *config) *int64 { return &c.broker.TxnWindowSeconds })},
	{name: "QUEEN_DEDUP_CACHE", def: "on", effect: "off: the smallest cache; verdicts are the same",
		set: toggle(func(c *config) *bool { return &c.dedupOn })},
	{name: "QUEEN_DEDUP_CACHE_MB", def: "512", effect: "memory for ids and filters of stored messages, MiB",
		set: scaled(1, mebi, func(c *config) *int64 { return &c.broker.DedupCacheBytes })},
	{name: "QUEEN_ENTRY_MAX_BYTES", def: "100663296", effect: "largest push to one partition, bytes",
		set: number(1, func(c *config) *int64 { return &c.broker.EntryMaxBytes })},
	{name: "QUEEN_TAIL_MB", def: "64", effect: "messages kept in memory until they are in segments, MiB",
		set: scaled(1, mebi, func(c *config) *int64 { return &c.broker.TailBytes })},
	{name: "QUEEN_SEGMENT_BYTES", def: "67108864", effect: "largest merged segment file, bytes",
		set: number(1<<16, func(c *config) *int64 { return &c.broker.SegmentBytes })},
	{name: "QUEEN_ZSTD_LEVEL", def: "1", effect: "compression level, 1 (fastest) to 4", set: setLevel},
	{name: "QUEEN_SEAL_AGE_S", def: "600", effect: "age at which the tail is written to segments, s",
		set: number(1, func(c *config) *int64 { return &c.broker.SealAgeSeconds })},
	{name: "QUEEN_CHECKPOINT_MB", def: "128", effect: "log bytes after which a checkpoint is cut, MiB",
		set: scaled(1, mebi, func(c *config) *int64 { return &c.broker.CheckpointBytes })},
	{name: "QUEEN_CHECKPOINT_S", def: "30", effect: "time after which a checkpoint is cut, s",
		set: number(1, func(c *config) *int64 { return &c.broker.CheckpointSeconds })},
	{name: "QUEEN_DISK_HIGH_PCT", def: "85", effect: "disk use at which pushes are refused with 507",
		set: number(1, func(c *config) *int64 { return &c.broker.DiskHighPct })},
	{name: "QUEEN_DISK_LOW_PCT", def: "80", effect: "disk use below which they are accepted again; at most QUEEN_DISK_HIGH_PCT",
		set: number(1, func(c *config) *int64 { return &c.broker.DiskLowPct })},
	{name: "QUEEN_ADMIT_MAX_MB", def: "128", effect: "write budget, MiB; 0 is none",
		set: scaled(0, mebi, func(c *config) *int64 { return &c.broker.AdmitBytes })},
	{name: "QUEEN_ADMIT_HOLD_MS", def: "15000", effect: "how long a push waits for the budget before 429, ms",
		set: number(1, func(c *config) *int64 { return &c.broker.AdmitHoldMS })},
	{name: "QUEEN_ENCRYPTION_KEY", def: "", effect: "64 hex characters: payloads of flagged queues are encrypted", secret: true, set: setKey},
	{name: "QUEEN_ENCRYPTION_REQUIRED", def: "false", effect: "refuse to start or to store plaintext on flagged queues without a key",
		set: toggle(func(c *config) *bool { return &c.broker.EncryptionRequired })},
	{name: "FILE_BUFFER_DIR", def: "", effect: "spool of maintenance mode; <data>/spool when unset",
		set: text(func(c *config) *string { return &c.broker.SpoolDir })},
	{name: "QUEEN_TRACE_RETENTION_S", def: "0", effect: "age at which traces go, s; 0 keeps them for ever",
		set: number(0, func(c *config) *int64 { return &c.broker.TraceRetentionSeconds })},
	{name: "METRICS_RETENTION_DAYS", def: "90", effect: "age at which the history of figures goes, days; 0 keeps none on disk",
		set: number(0, func(c *config) *int64 { return &c.broker.HistoryDays })},
	{name: "METRICS_FLUSH_MS", def: "60000", effect: "how often the history of figures is written, ms",
		set: number(1000, func(c *config) *int64 { return &c.broker.HistoryFlushMS })},
	{name: "QUEEN_TENANCY_HEADER", def: "false", effect: "read x-queen-tenant; needs QUEEN_KV_TRUSTED_PROXY",
		set: toggle(func(c *config) *bool { return &c.tenancy })},
	{name: "QUEEN_KV_TRUSTED_PROXY", def: "false", effect: "a trusted proxy sets x-queen-tenant",
		set: toggle(func(c *config) *bool { return &c.proxy })},
	{name: "QUEEN_TLS_CERT", def: "", effect: "PEM file of the certificate; with QUEEN_TLS_KEY",
		set: text(func(c *config) *string { return &c.tlsCert })},
	{name: "QUEEN_TLS_KEY", def: "", effect: "PEM file of its key",
		set: text(func(c *config) *string { return &c.tlsKey })},
	{name: "LOG_LEVEL", def: "info", effect: "debug, info, warn or error", set: setLogLevel},
	{name: "QUEEN_LOG_JSON", def: "false", effect: "log JSON instead of text",
		set: toggle(func(c *config) *bool { return &c.logJSON })},
	{name: "QUEEN_SLOW_REQUEST_MS", def: "1000", effect: "a request that takes longer gets a line in the log, ms; 0: none does",
		set: number(0, func(c *config) *int64 { return &c.slowMS })},
	{name: "RETENTION_BATCH_SIZE", def: "", effect: "accepted and ignored: a cycle works in bounded steps of its own",
		set: ignored("RETENTION_BATCH_SIZE is ignored: a retention cycle works in bounded steps of its own")},
	{name: "STATS_INTERVAL_MS", def: "", effect: "accepted and ignored: figures are counted as they are asked for",
		set: ignored("STATS_INTERVAL_MS is ignored: figures are counted as they are asked for")},
	{name: "RETAINED_BYTES_INTERVAL_MS", def: "", effect: "accepted and ignored, likewise",
		set: ignored("RETAINED_BYTES_INTERVAL_MS is ignored: figures are counted as they are asked for")},
	{name: "QUEEN_CACHE_REFRESH_INTERVAL_MS", def: "", effect: "accepted and ignored: options act at once",
		set: ignored("QUEEN_CACHE_REFRESH_INTERVAL_MS is ignored: options act at once")},
	{name: "QUEEN_RAFT_MAX_CLOCK_SKEW_MS", def: "", effect: "accepted and ignored: cluster only",
		set: ignored("QUEEN_RAFT_MAX_CLOCK_SKEW_MS is ignored: this is a single node")},
}

// allSettings are those above with those of tokens.
func allSettings() []setting { return slices.Concat(settings, jwtSettings) }

func setBind(c *config, text string) error {
	if _, _, err := net.SplitHostPort(text); err == nil {
		return fmt.Errorf("%q has a port in it: set PORT instead", text)
	}
	c.bind = text
	return nil
}

func setFsync(c *config, text string) error {
	c.fsync = text
	switch ms, isInterval := strings.CutPrefix(text, "interval:"); {
	case text == "always":
		c.broker.Sync = log.SyncAlways
	case text == "never":
		c.broker.Sync = log.SyncNever
	case isInterval:
		n, err := strconv.ParseInt(ms, 10, 32)
		if err != nil || n < 1 {
			return fmt.Errorf("%q: the interval is a number of milliseconds", text)
		}
		c.broker.Sync, c.broker.SyncInterval = log.SyncInterval, time.Duration(n)*time.Millisecond
	default:
		return fmt.Errorf("%q is not always, interval:<ms> or never", text)
	}
	return nil
}

func setAutopilot(c *config, text string) error {
	switch mode := strings.ToLower(strings.TrimSpace(text)); mode {
	case "on", "off", "shadow":
		c.broker.Autopilot = mode
		return nil
	}
	return fmt.Errorf("%q is not on, off or shadow", text)
}

func setLevel(c *config, text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 4 {
		return errNumber{text}
	}
	c.broker.ZstdLevel = n
	return nil
}

func setLogLevel(c *config, text string) error {
	switch level := strings.ToLower(strings.TrimSpace(text)); level {
	case "debug", "info", "warn", "error":
		c.logLevel = level
		return nil
	}
	return fmt.Errorf("%q is not debug, info, warn or error", text)
}

// setKey takes the encryption key. Without a good one the broker runs on,
// unless QUEEN_ENCRYPTION_REQUIRED is set (R102).
func setKey(c *config, text string) error {
	if len(text) != 64 {
		c.keyNote = "QUEEN_ENCRYPTION_KEY must be 64 hex chars; encryption DISABLED"
		return nil
	}
	key, err := hex.DecodeString(text)
	if err != nil {
		c.keyNote = "QUEEN_ENCRYPTION_KEY is not valid hex; encryption DISABLED"
		return nil
	}
	c.broker.EncryptionKey = key
	return nil
}

// pollPrefix begins the names of settings of a server that polled.
const pollPrefix = "POP_WAIT_"

// loadConfig reads the environment, given as os.Environ does. An unset or
// blank variable is its default.
func loadConfig(environ []string) (*config, error) {
	c := &config{hotlist: true, dedupOn: true, cleanup: true}
	values := map[string]string{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = value
		if strings.HasPrefix(name, pollPrefix) {
			c.notices = append(c.notices, name+" is ignored: parked pops are woken, never polled")
		}
	}
	lookup := func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
	for _, s := range allSettings() {
		text, set := lookup(s.name)
		set = set && (s.blank || strings.TrimSpace(text) != "")
		if s.name == "POP_DEFAULT_TIMEOUT_MS" {
			first, ok := lookup("DEFAULT_TIMEOUT")
			set = set && !(ok && strings.TrimSpace(first) != "")
		}
		v, err := c.take(s, text, set)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		c.values = append(c.values, v)
	}
	return c, c.check()
}

// take sets one setting to its text, or to its default when it is not set or
// a bad number.
func (c *config) take(s setting, text string, set bool) (value, error) {
	if set {
		err := s.set(c, text)
		if _, bad := err.(errNumber); !bad {
			return value{s, text, fromEnvironment}, err
		}
		c.notices = append(c.notices, fmt.Sprintf("%s: %v; the default %s is used", s.name, err, s.def))
	}
	if s.def == "" {
		return value{s, "", fromDefault}, nil
	}
	return value{s, s.def, fromDefault}, s.set(c, s.def)
}

// check resolves what depends on several variables.
func (c *config) check() error {
	if c.port > 65535 {
		return fmt.Errorf("PORT: %d is not a port", c.port)
	}
	if c.tenancy && !c.proxy {
		return fmt.Errorf("QUEEN_TENANCY_HEADER needs QUEEN_KV_TRUSTED_PROXY=true")
	}
	if (c.tlsCert == "") != (c.tlsKey == "") {
		return fmt.Errorf("QUEEN_TLS_CERT and QUEEN_TLS_KEY must be set together")
	}
	if c.broker.EncryptionRequired && c.broker.EncryptionKey == nil {
		return fmt.Errorf("QUEEN_ENCRYPTION_REQUIRED is set, but QUEEN_ENCRYPTION_KEY is missing or malformed")
	}
	if err := c.jwt.check(); err != nil {
		return err
	}
	if c.broker.PopMaxBytes == 0 {
		c.broker.PopMaxBytes = c.maxBody
	}
	if c.broker.AdmitBytes == 0 {
		c.broker.AdmitBytes = -1
	}
	if !c.dedupOn {
		c.broker.DedupCacheBytes = 1
	}
	c.broker.QuietWindow = !c.hotlist
	c.broker.CleanupOff = !c.cleanup
	return nil
}
