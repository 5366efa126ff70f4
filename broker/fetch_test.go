package broker

import (
	"fmt"
	"testing"

	"queend"
)

func (r *rig) fetch(wait int64, entries ...FetchEntry) []Fetched {
	r.Helper()
	for i := range entries {
		if entries[i].MaxBytes == 0 {
			entries[i].MaxBytes = 1 << 20
		}
	}
	out, err := r.b.Fetch(background, FetchRequest{Tenant: DefaultTenant, Entries: entries, MaxWaitMS: wait})
	r.must(err)
	return out
}

func idsOf(f *Fetched) string {
	out := ""
	for i := range f.Records {
		out += fmt.Sprintf("%d:%s ", f.Records[i].Offset, f.Records[i].TxnID)
	}
	return out
}

func TestFetchReadsByOffsetAndMovesNothing(t *testing.T) {
	r := newRig(t)
	r.push("a", "b")
	r.flushed()
	r.push("c")
	out := r.fetch(0,
		FetchEntry{Queue: "q", Partition: "p"}, FetchEntry{Queue: "q", Partition: "p", Offset: 1, MaxBytes: 3},
		FetchEntry{Queue: "q", Partition: "p", Offset: 3}, FetchEntry{Queue: "q", Partition: "p", Offset: 4},
		FetchEntry{Queue: "q"}, FetchEntry{Queue: "none"},
	)
	want := []struct {
		ids string
		end queend.Offset
		err FetchError
	}{{"0:a 1:b 2:c ", 3, ""}, {"1:b ", 3, ""}, {"", 3, ""}, {"", 3, FetchOutOfRange}, {"", 0, ""}, {"", 0, FetchUnknown}}
	for i, w := range want {
		if got := &out[i]; idsOf(got) != w.ids || got.HighWatermark != w.end || got.Error != w.err {
			t.Errorf("entry %d: %+v, want %+v", i, got, w)
		}
	}
	r.pop(3).want("a b c")
}

func TestAWaitingFetchIsAnsweredByAPushToItsPartition(t *testing.T) {
	r := newRig(t)
	r.push("a")
	done := make(chan []Fetched)
	go func() {
		done <- r.fetch(30000, FetchEntry{Queue: "q", Partition: "new"}, FetchEntry{Queue: "q", Partition: "p", Offset: 1})
	}()
	r.fetching(1)
	r.pushTo("q", "other", "x")
	r.pushTo("q", "new", "b")
	if out := <-done; idsOf(&out[0]) != "0:b " {
		t.Errorf("fetched %+v", out)
	}
	r.fetching(0)
}

func TestAWaitingFetchEndsInTime(t *testing.T) {
	r := newRig(t)
	r.push("a")
	done := make(chan []Fetched)
	go func() { done <- r.fetch(1000, FetchEntry{Queue: "q", Partition: "p", Offset: 1}) }()
	r.fetching(1)
	r.pass(2 * Second)
	if out := <-done; len(out[0].Records) != 0 || out[0].Error != "" {
		t.Errorf("fetched %+v", out)
	}
}

func TestOffsetsAreFoundByTime(t *testing.T) {
	r := newRig(t)
	var at []int64
	for i := range 4 {
		r.push(fmt.Sprint("a", i))
		at = append(at, r.part("p").lastTime)
		if i == 1 {
			r.flushed()
		}
		r.later(Second)
	}
	find := func(part string, t int64) FoundOffset {
		out, err := r.b.FetchOffsets(background, DefaultTenant, []OffsetEntry{{Queue: "q", Partition: part, Time: t}})
		r.must(err)
		return out[0]
	}
	for i := range at {
		for _, before := range []int64{0, 1} {
			if got := find("p", at[i]-before); !got.Found || got.Offset != queend.Offset(i) || got.Time != at[i] {
				t.Errorf("at %d less %d: %+v", i, before, got)
			}
		}
	}
	if got := find("p", at[3]+1); got.Found || got.HighWatermark != 4 {
		t.Errorf("after the last: %+v", got)
	}
	if got := find("o", 0); got.Found || got.Error != "" {
		t.Errorf("unwritten: %+v", got)
	}
}

func TestPartitionsChangedListsWhatWasWrittenSince(t *testing.T) {
	r := newRig(t)
	for i := range 5 {
		r.pushTo("q", fmt.Sprint("p", i), "a")
		r.later(Second)
	}
	changed := func(since *int64, after string, limit int) (int64, Changed) {
		safe, out, err := r.b.PartitionsChanged(background, DefaultTenant,
			[]ChangedEntry{{Queue: "q", Since: since, After: after, Limit: limit}})
		r.must(err)
		return safe, out[0]
	}
	safe, all := changed(nil, "", 2)
	names := ""
	for pages := 1; ; pages++ {
		for _, p := range all.Partitions {
			names += p.Name + " "
		}
		if all.Next == "" {
			break
		}
		_, all = changed(nil, all.Next, 2)
	}
	if names != "p0 p1 p2 p3 p4 " {
		t.Errorf("pages list %q", names)
	}
	if _, none := changed(&safe, "", 0); len(none.Partitions) != 0 {
		t.Errorf("since the safe time: %+v", none)
	}
	r.pushTo("q", "p3", "b")
	if _, one := changed(&safe, "", 0); len(one.Partitions) != 1 || one.Partitions[0].Name != "p3" || one.Partitions[0].Last != 1 {
		t.Errorf("since the safe time: %+v", one)
	}
	if _, bad := changed(nil, "?", 0); bad.Error != FetchBadCursor {
		t.Errorf("bad cursor: %+v", bad)
	}
}

// fetching waits until a number of fetches wait.
func (r *rig) fetching(n int) {
	for {
		if r.b.Stats().Fetches == n {
			return
		}
	}
}
