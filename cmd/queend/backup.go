package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"queend/backup"
	"queend/broker"
)

// backupSink writes a backup into a file and shows how far it is.
type backupSink struct {
	out      io.Writer
	w        *backup.Writer
	point    backup.Point
	files    int
	kept     int // files that an earlier attempt had fetched
	bytes    int64
	progress *progress
}

func (s *backupSink) Begin(m broker.Moment) (err error) {
	s.point = backup.Point{LSN: uint64(m.LSN), Time: m.Time}
	s.w, err = backup.NewWriter(s.out, s.point)
	return err
}

func (s *backupSink) Add(name string, size int64, r io.Reader) error {
	s.files++
	s.bytes += size
	s.progress.say("%d files, %d bytes: %s", s.files, s.bytes, name)
	return s.w.Add(name, size, r)
}

// makeBackup writes a backup of a stopped directory or of a running broker.
func makeBackup(args []string, c *console) int {
	f := newFlags(c, "backup", "DIR|URL OUT", "Writes a backup to the new file OUT, of a data directory that is not in use or of\n"+
		"the running broker at a URL. A directory is read and must be whole before. It\n"+
		"says of which record and time the backup is. When that of a running broker breaks\n"+
		"off, what came is kept in OUT.part, and the same command goes on from it. Exit\n"+
		"code 3: there is damage, no backup was made; 4: the directory is in use.")
	token := f.String("token", "", "the token to send to the broker; QUEEND_TOKEN when not given")
	if code, ok := f.parse(args, 2, 2); !ok {
		return code
	}
	s := &backupSink{progress: c.progress()}
	if *token == "" {
		*token = c.env("QUEEND_TOKEN", "")
	}
	var err error
	if strings.Contains(f.Arg(0), "://") {
		err = s.broker(c, f.Arg(0), f.Arg(1), *token)
	} else {
		err = writeNew(f.Arg(1), func(out io.Writer) error { return s.directory(c, f.Arg(0), out) }, nil)
	}
	s.progress.end()
	if err != nil {
		return c.fail("backup", err)
	}
	again := ""
	if s.kept > 0 {
		again = fmt.Sprintf(", %d of them fetched before", s.kept)
	}
	fmt.Fprintf(c.stdout, "%d files%s, %d bytes, %s\n", s.files, again, s.bytes, pointText(s.point))
	return exitOK
}

// directory backs up a stopped directory.
func (s *backupSink) directory(c *console, dir string, out io.Writer) error {
	s.out = out
	if err := broker.BackupDir(dir, s, func(d broker.Damage) { printDamage(c.stderr, d) }); err != nil {
		return err
	}
	return s.w.Close()
}

// broker backs up a running broker. What came of an attempt that broke off is
// kept beside out for the next one.
func (s *backupSink) broker(c *console, url, path, token string) error {
	have, err := openParts(path + partSuffix)
	if err != nil {
		return err
	}
	err = writeNew(path, func(out io.Writer) error { return s.fetch(url, token, have, out) }, func(temp string) {
		if n, err := saveParts(temp, path+partSuffix, have); err != nil {
			fmt.Fprintf(c.stderr, "queend backup: nothing could be kept of what came: %v\n", err)
		} else if n > 0 {
			fmt.Fprintf(c.stderr, "queend backup: %d segment files are kept in %s; the same command goes on from them\n", n, path+partSuffix)
		}
	})
	if err == nil && have.file != nil {
		err = os.Remove(have.file.Name())
	}
	return errors.Join(err, have.close())
}

// pointText says of which moment a backup is.
func pointText(p backup.Point) string {
	if p.Time.IsZero() {
		return "of an empty broker"
	}
	return fmt.Sprintf("through record %d of %s", p.LSN, p.Time.Format(time.RFC3339Nano))
}

// writeNew makes a file that was not there appear whole and durable, or not at
// all. broken, which may be nil, may look at what was written when it does not.
func writeNew(path string, write func(io.Writer) error, broken func(temp string)) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("%s is there already", path))
	}
	temp := path + ".tmp"
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(temp) // gone by then when all went well
	buffered := bufio.NewWriterSize(f, 1<<20)
	err = write(buffered)
	if ferr := buffered.Flush(); err == nil {
		err = ferr
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		if broken != nil {
			broken(temp)
		}
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// restore makes a data directory of a backup.
func restore(args []string, c *console) int {
	f := newFlags(c, "restore", "BACKUP DIR", "Makes the new data directory DIR from a backup. It appears only when every\n"+
		"checksum of the backup was right and the directory is whole. Exit code 3: the\n"+
		"backup is damaged. Do not run the old broker and a restored one at once.")
	check := f.Bool("check", false, "read the backup and check it, make nothing; without DIR")
	if code, ok := f.parse(args, 1, 2); !ok {
		return code
	}
	if *check != (f.NArg() == 1) {
		fmt.Fprintln(c.stderr, "queend restore: a directory is needed, or -check without one")
		return exitUsage
	}
	p, files, err := restoreFile(f.Arg(0), f.Arg(1), c)
	if errors.Is(err, backup.ErrDamaged) {
		fmt.Fprintf(c.stderr, "queend restore: %v\n", err)
		return exitDamaged
	}
	if err != nil {
		return c.fail("restore", err)
	}
	fmt.Fprintf(c.stdout, "%d files, %s\n", files, pointText(p))
	return exitOK
}

// restoreFile reads a backup into dir, or only reads it when dir is empty.
func restoreFile(path, dir string, c *console) (p backup.Point, files int, err error) {
	in, err := os.Open(path)
	if err != nil {
		return p, 0, err
	}
	defer in.Close()
	temp := strings.TrimRight(dir, "/") + ".restoring"
	if dir != "" {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return p, 0, errors.Join(err, fmt.Errorf("%s is there already", dir))
		}
		if err := os.Mkdir(temp, 0o700); err != nil {
			return p, 0, err
		}
		defer os.RemoveAll(temp) // gone by then when all went well
	}
	shown := c.progress()
	p, err = backup.Read(bufio.NewReaderSize(in, 1<<20), func(name string, size int64, r io.Reader) error {
		files++
		shown.say("%d files: %s", files, name)
		if dir == "" {
			_, err := io.Copy(io.Discard, r)
			return err
		}
		return restoreOne(filepath.Join(temp, filepath.FromSlash(name)), r)
	})
	shown.end()
	if err != nil || dir == "" {
		return p, files, err
	}
	return p, files, putInPlace(temp, dir, c)
}

// restoreOne writes one file, synced.
func restoreOne(path string, r io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Sync(), f.Close())
}

// putInPlace gives a directory its name when it is whole.
func putInPlace(temp, dir string, c *console) error {
	damaged := false
	if err := broker.Verify(temp, func(d broker.Damage) {
		if !d.Moot {
			damaged = true
			printDamage(c.stderr, d)
		}
	}); err != nil {
		return err
	}
	if damaged {
		return fmt.Errorf("%w: what is in it is not whole", backup.ErrDamaged)
	}
	err := filepath.WalkDir(temp, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return syncDir(path)
	})
	if err != nil {
		return err
	}
	if err := os.Rename(temp, dir); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}
