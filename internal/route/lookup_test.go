package route

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// paths compiles a table with a route per path, without further conditions.
func paths(t testing.TB, list ...string) *Table {
	t.Helper()
	var routes []Route
	for i, path := range list {
		routes = append(routes, Route{Policy: i, Match: Match{Path: path}})
	}
	return compile(t, routes...)
}

func compile(t testing.TB, routes ...Route) *Table {
	t.Helper()
	table, err := Compile(routes)
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return table
}

// hits lists the paths of the routes hit.
func hits(table *Table, in Request) []string {
	var got []string
	for _, h := range table.Lookup(nil, in) {
		got = append(got, table.routes[h.Route].Match.Path)
	}
	return got
}

func post(target string) Request {
	return Request{Method: "POST", Target: target, Host: "auth.example.org", Header: http.Header{}, Body: true}
}

// evasions are spellings of /login that one backend or another takes for it [I6].
var evasions = []string{
	// plain
	"/login", "/login?x=1", "/login?", "/LOGIN", "/LogIn", "/login/", "/login//", "//login", "///login", "/login/?a=/x",
	// dots
	"/./login", "/login/.", "/x/../login", "/../login", "/a/b/../../login", "/login/x/..", "/a//../login",
	"/a//../../login", "/login/..;/login", "/..;/login", "/x/..;/login", "/x/..;a=b/login", "/..%3b/login", "/x/..%3B/login",
	"/x/.%2e/login", "/x/%2e%2e/login", "/x/%2e./login", "/%2e/login", "/%252e/login", "/x/%252e%252e/login",
	"/x/%2e%2e;/login", "/x/..%00/login", "/x/..%20/login", "/x/%20../login", "/x/..%0a/login", "/login/%2e",
	// percent-encoding, at any depth
	"/%6c%6f%67in", "/%6C%6F%67%69%6E", "/lo%67in", "/%256cogin", "/%25256cogin", "/%2525256cogin", "/%%36cogin", "/%u006cogin",
	"/%25u006cogin", "/lo%4%37in",
	// separators
	"/%2flogin", "/%2Flogin", "/login%2f", "/login%2F", "/x%2f..%2flogin", "/x%2f../login", "/x/..%2flogin", "/x%252f..%252flogin",
	`/\login`, `\login`, `/login\`, "/%5clogin", "/login%5c", "/x%5c..%5clogin", `/x\..\login`, "/x%255c..%255clogin", `/x/..\login`,
	"/x%2f..;/login", `/.%2flogin`, "/%c0%af/login", "/x/..%c0%aflogin", "/x/%c0%ae%c0%ae/login",
	"/x/%e0%80%ae%e0%80%ae/login", "/x/%f0%80%80%ae./login", "/%c1%acogin", "/x%ef%bc%8f..%ef%bc%8flogin",
	// parameters of a segment
	"/login;", "/login;a=b", "/login;a=b;c", "/login;jsessionid=1", "/;x/login", "/;/login", "/login;a/", "/login;a%2fb", `/login;a\b`,
	"/login%3b", "/login%3ba=b", "/login%253ba", "/login;x/..;/login;y", "/login;jsessionid=1/more", "/x;y/../login",
	"/login;/./;/", "/login/;x",
	// what ends a path
	"/login%00", "/login%00.html", "/login%00/x", "/login%2500", "/login#", "/login#x", "/login%23x", "/login#/../x", "/login%3f",
	"/login%3fx=1", "/login%3Fx/y", "/login%0d%0aX:y", "/login%0a", "/login%2523x",
	// what is dropped
	"/login%20", "/login%20%20", "/%20login", "/login%09", "/login.", "/login..", "/login.%20.", "/login%2e", "/login.%00", "/lo%00gin",
	"/login%c2%a0", "/login%e2%80%8b", "/lo%c2%adgin", "/login%ff", "/login%7f", "/login::$DATA", "/login:$i30:$INDEX_ALLOCATION/",
	"/login%3a%3a$data", "/login;%00x", "/login::$DATA;/x/y", "/%U006cogin",
	// letters
	"/%ef%bd%8cogin", "/lo%ef%bd%87in", "/log%c4%b1n", "/LOG%C4%B0N", "/\u017f/../login", "/%ef%bc%8e%ef%bc%8e/login",
	"/%ef%bc%856cogin",
	// addresses
	"http://auth.example.org/login", "HTTP://auth.example.org/login", "https://a@b/login?x", "http:/login", "http:login", "http:///login", "http:///host/login",
	"http://a//login", "http://a/x/../login", "//host/login", "///host/login", `/\host/login`, `/\host\login`, `/\//host/login`, `\\host\login`,
	"//user@host:80/login", "/%2fhost/login", `http://a\b/login`, `http://a\login`, "login", "http:\\\\a\\login",
	// scripts, folders and formats
	"/index.php/login", "/app.php/login", "/app_dev.php/login", "/(S(lit3py55t21z5v55vlm25s55))/login", "/(A(x)F(y))/login", "/login/index.php", "/INDEX.PHP/login", "/default.aspx/login", "/login.json", "/login.JSON", "/login.do",
	"/login.html/", "/login.json;x", "/login%2ejson", "/login.css", "/login.json/x/..",
	// several at once
	"//x/..;//%6cOGIN/;a/.%00?x", "/%2e%2e%2f%2e%2e%5clogin%20", "/login/%2e%2e%2flogin#", "/login/..;/../login/.",
}

func TestEvasionsAreHit(t *testing.T) {
	for name, table := range map[string]*Table{
		"alone":          paths(t, "/login"),
		"among others":   paths(t, "/x", "/login", "/a/b/c", "/{any}/other", "/login/deep/down"),
		"with neighbour": paths(t, "/index.php/other", "/login", "/x/y", "/host/login/x"),
	} {
		for _, target := range evasions {
			if got := hits(table, post(target)); !slices.Contains(got, "/login") {
				t.Errorf("%s: %q hits %q, want /login among them", name, target, got)
			}
		}
	}
}

// TestEvasionsOfLongerPaths puts the spellings below a prefix of two segments.
func TestEvasionsOfLongerPaths(t *testing.T) {
	exact, below := paths(t, "/api/v1/login"), paths(t, "/api/v1/*")
	for _, target := range evasions {
		if target[0] != '/' || strings.HasPrefix(target, "//") || strings.HasPrefix(target, `/\`) ||
			strings.Contains(target, "host") || strings.HasPrefix(target, "/../") || strings.HasPrefix(target, "/..") ||
			strings.HasPrefix(target, "/%2e%2e") || strings.HasPrefix(target, "/%ef%bc%8e") ||
			strings.HasPrefix(target, "/login/..;/../") {
			continue // those that climb above their start or name a host
		}
		target = "/api/v1" + target
		if got := hits(exact, post(target)); len(got) != 1 {
			t.Errorf("%q hits %q, want /api/v1/login", target, got)
		}
		if got := hits(below, post(target)); len(got) != 1 {
			t.Errorf("%q hits %q, want /api/v1/*", target, got)
		}
	}
}

// TestEvasionsAcrossSegments has spellings that only show in the midst of a longer path.
func TestEvasionsAcrossSegments(t *testing.T) {
	table := paths(t, "/api/v1/login", "/users/{id}/password", "/users/{id}", "/index.php/admin")
	for _, tc := range []struct{ target, want string }{
		{"/api;x%2fy/v1/login", "/api/v1/login"},                // the parameter has the slash
		{"/api%00x/v1/login", "/api/v1/login"},                  // cut segment by segment
		{"/api/..%3b/v1/../../v1/login", "/api/v1/login"},       // "..;" is a name
		{"/api/%2e%2e/v1/../../v1/login", "/api/v1/login"},      // resolved before decoding
		{"/api/x/y%2f../../v1/login", "/api/v1/login"},          // "y/.." is a name
		{"/users/a%2fb%00/x/y", "/users/{id}"},                  // "a/b" is a name, and the end
		{"/users/a%2fb;c%2fd/password", "/users/{id}/password"}, // "a/b" is a name, with a parameter "c/d"
		{"/index.php/admin", "/index.php/admin"},
		{"/INDEX.php/./admin", "/index.php/admin"},
		{strings.Repeat("/x", 100) + strings.Repeat("/..", 100) + "/api/v1/login", "/api/v1/login"},
		{"/api" + strings.Repeat("/x", 100) + strings.Repeat("/%2e.", 100) + "/v1/login", "/api/v1/login"},
	} {
		if got := hits(table, post(tc.target)); !slices.Contains(got, tc.want) {
			t.Errorf("%q hits %q, want %q among them", tc.target, got, tc.want)
		}
	}
}

// TestFormatBehindASeparator: a framework that decodes once takes .json off login%2f, which the next system decodes again.
func TestFormatBehindASeparator(t *testing.T) {
	table := paths(t, "/login")
	for target, want := range map[string]int{
		"/login%252f.json": 1, "/login%2f.json//": 1, "/..;a=b/login%255c.xml": 1, "/login/.json": 0, "/login%2fx.json": 0, "/login%2f.a-b": 0, "/x%2f.json": 0,
	} {
		if got := hits(table, post(target)); len(got) != want {
			t.Errorf("%q hits %q, want %d routes", target, got, want)
		}
	}
}

// TestCutPathsAreHit: what a backend reads that stops in the middle of a path counts for parameters and prefixes, too.
func TestCutPathsAreHit(t *testing.T) {
	table := paths(t, "/user/{name}", "/api/*")
	for _, mark := range []string{"#", "%23", "%00", "%3f", "%0d%0a", ";"} {
		for target, want := range map[string]string{
			"/user/bob" + mark + "/x": "/user/{name}", "/user/bob" + mark + ".php/x/y": "/user/{name}", "/user/./bob" + mark + "/../..": "/user/{name}",
			"/api/x" + mark + "/../../y": "/api/*", "/api/" + mark + "/../../y": "/api/*",
		} {
			if got := hits(table, post(target)); !slices.Contains(got, want) {
				t.Errorf("%q hits %q, want %s", target, got, want)
			}
		}
	}
}

func TestFetchedFilesAreNoFormats(t *testing.T) {
	table := paths(t, "/login")
	for _, tc := range []struct {
		method, target, override string
		want                     int
	}{
		{"GET", "/login.css", "", 0},
		{"HEAD", "/login.woff2", "", 0},
		{"get", "/LOGIN.JS", "", 0},
		{"GET", "/login.json", "", 1},
		{"GET", "/login.html", "", 1},
		{"POST", "/login.css", "", 1},
		{"JEFF", "/login.css", "", 1},
		{"GET", "/login.css", "POST", 1},
	} {
		in := post(tc.target)
		in.Method = tc.method
		if tc.override != "" {
			in.Header.Set("X-HTTP-Method-Override", tc.override)
		}
		if got := table.Lookup(nil, in); len(got) != tc.want {
			t.Errorf("%s %s, override %q: got %v, want %d hits", tc.method, tc.target, tc.override, got, tc.want)
		}
	}
}

func TestOrdinaryPathsAreNotHit(t *testing.T) {
	table := paths(t, "/login", "/api/account/login", "/users/{id}/password", "/remote.php/*", "/wp-login.php")
	for _, target := range []string{
		"/", "", "*", "/login2", "/loginx", "/xlogin", "/log", "/logi", "/a/login", "/login/help", "/login/help/", "/login-help", "/login_help",
		"/login+x", "/login:x", "/login:8080", "/logins", "/login2.json", "/v1.0/login", "/static/login.css", "/a/login.json",
		"/logout", "/log/in", "/log-in", "/l/o/g/i/n", "/help/login.html", "/login/assets/app.js", "/login/assets/app.3f2a.css",
		"/files/My%20login.pdf", "/files/login", "/files%2Flogin", "/a%2Flogin", "/api/v4/projects/group%2Flogin/issues", "/%40login", "/login%40x",
		"/login%2Fhelp", "/login%2dhelp", "/redirect/%2Flogin", "/redirect/https://example.org/login", "/x?next=/login", "/?/login", "/x#/login",
		"/api/account", "/api/account/login/x", "/api/account/logins", "/api/login", "/account/login", "/users/7", "/users/password", "/users//password",
		"/users/7/passwords", "/users/7/8/password", "/remote.phpx", "/remote", "/remote.php5/x", "/wp-login", "/wp-login.phpx", "/index.php",
		"/index.php/logins", "/a/b/../login", "/a/./login", "/a/b/c/../../login", "/login/../help", "/login/..", "/caf%C3%A9/login",
		"/log%20in", "/login%20help", "/%D0%BB%D0%BE%D0%B3%D0%B8%D0%BD", "/login%C3%A9", "http://login/", "http://login",
		"http://login/welcome", "/%E2%9C%93", "/100%", "/%zz/login", "/a;b/login", "/login.verylongextension", "/.login", "/login.a-b",
		"/login//he%6Cp", "/login/%2Fhelp", "/login/a.b/c.d", "/users/./password", "/users/%2e/password", "/users/x/../password", "/%c1,ogin",
	} {
		got := hits(table, post(target))
		if len(got) != 0 {
			t.Errorf("%q hits %q, want none", target, got)
		}
	}
}

func TestPatterns(t *testing.T) {
	table := paths(t, "/remote.php/*", "/users/{id}", "/users/me", "/users/{id}/keys/{key}", "/", "/wp-login.php", "/*", "/Café/x", "/a/*",
		"/a/b/*", "/a/b")
	for _, tc := range []struct {
		target string
		want   []string
	}{
		{"/remote.php", []string{"/remote.php/*"}},
		{"/remote.php/", []string{"/remote.php/*"}},
		{"/remote.php/dav/files", []string{"/remote.php/*"}},
		{"/x/..;/remote.php/dav", []string{"/remote.php/*", "/"}}, // cut at ";" it is /x/..
		{"/REMOTE.PHP/dav?x", []string{"/remote.php/*"}},
		{"/remote.php/dav/../../x", []string{"/remote.php/*"}}, // literally below it
		{"/users/7", []string{"/users/{id}"}},
		{"/users/me", []string{"/users/{id}", "/users/me"}},
		{"/users/", nil},
		{"/users/7/keys/8", []string{"/users/{id}/keys/{key}"}},
		{"/users/7/keys", nil},
		{"/users/a%2Fb", []string{"/users/{id}"}},
		{"/", []string{"/"}},
		{"/index.php", []string{"/"}},
		{"/x", nil},
		{"/wp-login.php", []string{"/wp-login.php"}},
		{"/wp-login.php/extra/info", []string{"/wp-login.php"}},
		{"/caf%C3%A9/x", []string{"/Café/x"}},
		{"/CAF%C3%89/X", []string{"/Café/x"}},
		{"/cafe%CC%81/x", []string{"/Café/x"}},
		{"/a", []string{"/a/*"}},
		{"/a/b", []string{"/a/*", "/a/b/*", "/a/b"}},
		{"/a/b/c/d", []string{"/a/*", "/a/b/*"}},
		{"/ab", nil},
	} {
		got := slices.DeleteFunc(hits(table, post(tc.target)), func(p string) bool { return p == "/*" })
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q hits %q, want %q", tc.target, got, tc.want)
		}
		if !slices.Contains(hits(table, post(tc.target)), "/*") {
			t.Errorf("%q does not hit /*", tc.target)
		}
	}
}

func TestStrictMeansTheSpelling(t *testing.T) {
	table := compile(t,
		Route{Match: Match{Path: "/login", Strict: true, Methods: []string{"post"}}},
		Route{Match: Match{Path: "/Docs/*", Strict: true}},
		Route{Match: Match{Path: "/u/{id}/", Strict: true}},
		Route{Match: Match{Path: "/caf%C3%A9", Strict: true}},
	)
	for _, tc := range []struct {
		method, target, want string
	}{
		{"POST", "/login", "/login"},
		{"POST", "/login?x=%00", "/login"},
		{"POST", "http://h/login", "/login"},
		{"post", "/login", ""},
		{"GET", "/login", ""},
		{"FOO", "/login", ""},
		{"POST", "/LOGIN", ""},
		{"POST", "/login/", ""},
		{"POST", "//login", ""},
		{"POST", "/login;a", ""},
		{"POST", "/lo%67in", ""},
		{"POST", "/login.json", ""},
		{"GET", "/Docs", "/Docs/*"},
		{"GET", "/Docs/", "/Docs/*"},
		{"GET", "/Docs/a//b/%2e", "/Docs/*"},
		{"GET", "/docs/a", ""},
		{"GET", "/Docsx", ""},
		{"GET", "/u/7/", "/u/{id}/"},
		{"GET", "/u/7", ""},
		{"GET", "/u//", ""},
		{"GET", "/u/7/x", ""},
		{"GET", "/caf%C3%A9", "/caf%C3%A9"},
		{"GET", "/caf%c3%a9", ""},
	} {
		in := post(tc.target)
		in.Method = tc.method
		in.Header.Set("X-HTTP-Method-Override", "POST")
		if got := strings.Join(hits(table, in), " "); got != tc.want {
			t.Errorf("%s %s hits %q, want %q", tc.method, tc.target, got, tc.want)
		}
	}
}

func TestParams(t *testing.T) {
	table := paths(t, "/realms/{realm}/users/{id}")
	for _, tc := range []struct {
		target string
		want   []Param
	}{
		{"/realms/Acme/users/bob", []Param{{"realm", "Acme"}, {"id", "bob"}}},
		{"/REALMS/Acme/users/bob/", []Param{{"realm", "Acme"}, {"id", "bob"}}},
		{"/realms/Acme/users/b%6Fb", []Param{{"realm", "Acme"}, {"id", "bob"}}},
		{"/realms/a.b/users/J%C3%BCrgen%20X", []Param{{"realm", "a.b"}, {"id", "Jürgen X"}}},
		{"/realms/Acme/users/bob%40example.org", []Param{{"realm", "Acme"}, {"id", "bob@example.org"}}},
		{"/realms/Acme/users/50%25", []Param{{"realm", "Acme"}, {"id", "50%"}}},
		{"/realms/Acme/users/b%256Fb", []Param{{"realm", "Acme"}, {"id", "b%6Fb"}, {"id", "bob"}}},
		{"/realms/Acme/users/bob;x", []Param{{"realm", "Acme"}, {"id", "bob;x"}, {"id", "bob"}}},
		{"/realms/Acme/users/bob%00x", []Param{{"realm", "Acme"}, {"id", "bob\x00x"}, {"id", "bob"}}},
		{"/realms/Acme/users/bob#/x", []Param{{"realm", "Acme"}, {"id", "bob#"}, {"id", "bob"}}},
		{"/realms/Acme/users/bob%00.php/x", []Param{{"realm", "Acme"}, {"id", "bob\x00.php"}, {"id", "bob"}}},
		{"/realms/Acme/users/bob;x/y", []Param{{"realm", "Acme"}, {"id", "bob;x"}, {"id", "bob"}}},
		{"/realms/Acme/users/a%2Fb", []Param{{"realm", "Acme"}, {"id", "a/b"}, {"id", "a"}, {"id", "b"}}},
		{"/realms/Acme/users/a%2F..%2Fb", []Param{{"realm", "Acme"}, {"id", "a/../b"}, {"id", "a"}, {"id", "b"}}},
		{"/realms/Acme/users/x/../bob", []Param{{"realm", "Acme"}, {"id", "x"}, {"id", "bob"}}},
	} {
		got := table.Lookup(nil, post(tc.target))
		if len(got) != 1 || got[0].Unclear || !slices.Equal(got[0].Params, tc.want) {
			t.Errorf("%s: got %+v, want %v", tc.target, got, tc.want)
		}
	}
	many := "/realms/Acme/users/bob" + strings.Repeat("/../x1/../x2/../x3", 3) + strings.Repeat("/../y1/../y2/../y3", 3)
	got := table.Lookup(nil, post(many+"/../z1/../z2/../z3"))
	if len(got) != 1 || !got[0].Unclear {
		t.Errorf("more values than are kept: got %+v, want one unclear hit", got)
	}
	if next := table.Lookup(nil, post("/realms/Acme/users/bob")); len(next) != 1 || next[0].Unclear || len(next[0].Params) != 2 {
		t.Errorf("after that: got %+v, want one clear hit", next)
	}
}

func TestHitsAppendInOrderWithPolicy(t *testing.T) {
	table := compile(t,
		Route{Policy: 7, Match: Match{Path: "/*"}},
		Route{Policy: 3, Match: Match{Path: "/login"}},
		Route{Policy: 3, Match: Match{Path: "/{x}"}},
	)
	got := table.Lookup([]Hit{{Route: 99}}, post("/login"))
	var list [][2]int
	for _, h := range got {
		list = append(list, [2]int{h.Route, h.Policy})
	}
	if want := [][2]int{{99, 0}, {0, 7}, {1, 3}, {2, 3}}; !slices.Equal(list, want) {
		t.Errorf("got %v, want %v", list, want)
	}
	var none *Table = compile(t)
	if got := none.Lookup(nil, post("/login")); got != nil {
		t.Errorf("empty table: got %v", got)
	}
}

// TestManyRoutes goes over the boundary of a word of the set of routes.
func TestManyRoutes(t *testing.T) {
	var list []string
	for i := range 200 {
		list = append(list, "/r"+strings.Repeat("x", i))
	}
	table := paths(t, list...)
	for i, path := range list {
		if got := table.Lookup(nil, post(path+"/%2e")); len(got) != 1 || got[0].Route != i {
			t.Fatalf("%s: got %v, want route %d", path, got, i)
		}
	}
}
