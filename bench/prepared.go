package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// prepared is the request of one partition with holes for what changes: ids and
// a part of each payload.
type prepared struct {
	partition string
	request   []byte
	ids       []int // where they stand in request
	noise     []int
	sum       uint64 // of the lower halves of all ids that were answered, as a check
	count     int64  // of them
}

const (
	idHole    = "00000000-0000-7000-8000-000000000000"
	noiseHole = "0000000000000000000000000000000000000000000000000000000000000000"
)

// newPrepared makes the request of the n-th partition.
func newPrepared(n, batch int) *prepared {
	p := &prepared{partition: fmt.Sprintf("p%02d", n)}
	payload := `{"event":"order.placed","token":"` + noiseHole + `","currency":"EUR","lines":[{"sku":"A-1009","count":2},{"sku":"B-77","count":1}],"note":"`
	payload += strings.Repeat("x", payloadBytes-len(payload)-2) + `"}`
	body := []byte(`{"items":[`)
	for i := range batch {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, `{"queue":"`+loadQueue+`","partition":"`+p.partition+`","transactionId":"`...)
		p.ids = append(p.ids, len(body))
		body = append(body, idHole+`","payload":`...)
		p.noise = append(p.noise, len(body)+strings.Index(payload, noiseHole))
		body = append(body, payload+"}"...)
	}
	body = append(body, "]}"...)
	p.request = appendRequest(nil, "POST", "/api/v1/push", body)
	head := len(p.request) - len(body)
	for i := range batch {
		p.ids[i] += head
		p.noise[i] += head
	}
	return p
}

// fill writes new ids and new noise into the request, and returns the sum of
// the lower halves of the ids.
func (p *prepared) fill(rng *rand.Rand, now time.Time) (sum uint64) {
	high := uint64(now.UnixMilli())<<16 | 0x7000
	for i, at := range p.ids {
		low := rng.Uint64()>>2 | 1<<63
		putUUID(p.request[at:], high|uint64(i)&0xfff, low)
		sum += low
		for n := 0; n < len(noiseHole); n += 16 {
			putHex(p.request[p.noise[i]+n:], rng.Uint64(), 16)
		}
	}
	return sum
}

const hexDigits = "0123456789abcdef"

// putHex writes the lower digits of v.
func putHex(dst []byte, v uint64, digits int) {
	for i := digits - 1; i >= 0; i-- {
		dst[i] = hexDigits[v&15]
		v >>= 4
	}
}

// putUUID writes the 36 characters of a UUID given by its halves.
func putUUID(dst []byte, high, low uint64) {
	_ = dst[35]
	putHex(dst[0:], high>>32, 8)
	dst[8] = '-'
	putHex(dst[9:], high>>16, 4)
	dst[13] = '-'
	putHex(dst[14:], high, 4)
	dst[18] = '-'
	putHex(dst[19:], low>>48, 4)
	dst[23] = '-'
	putHex(dst[24:], low, 12)
}

// exampleAnswer has the size and shape of the broker's answer to a push.
func exampleAnswer(batch int) []byte {
	answer := []byte{'['}
	for i := range batch {
		if i > 0 {
			answer = append(answer, ',')
		}
		answer = append(answer, fmt.Sprintf(`{"index":%d,"message_id":"%s","transaction_id":"%s","queueName":"%s","status":"queued","offset":%d}`,
			i, idHole, idHole, loadQueue, 10000+i)...)
	}
	return append(answer, ']')
}
