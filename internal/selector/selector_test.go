package selector

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text string
		kind Kind
		body bool
	}{
		{"json:/username", JSON, true},
		{"json:/user/e~1mail~0", JSON, true},
		{"json:/" + strings.Repeat("a", 250), JSON, true},
		{"json:" + strings.Repeat("/a", 16), JSON, true},
		{"form:user[login]", Form, true},
		{"form:Input.Email", Form, true},
		{"multipart:email", Multipart, true},
		{"xml:/methodCall/params/param[2]/value", XML, true},
		{"xml://wsse:UsernameToken/wsse:Username", XML, true},
		{"query:email", Query, false},
		{"header:X-User", Header, false},
		{"cookie:oc_session", Cookie, false},
		{"set_cookie:oc_session", SetCookie, false},
		{"basic", Basic, false},
		{"path:{name}", Path, false},
	} {
		s, err := Parse(c.text)
		if err != nil {
			t.Errorf("Parse(%q): %v", c.text, err)
			continue
		}
		if s.Kind() != c.kind || s.NeedsBody() != c.body || s.String() != c.text {
			t.Errorf("Parse(%q) = %v, body %v, %q", c.text, s.Kind(), s.NeedsBody(), s)
		}
		if prefix, _, _ := strings.Cut(c.text, ":"); s.Kind().String() != prefix {
			t.Errorf("got kind %q, want %q", s.Kind(), prefix)
		}
	}
}

func TestSelectorName(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"json:/user/E~1mail", "e/mail"},
		{"xml://w:Token/w:Username", "username"},
		{"form:user[Login]", "user[Login]"},
		{"cookie:sid", "sid"},
		{"path:{name}", "name"},
		{"basic", ""},
	} {
		if s, err := Parse(c.text); err != nil || s.Name() != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.text, s.Name(), err, c.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "want a form before the name"},
		{"username", "json:/username, form:username"},
		{"/user/email", "json:/user/email"},
		{"Json:/x", "want json, form, multipart, xml"},
		{"json:username", "json:/username"},
		{"json:$.user", "json:/user"},
		{"json:", `begins with "/"`},
		{"json:/", "a member without a name"},
		{"json:/a//b", "a member without a name"},
		{"json:/a~2b", "~0"},
		{"json:" + strings.Repeat("/a", 17), "deeper than 16"},
		{"json:/" + strings.Repeat("a", 256), "longer than 256 bytes"},
		{"form:", "form:username"},
		{"form:[]", "want the name of a field"},
		{"form:user[]", "want form:user"},
		{"form:user%5Blogin%5D", "not percent-encoded"},
		{"query:", "query:username"},
		{"xml:login", "xml:/login"},
		{"xml:/a/b[0]", "counts from one"},
		{"xml:/a/b[x", "counts from one"},
		{"xml:/a/@b", "local names"},
		{"xml:/a//b", "local names"},
		{"header:", "the name of a header"},
		{"header:X User", "the name of a header"},
		{"header:Authorization", "want basic"},
		{"header:cookie", "cookie:name"},
		{"header:Host", "realm"},
		{"cookie:", "cookie:session"},
		{"cookie:a=b", "cookie:session"},
		{"basic:user", `just "basic"`},
		{"path:name", "path:{name}"},
		{"path:{a/b}", "path:{a/b}"},
		{" basic", "want a form"},
	} {
		if _, err := Parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Parse(%q): got %v, want %q", c.text, err, c.want)
		}
	}
}

func TestCompileErrors(t *testing.T) {
	cookie, _ := Parse("cookie:sid")
	field, _ := Parse("form:user")
	for _, c := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"twice", Config{From: []Selector{field, field}}, "listed twice"},
		{"zero selector", Config{From: []Selector{{}}}, "an empty selector"},
		{"cookie without a key", Config{From: []Selector{cookie}}, "cookie:sid needs a digest key"},
		{"digest with a short key", Config{From: []Selector{field}, Digest: true, DigestKey: []byte("short")}, "at least 16 bytes"},
	} {
		if _, err := Compile(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"json:/a/b", "form:a[b]", "xml://a[2]", "basic", "path:{x}", "cookie:x", "header:X"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(s.String())
		if err != nil || again.String() != text || again.Kind() != s.Kind() {
			t.Errorf("Parse(%q) twice: %v, %v", text, again, err)
		}
		if _, err := Compile(Config{From: []Selector{s}, DigestKey: make([]byte, 16)}); err != nil {
			t.Errorf("Compile(%q): %v", text, err)
		}
	})
}
