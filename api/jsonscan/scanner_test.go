package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var examples = []string{
	`{}`, `[]`, `""`, `0`, `-0`, `-0.5e+10`, `1e999999`, `true`, `false`, `null`, ` [ 1 , 2 ] `, "\t\r\n{ \"a\" : { } }\n",
	`"\u0041\ud800\"\\\/\b\f\n\r\t"`, `"\ud83d\ude00"`, `{"a":1,"a":2}`, `"é 語"`, `[[[[]],{"x":[null]}]]`,
	``, ` `, `{`, `[`, `"`, `"\`, `"\u12`, `"\u12g4"`, `"\x"`, `[1,]`, `[,1]`, `{,}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `{1:1}`,
	`[1 2]`, `01`, `1.`, `.5`, `+1`, `-`, `1e`, `1e+`, `NaN`, `Infinity`, `tru`, `nul`, `falsee`, `{}x`, `[]]`, `[}`, `{]`, "[1]\f", "\ufeff{}",
	"\"\x01\"", "\"\n\"", "\"\xff\"", "\"\xe8\xaa\"", "\xff", `// x`, `[1]//`, "\"\x00\"", "{}\x00", `"\ud800"`, `{"k\u0065y":1}`,
}

func agree(t *testing.T, text []byte) {
	t.Helper()
	want := json.Valid(text) && utf8.Valid(text)
	if err := Valid(text); (err == nil) != want {
		t.Fatalf("%q: %v, encoding/json says %v", text, err, want)
	}
}

func TestAgreesWithEncodingJSON(t *testing.T) {
	for _, text := range examples {
		agree(t, []byte(text))
	}
}

func TestAgreesWithEncodingJSONOnMutations(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	const bytesOfInterest = "{}[]\",:\\u0123456789eE+-.truefalsn \n\x00\x1f\x7f\xc3\xa9\xff"
	for range 100_000 {
		text := []byte(examples[rnd.IntN(len(examples))] + examples[rnd.IntN(len(examples))])
		for range rnd.IntN(3) + 1 {
			c := bytesOfInterest[rnd.IntN(len(bytesOfInterest))]
			switch at := rnd.IntN(len(text) + 1); {
			case at == len(text) || rnd.IntN(3) == 0:
				text = slices.Insert(text, at, c)
			case rnd.IntN(2) == 0:
				text = slices.Delete(text, at, at+1)
			default:
				text[at] = c
			}
		}
		agree(t, text)
	}
}

func FuzzAgreesWithEncodingJSON(f *testing.F) {
	for _, text := range examples {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var e *Error
		if errors.As(Valid(text), &e) && e.Reason == "nested too deeply" {
			return
		}
		agree(t, text)
		walkAll(t, text)
	})
}

// walkAll walks a text by the callbacks and checks strings against encoding/json.
func walkAll(t *testing.T, text []byte) {
	s, err := New(text)
	if err != nil {
		return
	}
	var walk func() error
	walk = func() error {
		switch s.Kind() {
		case Object:
			return s.Object(func([]byte) error { return walk() })
		case Array:
			return s.Array(func(int) error { return walk() })
		}
		v, err := s.Value()
		if err == nil {
			checkScalar(t, v)
		}
		return err
	}
	err = walk()
	if err == nil {
		err = s.End()
	}
	var e *Error
	if valid := json.Valid(text); valid != (err == nil) && !(errors.As(err, &e) && e.Reason == "duplicate key") {
		t.Fatalf("%q: the walk says %v", text, err)
	}
}

func checkScalar(t *testing.T, v Value) {
	t.Helper()
	if v.Kind != String {
		return
	}
	var want string
	if err := json.Unmarshal(v.Raw, &want); err != nil {
		t.Fatal(err)
	}
	if got, err := v.String(); err != nil || got != want {
		t.Fatalf("%s: %q, %v, want %q", v.Raw, got, err, want)
	}
	if name, err := v.Name(); err == nil && string(name) != want {
		t.Fatalf("%s: the name is %q, want %q", v.Raw, name, want)
	}
}

func TestAnErrorNamesTheByte(t *testing.T) {
	for _, row := range []struct {
		text string
		at   int
	}{{`{"a":x}`, 5}, {`[1,2`, 4}, {"[\"ab\xff\"]", 4}, {`{} x`, 3}, {`{"a" 1}`, 5}, {`"ab\x"`, 3}, {"\"a\n\"", 2}} {
		var e *Error
		if err := Valid([]byte(row.text)); !errors.As(err, &e) || e.At != row.at {
			t.Errorf("%s: %v, want byte %d", row.text, err, row.at)
		}
	}
}

func TestDepthIsLimitedNotTheStack(t *testing.T) {
	for _, open := range []string{"[", `{"a":`, `[{"a":`} {
		if err := Valid([]byte(strings.Repeat(open, 100_000))); err == nil || !strings.Contains(err.Error(), "deep") {
			t.Errorf("100,000 times %s: %v", open, err)
		}
	}
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if err := Valid(nested(MaxDepth)); err != nil {
		t.Error(err)
	}
	if Valid(nested(MaxDepth+1)) == nil {
		t.Errorf("%d brackets are not refused", MaxDepth+1)
	}
}

func TestAWalkedObjectMayNotRepeatAKey(t *testing.T) {
	many := `{`
	for i := range 40 {
		many += fmt.Sprintf(`"key%d":%d,`, i, i)
	}
	for _, text := range []string{`{"a":1,"b":2,"a":3}`, `{"payload":1,"p\u0061yload":2}`, `{"":1,"":2}`, many + `"key3":1}`, many + `"key39":1}`} {
		var e *Error
		if err := walkFlat(text); !errors.As(err, &e) || e.Reason != "duplicate key" {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{many + `"key40":1}`, `{"a":{"x":1,"x":2},"b":{"x":1}}`, `{"a":1,"A":2}`} {
		if err := walkFlat(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func walkFlat(text string) error {
	s, err := New([]byte(text))
	if err != nil {
		return err
	}
	return s.Object(func([]byte) error { return nil })
}

func TestKeysArriveUnescaped(t *testing.T) {
	s, _ := New([]byte(`{"p\u0061yload":1,"b":2}`))
	var got []string
	if err := s.Object(func(key []byte) error { got = append(got, string(key)); return nil }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []string{"payload", "b"}) {
		t.Fatalf("%q", got)
	}
}

func TestAPayloadComesBackByteForByte(t *testing.T) {
	for _, payload := range []string{`{"n":9007199254740993,"n":1.50e+2}`, `"\ud800 \u0041"`, `[ 1 , 2 ]`, `null`} {
		s, _ := New([]byte("{ \"x\" : 1 , \"payload\" : " + payload + " }"))
		var got []byte
		err := s.Object(func(key []byte) error {
			if string(key) != "payload" {
				return nil
			}
			v, err := s.Value()
			got = v.Raw
			return err
		})
		if err != nil || string(got) != payload {
			t.Errorf("%s came back as %s, %v", payload, got, err)
		}
	}
}

func TestAnErrorOfTheCallerEndsTheWalk(t *testing.T) {
	refused := errors.New("refused")
	s, _ := New([]byte(`{"items":[1,2,3]}`))
	calls := 0
	err := s.Object(func([]byte) error {
		return s.Array(func(i int) error {
			if calls++; i == 1 {
				return refused
			}
			return nil
		})
	})
	if err != refused || calls != 2 {
		t.Fatalf("%v after %d calls", err, calls)
	}
}

func TestTheWrongKindIsAnError(t *testing.T) {
	for _, text := range []string{`[]`, `1`, ``, `"x"`, `null`} {
		if walkFlat(text) == nil {
			t.Errorf("%q was walked as an object", text)
		}
	}
}

func value(t *testing.T, text string) Value {
	t.Helper()
	s, err := New([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Value()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestNamesAreDecodedAndRefuseControlCharacters(t *testing.T) {
	for _, row := range []struct {
		text, want string
		err        error
	}{
		{`"a\u0026b"`, "a&b", nil}, {`"2026\/07"`, "2026/07", nil}, {`"\"\\"`, `"\`, nil}, {`""`, "", nil}, {`"\ud83d\ude00"`, "😀", nil},
		{`"\u001f"`, "", ErrControl}, {`"a\n"`, "", ErrControl}, {`"\u0000"`, "", ErrControl}, {`"\u007f"`, "\x7f", nil},
		{`"\ud800"`, "", ErrSurrogate}, {`"\ude00\ud83d"`, "", ErrSurrogate}, {`"\ufffd"`, "\ufffd", nil}, {`1`, "", ErrNotString}, {`null`, "", ErrNotString},
	} {
		if got, err := value(t, row.text).Name(); string(got) != row.want || err != row.err {
			t.Errorf("%s: %q, %v, want %q, %v", row.text, got, err, row.want, row.err)
		}
	}
	if got, err := value(t, `"smtp\n550 \ud800"`).String(); got != "smtp\n550 \ufffd" || err != nil {
		t.Errorf("String gives %q, %v", got, err)
	}
}

func TestIntegersAreIntegersOf64Bits(t *testing.T) {
	for _, row := range []struct {
		text string
		want int64
		err  error
	}{
		{`0`, 0, nil}, {`-7`, -7, nil}, {`9223372036854775807`, 1<<63 - 1, nil}, {`9223372036854775808`, 0, ErrNotInteger},
		{`1.0`, 0, ErrNotInteger}, {`1e3`, 0, ErrNotInteger}, {`"1"`, 0, ErrNotInteger}, {`null`, 0, ErrNotInteger},
	} {
		if got, err := value(t, row.text).Int64(); got != row.want || err != row.err {
			t.Errorf("%s: %d, %v", row.text, got, err)
		}
	}
	if b, err := value(t, `true`).Bool(); !b || err != nil {
		t.Error("true is not true")
	}
	if _, err := value(t, `1`).Bool(); err != ErrNotBool {
		t.Error("1 is a bool")
	}
}

// pushBody is 100 items with payloads of 256 bytes, 36 KB in all.
func pushBody() []byte {
	var b bytes.Buffer
	b.WriteString(`{"items":[`)
	for i := range 100 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"queue":"bills.new","partition":"acct-%d","transactionId":"0199aa00-0000-7000-8000-%012d","payload":`, i%9, i)
		at := b.Len()
		fmt.Fprintf(&b, `{"order":%d,"sku":"AB-%d","price":12.50,"tags":["new","eu"],"customer":{"name":"Jane Roe","city":"Riga"},"note":"`, i, i)
		b.WriteString(strings.Repeat("x", 254-(b.Len()-at)))
		b.WriteString(`"}}`)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

type pushItem struct{ queue, partition, txn, payload []byte }

// scanPush reads a push body the way its handler does.
func scanPush(body []byte, items []pushItem) ([]pushItem, error) {
	s, err := New(body)
	if err != nil {
		return nil, err
	}
	err = s.Object(func(key []byte) error {
		if string(key) != "items" {
			return nil
		}
		return s.Array(func(int) error {
			item, err := scanItem(&s)
			items = append(items, item)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return items, s.End()
}

func scanItem(s *Scanner) (item pushItem, err error) {
	err = s.Object(func(key []byte) error {
		v, err := s.Value()
		if err != nil {
			return err
		}
		switch string(key) {
		case "queue":
			item.queue, err = v.Name()
		case "partition":
			item.partition, err = v.Name()
		case "transactionId":
			item.txn, err = v.Name()
		case "payload":
			item.payload = v.Raw
		}
		return err
	})
	return item, err
}

func TestAPushBodyIsReadWithoutAllocation(t *testing.T) {
	body := pushBody()
	items := make([]pushItem, 0, 100)
	n := testing.AllocsPerRun(20, func() {
		got, err := scanPush(body, items[:0])
		if err != nil || len(got) != 100 || len(got[99].payload) != 256 || string(got[9].partition) != "acct-0" {
			t.Fatalf("%d items, %v", len(got), err)
		}
	})
	if n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkPushBody(b *testing.B) {
	body := pushBody()
	items := make([]pushItem, 0, 100)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for range b.N {
		if _, err := scanPush(body, items[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValid(b *testing.B) {
	body := pushBody()
	b.SetBytes(int64(len(body)))
	for range b.N {
		if err := Valid(body); err != nil {
			b.Fatal(err)
		}
	}
}
