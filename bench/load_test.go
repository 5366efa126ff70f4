package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// body is what follows the headers of a request.
func (p *prepared) body() []byte {
	_, body, _ := bytes.Cut(p.request, []byte("\r\n\r\n"))
	return body
}

func TestPreparedRequestIsAPushOfFreshIDs(t *testing.T) {
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	p := newPrepared(3, 10)
	rng := rand.New(rand.NewPCG(1, 2))
	seen := map[string]bool{}
	for range 100 {
		p.fill(rng, time.Now())
		var body struct {
			Items []struct {
				Queue, Partition, TransactionID string
				Payload                         json.RawMessage
			}
		}
		if err := json.Unmarshal(p.body(), &body); err != nil {
			t.Fatal(err)
		}
		for _, item := range body.Items {
			if len(item.Payload) != payloadBytes || item.Queue != loadQueue || item.Partition != "p03" {
				t.Fatalf("%d bytes for %s/%s", len(item.Payload), item.Queue, item.Partition)
			}
			if !uuid.MatchString(item.TransactionID) || seen[item.TransactionID] {
				t.Fatalf("id %s", item.TransactionID)
			}
			seen[item.TransactionID] = true
		}
	}
	if len(seen) != 1000 {
		t.Errorf("%d ids", len(seen))
	}
}

// answerOf is a pop answer with the items of a request, offsets from 5 on.
func answerOf(t *testing.T, p *prepared) string {
	var body struct {
		Items []struct {
			TransactionID string
			Payload       json.RawMessage
		}
	}
	if err := json.Unmarshal(p.body(), &body); err != nil {
		t.Fatal(err)
	}
	var parts []string
	for i, item := range body.Items {
		parts = append(parts, fmt.Sprintf(`{"id":"x","transactionId":"%s","traceId":null,"data":%s,"offset":%d}`, item.TransactionID, item.Payload, 5+i))
	}
	return `{"success":true,"messages":[` + strings.Join(parts, ",") + `],"partitionsClaimed":1}`
}

func TestCheckPoppedFindsGapsAndStrangers(t *testing.T) {
	p := newPrepared(0, 3)
	sum := p.fill(rand.New(rand.NewPCG(1, 2)), time.Now())
	whole := answerOf(t, p)
	next, got, err := checkPopped([]byte(whole), 5, 0)
	if err != nil || next != 8 || got != sum {
		t.Fatalf("next %d, sum %x for %x, %v", next, got, sum, err)
	}
	for name, spoilt := range map[string]string{
		"gap":           strings.Replace(whole, `"offset":6`, `"offset":7`, 1),
		"repeat":        strings.Replace(whole, `"offset":6`, `"offset":5`, 1),
		"short payload": strings.Replace(whole, `xx"}`, `x"}`, 1),
		"long payload":  strings.Replace(whole, `xx"}`, `xxx"}`, 1),
		"foreign id":    regexp.MustCompile(`"transactionId":"[^"]*"`).ReplaceAllString(whole, `"transactionId":"zzzzzzzz-0000-7000-8000-00000000000z"`),
	} {
		if _, _, err := checkPopped([]byte(spoilt), 5, 0); err == nil {
			t.Errorf("%s: not found", name)
		}
	}
	lost := regexp.MustCompile(`,?\{"id":"x"[^{]*\{[^[]*\[[^]]*\][^}]*\},"offset":7\}`).ReplaceAllString(whole, "")
	if next, got, err := checkPopped([]byte(lost), 5, 0); err != nil || next != 7 || got == sum {
		t.Errorf("a lost message: next %d, %v", next, err)
	}
}

func TestFloorKeepsWhatItAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	a, err := openAppender(path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for j := range 4 {
				if err := a.append(fmt.Appendf(nil, "<%02d.%d>", i, j)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	a.close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		for j := range 4 {
			if strings.Count(string(text), fmt.Sprintf("<%02d.%d>", i, j)) != 1 {
				t.Errorf("%d.%d is not there once", i, j)
			}
		}
	}
}

// served answers one request with text and returns what the client makes of it.
func served(t *testing.T, text string) (int, string, error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for in := bufio.NewReader(c); ; {
			if line, err := in.ReadString('\n'); err != nil || line == "\r\n" {
				break
			}
		}
		_, _ = c.Write([]byte(text))
	}()
	c, err := dial(context.Background(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	status, body, err := c.call("GET", "/", nil)
	return status, string(body), err
}

func TestClientReadsAnswers(t *testing.T) {
	for _, row := range []struct {
		text   string
		status int
		body   string
	}{
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, "hi"},
		{"HTTP/1.1 201 Created\r\ncontent-length:3\r\nX: y\r\n\r\n[1]", 201, "[1]"},
		{"HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
	} {
		status, body, err := served(t, row.text)
		if status != row.status || body != row.body || err != nil {
			t.Errorf("%q: %d %q %v", row.text, status, body, err)
		}
	}
}

func TestClientTellsALostAnswerFromABadOne(t *testing.T) {
	for text, lost := range map[string]bool{
		"":                              true,
		"HTTP/1.1 200 OK\r\nContent-Le": true,
		"HTTP/1.1 200 OK\r\n\r\n":       false,
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi": true,
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n":   false,
		"SSH-2.0-OpenSSH\r\n":                            false,
	} {
		if _, _, err := served(t, text); err == nil || errors.Is(err, errLost) != lost {
			t.Errorf("%q: %v", text, err)
		}
	}
}
