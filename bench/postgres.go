package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgresPeer is PostgreSQL with a table as the queue.
type postgresPeer struct{ process *process }

// postgresSettings differ from the defaults of PostgreSQL.
var postgresSettings = []string{"fsync=on", "synchronous_commit=on", "shared_buffers=1GB", "max_wal_size=8GB", "checkpoint_timeout=30min",
	"max_connections=200", "unix_socket_directories=", "listen_addresses=127.0.0.1"}

func newPostgres(dir string) (system, error) {
	programs, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	owner, err := unprivileged("postgres")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := initPostgres(programs, data, owner); err != nil {
		return nil, err
	}
	p := &process{dir: dir, target: newTarget(), ready: postgresReady, user: owner, tree: true, stopBy: syscall.SIGINT, killBy: syscall.SIGQUIT}
	p.args = func(port string) (string, []string, []string) {
		args := []string{"-D", data, "-p", port}
		for _, s := range postgresSettings {
			args = append(args, "-c", s)
		}
		return filepath.Join(programs, "postgres"), args, nil
	}
	return &postgresPeer{p}, nil
}

// postgresPrograms is the directory of the newest installed version.
func postgresPrograms() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err == nil && len(found) > 0 {
		slices.Sort(found)
		return filepath.Dir(found[len(found)-1]), nil
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", &missingError{"postgresql is not installed (make deps-bench installs it)"}
}

// unprivileged is the user to run a program as that does not run as root; nil is
// whoever runs this.
func unprivileged(name string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, &missingError{fmt.Sprintf("it does not run as root, and there is no user %s: %v", name, err)}
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

// initPostgres makes a data directory that belongs to owner.
func initPostgres(programs, data string, owner *syscall.Credential) error {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	if owner != nil {
		if err := openTo(data, owner); err != nil {
			return err
		}
	}
	cmd := exec.Command(filepath.Join(programs, "initdb"), "-D", data, "-U", "bench", "-A", "trust", "--no-locale", "-E", "UTF8")
	cmd.Dir = data
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, text)
	}
	return nil
}

// openTo gives dir to owner and lets it pass through the directories above that
// are ours.
func openTo(dir string, owner *syscall.Credential) error {
	if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
		return err
	}
	for up := filepath.Dir(dir); len(up) > 1; up = filepath.Dir(up) {
		info, err := os.Stat(up)
		if err != nil {
			return err
		}
		if info.Mode()&0o001 == 0 {
			if err := os.Chmod(up, info.Mode()|0o011); err != nil {
				return err
			}
		}
	}
	return nil
}

func postgresURL(addr string) string {
	return "postgres://bench@" + addr + "/postgres?sslmode=disable"
}

func postgresReady(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, postgresURL(addr))
	if err != nil {
		return false
	}
	_ = c.Close(ctx)
	return true
}

func (p *postgresPeer) promise() string {
	return "an insert is answered after its commit is synced (fsync on, synchronous_commit on), which commits that wait at the same moment share; a batch is one INSERT of arrays, prepared, one transaction; consumers delete the oldest rows that are not locked (FOR UPDATE SKIP LOCKED) and commit once they are done with them; no order of a lane between consumers, no detection of duplicates; autovacuum on, shared_buffers 1 GB, max_wal_size 8 GB"
}

func (p *postgresPeer) server() *process { return p.process }

func (p *postgresPeer) ordered() bool { return false }

func (p *postgresPeer) close() {}

func (p *postgresPeer) connect(ctx context.Context) (*pgx.Conn, error) {
	addr, err := p.process.target.wait(ctx)
	if err != nil {
		return nil, err
	}
	return pgx.Connect(ctx, postgresURL(addr))
}

func (p *postgresPeer) open(ctx context.Context, _ int) error {
	c, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, "CREATE TABLE messages (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, lane int NOT NULL, payload text NOT NULL)")
	return err
}

func (p *postgresPeer) producer(ctx context.Context, batch int) (producer, error) {
	c, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	text := "INSERT INTO messages (lane, payload) SELECT * FROM unnest($1::int[], $2::text[])"
	if batch == 1 {
		text = "INSERT INTO messages (lane, payload) VALUES ($1, $2)"
	}
	if _, err := c.Prepare(ctx, "push", text); err != nil {
		return nil, err
	}
	return &postgresProducer{conn: c}, nil
}

// postgresProducer inserts a batch with one statement.
type postgresProducer struct {
	conn     *pgx.Conn
	lanes    []int32
	payloads []string
}

func (p *postgresProducer) close() { closePostgres(p.conn) }

// closePostgres says goodbye, or at least hangs up.
func closePostgres(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

func (p *postgresProducer) push(items []slot, at int64) error {
	ctx := context.Background()
	if len(items) == 1 {
		_, err := p.conn.Exec(ctx, "push", int32(items[0].lane), string(newPayload(items[0], at)))
		return err
	}
	p.lanes, p.payloads = p.lanes[:0], p.payloads[:0]
	for _, s := range items {
		p.lanes = append(p.lanes, int32(s.lane))
		p.payloads = append(p.payloads, string(newPayload(s, at)))
	}
	tag, err := p.conn.Exec(ctx, "push", p.lanes, p.payloads)
	if err == nil && tag.RowsAffected() != int64(len(items)) {
		err = fmt.Errorf("an insert of %d rows made %d", len(items), tag.RowsAffected())
	}
	return err
}

func (p *postgresPeer) consumer(ctx context.Context, _ int, how consumption) (consumer, error) {
	if how.pinned {
		return nil, &missingError{"a table has no consumers that wait for one lane each"}
	}
	c, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	_, err = c.Prepare(ctx, "take", "DELETE FROM messages WHERE id = ANY (ARRAY(SELECT id FROM messages ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING payload")
	if err != nil {
		return nil, err
	}
	return &postgresConsumer{conn: c, batch: how.batch, wait: how.wait}, nil
}

// postgresPoll is how often a consumer looks again that found nothing.
const postgresPoll = 2 * time.Millisecond

// postgresConsumer deletes rows in a transaction and commits it when it is done
// with them.
type postgresConsumer struct {
	conn  *pgx.Conn
	batch int
	wait  time.Duration
}

func (c *postgresConsumer) close() { closePostgres(c.conn) }

func (c *postgresConsumer) take(in *intake) error {
	ctx := context.Background()
	for end := in.clock.now() + int64(c.wait); ; time.Sleep(postgresPoll) {
		n, err := c.once(ctx, in)
		if err != nil || n > 0 || in.clock.now() >= end {
			return err
		}
	}
}

// once takes what is there.
func (c *postgresConsumer) once(ctx context.Context, in *intake) (n int, err error) {
	began := in.clock.now()
	var b pgx.Batch
	b.Queue("BEGIN")
	b.Queue("take", c.batch)
	results := c.conn.SendBatch(ctx, &b)
	if _, err = results.Exec(); err != nil {
		return 0, errors.Join(err, results.Close())
	}
	rows, err := results.Query()
	if err != nil {
		return 0, errors.Join(err, results.Close())
	}
	for rows.Next() {
		if n == 0 {
			in.arrived(began)
		}
		if err := in.message(rows.RawValues()[0]); err != nil {
			rows.Close()
			return n, errors.Join(err, results.Close())
		}
		n++
	}
	if err := errors.Join(rows.Err(), results.Close()); err != nil {
		return n, err
	}
	in.flush()
	_, err = c.conn.Exec(ctx, "COMMIT")
	return n, err
}

func (p *postgresPeer) audit(ctx context.Context, _ int, message func([]byte) error) error {
	c, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	rows, err := c.Query(ctx, "SELECT payload FROM messages ORDER BY id")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := message(rows.RawValues()[0]); err != nil {
			return err
		}
	}
	return rows.Err()
}
