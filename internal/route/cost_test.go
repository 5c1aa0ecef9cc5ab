package route

import (
	"fmt"
	"strings"
	"testing"
)

// fortyRoutes is a table as large as the largest that a preset gives.
func fortyRoutes(t testing.TB) *Table {
	routes := []Route{{Match: Match{Path: "/api/account/login", Methods: []string{"POST"}, Hosts: []string{"auth.example.org"}}}}
	for i := range 35 {
		routes = append(routes, Route{Policy: i, Match: Match{Path: fmt.Sprintf("/api/account/action-%d/request", i), Methods: []string{"POST"}}})
	}
	routes = append(routes,
		Route{Match: Match{Path: "/remote.php/*"}},
		Route{Match: Match{Path: "/realms/{realm}/login-actions/authenticate", Methods: []string{"POST"}}},
		Route{Match: Match{Path: "/wp-login.php", Query: map[string]string{"action": "lostpassword"}}},
		Route{Match: Match{Path: "/connect/token", Methods: []string{"POST"}}},
	)
	return compile(t, routes...)
}

func browserRequest(target string) Request {
	in := post(target)
	for _, name := range []string{
		"Accept", "Accept-Encoding", "Accept-Language", "Content-Length", "Content-Type", "Cookie", "Origin", "Referer", "Sec-Fetch-Mode",
		"User-Agent", "X-Requested-With", "X-Forwarded-For",
	} {
		in.Header[name] = []string{"something"}
	}
	return in
}

func BenchmarkLookup(b *testing.B) {
	table := fortyRoutes(b)
	for _, bc := range []struct{ name, target string }{
		{"clean", "/api/account/login"},
		{"clean miss", "/static/scripts/application"},
		{"file", "/static/app.3f2a.css"},
		{"params", "/realms/acme/login-actions/authenticate?session_code=1"},
		{"query", "/wp-login.php?action=lostpassword"},
		{"encoded", "/api/v4/projects/group%2Fproject/issues"},
		{"evasion", "/x/..;//api/%61ccount/.%2flogin"},
	} {
		in := browserRequest(bc.target)
		buf := make([]Hit, 0, 8)
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf = table.Lookup(buf[:0], in)
			}
		})
	}
}

// longTargets are 64 KiB of each kind of trouble.
func longTargets() map[string]string {
	targets := make(map[string]string)
	for _, unit := range []string{
		"/", "/a", "/..", "/..;", "/a/..;", "/api/account/..;/..;", "%2f", "%2f..", "/%2e%2e%2f", `\`, `\..;`, ";", "/;", "%00", "/%00", "%25", "%2525",
		"/api%2faccount%2f..;%2f", "/realms%2fx%00%2flogin-actions;%2f", "é", "/%ef%b7%ba", ".", "/.", "/index.php", "a", "/realms/x/..;/..;",
		"/{x}/x.json/..;", "/x%2fy", "%u", "%c0%ae", "x%2f", "?a", "?action=lostpassword&_method=x;",
	} {
		targets[unit] = "/" + strings.Repeat(unit, (64<<10)/len(unit))
	}
	return targets
}

func BenchmarkLongest(b *testing.B) {
	table := fortyRoutes(b)
	for unit, target := range longTargets() {
		in := browserRequest(target)
		b.Run(strings.ReplaceAll(unit, "/", "|"), func(b *testing.B) {
			for b.Loop() {
				table.Lookup(nil, in)
			}
		})
	}
}

// TestWorkIsBounded counts steps, which do not depend on the machine.
func TestWorkIsBounded(t *testing.T) {
	table := fortyRoutes(t)
	for unit, target := range longTargets() {
		w := newWalker(&table.tree, len(table.routes), table.predicates.count)
		w.reset(false)
		path, _, _ := splitTarget(target)
		w.walk(path)
		// A last segment may go over by what it takes itself: a few moves of every place.
		if most := maxSteps + 40*len(table.tree.nodes); maxSteps-w.steps > most {
			t.Errorf("64 KiB of %q: %d steps, want at most %d", unit, maxSteps-w.steps, most)
		}
		if len(w.bindings) > maxValues*len(table.tree.nodes) {
			t.Errorf("64 KiB of %q: %d values kept", unit, len(w.bindings))
		}
	}
	clean := "/" + strings.Repeat("a/", 32<<10)
	if got := table.Lookup(nil, post(clean)); len(got) != 0 {
		t.Errorf("a long clean path hits %d routes, want none", len(got))
	}
	for name, target := range map[string]string{
		"many segments outside ASCII": strings.Repeat("/%ef%b7%ba", 500),
		"one long one":                "/" + strings.Repeat("é", 4<<10),
	} {
		if got := table.Lookup(nil, post(target)); len(got) < 30 {
			t.Errorf("%s: %d hits, want all that any path may have", name, len(got))
		}
	}
	if got := table.Lookup(nil, post(strings.Repeat("/%D0%BF%D1%83%D1%82%D1%8C", 40))); len(got) != 0 {
		t.Errorf("an ordinary path outside ASCII hits %d routes, want none", len(got))
	}
	hopeless := strings.Repeat("/api/account/..;/..;", 4<<10)
	if got := table.Lookup(nil, post(hopeless)); len(got) < 30 {
		t.Errorf("a path beyond the bound hits %d routes, want all that any path may have", len(got))
	}
	for _, h := range table.Lookup(nil, post(hopeless)) {
		if want := table.routes[h.Route].params != nil; h.Unclear != want {
			t.Errorf("a path beyond the bound, route %d: unclear %v, want %v", h.Route, h.Unclear, want)
		}
	}
}

func TestPlainRequestsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool drops items at random under the race detector")
	}
	table := fortyRoutes(t)
	buf := make([]Hit, 0, 8)
	for _, tc := range []struct {
		target string
		hits   int
		most   float64
	}{
		{"/api/account/login", 1, 0},
		{"/API/account/login", 1, 0},
		{"/static/app.css", 0, 0},
		{"/api/account/lo%67in", 1, 0},
		{"/realms/acme/login-actions/authenticate", 1, 2}, // the values and their list
	} {
		in := browserRequest(tc.target)
		in.Host = "auth.example.org:443"
		if got := len(table.Lookup(nil, in)); got != tc.hits {
			t.Errorf("%s: %d hits, want %d", tc.target, got, tc.hits)
		}
		got := testing.AllocsPerRun(200, func() { buf = table.Lookup(buf[:0], in) })
		if got > tc.most {
			t.Errorf("%s: %v allocations, want at most %v", tc.target, got, tc.most)
		}
	}
}

// TestNothingIsKept checks that a walker that is used again knows nothing of the request before.
func TestNothingIsKept(t *testing.T) {
	table := paths(t, "/login", "/{id}")
	for range 3 {
		table.Lookup(nil, post("/login;a%00/..%2f"))
		if got := hits(table, post("/a/b")); len(got) != 0 {
			t.Fatalf("after an evasion: %q", got)
		}
	}
}

// TestFarthestIsAnyDepth checks that no depth is lost where depths are no longer told apart.
func TestFarthestIsAnyDepth(t *testing.T) {
	table := paths(t, "/a")
	w := newWalker(&table.tree, 1, 0)
	w.places.add(root, farthest)
	w.move(&w.places, &w.next, take{kind: pop})
	if got := w.next.beyond[root]; got != farthest|farthest>>1 {
		t.Errorf("one up from 63 or more: got bits %x, want 62 and 63", got)
	}
	if got := deeper(farthest); got != farthest {
		t.Errorf("one down from 63 or more: got bits %x, want 63", got)
	}
}
