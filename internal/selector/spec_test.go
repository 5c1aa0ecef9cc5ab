package selector

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestSpec(t *testing.T) {
	bob := http.Header{"Authorization": {"Basic " + encode("bob:x")}}
	for _, c := range []struct {
		name      string
		selectors []string
		post      post
		state     State
		reason    Reason
		values    []string
	}{
		{"two agree", []string{"json:/username", "basic"}, post{"application/json", "", `{"username":"BOB"}`, bob}, Named, "", []string{"bob"}},
		{"two disagree", []string{"json:/username", "basic"}, post{"application/json", "", `{"username":"al"}`, bob}, Ambiguous, Disagree, []string{"al", "bob"}},
		{"one is absent", []string{"json:/username", "basic"}, post{"application/json", "", `{}`, bob}, Named, "", []string{"bob"}},
		{"one is empty", []string{"json:/username", "basic"}, post{"application/json", "", `{"username":""}`, bob}, Named, "", []string{"bob"}},
		{"one is malformed", []string{"json:/username", "basic"}, post{"application/json", "", `{"username":[]}`, bob}, Malformed, Type, []string{"bob"}},
		{"null before empty", []string{"json:/a", "json:/b"}, post{"application/json", "", `{"a":"","b":null}`, nil}, Missing, Null, nil},
		{"body is none of the list's business", []string{"basic"}, post{"application/json", "", `{`, bob}, Named, "", []string{"bob"}},
		{"others are no outer ones", []string{"basic", "json:/user/email"}, post{"application/json", "", `{"user":"al"}`, nil}, Malformed, Type, nil},
		{"form for an XML root", []string{"xml:/username"}, post{formType, "", "username=bob", nil}, Named, "", []string{"bob"}},
		{"unread kind", []string{"json:/username"}, post{"application/x-protobuf", "", "\x0a\x03bob", nil}, Missing, Unread, nil},
		{"form for JSON", []string{"json:/user/email"}, post{formType, "", "user[email]=bob", nil}, Named, "", []string{"bob"}},
		{"parts for JSON", []string{"json:/user/email"}, post{multipartType, "", part(`name="user[email]"`, "bob") + lastBoundary, nil}, Named, "", []string{"bob"}},
		{"XML for JSON", []string{"json:/user/email"}, post{"application/xml", "", "<login><user><email>bob</email></user></login>", nil}, Named, "", []string{"bob"}},
		{"JSON for a form", []string{"form:user[email]"}, post{"application/json", "", `{"user":{"email":"bob"}}`, nil}, Named, "", []string{"bob"}},
		{"flat JSON for a form", []string{"form:Input.Email"}, post{"application/json", "", `{"Input.Email":"bob"}`, nil}, Named, "", []string{"bob"}},
		{"nested JSON for a form", []string{"form:Input.Email"}, post{"application/json", "", `{"input":{"email":"bob"}}`, nil}, Named, "", []string{"bob"}},
		{"JSON for XML", []string{"xml:/login/username"}, post{"application/json", "", `{"username":"bob"}`, nil}, Named, "", []string{"bob"}},
		{"form for XML", []string{"xml:/login/username"}, post{formType, "", "username=bob", nil}, Named, "", []string{"bob"}},
		{"the list's own form wins", []string{"json:/login", "form:username"}, post{"application/json", "", `{"username":"al","login":"bob"}`, nil}, Named, "", []string{"bob"}},
		{"inner and outer, outer", []string{"json:/user", "json:/user/email"}, post{"application/json", "", `{"user":"bob"}`, nil}, Named, "", []string{"bob"}},
		{"inner and outer, inner", []string{"json:/user", "json:/user/email"}, post{"application/json", "", `{"user":{"email":"bob"}}`, nil}, Named, "", []string{"bob"}},
		{"inner and outer, a list", []string{"json:/user", "json:/user/email"}, post{"application/json", "", `{"user":["bob"]}`, nil}, Malformed, Type, nil},
		{"inner and outer in a form", []string{"form:user", "form:user[email]"}, post{formType, "", "user[email]=bob", nil}, Named, "", []string{"bob"}},
		{"inner and outer in a form, both", []string{"form:user", "form:user[email]"}, post{formType, "", "user=al&user[email]=bob", nil}, Ambiguous, Disagree, []string{"al", "bob"}},
		{"inner and outer in a form, a list", []string{"form:user", "form:user[email]"}, post{formType, "", "user[0]=bob", nil}, Malformed, Type, nil},
		{"alike is not inner", []string{"form:user", "form:user_name"}, post{formType, "", "user[]=bob", nil}, Malformed, Type, nil},
		{"query beside the body", []string{"query:login", "form:login"}, post{formType, "login=al", "login=bob", nil}, Ambiguous, Disagree, []string{"al", "bob"}},
		{"GraphQL upload", []string{"json:/variables/username"}, post{multipartType, "", part(`name="operations"`, `{"query":"mutation { login(u: $username) }","variables":{"username":"bob"}}`) + part(`name="map"`, "{}") + lastBoundary, nil}, Named, "", []string{"bob"}},
		{"GraphQL upload, broken", []string{"json:/variables/username"}, post{multipartType, "", part(`name="operations"`, `{"variables":{"username":"bob",}}`) + lastBoundary, nil}, Malformed, Syntax, nil},
		{"variables as text", []string{"json:/variables/username"}, post{"application/json", "", `{"variables":"{\"username\":\"bob\"}"}`, nil}, Malformed, Type, nil},
		{"many names", []string{"form:a"}, post{formType, "", "a=1&a=2&a=3&a=4&a=5&a=6&a=7&a=8&a=9&a=10", nil}, Malformed, Many, []string{"1", "2", "3", "4", "5", "6", "7", "8"}},
		{"eight names", []string{"form:a"}, post{formType, "", "a=1&a=2&a=3&a=4&a=5&a=6&a=7&a=8&a=1", nil}, Ambiguous, Duplicate, []string{"1", "2", "3", "4", "5", "6", "7", "8"}},
	} {
		got := c.post.read(mustCompile(t, c.selectors...))
		wantReading(t, c.name, got, c.state, c.reason, c.values...)
	}
}

func TestSpecWithoutSelectors(t *testing.T) {
	var none *Spec
	for _, spec := range []*Spec{none, {}, mustCompile(t)} {
		if got := spec.Read(&Input{RawQuery: "a=b"}); got.State != Missing || got.Reason != Absent || spec.NeedsBody() {
			t.Errorf("got %+v, needs body %v", got, spec.NeedsBody())
		}
	}
}

func TestRaw(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"as spelled, trimmed", "username=%20Bob%20Smith%20", "Bob Smith"},
		{"the same twice", "username=Bob&username=Bob", "Bob"},
		{"two spellings of one name", "username=Bob&username=bob", ""},
		{"long", "username=" + strings.Repeat("X", 500), strings.Repeat("X", 500)},
		{"none", "x=1", ""},
	} {
		if got := (post{contentType: formType, body: c.body}).read(mustCompile(t, "form:username")); got.Raw != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got.Raw, c.want)
		}
	}
}

func TestDigest(t *testing.T) {
	cfg := Config{Digest: true, DigestKey: []byte("0123456789abcdef"), Basic: BasicPassword}
	spec := mustCompileConfig(t, cfg, "json:/password", "form:password", "basic")
	read := func(contentType, body string) Reading { return post{contentType: contentType, body: body}.read(spec) }
	one := read(formType, "password=Secret%20")
	if one.State != Named || len(one.Values[0]) != 32 || one.Raw != "" {
		t.Fatalf("got %+v, want one digest and nothing else", one)
	}
	if got := read("application/json", `{"password":"Secret "}`); !slices.Equal(got.Values, one.Values) {
		t.Errorf("the same secret elsewhere: got %+v, want %v", got, one.Values)
	}
	for _, body := range []string{"password=secret%20", "password=Secret", "password=" + one.Values[0]} {
		if got := read(formType, body); got.State != Named || got.Values[0] == one.Values[0] {
			t.Errorf("%s: got %+v, want another digest", body, got)
		}
	}
	if got := read(formType, "password="); got.State != Missing {
		t.Errorf("no secret: got %+v", got)
	}
	cfg.DigestKey = []byte("fedcba9876543210")
	if got := (post{contentType: formType, body: "password=Secret%20"}).read(mustCompileConfig(t, cfg, "form:password")); got.Values[0] == one.Values[0] {
		t.Error("two keys give the same digest")
	}
}

// TestReadingAllocates bounds what the usual login costs besides its buffer: the name, and the list that holds it.
func TestReadingAllocates(t *testing.T) {
	spec := mustCompile(t, "json:/username", "form:username", "basic")
	header := http.Header{"Content-Type": {"application/json"}}
	r := strings.NewReader("")
	got := testing.AllocsPerRun(200, func() {
		r.Reset(`{"username":"user1@example.com","password":"x"}`)
		body, err := ReadBody(r, header, -1, 64<<10)
		if err != nil {
			t.Fatal(err)
		}
		in := Input{Header: header, Body: body}
		if spec.Read(&in).State != Named {
			t.Fatal("no name")
		}
		body.Release()
	})
	if got > 2 && !raceEnabled {
		t.Errorf("got %v allocations, want at most 2", got)
	}
}

// TestEach lists what an answer may be repeating of a request [V3].
func TestEach(t *testing.T) {
	for _, c := range []struct {
		name string
		post post
		want string
	}{
		{"query and form", post{formType, "q=a%20b", "x=c+d&y=%zz", nil}, "q=|a b|x=|c d|y=|%zz|zz"},
		{"JSON", post{"application/json", "", `{"a":["b\u0063",1,{"d é":null}],"e":true}`, nil}, "a=|bc|1|d é=|null|e=|true"},
		{"parts", post{multipartType, "", part(`name="a"`, "b+c") + lastBoundary, nil}, "a=|b+c"},
		{"broken parts", post{multipartType, "", "x", nil}, "x"},
		{"XML", post{"text/xml", "", "<a b='c'>d</a>", nil}, "d|c"},
		{"what cannot be taken apart", post{"application/json", "", `{"a":`, nil}, `{"a":`},
	} {
		in, err := c.post.input()
		if err != nil {
			t.Fatal(err)
		}
		in.Params = []Param{{"id", "%40me"}}
		var got []string
		for value, name := range in.Each {
			if name {
				value += "="
			}
			got = append(got, value)
		}
		if want := "@me|" + c.want; strings.Join(got, "|") != want {
			t.Errorf("%s: got %q, want %q", c.name, got, want)
		}
		for i := range got {
			n := 0
			in.Each(func(string, bool) bool { n++; return n <= i })
			if n != i+1 {
				t.Errorf("%s: stopped after %d values, want %d", c.name, n, i+1)
			}
		}
	}
	(&Input{}).Each(func(string, bool) bool { t.Error("got a value out of nothing"); return true })
}

// A line break within a name could become a header of a mail that the backend sends; around it, it is a blank like others.
func TestLineBreaks(t *testing.T) {
	for body, want := range map[string]State{
		`{"email":"a@b.test\r\nCc: c@d.test"}`: Malformed,
		`{"email":"a@b.test\nx"}`:              Malformed,
		`{"email":"\r\na@b.test\n"}`:           Named,
	} {
		header := http.Header{"Content-Type": {"application/json"}}
		b, err := ReadBody(strings.NewReader(body), header, int64(len(body)), 1000)
		if err != nil {
			t.Fatal(err)
		}
		if got := mustCompile(t, "json:/email").Read(&Input{Header: header, Body: b}); got.State != want {
			t.Errorf("%s: got %v %s, want %v", body, got.State, got.Reason, want)
		}
	}
}
