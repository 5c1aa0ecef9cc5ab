package unlock

import (
	"net/mail"
	"strings"
	"testing"
)

func TestMailbox(t *testing.T) {
	long := strings.Repeat("a", 64)
	domain := strings.Repeat(strings.Repeat("d", 62)+".", 2) + strings.Repeat("d", 60) + ".de" // 189
	for _, test := range []struct {
		target, domain, want string
	}{
		{"bob@example.org", "", "bob@example.org"},
		{"bob", "example.org", "bob@example.org"},
		{"bob.b+tag_x-1@mail.example.org", "other.test", "bob.b+tag_x-1@mail.example.org"},
		{"$&'*+-/=?^_`{|}~@x.test", "", "$&'*+-/=?^_`{|}~@x.test"},
		{"bob@xn--exmple-cua.org", "", "bob@xn--exmple-cua.org"},
		{"bob@mail", "", ""},
		{"bob", "mail", "bob@mail"},
		{"a%b@example.org", "", ""},
		{"a!b@example.org", "", ""},
		{"#0123456789abcdef", "example.org", ""},
		{"bob@3com.3com", "", "bob@3com.3com"},
		{long + "@" + domain, "", long + "@" + domain},
		{long + "@d" + domain[:len(domain)-3] + ".dee", "", ""},
		{"a" + long + "@example.org", "", ""},
		{"bob@" + strings.Repeat("d", 64) + ".org", "", ""},
		{"bob", "", ""},
		{"", "example.org", ""},
		{"@example.org", "", ""},
		{"bob@", "example.org", ""},
		{"bob@@example.org", "", ""},
		{"bob@a.test@b.test", "", ""},
		{".bob@example.org", "", ""},
		{"bob.@example.org", "", ""},
		{"b..ob@example.org", "", ""},
		{`"bob"@example.org`, "", ""},
		{"bob(x)@example.org", "", ""},
		{"Bob <bob@example.org>", "", ""},
		{"bob@example.org,eve@example.org", "", ""},
		{"bob@example.org;", "", ""},
		{"friends:bob@example.org;", "", ""},
		{"bob@example.org\r\nBcc:eve@example.org", "", ""},
		{"bob\x00@example.org", "", ""},
		{"b ob@example.org", "", ""},
		{" bob@example.org", "", ""},
		{"bób@example.org", "", ""},
		{"bob@exämple.org", "", ""},
		{"bob@[192.0.2.1]", "", ""},
		{"bob@192.0.2.1", "", ""},
		{"bob@example.org.", "", ""},
		{"bob@.example.org", "", ""},
		{"bob@-example.org", "", ""},
		{"bob@example-.org", "", ""},
		{"bob@exam_ple.org", "", ""},
		{"bob@example.123", "", ""},
		{"bob eve", "example.org", ""},
	} {
		got, ok := mailbox(test.target, test.domain)
		if ok != (test.want != "") || ok && got != test.want {
			t.Errorf("%q at %q: got %q, %v; want %q", test.target, test.domain, got, ok, test.want)
		}
	}
}

// What is taken for a mailbox is one to the standard library, too, alone and without any quoting.
func FuzzMailbox(f *testing.F) {
	for _, seed := range []string{"bob@example.org", "bob", `"b"@x`, "a,b@x.y", "a@[::1]", "ü@x.y", "a\r\n@b.c", "a@1.2"} {
		f.Add(seed, "example.org")
	}
	f.Fuzz(func(t *testing.T, target, domain string) {
		box, ok := mailbox(target, domain)
		if !ok {
			return
		}
		a, err := mail.ParseAddress(box)
		if err != nil || a.Address != box || a.Name != "" || a.String() != "<"+box+">" || strings.ContainsAny(box, "\r\n\x00 ,;:<>()\"\\[]") || len(box) > 254 {
			t.Errorf("%q is no single mailbox: %v, %v", box, a, err)
		}
	})
}
