package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// machineLine says where and with what a run was made. It is the first line.
type machineLine struct {
	Kind     string            `json:"type"` // "machine"
	Time     string            `json:"time"`
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	MemoryMB int64             `json:"memory_mb"`
	Kernel   string            `json:"kernel"`
	FileSys  string            `json:"file_system"`
	SyncUS   float64           `json:"fdatasync_p50_us"` // of 4 KiB appended
	Load     string            `json:"load_average"`     // before the run
	Versions map[string]string `json:"versions"`
	Args     []string          `json:"args"`
	Quick    bool              `json:"quick"`
}

// lookAround fills the line; dir is where the data will be.
func lookAround(dir, binary string, args []string, quick bool) machineLine {
	m := machineLine{Kind: "machine", Time: time.Now().UTC().Format(time.RFC3339), Cores: runtime.NumCPU(), Args: args, Quick: quick, Versions: map[string]string{}}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range bytes.Lines(text) {
			if name, value, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(name)) == "model name" {
				m.CPU = string(bytes.TrimSpace(value))
				break
			}
		}
	}
	if kb, err := procNumber("/proc/meminfo", "MemTotal:"); err == nil {
		m.MemoryMB = kb >> 10
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(text))
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(text))[:3], " ")
	}
	m.FileSys = fileSystem(dir)
	m.SyncUS = syncTime(dir)
	m.Versions["go"] = runtime.Version()
	m.Versions["queend"] = firstLine(binary, "-version")
	if path, err := exec.LookPath("redis-server"); err == nil {
		m.Versions["redis"] = firstLine(path, "--version")
	}
	if programs, err := postgresPrograms(); err == nil {
		m.Versions["postgres"] = firstLine(filepath.Join(programs, "postgres"), "--version")
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			switch d.Path {
			case "github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go", "github.com/jackc/pgx/v5", "github.com/valyala/fasthttp":
				m.Versions[d.Path] = d.Version
			}
		}
	}
	return m
}

// firstLine is the first line a program prints, or nothing.
func firstLine(path string, args ...string) string {
	text, err := exec.Command(path, args...).Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// fileSystem names the kind of file system that dir is on.
func fileSystem(dir string) string {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return ""
	}
	switch s.Type {
	case 0xef53:
		return "ext4"
	case 0x58465342:
		return "xfs"
	case 0x9123683e:
		return "btrfs"
	case 0x01021994:
		return "tmpfs"
	case 0x794c7630:
		return "overlay"
	}
	return "unknown"
}

// syncTime is the median time of a small append with fdatasync in dir, in
// microseconds; 0 when it cannot be told.
func syncTime(dir string) float64 {
	f, err := os.CreateTemp(dir, "queend-bench-sync-")
	if err != nil {
		return 0
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var times []float64
	for range 200 {
		began := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return 0
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0
		}
		times = append(times, float64(time.Since(began).Nanoseconds())/1000)
	}
	return round4(median(times))
}
