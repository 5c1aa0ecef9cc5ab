package route

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// normaliser is how one kind of backend turns a request target into the path that it routes by. It is
// simple and wrong in the ways in which such code is.
type normaliser struct {
	name string
	norm func(target string) string
}

const (
	addressParser = "browser-like address parser"
	formatSuffix  = "format suffix"
)

func normalisers() []normaliser {
	withFormat := regexp.MustCompile(`([A-Za-z0-9])\.[A-Za-z0-9]{1,6}$`)
	return []normaliser{
		{"cleaning router", func(s string) string { return resolve(unescape(cutQuery(s))) }},
		{"resolve before decoding", func(s string) string { return unescape(resolve(cutQuery(s))) }},
		{"nothing but case", func(s string) string { return strings.ToLower(cutQuery(s)) }},
		{"servlet container", func(s string) string {
			s = stripParams(cutQuery(s))
			return resolve(strings.ReplaceAll(unescape(s), `\`, "/"))
		}},
		{"cut at the first parameter", func(s string) string {
			s, _, _ = strings.Cut(unescape(cutQuery(s)), ";")
			return resolve(s)
		}},
		{"C string and path info", func(s string) string {
			s, _, _ = strings.Cut(unescape(cutQuery(s)), "\x00")
			s = resolve(s)
			if rest, ok := strings.CutPrefix(s, "/index.php/"); ok {
				s = "/" + rest
			}
			return s
		}},
		{"windows", func(s string) string {
			s = strings.ToLower(strings.ReplaceAll(unescapeLax(unescapeLax(cutQuery(s))), `\`, "/"))
			segments := strings.Split(s, "/")
			for i, segment := range segments {
				segment, _, _ = strings.Cut(segment, "::$")
				if segment != "." && segment != ".." {
					segment = strings.TrimRight(segment, " .")
				}
				segments[i] = segment
			}
			return resolve(strings.Join(segments, "/"))
		}},
		{addressParser, func(s string) string {
			s = strings.NewReplacer("\t", "", "\r", "", "\n", "", `\`, "/").Replace(s)
			s, _, _ = strings.Cut(cutQuery(s), "#")
			if strings.HasPrefix(s, "//") {
				s = strings.TrimLeft(s, "/")
				_, s, _ = strings.Cut(s, "/")
				s = "/" + s
			}
			segments := strings.Split(s, "/")
			for i, segment := range segments {
				if dots := strings.ReplaceAll(strings.ToLower(segment), "%2e", "."); dots == "." || dots == ".." {
					segments[i] = dots
				}
			}
			return unescape(removeDots(segments))
		}},
		{formatSuffix, func(s string) string {
			s = strings.TrimRight(resolve(unescape(cutQuery(s))), "/")
			return withFormat.ReplaceAllString(s, "$1")
		}},
		{"three times", func(s string) string { return resolve(unescape(unescape(unescape(cutQuery(s))))) }},
	}
}

func cutQuery(s string) string {
	s, _, _ = strings.Cut(s, "?")
	return s
}

// unescape decodes once and leaves what is no escape.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if decoded, err := url.PathUnescape(s[i : i+3]); err == nil {
				b.WriteString(decoded)
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// unescapeLax also knows %uXXXX for ASCII, and two bytes of overlong UTF-8.
func unescapeLax(s string) string {
	for _, prefix := range []string{"%u00", "%U00"} {
		s = strings.ReplaceAll(s, prefix, "%")
	}
	s = unescape(s)
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i]&0xFE == 0xC0 && i+1 < len(s) && s[i+1]&0xC0 == 0x80 {
			b.WriteByte(s[i]<<6 | s[i+1]&0x3F)
			i++
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func stripParams(s string) string {
	segments := strings.Split(s, "/")
	for i := range segments {
		segments[i], _, _ = strings.Cut(segments[i], ";")
	}
	return strings.Join(segments, "/")
}

// resolve merges slashes and resolves dots; removeDots resolves dots alone, as RFC 3986 has it.
func resolve(s string) string { return path.Clean("/" + s) }

func removeDots(segments []string) string {
	var kept []string
	for i, segment := range segments[min(1, len(segments)):] {
		last := i == len(segments)-2
		switch segment {
		case "..":
			kept = kept[:max(0, len(kept)-1)]
			if last {
				kept = append(kept, "")
			}
		case ".":
			if last {
				kept = append(kept, "")
			}
		default:
			kept = append(kept, segment)
		}
	}
	return "/" + strings.Join(kept, "/")
}

// isLogin is how a backend compares what a normaliser gave.
func isLogin(p string) bool {
	return strings.ToLower(strings.TrimSuffix(p, "/")) == "/login"
}

// muxRoutes tells whether net/http would hand the request to the handler of /login.
func muxRoutes(target string) bool {
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST " + target + " HTTP/1.1\r\nHost: a\r\n\r\n")))
	if err != nil {
		return false
	}
	mux := http.NewServeMux()
	mux.Handle("/login", http.NotFoundHandler())
	mux.Handle("/", http.NotFoundHandler())
	_, pattern := mux.Handler(req)
	return pattern == "/login"
}

// fragments are what a target is put together from.
var fragments = []string{
	"/", "/", "/", "/", "login", "login", "login", "login", "x", "..", "..", ".", "%2e", "%2e%2e", "%252e%252e", "..;", "..;a=b", ";", ";x",
	"%3b", "%2f", "%252f", "%5c", `\`, "%00", "%2500", "#", "%23", "?", "%3f", "%20", " ", "%0a", "%09", "LOGIN", "lo%67in", "lo%2567in",
	"%6c%6F", "gin", "index.php", ".json", ".", "::$DATA", "%u006c", "ogin", "%c0%ae", "%c0%af", "/../", "//", "/./", "login/..", "%",
	"%25", "2f", "2e", "host", "admin", "a%2fb", "%ff", "+", "http:", "=", "&",
}

// assemble makes a target out of arbitrary bytes.
func assemble(data []byte) string {
	var b strings.Builder
	b.WriteByte('/')
	for _, c := range data[:min(len(data), 24)] {
		b.WriteString(fragments[int(c)%len(fragments)])
	}
	return b.String()
}

// checkOracles fails if any backend, or any two in a row, take the target for /login and Lookup does not.
func checkOracles(t *testing.T, table *Table, backends []normaliser, target string) {
	t.Helper()
	hit := slices.Contains(hits(table, post(target)), "/login")
	if hit {
		return
	}
	if muxRoutes(target) {
		t.Errorf("%q: ServeMux routes it to /login, Lookup does not", target)
	}
	for _, first := range backends {
		once := first.norm(target)
		if isLogin(once) {
			t.Errorf("%q: %s makes it %q, Lookup misses it", target, first.name, once)
		}
		for _, second := range backends {
			if second.name == addressParser || second.name == formatSuffix && first.name == formatSuffix {
				continue // an address is parsed before all else, and there is one suffix
			}
			if twice := second.norm(once); isLogin(twice) {
				t.Errorf("%q: %s, then %s make it %q, Lookup misses it", target, first.name, second.name, twice)
			}
		}
	}
}

func oracleTable(t testing.TB) *Table {
	return paths(t, "/login", "/x", "/admin/*", "/{any}/x", "/login/x/y", "/host/login/z")
}

func FuzzBackendsAgree(f *testing.F) {
	f.Add([]byte{4})
	f.Add([]byte{8, 0, 14, 20, 4, 15})
	f.Add([]byte("/..;/login"))
	table, backends := oracleTable(f), normalisers()
	f.Fuzz(func(t *testing.T, data []byte) {
		checkOracles(t, table, backends, assemble(data))
		checkOracles(t, table, backends, "/"+string(data))
	})
}

// TestBackendsAgree is the fuzz target on a fixed set of random targets, and checks that enough of them do
// reach /login somewhere.
func TestBackendsAgree(t *testing.T) {
	table, backends := oracleTable(t), normalisers()
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 9)
	reached := 0
	for range 12000 {
		for i := range data {
			data[i] = byte(random.IntN(len(fragments)))
		}
		target := assemble(data[:1+random.IntN(len(data))])
		checkOracles(t, table, backends, target)
		if slices.ContainsFunc(backends, func(n normaliser) bool { return isLogin(n.norm(target)) }) {
			reached++
		}
	}
	if reached < 200 {
		t.Errorf("only %d targets reach /login in some backend: the test shows little", reached)
	}
}

// TestCleanPathsMatchExactly compares clean paths with the obvious matcher: there nothing more may match, nor less.
func TestCleanPathsMatchExactly(t *testing.T) {
	list := []string{"/", "/a", "/a/*", "/a/b", "/a/{x}", "/a/{x}/c", "/{x}", "/{x}/{y}/*", "/b/b/b", "/*"}
	table := paths(t, list...)
	obvious := func(pattern, p string) bool {
		want, below := strings.CutSuffix(pattern, "/*")
		w, g := segmentsOf(want), segmentsOf(p)
		if len(g) < len(w) || len(g) > len(w) && !below {
			return false
		}
		for i := range w {
			if w[i] != g[i] && w[i][0] != '{' {
				return false
			}
		}
		return true
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		p := ""
		for range random.IntN(5) {
			p += "/" + []string{"a", "b", "c", "login", "A-1"}[random.IntN(5)]
		}
		p += []string{"", "/"}[random.IntN(2)]
		var want []string
		for _, pattern := range list {
			if obvious(pattern, p) {
				want = append(want, pattern)
			}
		}
		if got := hits(table, post(p)); !slices.Equal(got, want) {
			t.Fatalf("%q: got %q, want %q", p, got, want)
		}
	}
}

func segmentsOf(p string) []string {
	return slices.DeleteFunc(strings.Split(p, "/"), func(s string) bool { return s == "" })
}

func FuzzLookup(f *testing.F) {
	f.Add("POST", "/login;x?_method=a&b=c", "a.example", "X-Http-Method", "PUT")
	f.Add("GET", "http://a/%2e%2e/login", "[::1]:80", "X-Original-Url", "//a/b?c")
	table := compile(f,
		Route{Match: Match{Path: "/login", Methods: []string{"POST"}, Hosts: []string{"a.example"}, Query: map[string]string{"b": "*"}}},
		Route{Match: Match{Path: "/{a}/{b}/*"}},
		Route{Match: Match{Path: "/login", Strict: true}},
	)
	f.Fuzz(func(t *testing.T, method, target, host, key, value string) {
		in := Request{Method: method, Target: target, Host: host, Header: http.Header{key: {value}}, Body: true}
		for _, hit := range table.Lookup(nil, in) {
			kept := make(map[string]int)
			for _, p := range hit.Params {
				if kept[p.Name]++; kept[p.Name] > maxValues {
					t.Errorf("more than %d values for {%s}", maxValues, p.Name)
				}
			}
			if hit.Route == 2 && !strings.HasSuffix(cutQuery(target), "/login") {
				t.Errorf("%q is not the spelling of a strict route", target)
			}
		}
	})
}

func FuzzDecoded(f *testing.F) {
	f.Add("%2%35%66%u006c%%36c")
	f.Fuzz(func(t *testing.T, s string) {
		once := decoded(nil, s, '+')
		if twice := decoded(nil, string(once), '+'); !bytes.Equal(once, twice) {
			t.Errorf("%q decodes to %q, which decodes to %q", s, once, twice)
		}
		// Decoding again and again gives no more than decoding deep, where there are only plain escapes.
		if again := unescape(string(once)); again != string(once) {
			t.Errorf("%q decodes to %q, which decodes to %q", s, once, again)
		}
	})
}

func FuzzValidate(f *testing.F) {
	f.Add("/a/{b}/*", "a.example", "GET")
	f.Fuzz(func(t *testing.T, path, host, method string) {
		m := Match{Path: path, Hosts: []string{host}, Methods: []string{method}}
		if m.Validate() != nil {
			return
		}
		table, err := Compile([]Route{{Match: m}})
		if err != nil {
			t.Fatalf("valid, but Compile: %v", err)
		}
		// The path as written, with something for its parameters, is covered.
		target := strings.TrimSuffix(path, "*")
		if strings.Contains(target, "{") {
			return
		}
		in := Request{Method: method, Target: target, Host: host}
		if got := table.Lookup(nil, in); len(got) != 1 {
			t.Errorf("path %q does not cover itself", path)
		}
	})
}
