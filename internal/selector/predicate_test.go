package selector

import (
	"strings"
	"testing"
)

func TestPredicate(t *testing.T) {
	for _, c := range []struct {
		name, selector, value string
		post                  post
		want                  bool
	}{
		{"form", "form:grant_type", "password", post{formType, "", "grant_type=password&x=1", nil}, true},
		{"form, another value", "form:grant_type", "password", post{formType, "", "grant_type=refresh_token", nil}, false},
		{"form, case and blanks", "form:grant_type", "password", post{formType, "", "GRANT_TYPE=%20Password", nil}, true},
		{"form, absent", "form:grant_type", "password", post{formType, "", "x=1", nil}, false},
		{"form, one of two", "form:grant_type", "password", post{formType, "", "grant_type=x&grant_type=password", nil}, true},
		{"form, neither of two", "form:grant_type", "password", post{formType, "", "grant_type=x&grant_type=y", nil}, false},
		{"form, by semicolon", "form:grant_type", "password", post{formType, "", "x=1;grant_type=password", nil}, true},
		{"form, in the query", "form:grant_type", "password", post{formType, "grant_type=password", "x=1", nil}, true},
		{"form, in JSON", "form:grant_type", "password", post{"application/json", "", `{"grant_type":"password"}`, nil}, true},
		{"form, in parts", "form:grant_type", "password", post{multipartType, "", part(`name="grant_type"`, "password") + lastBoundary, nil}, true},
		{"form, in broken JSON", "form:grant_type", "password", post{"application/json", "", `{"grant_type":"password",}`, nil}, true},
		{"form, broken parts", "form:grant_type", "password", post{multipartType, "", "x", nil}, true},
		{"form, list", "form:grant_type", "password", post{formType, "", "grant_type[]=password", nil}, true},
		{"form, no body", "form:grant_type", "password", post{}, false},
		{"present", "form:pma_username", "*", post{formType, "", "pma_username=root", nil}, true},
		{"present, in the query", "form:pma_username", "*", post{"", "pma_username=root", "", nil}, true},
		{"present, empty", "form:pma_username", "*", post{formType, "", "pma_username=&x=1", nil}, true},
		{"present, not", "form:pma_username", "*", post{formType, "", "username=root", nil}, false},
		{"present, unread body", "form:pma_username", "*", post{"application/x-protobuf", "", "\x0a\x01x", nil}, false},
		{"member", "json:/method", "user.login", post{"application/json", "", `{"method":"user.login"}`, nil}, true},
		{"member, another", "json:/method", "user.login", post{"application/json", "", `{"method":"host.get"}`, nil}, false},
		{"member, null is present", "json:/method", "*", post{"application/json", "", `{"method":null}`, nil}, true},
		{"member, number", "json:/version", "2", post{"application/json", "", `{"version":2}`, nil}, true},
		{"member, in a batch", "json:/method", "user.login", post{"application/json", "", `[{"method":"host.get"}]`, nil}, true},
		{"query", "query:action", "lostpassword", post{"", "action=lostpassword", "", nil}, true},
		{"query, not in the body", "query:action", "lostpassword", post{formType, "", "action=lostpassword", nil}, false},
		{"query, two", "query:action", "lostpassword", post{"", "action=login&action=lostpassword", "", nil}, true},
		{"long value", "query:action", strings.Repeat("x", 200), post{"", "action=" + strings.Repeat("x", 200), "", nil}, true},
	} {
		sel, err := Parse(c.selector)
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPredicate(sel, c.value)
		if err != nil {
			t.Fatal(err)
		}
		if p.NeedsBody() != strings.Contains("form json", sel.Kind().String()) {
			t.Errorf("%s: needs body %v", c.name, p.NeedsBody())
		}
		in, err := c.post.input()
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Match(in); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		in.Body.Release()
	}
}

func TestNewPredicateErrors(t *testing.T) {
	for _, c := range []struct{ selector, value, want string }{
		{"basic", "bob", "want form, json"},
		{"header:X-A", "1", "want form, json"},
		{"form:a", "", `want "*"`},
		{"form:a", "  ", `want "*"`},
	} {
		sel, err := Parse(c.selector)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewPredicate(sel, c.value); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.selector, err, c.want)
		}
	}
}
