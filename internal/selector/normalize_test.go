package selector

import (
	"strings"
	"testing"
)

func mustNormalize(t testing.TB, steps string) Normalizer {
	t.Helper()
	names := strings.Fields(steps)
	if steps == "default" {
		names = nil
	}
	n, err := ParseNormalize(names)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNormalize(t *testing.T) {
	for _, c := range []struct{ name, steps, in, want string }{
		{"plain", "default", "bob@example.com", "bob@example.com"},
		{"upper case", "default", "BOB@Example.COM", "bob@example.com"},
		{"blanks", "default", " \t bob  smith\u00a0\r\n", "bob smith"},
		{"control characters at the ends, as Java trims", "default", "\x01bob\x1f", "bob"},
		{"only blanks", "default", " \u3000\t", ""},
		{"full width", "default", "ＢＯＢ", "bob"},
		{"ligature", "default", "ﬁn", "fin"},
		{"sharp s", "default", "straße", "strasse"},
		{"final sigma", "default", "ΟΔΟΣ", "οδοσ"},
		{"kelvin", "default", "\u212aim", "kim"},
		{"long s", "default", "bo\u017fs", "boss"},
		{"dotted i", "default", "\u0130pek", "ipek"},
		{"dotless i, which upper-casing makes I", "default", "m\u0131ke", "mike"},
		{"composed", "default", "jose\u0301", "josé"},
		{"zero width", "default", "b\u200bo\u00adb\u2060\ufeff", "bob"},
		{"variation selector", "default", "b\ufe0fob", "bob"},
		{"padded with what shows nothing", "default", strings.Repeat("\u200b", 1000) + "Bob" + strings.Repeat("\ufeff", 1000), "bob"},
		{"padded with accents", "trim fold nfkc drop_accents", "Bob" + strings.Repeat("\u0301", 1000), "bob"},
		{"padded with accents that count", "default", "b" + strings.Repeat("\u0301", 1000), "b" + strings.Repeat("\u0301", 1000)},
		{"longer than any name", "default", strings.Repeat("É", 1000), strings.Repeat("é", 1000)},
		{"broken UTF-8", "default", "b\xffb", "b\ufffdb"},
		{"nothing", "", " Bob ", " Bob "},
		{"case kept", "trim nfkc keep_case", " Bob ", "Bob"},
		{"accents kept", "default", "josé", "josé"},
		{"accents", "trim fold nfkc drop_accents", "JOSÉ Łukasz ñandú", "jose łukasz nandu"},
		{"plus tag", "drop_plus_tag", "bob+a+b@example.com", "bob@example.com"},
		{"plus tag, no mailbox", "drop_plus_tag", "bob+tag", "bob+tag"},
		{"plus tag, nothing before", "drop_plus_tag", "+bob@example.com", "+bob@example.com"},
		{"plus tag, two at", "drop_plus_tag", "a+b@c@d", "a@d"},
		{"full-width plus", "trim fold nfkc drop_plus_tag", "bob＋tag＠example.com", "bob@example.com"},
		{"domain", "ascii_domain", "Bob@EXÄMPLE.com.", "Bob@xn--exmple-cua.com"},
		{"domain in ASCII", "ascii_domain", "Bob@xn--exmple-cua.COM", "Bob@xn--exmple-cua.com"},
		{"domain with sharp s", "trim fold nfkc ascii_domain", "bob@straße.de", "bob@xn--strae-oqa.de"},
		{"domain that is none", "ascii_domain", "bob@-_-", "bob@-_-"},
		{"no domain", "ascii_domain", "Bob", "Bob"},
		{"windows domain", "strip_domain", `CORP\bob`, "bob"},
		{"nested windows domain", "strip_domain", `A\B\bob`, "bob"},
		{"full-width backslash", "trim fold nfkc strip_domain", "CORP＼Bob", "bob"},
		{"mailbox with a name", "ascii_domain", "Al <bob@x.com>", "bob@x.com"},
		{"mailbox in brackets", "ascii_domain", "<bob@x.com>", "bob@x.com"},
		{"mailbox with comments", "ascii_domain", "(a)bob(b(c))@x.com (d)", "bob@x.com"},
		{"mailbox with blanks", "ascii_domain", "bob @ x.com", "bob@x.com"},
		{"mailbox in quotes", "ascii_domain", `"bob"@x.com`, "bob@x.com"},
		{"mailbox that needs its quotes", "ascii_domain", `"bob al"@x.com`, `"bob al"@x.com`},
		{"no mailbox in brackets", "ascii_domain", "Al <bob>", "Al <bob>"},
		{"Cherokee", "fold", "\uab70\u13f8", "\u13a0\u13f0"},
		{"phone", "phone_digits", "+46 70-123 45", "467012345"},
		{"phone with brackets", "phone_digits", "+1 (555) 123-4567", "15551234567"},
		{"phone with zeros", "phone_digits", "0046 7012345", "467012345"},
		{"phone, plain", "phone_digits", "467012345", "467012345"},
		{"shortest phone", "phone_digits", "1-23.4/5", "12345"},
		{"phone in Arabic digits", "phone_digits", "+\u0664\u0666701234567", "46701234567"},
		{"phone in mathematical digits", "phone_digits", "\U0001D7D9\U0001D7CE2345", "102345"},
		{"phone with a scheme", "phone_digits", "TEL:+46-70123", "4670123"},
		{"phone with extensions", "phone_digits", "46701234567 ext. 5", "46701234567"},
		{"phone with an extension, short", "phone_digits", "46701234567x5", "46701234567"},
		{"phone with a parameter", "phone_digits", "+46701234567;ext=5", "46701234567"},
		{"phone with letters behind", "phone_digits", "+46701234567abc", "46701234567"},
		{"name that begins with digits", "phone_digits", "123456bob", "123456bob"},
		{"mailbox that begins with digits", "phone_digits", "+46701234567x@example.com", "+46701234567x@example.com"},
		{"no phone", "phone_digits", "bob-123456", "bob-123456"},
		{"short number", "phone_digits", "12-34", "12-34"},
		{"plus within", "phone_digits", "123+456", "123+456"},
	} {
		n := mustNormalize(t, c.steps)
		got := n.Apply(c.in)
		if got != c.want {
			t.Errorf("%s: Apply(%q) = %q, want %q", c.name, c.in, got, c.want)
		}
		if again := n.Apply(got); again != got {
			t.Errorf("%s: twice is %q, want %q", c.name, again, got)
		}
	}
}

func TestParseNormalizeErrors(t *testing.T) {
	for _, c := range []struct{ steps, want string }{
		{"lower", "want some of trim, fold, nfkc, keep_case, drop_accents, drop_plus_tag, ascii_domain, strip_domain, phone_digits"},
		{"trim trim", "trim is stated twice"},
		{"fold keep_case", "contradict"},
	} {
		if _, err := ParseNormalize(strings.Fields(c.steps)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.steps, err, c.want)
		}
	}
}

func TestKeyIsBounded(t *testing.T) {
	n := mustNormalize(t, "default")
	long := strings.Repeat("x", maxKey)
	if got := n.Key(long); got != long {
		t.Errorf("128 bytes: got %q, want them as they are", got)
	}
	hashed := n.Key(long + "x")
	if len(hashed) != 33 || hashed[0] != '#' {
		t.Fatalf("129 bytes: got %q, want # and 32 digits", hashed)
	}
	for _, c := range []struct {
		name, a, b string
		same       bool
	}{
		{"spellings of a long name", long + "x", strings.ToUpper(long) + "X ", true},
		{"long names", long + "x", long + "y", false},
		{"a claimed hash", long + "x", hashed, false},
		{"a name that begins with a hash mark", "#bob", "#bob", true},
	} {
		if got := n.Key(c.a) == n.Key(c.b); got != c.same {
			t.Errorf("%s: got the same key %v, want %v", c.name, got, c.same)
		}
	}
	if got := n.Key("#bob"); len(got) != 33 {
		t.Errorf("got %q, want a hash", got)
	}
	if got := n.Key(" "); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}

func TestNormalizePlainAllocatesNothing(t *testing.T) {
	n := mustNormalize(t, "default")
	if got := testing.AllocsPerRun(100, func() { n.Key("user1@example.com") }); got != 0 {
		t.Errorf("got %v allocations, want none", got)
	}
}

func FuzzNormalize(f *testing.F) {
	for _, seed := range []string{"Bob", " a  b ", "ＢＯＢ＋x＠Exämple.com.", `C\D\e`, "+1 (555) 12", "i\u0307\u0323", "\u0345\u0399", "ﷺ", "\u1fb3", "00 0 0000", "a@\u3002", "x@ß.\u200d"} {
		f.Add(seed, uint16(0xffff))
		f.Add(seed, uint16(stepTrim|stepFold|stepNFKC))
	}
	f.Fuzz(func(t *testing.T, s string, steps uint16) {
		n := Normalizer{step(steps)}
		got := n.Apply(s)
		if again := n.Apply(got); again != got {
			t.Errorf("steps %b: %q becomes %q and then %q", steps, s, got, again)
		}
		if key := n.Key(s); len(key) > maxKey {
			t.Errorf("got a key of %d bytes", len(key))
		}
		if n.settled(s) && n.round(s) != s {
			t.Errorf("steps %b: %q is said to be settled, and becomes %q", steps, s, n.round(s))
		}
		if isASCII(s) && n.steps&stepFold != 0 && n.Apply(strings.ToUpper(s)) != got {
			t.Errorf("steps %b: upper case of %q has a key of its own", steps, s)
		}
	})
}

// The digits of all scripts are told apart by where they stand, as they are in Unicode.
func TestDigitOf(t *testing.T) {
	for _, zero := range []rune{'0', '\u0660', '\u06f0', '\u0966', '\uff10', '\U0001d7ce', '\U0001d7f6', '\U0001fbf0', '\U0001e950'} {
		for i := range rune(10) {
			if got := digitOf(zero + i); got != i {
				t.Errorf("digitOf(%U) = %d, want %d", zero+i, got, i)
			}
		}
	}
}
