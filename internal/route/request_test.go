package route

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestMethods(t *testing.T) {
	table := compile(t,
		Route{Match: Match{Path: "/post", Methods: []string{"Post"}}},
		Route{Match: Match{Path: "/get", Methods: []string{"GET"}}},
		Route{Match: Match{Path: "/head", Methods: []string{"HEAD"}}},
		Route{Match: Match{Path: "/write", Methods: []string{"PUT", "DELETE"}}},
		Route{Match: Match{Path: "/any"}},
	)
	for _, tc := range []struct {
		name, method, target string
		header               [2]string
		noBody               bool
		want                 string // "" none, "yes", "if" for a _method in the body
	}{
		{name: "same", method: "POST", target: "/post", want: "yes"},
		{name: "lower case", method: "post", target: "/post", want: "yes"},
		{name: "mixed case", method: "PoSt", target: "/post", want: "yes"},
		{name: "other", method: "GET", target: "/post"},
		{name: "other with body", method: "PUT", target: "/post"},
		{name: "webdav", method: "PROPFIND", target: "/post"},
		{name: "unknown", method: "JEFF", target: "/post", want: "yes"},
		{name: "empty", method: "", target: "/post", want: "yes"},
		{name: "head for get", method: "HEAD", target: "/get", want: "yes"},
		{name: "get for head", method: "GET", target: "/head", want: "yes"},
		{name: "post for get by the body", method: "POST", target: "/get", want: "if"},
		{name: "post without body", method: "POST", target: "/get", noBody: true},
		{name: "any", method: "TRACE", target: "/any", want: "yes"},
		{name: "header", method: "GET", target: "/post", header: [2]string{"X-Http-Method-Override", "POST"}, want: "yes"},
		{name: "header lower case value", method: "GET", target: "/post", header: [2]string{"X-Http-Method-Override", " post "}, want: "yes"},
		{name: "header list", method: "GET", target: "/post", header: [2]string{"X-Http-Method-Override", "PUT, POST"}, want: "yes"},
		{name: "second header", method: "GET", target: "/post", header: [2]string{"X-Http-Method", "POST"}, want: "yes"},
		{name: "third header", method: "GET", target: "/post", header: [2]string{"X-Method-Override", "POST"}, want: "yes"},
		{name: "raw header name", method: "GET", target: "/post", header: [2]string{"x-http-method-override", "POST"}, want: "yes"},
		{name: "underscores", method: "GET", target: "/post", header: [2]string{"X_HTTP_METHOD_OVERRIDE", "POST"}, want: "yes"},
		{name: "header to another", method: "GET", target: "/post", header: [2]string{"X-Http-Method-Override", "PUT"}},
		{name: "override does not hide", method: "POST", target: "/post", header: [2]string{"X-Http-Method-Override", "GET"}, want: "yes"},
		{name: "similar header", method: "GET", target: "/post", header: [2]string{"X-Http-Methods", "POST"}},
		{name: "query", method: "GET", target: "/post?_method=POST", want: "yes"},
		{name: "query spelled", method: "GET", target: "/post?a&%5FMethod=%70ost&b", want: "yes"},
		{name: "query dot", method: "GET", target: "/post?.method=POST", want: "yes"},
		{name: "query bracket", method: "GET", target: "/post?[method=POST", want: "yes"},
		{name: "query of a rewritten path", method: "GET", target: "/", header: [2]string{"X-Original-Url", "/post?_method=POST"}, want: "yes"},
		{name: "header to another, with blanks", method: "GET", target: "/post", header: [2]string{"X-Http-Method", " put "}},
		{name: "query to post, then by the body", method: "GET", target: "/write?_method=POST", want: "if"},
		{name: "query semicolon", method: "GET", target: "/post?a=1;_method=POST", want: "yes"},
		{name: "query to another", method: "GET", target: "/post?_method=PUT"},
		{name: "query other name", method: "GET", target: "/post?method=POST"},
		{name: "put by the body", method: "POST", target: "/write", want: "if"},
		{name: "override to post, then by the body", method: "GET", target: "/write", header: [2]string{"X-Http-Method", "POST"}, want: "if"},
	} {
		in := post(tc.target)
		in.Method, in.Body = tc.method, !tc.noBody
		if tc.header[0] != "" {
			in.Header[tc.header[0]] = []string{tc.header[1]}
		}
		got := ""
		if list := table.Lookup(nil, in); len(list) == 1 {
			got = map[bool]string{false: "yes", true: "if"}[list[0].IfMethod]
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestMethodCounts(t *testing.T) {
	table := compile(t,
		Route{Match: Match{Path: "/a", Methods: []string{"PUT"}}},
		Route{Match: Match{Path: "/a", Methods: []string{"PUT"}, Strict: true}},
		Route{Match: Match{Path: "/a"}},
	)
	for _, tc := range []struct {
		route  int
		method string
		want   bool
	}{{0, "put", true}, {0, " PUT", true}, {0, "DELETE", false}, {0, "JEFF", true}, {1, "PUT", false}, {2, "DELETE", true}} {
		if got := table.MethodCounts(tc.route, tc.method); got != tc.want {
			t.Errorf("route %d, %q: got %v, want %v", tc.route, tc.method, got, tc.want)
		}
	}
}

func TestPreflight(t *testing.T) {
	table := paths(t, "/login")
	plain := func() Request {
		return Request{Method: "OPTIONS", Target: "/login", Header: http.Header{
			"Origin":                         {"https://app.example.org"},
			"Access-Control-Request-Method":  {"POST"},
			"Access-Control-Request-Headers": {"content-type"},
		}}
	}
	for _, tc := range []struct {
		name   string
		change func(*Request)
		want   int
	}{
		{"plain", func(*Request) {}, 0},
		{"spelled otherwise", func(r *Request) { r.Target = "//login" }, 0},
		{"no origin", func(r *Request) { r.Header.Del("Origin") }, 1},
		{"empty origin", func(r *Request) { r.Header.Set("Origin", "") }, 1},
		{"no method asked for", func(r *Request) { r.Header.Del("Access-Control-Request-Method") }, 1},
		{"empty method asked for", func(r *Request) { r.Header.Set("Access-Control-Request-Method", "") }, 1},
		{"credentials", func(r *Request) { r.Header.Set("Authorization", "Basic eA==") }, 1},
		{"cookie", func(r *Request) { r.Header.Set("Cookie", "a=b") }, 1},
		{"body", func(r *Request) { r.Body = true }, 1},
		{"another method", func(r *Request) { r.Method = "POST" }, 1},
		{"lower case", func(r *Request) { r.Method = "options" }, 1},
		{"override", func(r *Request) { r.Header.Set("X-HTTP-Method-Override", "POST") }, 1},
		{"override in the query", func(r *Request) { r.Target = "/login?_method=POST" }, 1},
		{"rewritten", func(r *Request) { r.Header.Set("X-Original-URL", "/login") }, 1},
	} {
		in := plain()
		tc.change(&in)
		if got := table.Lookup(nil, in); len(got) != tc.want {
			t.Errorf("%s: got %v, want %d hits", tc.name, got, tc.want)
		}
	}
}

func TestRewriteHeaders(t *testing.T) {
	table := compile(t, Route{Match: Match{Path: "/login", Query: map[string]string{"a": "1"}}})
	for _, tc := range []struct {
		name, target, key, value string
		want                     int
	}{
		{"original", "/", "X-Original-Url", "/login?a=1", 1},
		{"rewrite", "/", "X-Rewrite-Url", "https://h/lo%67in?a=1", 1},
		{"underscores", "/", "X_original_url", "/login?a=1", 1},
		{"query of the request", "/?a=1", "X-Original-Url", "/login", 1},
		{"does not hide", "/login?a=1", "X-Original-Url", "/", 1},
		{"another path", "/", "X-Original-Url", "/logins?a=1", 0},
		{"another header", "/", "X-Original-Uri2", "/login?a=1", 0},
	} {
		in := post(tc.target)
		in.Header[tc.key] = []string{tc.value}
		if got := table.Lookup(nil, in); len(got) != tc.want {
			t.Errorf("%s: got %v, want %d hits", tc.name, got, tc.want)
		}
	}
}

func TestHosts(t *testing.T) {
	table := compile(t, Route{Match: Match{Path: "/login", Hosts: []string{"auth.Example.org", "bücher.example", "[2001:DB8::1]", "192.0.2.1"}}})
	for _, tc := range []struct {
		target, host string
		want         int
	}{
		{"/login", "auth.example.org", 1},
		{"/login", "AUTH.example.ORG", 1},
		{"/login", "auth.example.org:8443", 1},
		{"/login", "auth.example.org:", 1},
		{"/login", "auth.example.org.", 1},
		{"/login", "auth.example.org.:80", 1},
		{"/login", "bücher.example", 1},
		{"/login", "BÜCHER.example", 1},
		{"/login", "xn--bcher-kva.example", 1},
		{"/login", "XN--BCHER-KVA.EXAMPLE.:1", 1},
		{"/login", "auth。example。org", 1},
		{"/login", "[2001:db8:0::1]:80", 1},
		{"/login", "192.0.2.1:80", 1},
		{"/login", "other.example.org", 0},
		{"/login", "example.org", 0},
		{"/login", "xauth.example.org", 0},
		{"/login", "[2001:db8::2]", 0},
		{"http://auth.example.org/login", "other.example.org", 1},
		{"http://u@auth.example.org:80/login", "other.example.org", 1},
		{"http://other.example.org/login", "auth.example.org", 1},
		{"http://other.example.org/login", "other.example.org", 0},
		// what is no host name may be for any
		{"/login", "", 1},
		{"/login", "auth.example.org:x", 1},
		{"/login", "a b", 1},
		{"/login", "a,auth.example.org", 1},
		{"/login", "%61uth.example.org", 1},
		{"http://other.example.org/login", "a b", 1},
		{"http://u@other.example.org/login", "other.example.org", 0},
		{"http://auth.example.org#/login", "other.example.org", 1},
		{"http://other.example.org#/login", "other.example.org", 0},
		{"http://a%62/login", "other.example.org", 1},
	} {
		in := post(tc.target)
		in.Host = tc.host
		if got := table.Lookup(nil, in); len(got) != tc.want {
			t.Errorf("target %q, host %q: got %v, want %d hits", tc.target, tc.host, got, tc.want)
		}
	}
}

func TestSplitTarget(t *testing.T) {
	for _, tc := range []struct{ target, path, query, authority string }{
		{"/a?b?c", "/a", "b?c", ""},
		{"", "", "", ""},
		{"*", "*", "", ""},
		{"a", "a", "", ""},
		{"http://u:p@h:80/a?b", "/a", "b", "h:80"},
		{"http://h", "", "", "h"},
		{"http://h?b", "", "b", "h"},
		{"http:a", "a", "", ""},
		{"h+t-t.p1:/a", "/a", "", ""},
		{"1h:/a", "1h:/a", "", ""},
		{":/a", ":/a", "", ""},
		{"//h/a", "//h/a", "", ""},
		{"http:///h/a", "///h/a", "", ""},
		{`http://h\a`, `\a`, "", "h"},
		{"http://h#/a", "#/a", "", "h"},
	} {
		path, query, authority := splitTarget(tc.target)
		if path != tc.path || query != tc.query || authority != tc.authority {
			t.Errorf("%q: got %q, %q, %q, want %q, %q, %q", tc.target, path, query, authority, tc.path, tc.query, tc.authority)
		}
	}
}

func TestCanonicalHost(t *testing.T) {
	long := strings.Repeat("a.", 130) + "org"
	for _, tc := range []struct {
		host, want string
		ok         bool
	}{
		{"a.example", "a.example", true},
		{"A.Example:80", "a.example", true},
		{"a_b.example.", "a_b.example", true},
		{"Ⅷ.example", "viii.example", true},
		{"[::FFFF:192.0.2.1]:80", "192.0.2.1", true},
		{"[fe80::1%25eth0]", "fe80::1", true},
		{"[::1", "", false},
		{"[::1]x", "", false},
		{"[1.2.3.4]", "", false},
		{"::1", "", false},
		{"", "", false},
		{".", "", false},
		{"a..b", "", false},
		{".a", "", false},
		{"a/b", "", false},
		{long, "", false},
		{"xn--a", "", false},
	} {
		got, ok := CanonicalHost(tc.host)
		if ok != tc.ok || ok && got != tc.want {
			t.Errorf("%q: got %q, %v, want %q, %v", tc.host, got, ok, tc.want, tc.ok)
		}
	}
}

func TestQuery(t *testing.T) {
	table := compile(t,
		Route{Match: Match{Path: "/wp-login.php", Query: map[string]string{"action": "lostpassword"}}},
		Route{Match: Match{Path: "/wp-login.php", Query: map[string]string{"action": "*"}}},
		Route{Match: Match{Path: "/wp-login.php", Query: map[string]string{"a": "1", "b.c": "x+y z"}}},
		Route{Match: Match{Path: "/wp-login.php", Query: map[string]string{"empty": ""}}},
		Route{Match: Match{Path: "/wp-login.php"}},
		Route{Match: Match{Path: "/wp-login.php", Query: map[string]string{"action": "*", "a": "2"}}},
	)
	for _, tc := range []struct {
		query string
		want  []int
	}{
		{"", []int{4}},
		{"?action=lostpassword", []int{0, 1, 4}},
		{"?action=lostpassword#x", []int{0, 1, 4}}, // some backends cut off a fragment
		{"?action=other", []int{1, 4}},
		{"?action", []int{1, 4}},
		{"?ACTION=LostPassword", []int{0, 1, 4}},
		{"?%61ction=lost%70assword", []int{0, 1, 4}},
		{"?a%63tion=%256cost%2570assword", []int{0, 1, 4}},
		{"?action=+lostpassword%20", []int{0, 1, 4}},
		{"?+action=lostpassword", []int{0, 1, 4}},
		{"?action=lostpassword%00x", []int{0, 1, 4}},
		{"?action=other&action=lostpassword", []int{0, 1, 4}},
		{"?action=lostpassword&action=other", []int{0, 1, 4}},
		{"?action[]=lostpassword", []int{0, 1, 4}},
		{"?x=1;action=lostpassword", []int{0, 1, 4}},
		{"?action=lostpassword;x=1", []int{0, 1, 4}},
		{"?xaction=lostpassword&actions=lostpassword", []int{4}},
		{"?x=action=lostpassword", []int{4}},
		{"?a=1", []int{4}},
		{"?a=1&b.c=x%2By+z", []int{2, 4}},
		{"?a=1&b_c=x%2By+z", []int{2, 4}},
		{"?a=1&b%20c=x%2By+z", []int{2, 4}},
		{"?a=2&b_c=x%2By+z", []int{4}},
		{"?a=2&action", []int{1, 4, 5}},
		{"?empty", []int{3, 4}},
		{"?empty=1", []int{4}},
	} {
		var got []int
		for _, h := range table.Lookup(nil, post("/wp-login.php"+tc.query)) {
			got = append(got, h.Route)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q: got %v, want %v", tc.query, got, tc.want)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name  string
		match Match
		want  string
	}{
		{"good", Match{Path: "/a/{b}/*", Methods: []string{"get", "PROPFIND"}, Hosts: []string{"a.example"}, Query: map[string]string{"a": "*"}}, ""},
		{"root", Match{Path: "/"}, ""},
		{"everything", Match{Path: "/*"}, ""},
		{"trailing slash", Match{Path: "/a/"}, ""},
		{"no path", Match{}, `path "": is empty; write the path to cover, such as "/login", or "/*" for all`},
		{"relative", Match{Path: "login"}, `path "login": does not start with a slash; write "/login"`},
		{"query", Match{Path: "/a?b=c"}, `path "/a?b=c": has a query or fragment; write the path alone, and query: {name: value} beside it`},
		{"backslash", Match{Path: `/a\b`}, `path "/a\\b": has a backslash; write slashes, a backslash in a request counts as one`},
		{"star inside", Match{Path: "/a*/b"}, `path "/a*/b": has a * inside; only a trailing "/*" is a pattern, and {name} is one segment`},
		{"two stars", Match{Path: "/a/**"}, `path "/a/**": has a * inside; only a trailing "/*" is a pattern, and {name} is one segment`},
		{"half parameter", Match{Path: "/a{b}"}, `path "/a{b}": has "a{b}"; a parameter is a whole segment, such as {name}`},
		{"parameter without name", Match{Path: "/{}"}, `path "/{}": has "{}"; a parameter is a whole segment, such as {name}`},
		{"parameter twice", Match{Path: "/{a}/{a}"}, `path "/{a}/{a}": has {a} twice; give each segment a name of its own`},
		{"dots", Match{Path: "/a/../b"}, `path "/a/../b": has ".." for a segment; write the path without empty and dot segments`},
		{"encoded dots", Match{Path: "/a/%2e/b"}, `path "/a/%2e/b": has "%2e" for a segment; write the path without empty and dot segments`},
		{"empty segment", Match{Path: "/a//b"}, `path "/a//b": has "" for a segment; write the path without empty and dot segments`},
		{"empty segment before the star", Match{Path: "/a//*"}, `path "/a//*": has "" for a segment; write the path without empty and dot segments`},
		{"encoded slash", Match{Path: "/a%2fb"}, `path "/a%2fb": has an encoded slash in "a%2fb"; write it as a slash`},
		{"method", Match{Path: "/a", Methods: []string{"PSOT"}}, `methods "PSOT": is not a method; write one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE, CONNECT, QUERY, PROPFIND, PROPPATCH, MKCOL, MKCALENDAR, COPY, MOVE, LOCK, UNLOCK, REPORT, SEARCH, ACL, or leave methods out to count every method`},
		{"host with port", Match{Path: "/a", Hosts: []string{"A.example:80"}}, `hosts "A.example:80": has a port, which is not compared; write "a.example"`},
		{"wildcard host", Match{Path: "/a", Hosts: []string{"*.example"}}, `hosts "*.example": has a wildcard; list the host names, or leave hosts out for every host`},
		{"address for host", Match{Path: "/a", Hosts: []string{"http://a.example/"}}, `hosts "http://a.example/": is not a host name; write it without scheme and path, such as "auth.example.org"`},
		{"bare IPv6", Match{Path: "/a", Hosts: []string{"::1"}}, `hosts "::1": is an IPv6 address without brackets; write "[::1]"`},
		{"IPv6 with port", Match{Path: "/a", Hosts: []string{"[::1]:80"}}, `hosts "[::1]:80": has a port, which is not compared; write "[::1]"`},
		{"empty host", Match{Path: "/a", Hosts: []string{""}}, `hosts "": is not a host name; write one such as "auth.example.org"`},
		{"empty query name", Match{Path: "/a", Query: map[string]string{"": "x"}}, `query "": is empty; write the name of a query parameter`},
		{"two faults", Match{Path: "a", Hosts: []string{""}}, `path "a": does not start with a slash; write "/a"` + "\n" + `hosts "": is not a host name; write one such as "auth.example.org"`},
	} {
		got := ""
		if err := tc.match.Validate(); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, got, tc.want)
		}
	}
	_, err := Compile([]Route{{Match: Match{Path: "/a"}}, {Match: Match{Path: "b"}}})
	if want := `compiling route 1: path "b": does not start with a slash; write "/b"`; err == nil || err.Error() != want {
		t.Errorf("Compile: got %v, want %s", err, want)
	}
}
