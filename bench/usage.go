package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// usage is what a server has used so far.
type usage struct {
	cpu     time.Duration // in user and kernel mode, over all its processes
	memory  int64         // resident bytes; shared pages count once
	written int64         // bytes sent to the disk
}

// usage adds up the processes of the server.
func (p *process) usage() (usage, error) {
	var sum usage
	for _, pid := range p.pids() {
		u, err := usageOf(pid, p.tree)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			return usage{}, err
		}
		sum.cpu += u.cpu
		sum.memory += u.memory
		sum.written += u.written
	}
	return sum, nil
}

// usageOf reads what one process has used; single says that it has one thread.
func usageOf(pid int, single bool) (u usage, err error) {
	if u.cpu, err = cpuOf(pid, single); err != nil {
		return u, err
	}
	pss, err := procNumber(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:")
	if err != nil {
		return u, err
	}
	u.memory = pss << 10
	u.written, err = procNumber(fmt.Sprintf("/proc/%d/io", pid), "write_bytes:")
	return u, err
}

// cpuOf is the processor time of one process. That of one thread is known to the
// nanosecond; else it comes in ticks, which many short-lived parts of a tree would
// lose.
func cpuOf(pid int, single bool) (time.Duration, error) {
	if single {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		if err != nil {
			return 0, err
		}
		first, _, _ := bytes.Cut(text, []byte(" "))
		ns, err := strconv.ParseInt(string(first), 10, 64)
		return time.Duration(ns), err
	}
	fields, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	ticks := int64(0)
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / 100), nil // USER_HZ is 100 everywhere
}

// statOf has the fields of /proc/<pid>/stat from the third on.
func statOf(pid int) ([][]byte, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// The name in brackets may hold anything; field 3 follows the last bracket.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields, nil
}

// procNumber is the number behind a name in a file of /proc.
func procNumber(path, name string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			fields := bytes.Fields(rest)
			if len(fields) == 0 {
				break
			}
			return strconv.ParseInt(string(fields[0]), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}

// pids are the process and all that descend from it.
func (p *process) pids() []int {
	found := []int{p.cmd.Process.Pid}
	if !p.tree {
		return found
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return found
	}
	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		fields, err := statOf(pid)
		if err != nil {
			continue // it has ended
		}
		if parent, err := strconv.Atoi(string(fields[1])); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}

// diskUse is what a directory takes on the disk.
func diskUse(dir string) (size int64, files int, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreGone(err)
		}
		info, err := d.Info()
		if err != nil {
			return ignoreGone(err)
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			size += stat.Blocks * 512
		}
		files++
		return nil
	})
	return size, files, err
}

// ignoreGone lets a file be removed while its directory is walked.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ownCPU is the processor time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it cannot fail with these arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
