package selector

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func encode(credentials string) string { return base64.StdEncoding.EncodeToString([]byte(credentials)) }

func TestBasic(t *testing.T) {
	bob := encode("Bob:secret")
	for _, c := range []struct {
		name   string
		lines  []string
		state  State
		reason Reason
		values []string
	}{
		{"plain", []string{"Basic " + bob}, Named, "", []string{"bob"}},
		{"lower case", []string{"basic " + bob}, Named, "", []string{"bob"}},
		{"upper case", []string{"BASIC " + bob}, Named, "", []string{"bob"}},
		{"two blanks", []string{"Basic  " + bob}, Named, "", []string{"bob"}},
		{"tab", []string{"Basic\t" + bob + " "}, Named, "", []string{"bob"}},
		{"blank first", []string{" Basic " + bob}, Named, "", []string{"bob"}},
		{"colons in the password", []string{"Basic " + encode("bob:a:b:c")}, Named, "", []string{"bob"}},
		{"empty password", []string{"Basic " + encode("bob:")}, Named, "", []string{"bob"}},
		{"without padding", []string{"Basic " + strings.TrimRight(encode("bob:x"), "=")}, Named, "", []string{"bob"}},
		{"alphabet for URLs", []string{"Basic " + base64.URLEncoding.EncodeToString([]byte("bob:?>?>~~"))}, Named, "", []string{"bob"}},
		{"UTF-8", []string{"Basic " + encode("José:x")}, Named, "", []string{"josé"}},
		{"Latin-1", []string{"Basic " + encode("jos\xe9:x")}, Ambiguous, Encoding, []string{"jos\ufffd", "jos", "josé"}},
		{"empty user", []string{"Basic " + encode(":x")}, Missing, Empty, nil},
		{"nothing behind", []string{"Basic"}, Missing, Empty, nil},
		{"absent", nil, Missing, Absent, nil},
		{"no colon", []string{"Basic " + encode("bob")}, Malformed, Basics, nil},
		{"no base64", []string{"Basic ***"}, Malformed, Basics, nil},
		{"what lenient decoders pass over", []string{"Basic " + bob[:4] + "!" + bob[4:]}, Malformed, Basics, nil},
		{"padding within", []string{"Basic " + encode("bob:x") + encode("y")}, Malformed, Basics, nil},
		{"too much padding", []string{"Basic " + encode("bob:xyz") + "==="}, Malformed, Basics, nil},
		{"two words", []string{"Basic " + bob + " " + bob}, Malformed, Basics, nil},
		{"two schemes", []string{"Basic " + bob + ", Bearer x"}, Malformed, Basics, nil},
		{"behind another scheme", []string{"Bearer x, Basic " + bob}, Malformed, Basics, []string{"bob"}},
		{"NUL", []string{"Basic " + encode("bob\x00:x")}, Malformed, NUL, nil},
		{"letter before the scheme", []string{"xBasic " + bob}, Malformed, Basics, []string{"bob"}},
		{"colon behind the scheme", []string{"Basic: " + bob}, Malformed, Basics, []string{"bob"}},
		{"no-break space", []string{"Basic\u00a0" + bob}, Malformed, Basics, []string{"bob"}},
		{"no scheme", []string{bob}, Named, "", []string{"bob"}},
		{"unknown scheme", []string{"Foo " + bob}, Named, "", []string{"bob"}},
		{"bearer token", []string{"Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJib2IifQ.c2lnbmF0dXJl"}, Missing, Absent, nil},
		{"random bearer token", []string{"Bearer " + encode("\x9f:\x01\xc3\x28")}, Missing, Absent, nil},
		{"digest scheme", []string{`Digest username="bob", realm="a:b"`}, Missing, Absent, nil},
		{"two lines", []string{"Basic " + bob, "Basic " + encode("al:x")}, Ambiguous, Duplicate, []string{"bob", "al"}},
		{"the same line twice", []string{"Basic " + bob, "Basic " + bob}, Named, "", []string{"bob"}},
	} {
		spec := mustCompile(t, "basic")
		got := spec.Read(&Input{Header: http.Header{"Authorization": c.lines}})
		wantReading(t, c.name, got, c.state, c.reason, c.values...)
	}
}

func TestBasicParts(t *testing.T) {
	for _, c := range []struct {
		name        string
		part        BasicPart
		credentials string
		state       State
		values      []string
	}{
		{"password", BasicPassword, "bob: a:b ", Named, []string{" a:b "}},
		{"empty password", BasicPassword, "bob:", Missing, nil},
		{"client", BasicClient, "my%20app%3A1:x", Named, []string{"my app:1"}},
		{"client, plus", BasicClient, "my+app:x", Named, []string{"my app"}},
		{"client, plain", BasicClient, "shop-web:x", Named, []string{"shop-web"}},
		{"client, broken escape", BasicClient, "a%b:x", Ambiguous, []string{"ab", "a%b"}},
		{"user, not decoded", BasicUser, "a%20b:x", Named, []string{"a%20b"}},
	} {
		spec := mustCompileConfig(t, Config{Basic: c.part}, "basic")
		got := spec.Read(&Input{Header: http.Header{"Authorization": {"Basic " + encode(c.credentials)}}})
		if got.State != c.state || !slices.Equal(got.Values, c.values) {
			t.Errorf("%s: got %+v, want %d %q", c.name, got, c.state, c.values)
		}
	}
}

// FuzzBasic holds the reader against net/http.
func FuzzBasic(f *testing.F) {
	f.Add("Basic " + encode("bob:x"))
	f.Add("bAsIc  Ym9iOng")
	f.Add("Bearer x, Basic Ym9iOng=")
	spec := mustCompile(f, "basic")
	f.Fuzz(func(t *testing.T, line string) {
		r := http.Request{Header: http.Header{"Authorization": {line}}}
		user, _, ok := r.BasicAuth()
		got := spec.Read(&Input{Header: r.Header})
		if ok {
			if why := misses(got, spec, user); why != "" {
				t.Fatal(why)
			}
		}
	})
}

func TestHeader(t *testing.T) {
	for _, c := range []struct {
		name   string
		header http.Header
		state  State
		reason Reason
		values []string
	}{
		{"plain", http.Header{"X-User": {"Bob"}}, Named, "", []string{"bob"}},
		{"underscore", http.Header{"X_user": {"bob"}}, Named, "", []string{"bob"}},
		{"both", http.Header{"X-User": {"bob"}, "X_user": {"bob"}}, Named, "", []string{"bob"}},
		{"UTF-8", http.Header{"X-User": {"José"}}, Named, "", []string{"josé"}},
		{"two lines, the same", http.Header{"X-User": {"bob", "BOB"}}, Named, "", []string{"bob"}},
		{"two lines", http.Header{"X-User": {"al", "bob"}}, Ambiguous, Duplicate, []string{"al", "bob"}},
		{"list", http.Header{"X-User": {"al, bob"}}, Ambiguous, Duplicate, []string{"al", "bob"}},
		{"list of one", http.Header{"X-User": {"bob,"}}, Named, "", []string{"bob"}},
		{"empty", http.Header{"X-User": {" "}}, Missing, Empty, nil},
		{"one line empty", http.Header{"X-User": {"", "bob"}}, Ambiguous, Duplicate, []string{"bob"}},
		{"any case", http.Header{"x-uSER": {"bob"}}, Named, "", []string{"bob"}},
		{"absent", http.Header{"X-Users": {"bob"}}, Missing, Absent, nil},
	} {
		got := mustCompile(t, "header:X-User").Read(&Input{Header: c.header})
		wantReading(t, c.name, got, c.state, c.reason, c.values...)
	}
}

func TestCookie(t *testing.T) {
	spec := mustCompile(t, "cookie:sid")
	read := func(lines ...string) Reading { return spec.Read(&Input{Header: http.Header{"Cookie": lines}}) }
	plain := read("sid=abc%3D")
	if plain.State != Named || len(plain.Values[0]) != 32 || strings.Contains(plain.Values[0], "abc") || plain.Raw != "" {
		t.Fatalf("got %+v, want one digest and nothing else", plain)
	}
	for _, same := range [][]string{{"a=b; sid=abc%3D; c=d"}, {`sid="abc%3D"`}, {"sid=abc="}, {"sid=%61bc="}, {"SID=abc="}, {" sid = abc= "}, {"a=b", "sid=abc="}, {"sid=abc=; sid=abc="}, {"s%69d=abc="}} {
		if got := read(same...); got.State != Named || got.Values[0] != plain.Values[0] {
			t.Errorf("%q: got %+v, want the digest %s", same, got, plain.Values[0])
		}
	}
	for _, c := range []struct {
		line   string
		state  State
		reason Reason
	}{
		{"sid=Abc%3D", Named, ""},
		{"sid=", Missing, Empty},
		{`sid=""`, Missing, Empty},
		{"sid", Missing, Empty},
		{"sidx=abc", Missing, Absent},
		{"sid=a; sid=b", Ambiguous, Duplicate},
		{"sid=a%00", Malformed, NUL},
	} {
		got := read(c.line)
		if got.State != c.state || got.Reason != c.reason || slices.Contains(got.Values, plain.Values[0]) {
			t.Errorf("%q: got %+v, want state %d, reason %q", c.line, got, c.state, c.reason)
		}
	}
	other := mustCompileConfig(t, Config{DigestKey: []byte("another key of 16")}, "cookie:sid")
	if got := other.Read(&Input{Header: http.Header{"Cookie": {"sid=abc="}}}); got.Values[0] == plain.Values[0] {
		t.Error("two keys give the same digest")
	}
}

func TestReadAnswer(t *testing.T) {
	spec := mustCompile(t, "set_cookie:sid", "query:flow")
	request := spec.Read(&Input{Header: http.Header{"Cookie": {"sid=new%20one"}}})
	for _, c := range []struct {
		name  string
		lines []string
		named bool
	}{
		{"set", []string{"sid=new%20one; Path=/; HttpOnly"}, true},
		{"quoted", []string{`sid="new one"; Secure`}, true},
		{"the last of two", []string{"sid=old", "sid=new%20one"}, true},
		{"among others", []string{"a=b", "sid=new%20one", "c=d"}, true},
		{"deleted", []string{"sid=new%20one; Max-Age=0"}, false},
		{"deleted by date", []string{"sid=new%20one; Expires=Thu, 01 Jan 1970 00:00:00 GMT"}, false},
		{"set and deleted", []string{"sid=new%20one", "sid=; Max-Age=0"}, false},
		{"another", []string{"sidx=new%20one"}, false},
		{"none", nil, false},
	} {
		got := spec.ReadAnswer(http.Header{"Set-Cookie": c.lines})
		if c.named != (got.State == Named) || c.named && got.Values[0] != request.Values[0] {
			t.Errorf("%s: got %+v, want the digest %v of the request: %v", c.name, got, request.Values, c.named)
		}
	}
	var none *Spec
	if got := none.ReadAnswer(nil); got.State != Missing {
		t.Errorf("got %+v, want missing", got)
	}
}

func TestPathParam(t *testing.T) {
	spec := mustCompile(t, "path:{name}")
	for _, c := range []struct {
		name, value string
		state       State
		reason      Reason
		values      []string
	}{
		{"plain", "Bob", Named, "", []string{"bob"}},
		{"escaped", "b%6Fb%40x", Named, "", []string{"bob@x"}},
		{"plus is a plus", "a+b", Named, "", []string{"a+b"}},
		{"matrix parameter", "bob;v=1", Ambiguous, Duplicate, []string{"bob;v=1", "bob"}},
		{"broken escape", "bob%", Ambiguous, Escape, []string{"bob%", "bob"}},
		{"NUL", "bob%00", Malformed, NUL, nil},
		{"empty", "", Missing, Empty, nil},
	} {
		got := spec.Read(&Input{Params: []Param{{"id", "7"}, {"name", c.value}}})
		wantReading(t, c.name, got, c.state, c.reason, c.values...)
	}
	if got := spec.Read(&Input{Params: []Param{{"id", "7"}}}); got.State != Missing {
		t.Errorf("got %+v, want missing", got)
	}
}
