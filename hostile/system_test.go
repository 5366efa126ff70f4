package hostile

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// descriptors lists the open files of a process whose names begin so.
func descriptors(t *testing.T, pid int, prefix string) []string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if name, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(name, prefix) {
			out = append(out, name)
		}
	}
	return out
}

// reset closes a connection so that the peer's writes fail.
func reset(c *raw) {
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}
