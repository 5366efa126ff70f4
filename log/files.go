package log

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Permissions: a log holds the messages of everybody.
const (
	dirPerm  = 0o700
	filePerm = 0o600
)

// files does every change to the disk that the library does not do itself.
type files struct {
	// hook, when set, is asked before every change and every sync, those of the
	// library too; its error takes the place of the change. Tests crash and fail
	// the log with it.
	hook func(step, path string) error
}

func (f files) step(step, path string) error {
	if f.hook == nil {
		return nil
	}
	return f.hook(step, path)
}

// syncDir makes the names in a directory durable.
func (f files) syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer d.Close()
	return f.syncOpenDir(d)
}

// syncOpenDir is syncDir for a directory that is already open.
func (f files) syncOpenDir(d *os.File) error {
	if err := f.step("syncdir", d.Name()); err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// mkdirAll creates dir and what is missing above it, each name synced in its
// parent before the next is made. The name of dir is synced also when it was
// there: the process that made it may have died before it could.
func (f files) mkdirAll(dir string) error {
	if err := f.mkdirMissing(dir); err != nil {
		return err
	}
	return f.syncDir(filepath.Dir(dir))
}

func (f files) mkdirMissing(dir string) error {
	info, err := os.Stat(dir)
	if err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is not a directory", dir)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) {
		if err := f.mkdirAll(parent); err != nil {
			return err
		}
	}
	if err := f.step("mkdir", dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, dirPerm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// rename does not sync the directory.
func (f files) rename(from, to string) error {
	if err := f.step("rename", to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// removeAll does not sync the directory.
func (f files) removeAll(path string) error {
	if err := f.step("remove", path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// truncate cuts a file to size bytes and syncs it.
func (f files) truncate(path string, size int64) error {
	if err := f.step("truncate", path); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Truncate(size); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return file.Close()
}

// replace puts a file with what data holds at path, whole or not at all, synced
// with its name.
func (f files) replace(path string, data io.Reader) error {
	tmp := path + ".tmp"
	if err := f.write(tmp, data); err != nil {
		return err
	}
	if err := f.rename(tmp, path); err != nil {
		return err
	}
	return f.syncDir(filepath.Dir(path))
}

func (f files) write(path string, data io.Reader) error {
	if err := f.step("create", path); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, filePerm)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(file, data); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return file.Close()
}
