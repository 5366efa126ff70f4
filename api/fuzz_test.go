package api

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"queend/broker"
)

// valid is what the standard library takes for JSON text in UTF-8.
func valid(body []byte) bool { return json.Valid(body) && utf8.Valid(body) }

// payloadOf fails unless what an item carries verbatim is JSON.
func payloadOf(t *testing.T, item *broker.PushItem) {
	t.Helper()
	if !json.Valid(item.Payload) {
		t.Fatalf("payload %q is not JSON", item.Payload)
	}
	if item.Headers != nil && !json.Valid(item.Headers) {
		t.Fatalf("headers %q are not JSON", item.Headers)
	}
}

func FuzzPushBody(f *testing.F) {
	for _, seed := range []string{
		`{"items":[{"queue":"q","payload":{"n":1}}]}`, `{"items":[]}`, `{"items":null}`, `[]`, `{"items":[null]}`,
		`{"items":[{"queue":"a\u0026b","partition":"p","transactionId":"t","payload":null,"headers":{"h":"v"},"traceId":1}]}`,
		`{"items":[{"queue":"q","payload":1e400,"x":[[]]}],"y":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		items, err := decodePush(nil, body)
		if !bytes.Equal(before, body) {
			t.Fatal("the body was changed")
		}
		if err != nil {
			return
		}
		if !valid(body) {
			t.Fatalf("%q was taken for JSON", body)
		}
		for i := range items {
			payloadOf(t, &items[i])
		}
	})
}

func FuzzAckBody(f *testing.F) {
	for _, seed := range []string{
		`{"acknowledgments":[{"transactionId":"t","partitionId":"p","leaseId":null,"status":"failed","error":"e","delayMs":5}]}`,
		`{"consumerGroup":null,"acknowledgments":[{}, 1, {"transactionId":7,"partitionId":8}]}`, `{"acknowledgments":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_, entries, err := decodeAckBatch(body)
		if err != nil {
			return
		}
		if !valid(body) {
			t.Fatalf("%q was taken for JSON", body)
		}
		for _, e := range entries {
			if e.problem == "" && (e.item.TxnID == nil || e.item.Partition == "" || e.item.Signal < broker.Completed) {
				t.Fatalf("%+v is no ack", e)
			}
		}
	})
}

func FuzzTransactionBody(f *testing.F) {
	for _, seed := range []string{
		`{"operations":[{"type":"push","items":[{"queue":"q","data":1}]},{"type":"ack","transactionId":"t","partitionId":"p"}],"requiredLeases":["l"]}`,
		`{"operations":[{"type":"push","queue":"q","payload":{}}],"kv":[],"timers":null}`, `{"operations":[{"type":"x"}]}`,
		`{"operations":[],"kv":[{}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		tx, err := decodeTransaction(body)
		if err != nil {
			return
		}
		if !valid(body) {
			t.Fatalf("%q was taken for JSON", body)
		}
		for _, op := range tx.ops {
			if (op.Push == nil) == (op.Ack == nil) {
				t.Fatal("an operation is neither a push nor an ack")
			}
			if op.Push != nil {
				payloadOf(t, op.Push)
			}
		}
	})
}

func FuzzConfigureBody(f *testing.F) {
	for _, seed := range []string{
		`{"queue":"q","options":{"leaseTime":5,"deadLetterQueue":false,"namespace":null,"unknown":[]}}`,
		`{"queue":"","mode":"merge","leaseTime":1}`, `{"queue":"q","mode":"other"}`, `{"queue":"q","options":{"leaseTime":"5"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := decodeConfigure(body)
		if err != nil {
			return
		}
		if !valid(body) {
			t.Fatalf("%q was taken for JSON", body)
		}
		for _, s := range c.Settings {
			if broker.KindOf(s.Name) == broker.OptionNone {
				t.Fatalf("%q is no option", s.Name)
			}
		}
	})
}
