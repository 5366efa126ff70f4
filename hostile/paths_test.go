package hostile

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// tree lists every file below a directory but the data of the broker and its log.
func tree(t *testing.T, n *node) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(filepath.Dir(n.dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == n.data || path == filepath.Join(n.dir, "buffers") {
			return fs.SkipDir
		}
		names = append(names, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, "\n")
}

// F42: names with slashes or zero bytes got into paths.
func TestPathTricksStayInsideTheDataDirectory(t *testing.T) {
	t.Parallel()
	n := start(t, "QUEEN_SEAL_AGE_S=1", "QUEEN_CHECKPOINT_S=1")
	before := tree(t, n)
	tricky := []string{"..", ".", "../x", "../../../../tmp/x", "/etc/passwd", "a/b", "a//b", "", " ", "a\\b", "C:\\x", "a%2Fb", "%2e%2e", "x\x7f", "~", "$HOME", "-", "*", "\u202e"}
	for _, name := range tricky {
		n.push(name, name+"p", "t")
		escaped := ""
		for _, b := range []byte(name) {
			escaped += "%" + string("0123456789ABCDEF"[b>>4]) + string("0123456789ABCDEF"[b&15])
		}
		c := n.dial()
		c.send("GET /api/v1/pop/queue/" + escaped + "?batch=5 HTTP/1.1\r\nHost: x\r\n\r\n")
		if got := parsePop(t, c.answer()).txns(); len(got) != 1 {
			t.Errorf("queue %q: popped %v", name, got)
		}
	}
	for _, path := range []string{
		"/..", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//", "///etc/passwd", "/api/v1/pop/queue/%00", "/api/v1/pop/queue/%",
		"/api/v1/pop/queue/%zz", "/api/v1/pop/queue/%f", "/api/v1/pop/queue/%ff", "/api/v1/pop/queue/a%0ab", "/api/v1/../../health",
		"/api/v1/pop/queue/a/partition/..%2f..%2fx", "/api/v1/pop/queue/" + strings.Repeat("%2F", 4000), "/" + strings.Repeat("/", 8000),
		"/api/v1/messages/../..", "/api/v1/dlq/..%2f..%2f", "/api/v1/resources/queues/../../../x", "/assets/../../etc/passwd", "/favicon.ico/../../x",
		"*", "http://x/etc/passwd", "/./health", "/health/", "/HEALTH", "/health;x", "/api/v1/lease/%2e%2e", "/%c0%ae%c0%ae/x", "/api/v1/traces/by-name/%2e%2e%2f",
	} {
		for _, method := range []string{"GET", "HEAD", "DELETE", "POST", "PUT", "OPTIONS", "TRACE", "BREW"} {
			c := n.dial()
			c.send(method + " " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			if method == "HEAD" {
				continue
			}
			a := c.answer()
			if a.status >= 500 || len(a.body) > 0 && a.header.Get("Content-Type") == "application/json" && !json.Valid(a.body) {
				t.Errorf("%s %s: %d %.100s", method, path, a.status, a.body)
			}
			if strings.Contains(string(a.body), "root:") {
				t.Errorf("%s %s gave a file away", method, path)
			}
			c.Close()
		}
	}
	for _, name := range tricky {
		if name == "" {
			continue
		}
		n.must(201, "POST", "/api/v1/traces", `{"transactionId":"t","partitionId":`+quote(name)+`,"traceName":`+quote(name)+`,"data":{}}`)
	}
	n.must(200, "POST", "/api/v1/system/maintenance", `{"enabled":true}`)
	for _, name := range tricky {
		n.must(201, "POST", "/api/v1/push", `{"items":[`+item(name, name, "spooled", "1")+`]}`)
	}
	n.restart()
	if after := tree(t, n); after != before {
		t.Errorf("files changed from\n%s\nto\n%s", before, after)
	}
}
