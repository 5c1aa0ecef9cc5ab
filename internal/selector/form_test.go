package selector

import (
	"net/url"
	"strings"
	"testing"
)

const formType = "application/x-www-form-urlencoded"

func TestForm(t *testing.T) {
	many := strings.Repeat("x=1&", maxFields)
	for _, c := range []struct {
		name, selector, body string
		state                State
		reason               Reason
		values               []string
	}{
		{"plain", "form:username", "username=Bob&password=x", Named, "", []string{"bob"}},
		{"only field", "form:username", "username=bob", Named, "", []string{"bob"}},
		{"escapes", "form:username", "user%6Eame=b%6fb", Named, "", []string{"bob"}},
		{"blank", "form:username", "username=John+Smith", Named, "", []string{"john smith"}},
		{"escaped plus", "form:username", "username=bob%2Bx%40example.com", Named, "", []string{"bob+x@example.com"}},
		{"bare plus in a mailbox", "form:username", "username=bob+x@example.com", Ambiguous, Escape, []string{"bob x@example.com", "bob+x@example.com"}},
		{"blank before a mailbox", "form:username", "username=+bob%40example.com", Ambiguous, Escape, []string{"bob@example.com", "+bob@example.com"}},
		{"equals sign in the value", "form:username", "username=a=b", Named, "", []string{"a=b"}},
		{"case", "form:username", "UserName=bob", Named, "", []string{"bob"}},
		{"duplicate", "form:username", "username=al&username=bob", Ambiguous, Duplicate, []string{"al", "bob"}},
		{"duplicate by case", "form:username", "username=al&USERNAME=bob", Ambiguous, Duplicate, []string{"al", "bob"}},
		{"the same twice", "form:username", "username=bob&username=BOB", Named, "", []string{"bob"}},
		{"duplicate and empty", "form:username", "username=bob&username=", Ambiguous, Duplicate, []string{"bob"}},
		{"duplicate and bare", "form:username", "username&username=bob", Ambiguous, Duplicate, []string{"bob"}},
		{"absent", "form:username", "password=x", Missing, Absent, nil},
		{"empty", "form:username", "username=&password=x", Missing, Empty, nil},
		{"bare", "form:username", "username", Missing, Empty, nil},
		{"blanks", "form:username", "username=+%20%09", Missing, Empty, nil},
		{"list", "form:username", "username[]=bob", Malformed, Type, nil},
		{"escaped list", "form:username", "username%5b%5d=bob", Malformed, Type, nil},
		{"list with a blank", "form:username", "username[ ]=bob", Malformed, Type, nil},
		{"index", "form:username", "username[0]=bob", Malformed, Type, nil},
		{"last digit", "form:username", "username[9]=bob", Malformed, Type, nil},
		{"object", "form:username", "username[x]=bob", Malformed, Type, nil},
		{"list beside", "form:username", "username=bob&username[]=al", Malformed, Type, []string{"bob"}},
		{"brackets", "form:user[login]", "user%5Blogin%5D=bob&user%5Bpassword%5D=x", Named, "", []string{"bob"}},
		{"brackets, dotted", "form:user[login]", "user.login=bob", Named, "", []string{"bob"}},
		{"brackets, quoted", "form:user[login]", "user['login']=bob", Named, "", []string{"bob"}},
		{"brackets, junk behind", "form:user[login]", "user[login]x=bob", Malformed, Type, []string{"bob"}},
		{"brackets, hidden by a value", "form:user[login]", "user[login]=bob&user=x", Ambiguous, Type, []string{"bob"}},
		{"brackets, only the hiding value", "form:user[login]", "user=x", Malformed, Type, nil},
		{"brackets, a list in them", "form:user[login]", "user[login][]=bob", Malformed, Type, nil},
		{"another field that begins alike", "form:user", "user=bob&user_name[x]=y&user_name=z", Named, "", []string{"bob"}},
		{"dots", "form:Input.Email", "Input.Email=bob&Input.Password=x", Named, "", []string{"bob"}},
		{"dots as PHP has them", "form:Input.Email", "Input_Email=bob", Named, "", []string{"bob"}},
		{"underscore", "form:user_name", "user_name=bob", Named, "", []string{"bob"}},
		{"underscore for a dot", "form:user_name", "user_name=al&user.name=bob", Ambiguous, Duplicate, []string{"al", "bob"}},
		{"underscore for a lone bracket", "form:user_name", "user[name=bob", Named, "", []string{"bob"}},
		{"leading underscore", "form:_user", "_user=bob&user=al", Named, "", []string{"bob"}},
		{"underscore for a dot before the name", "form:_username", ".username=bob", Named, "", []string{"bob"}},
		{"underscore for a bracket before the name", "form:_username", "[username=bob", Malformed, Syntax, []string{"bob"}},
		{"dot before the name", "form:username", ".username=bob", Named, "", []string{"bob"}},
		{"two fields for an underscore", "form:_username", "_username=al&.username=bob", Ambiguous, Duplicate, []string{"al", "bob"}},
		{"blank before the name", "form:username", "+username=bob", Named, "", []string{"bob"}},
		{"newline before the name", "form:username", "\r\nusername=bob", Named, "", []string{"bob"}},
		{"mark before the name", "form:username", "\ufeffusername=bob", Named, "", []string{"bob"}},
		{"default of Spring", "form:username", "!username=bob", Ambiguous, Spelling, []string{"bob"}},
		{"question mark", "form:username", "?username=bob", Ambiguous, Spelling, []string{"bob"}},
		{"NUL in the name", "form:username", "username%00x=bob", Malformed, NUL, nil},
		{"NUL in the value", "form:username", "username=bob%00", Malformed, NUL, nil},
		{"NUL elsewhere", "form:username", "username=bob&x=%00", Named, "", []string{"bob"}},
		{"broken escape", "form:username", "username=100%", Ambiguous, Escape, []string{"100%", "100"}},
		{"broken escape elsewhere", "form:username", "username=bob&x=100%", Named, "", []string{"bob"}},
		{"broken escape in the name", "form:username", "username=al&user%name=bob", Ambiguous, Escape, []string{"al", "bob"}},
		{"unicode escape", "form:username", "username=%u0062ob", Ambiguous, Escape, []string{"%u0062ob", "bob"}},
		{"unicode escape in the name", "form:username", "%u0075sername=bob", Ambiguous, Escape, []string{"bob"}},
		{"unicode escape of NUL", "form:username", "username=%u0000", Malformed, NUL, []string{"%u0000"}},
		{"semicolon", "form:username", "x=1;username=bob", Ambiguous, Separator, []string{"bob"}},
		{"semicolon, two", "form:username", "x=1;username=bob&username=al", Ambiguous, Separator, []string{"bob", "al"}},
		{"semicolon in the value", "form:username", "username=al;bob", Ambiguous, Separator, []string{"al;bob", "al"}},
		{"semicolon elsewhere", "form:username", "username=bob&password=a;b", Named, "", []string{"bob"}},
		{"escaped semicolon", "form:username", "username=a%3Bb", Named, "", []string{"a;b"}},
		{"UTF-8", "form:username", "username=Jos%C3%89", Named, "", []string{"josé"}},
		{"Latin-1", "form:username", "username=Jos%C9", Ambiguous, Encoding, []string{"jos\ufffd", "jos", "josé"}},
		{"half escaped", "form:username", "username=Jos%C3\xa9", Ambiguous, Escape, []string{"josé"}},
		{"half escaped, two characters", "form:username", "username=%C3%A9\xc3\xa9", Ambiguous, Escape, []string{"éé"}},
		{"overlong UTF-8", "form:username", "username=b%C1%A1b", Ambiguous, Encoding, []string{"b\ufffd\ufffdb", "bb", "bab", "bá¡b"}},
		{"character set within", "form:username", "_charset_=utf-7&username=bob", Malformed, Charset, []string{"bob"}},
		{"usual character set within", "form:username", "_charset_=UTF-8&username=bob", Named, "", []string{"bob"}},
		{"as many fields as there may be", "form:username", many[:len(many)-4] + "username=bob", Named, "", []string{"bob"}},
		{"too many fields", "form:username", many + "username=bob", Malformed, Many, nil},
		{"empty fields do not count", "form:username", strings.Repeat("&", 2000) + "username=bob", Named, "", []string{"bob"}},
	} {
		got := post{contentType: formType, body: c.body}.read(mustCompile(t, c.selector))
		wantReading(t, c.name, got, c.state, c.reason, c.values...)
	}
}

func TestSpellings(t *testing.T) {
	for _, c := range []struct{ name, bytes, want string }{
		{"two bytes", "\xc1\xa1", "a"},
		{"three bytes", "\xe0\x81\xa1", "a"},
		{"four bytes", "\xf0\x80\x81\xa1", "a"},
		{"surrogates", "\xed\xa0\xbd\xed\xb8\x80x", "😀x"},
		{"half a pair", "\xed\xa0\xbd", "\ufffd"},
		{"cut off", "a\xe0\x81", "a\ufffd\u0081"},
		{"shortest form", "é€😀", "é€😀"},
	} {
		if got := lenientUTF8([]byte(c.bytes)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestQuery(t *testing.T) {
	for _, c := range []struct {
		name, selector, query, body string
		state                       State
		reason                      Reason
		values                      []string
	}{
		{"query", "query:email", "email=Bob%40example.com", "", Named, "", []string{"bob@example.com"}},
		{"query, duplicate", "query:email", "email=al&email=bob", "", Ambiguous, Duplicate, []string{"al", "bob"}},
		{"query, semicolon", "query:email", "a=1;email=bob", "", Ambiguous, Separator, []string{"bob"}},
		{"query, fragment", "query:email", "email=bob#1", "", Ambiguous, Separator, []string{"bob", "bob#1"}},
		{"query, empty fragment", "query:email", "x=1&email=bob#", "", Ambiguous, Separator, []string{"bob", "bob#"}},
		{"query, in the fragment", "query:email", "x=1#&email=bob", "", Ambiguous, Separator, []string{"bob"}},
		{"query, fragment behind another field", "query:email", "email=bob&x=1#&y=2", "", Named, "", []string{"bob"}},
		{"form field in the query, fragment", "form:username", "username=bob#1", "password=x", Ambiguous, Separator, []string{"bob", "bob#1"}},
		{"query, list", "query:email", "email[]=bob", "", Malformed, Type, nil},
		{"query, absent", "query:email", "x=1", "email=bob", Missing, Absent, nil},
		{"form field in the query", "form:username", "username=bob", "password=x", Named, "", []string{"bob"}},
		{"in both, the same", "form:username", "username=bob", "username=Bob", Named, "", []string{"bob"}},
		{"in both, two", "form:username", "username=al", "username=bob", Ambiguous, Duplicate, []string{"al", "bob"}},
		{"in both, one empty", "form:username", "username=", "username=bob", Ambiguous, Duplicate, []string{"bob"}},
		{"member in the query", "json:/user/email", "user[email]=bob", "", Named, "", []string{"bob"}},
		{"another thing of the outer name in the query", "form:user[email]", "user=5", "user[email]=bob", Named, "", []string{"bob"}},
		{"too many", "query:email", strings.Repeat("x&", 1001), "", Malformed, Many, nil},
	} {
		got := post{contentType: formType, query: c.query, body: c.body}.read(mustCompile(t, c.selector))
		wantReading(t, c.name, got, c.state, c.reason, c.values...)
	}
}

// FuzzForm holds the form reader against net/url and against itself with the same fields in the query.
func FuzzForm(f *testing.F) {
	for _, seed := range []string{"username=bob", "username=a&username=b", "user%6eame=a;b", "username[]=x", "a=1;username=b", "%u0075sername=x", "username=%E9", "+username=a+b@c", "\ufeff?!username=1", "_charset_=x&username=a"} {
		f.Add(seed)
	}
	spec := mustCompile(f, "form:username")
	query := mustCompile(f, "query:username")
	f.Fuzz(func(t *testing.T, body string) {
		r := post{contentType: formType, body: body}.read(spec)
		values, _ := url.ParseQuery(body)
		names := values["username"]
		for _, name := range names {
			if why := misses(r, spec, name); why != "" {
				t.Fatal(why)
			}
		}
		if len(names) == 0 && r.State == Named && isASCII(body) && !strings.ContainsAny(body, "+.[]'\"\x00 \t\r\n%;") && !strings.Contains(strings.ToLower(body), "username") {
			t.Fatalf("got %+v out of nothing", r)
		}
		in := Input{RawQuery: body}
		if q := query.Read(&in); looksLike([]byte(body)) == 0 && len(body) < 64<<10 && !strings.Contains(body, "#") && (q.State != r.State || len(q.Values) != len(r.Values)) {
			t.Fatalf("in the query %+v, in the body %+v", q, r)
		}
	})
}
