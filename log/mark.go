package log

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"queend"
)

// The clean-shutdown mark is a file of 20 bytes, little endian:
//
//	0       4         8         9       12         20
//	| magic | crc u32 | version | 0 0 0 | last u64 |
//
// crc is CRC-32C of all that follows it. last is the LSN of the last record when
// the log was closed: all up to it was synced. What it says stays true for ever,
// so a mark left over by a crash does no harm.
const (
	markName    = "clean"
	markMagic   = "\xb7qcl"
	markVersion = 1
	markBytes   = 20
)

// writeMark says in dir that the log was closed with last as its last record.
func writeMark(f files, dir string, last queend.LSN) error {
	data := append(make([]byte, 0, markBytes), markMagic...)
	data = append(data, 0, 0, 0, 0, markVersion, 0, 0, 0)
	data = binary.LittleEndian.AppendUint64(data, uint64(last))
	binary.LittleEndian.PutUint32(data[4:], crc32.Checksum(data[8:], castagnoli))
	if err := f.replace(filepath.Join(dir, markName), bytes.NewReader(data)); err != nil {
		return fmt.Errorf("clean-shutdown mark: %w", err)
	}
	return nil
}

// readMark returns what the mark in dir says. Without a mark, or with one that
// does not verify, clean is false: it proves nothing then.
func readMark(dir string) (last queend.LSN, clean bool, err error) {
	path := filepath.Join(dir, markName)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("clean-shutdown mark: %w", err)
	}
	if info.Size() != markBytes {
		return 0, false, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false, fmt.Errorf("clean-shutdown mark: %w", err)
	}
	last, clean, err = ParseMark(data)
	if err != nil {
		return 0, false, fmt.Errorf("%s: %w", path, err)
	}
	return last, clean, nil
}

// ParseMark reads the bytes of a clean-shutdown mark: the LSN of the last record
// when the log was closed. ok is false when they are none.
func ParseMark(data []byte) (last queend.LSN, ok bool, err error) {
	if len(data) != markBytes || string(data[:4]) != markMagic ||
		crc32.Checksum(data[8:], castagnoli) != binary.LittleEndian.Uint32(data[4:]) {
		return 0, false, nil
	}
	if data[8] != markVersion {
		return 0, false, fmt.Errorf("version %d: %w", data[8], ErrVersion)
	}
	return queend.LSN(binary.LittleEndian.Uint64(data[12:])), true, nil
}

// removeMark takes the mark away for good, before the log changes again.
func removeMark(f files, dir string) error {
	path := filepath.Join(dir, markName)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := f.removeAll(path); err != nil {
		return fmt.Errorf("clean-shutdown mark: %w", err)
	}
	return f.syncDir(dir)
}
