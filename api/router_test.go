package api

import "testing"

func TestLiteralsWinOverParametersAndParametersOverStars(t *testing.T) {
	table := []route{}
	for _, line := range [][2]string{
		{"GET", "/"}, {"GET", "/api/v1/consumer-groups/:group"}, {"DELETE", "/api/v1/consumer-groups/:group"},
		{"GET", "/api/v1/consumer-groups/lagging"}, {"GET", "/api/v1/traces/:pid/:txn"}, {"GET", "/api/v1/traces/by-name/:name"},
		{"GET", "/api/v1/*"}, {"GET", "/assets/*"}, {"GET", "/api/v1/analytics/*"}, {"GET", "/api/v1/analytics/retention"},
	} {
		table = append(table, route{line[0], line[1], levelReadOnly, nil})
	}
	rt := newRouter(table, newObserver(0))
	for _, row := range []struct{ method, path, want string }{
		{"GET", "/", "/"},
		{"GET", "/api/v1/consumer-groups/lagging", "/api/v1/consumer-groups/lagging"},
		{"DELETE", "/api/v1/consumer-groups/lagging", "/api/v1/consumer-groups/:group"},
		{"GET", "/api/v1/consumer-groups/ledger", "/api/v1/consumer-groups/:group"},
		{"GET", "/api/v1/consumer-groups/", "/api/v1/consumer-groups/:group"},
		{"GET", "/api/v1/consumer-groups", "/api/v1/*"},
		{"GET", "/api/v1/consumer-groups/a%2Flagging", "/api/v1/consumer-groups/:group"},
		{"GET", "/api/v1/traces/by-name/x", "/api/v1/traces/by-name/:name"},
		{"GET", "/api/v1/traces/p/x", "/api/v1/traces/:pid/:txn"},
		{"GET", "/api/v1/analytics/retention", "/api/v1/analytics/retention"},
		{"GET", "/api/v1/analytics/x/y", "/api/v1/analytics/*"},
		{"GET", "/assets/a/b/c", "/assets/*"},
		{"GET", "/assets/", "/assets/*"},
		{"GET", "/assets", ""},
		{"POST", "/assets/a", ""},
		{"get", "/", ""},
		{"GET", "/x/////////////////////", ""},
	} {
		segments, err := splitPath([]byte(row.path), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if found := rt.find(row.method, segments); found != nil {
			got = found.pattern
		}
		if got != row.want {
			t.Errorf("%s %s: %q, want %q", row.method, row.path, got, row.want)
		}
	}
}

func TestAParameterThatTheRouteLacksIsAMistake(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	r := request{route: &compiled{segments: []string{"pop", ":queue"}}, values: [][]byte{nil, nil}}
	r.param("partition")
}

func BenchmarkFindRoute(b *testing.B) {
	rt := newRouter([]route{
		{"POST", "/api/v1/push", levelWriteOnly, nil}, {"GET", "/api/v1/pop/queue/:queue", levelReadWrite, nil},
		{"GET", "/api/v1/pop/queue/:queue/partition/:partition", levelReadWrite, nil},
	}, newObserver(0))
	path := []byte("/api/v1/pop/queue/bills.new/partition/acct-9")
	var segments [8][]byte
	b.ReportAllocs()
	for range b.N {
		split, _ := splitPath(path, segments[:0])
		if rt.find("GET", split) == nil {
			b.Fatal("not found")
		}
	}
}
