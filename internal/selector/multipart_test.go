package selector

import (
	"strings"
	"testing"
)

const multipartType = "multipart/form-data; boundary=B"

// part is one part with the rest of its Content-Disposition, and further header lines.
func part(disposition, value string, lines ...string) string {
	header := "Content-Disposition: form-data; " + disposition + "\r\n"
	for _, line := range lines {
		header += line + "\r\n"
	}
	return "--B\r\n" + header + "\r\n" + value + "\r\n"
}

const lastBoundary = "--B--\r\n"

func TestMultipart(t *testing.T) {
	username := part(`name="username"`, "Bob")
	for _, c := range []struct {
		name, body string
		state      State
		reason     Reason
		values     []string
	}{
		{"plain", username + part(`name="password"`, "x") + lastBoundary, Named, "", []string{"bob"}},
		{"without a last newline", username + "--B--", Named, "", []string{"bob"}},
		{"newline first", "\r\n" + username + lastBoundary, Named, "", []string{"bob"}},
		{"with a file", username + part(`name="photo"; filename="C:\me.png"`, "\x89PNG", "Content-Type: image/png") + lastBoundary, Named, "", []string{"bob"}},
		{"with a file in UTF-8", username + part(`name="f"; filename="é.txt"; filename*=utf-8''%C3%A9.txt`, "x") + lastBoundary, Named, "", []string{"bob"}},
		{"text type", part(`name="username"`, "bob", "Content-Type: text/plain; charset=UTF-8") + lastBoundary, Named, "", []string{"bob"}},
		{"Latin type, ASCII", part(`name="username"`, "bob", "Content-Type: text/plain; charset=ISO-8859-1", "Content-Transfer-Encoding: 8bit") + lastBoundary, Named, "", []string{"bob"}},
		{"Latin type, not ASCII", part(`name="username"`, "jos\xe9", "Content-Type: text/plain; charset=ISO-8859-1") + lastBoundary, Malformed, Charset, nil},
		{"UTF-16 type", part(`name="username"`, "b\x00o\x00b\x00", "Content-Type: text/plain; charset=utf-16le") + lastBoundary, Malformed, Charset, nil},
		{"JSON type", part(`name="username"`, `"bob"`, "Content-Type: application/json") + lastBoundary, Malformed, Charset, nil},
		{"unquoted name", part(`name=username`, "bob") + lastBoundary, Named, "", []string{"bob"}},
		{"upper case", strings.ReplaceAll(part(`NAME="UserName"`, "bob"), "Content-Disposition: form-data", "CONTENT-DISPOSITION:FORM-DATA") + lastBoundary, Named, "", []string{"bob"}},
		{"not percent-decoded", part(`name="username"`, "b%6fb+x") + lastBoundary, Named, "", []string{"b%6fb+x"}},
		{"newlines in the value", part(`name="username"`, "\r\nbob\r\n") + lastBoundary, Named, "", []string{"bob"}},
		{"absent", part(`name="password"`, "x") + lastBoundary, Missing, Absent, nil},
		{"no parts", lastBoundary, Missing, Absent, nil},
		{"empty", part(`name="username"`, "") + lastBoundary, Missing, Empty, nil},
		{"duplicate", username + part(`name="username"`, "al") + lastBoundary, Ambiguous, Duplicate, []string{"bob", "al"}},
		{"list", part(`name="username[]"`, "bob") + lastBoundary, Malformed, Type, nil},
		{"file of that name", part(`name="username"; filename="x"`, "bob") + lastBoundary, Malformed, Type, nil},
		{"empty file of that name", part(`name="username"; filename=""`, "bob") + lastBoundary, Malformed, Type, nil},
		{"extended file of that name", part(`name="username"; filename*=utf-8''x`, "bob") + lastBoundary, Malformed, Type, nil},
		{"NUL", part(`name="username"`, "b\x00b") + lastBoundary, Malformed, NUL, nil},
		{"escaped name", part(`name="user%6eame"`, "bob") + lastBoundary, Ambiguous, Escape, []string{"bob"}},
		{"broken escape in the name", part(`name="user%name"`, "bob") + lastBoundary, Ambiguous, Escape, []string{"bob"}},
		{"preamble", "hello\r\n" + username + lastBoundary, Malformed, Trailing, nil},
		{"epilogue", username + lastBoundary + "x", Malformed, Trailing, nil},
		{"part after the end", lastBoundary + username + lastBoundary, Malformed, Trailing, nil},
		{"no last boundary", username, Malformed, Syntax, nil},
		{"half a last boundary", username + "--B", Malformed, Syntax, nil},
		{"bare newlines", strings.ReplaceAll(username+lastBoundary, "\r\n", "\n"), Malformed, Syntax, nil},
		{"boundary behind a bare newline", part(`name="username"`, "al\n--B\nContent-Disposition: form-data; name=\"username\"\n\nbob") + lastBoundary, Malformed, Syntax, nil},
		{"boundary within a line", part(`name="username"`, "--B") + lastBoundary, Malformed, Syntax, nil},
		{"longer boundary", part(`name="username"`, "al\r\n--BB\r\n") + lastBoundary, Malformed, Syntax, nil},
		{"blanks behind the boundary", strings.Replace(username, "--B", "--B ", 1) + lastBoundary, Malformed, Syntax, nil},
		{"no empty line", "--B\r\nContent-Disposition: form-data; name=\"username\"\r\nbob\r\n" + lastBoundary, Malformed, Syntax, nil},
		{"continued line", part("\r\n name=\"username\"", "bob") + lastBoundary, Malformed, Syntax, nil},
		{"blank before the colon", strings.Replace(username, "tion:", "tion :", 1) + lastBoundary, Malformed, Syntax, nil},
		{"bare newline in a header", part(`name="username"`, "bob", "X-A: b\nX-B: c") + lastBoundary, Malformed, Syntax, nil},
		{"NUL in a header", part(`name="username"`, "bob", "X-A: \x00") + lastBoundary, Malformed, Syntax, nil},
		{"header without a colon", part(`name="username"`, "bob", "X-A") + lastBoundary, Malformed, Syntax, nil},
		{"further header", part(`name="username"`, "bob", "X-A: b") + lastBoundary, Named, "", []string{"bob"}},
		{"two dispositions", part(`name="x"`, "bob", `Content-Disposition: form-data; name="username"`) + lastBoundary, Malformed, Syntax, nil},
		{"no disposition", "--B\r\nContent-Type: text/plain\r\n\r\nbob\r\n" + lastBoundary, Malformed, Syntax, nil},
		{"attachment", strings.Replace(username, "form-data", "attachment", 1) + lastBoundary, Malformed, Syntax, nil},
		{"no name", part(`filename="x"`, "bob") + lastBoundary, Malformed, Syntax, nil},
		{"empty name", part(`name=""`, "bob") + lastBoundary, Malformed, Syntax, nil},
		{"two names", part(`name="x"; name="username"`, "bob") + lastBoundary, Malformed, Syntax, nil},
		{"extended name", part(`name="x"; name*=utf-8''username`, "bob") + lastBoundary, Malformed, Syntax, nil},
		{"escaped quote", part(`filename="a\"; name="username"; x="`, "bob") + lastBoundary, Malformed, Syntax, nil},
		{"backslash in the name", part(`name="user\name"`, "bob") + lastBoundary, Malformed, Syntax, nil},
		{"two equals signs", part(`name=="username"`, "bob") + lastBoundary, Malformed, Syntax, nil},
		{"blank before the equals sign", part(`name ="username"`, "bob") + lastBoundary, Malformed, Syntax, nil},
		{"name in the file name", part(`name="x"; filename="; name=username"`, "bob") + lastBoundary, Malformed, Syntax, nil},
		{"text behind the quote", part(`name="x"y; filename="z"`, "bob") + lastBoundary, Malformed, Syntax, nil},
		{"open quote", part(`name="username`, "bob") + lastBoundary, Malformed, Syntax, nil},
		{"transfer encoding", part(`name="username"`, "Ym9i", "Content-Transfer-Encoding: base64") + lastBoundary, Malformed, Syntax, nil},
		{"too many", strings.Repeat(part(`name="x"`, ""), 1001) + lastBoundary, Malformed, Many, nil},
	} {
		got := post{contentType: multipartType, body: c.body}.read(mustCompile(t, "multipart:username"))
		if got.State == Malformed {
			got.Values = nil
		}
		wantReading(t, c.name, got, c.state, c.reason, c.values...)
	}
}

// TestBrowsers is what clients really send: all of it must pass.
func TestBrowsers(t *testing.T) {
	for _, c := range []struct{ name, contentType, body string }{
		{
			"Chrome", "multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
			"------WebKitFormBoundary7MA4YWxkTrZu0gW\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nbob\r\n------WebKitFormBoundary7MA4YWxkTrZu0gW\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"a %22b%22.png\"\r\nContent-Type: image/png\r\n\r\n\x89PNG\r\n\x1a\n\r\n------WebKitFormBoundary7MA4YWxkTrZu0gW--\r\n",
		},
		{
			"Firefox", "multipart/form-data; boundary=---------------------------9051914041544843365972754266",
			"-----------------------------9051914041544843365972754266\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nbob\r\n-----------------------------9051914041544843365972754266--\r\n",
		},
		{
			"Firefox of late", "multipart/form-data; boundary=----geckoformboundary8e3f2a6b0f4a9c3d",
			"------geckoformboundary8e3f2a6b0f4a9c3d\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nbob\r\n------geckoformboundary8e3f2a6b0f4a9c3d--\r\n",
		},
		{
			"curl", "multipart/form-data; boundary=------------------------d74496d66958873e",
			"--------------------------d74496d66958873e\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nbob\r\n--------------------------d74496d66958873e\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.txt\"\r\nContent-Type: text/plain\r\n\r\nhello\n\r\n--------------------------d74496d66958873e--\r\n",
		},
		{
			"requests", "multipart/form-data; boundary=0f7ca6d2c1a94d27a1d3c6a7b4a4a3c1",
			"--0f7ca6d2c1a94d27a1d3c6a7b4a4a3c1\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nbob\r\n--0f7ca6d2c1a94d27a1d3c6a7b4a4a3c1--\r\n",
		},
		{
			".NET", "multipart/form-data; boundary=\"5d6e6e2b-1f2c-4b7a-9d40-0c2b1f6f8a11\"",
			"--5d6e6e2b-1f2c-4b7a-9d40-0c2b1f6f8a11\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name=username\r\n\r\nbob\r\n--5d6e6e2b-1f2c-4b7a-9d40-0c2b1f6f8a11--\r\n",
		},
		{
			"OkHttp", "multipart/form-data; boundary=3f1b7a52-8a1d-4b44-8a5d-2a7d1d6b6c11",
			"--3f1b7a52-8a1d-4b44-8a5d-2a7d1d6b6c11\r\nContent-Disposition: form-data; name=\"username\"\r\nContent-Length: 3\r\n\r\nbob\r\n--3f1b7a52-8a1d-4b44-8a5d-2a7d1d6b6c11--\r\n",
		},
		{
			"Apache HttpClient", "multipart/form-data; boundary=xk_Uk3yQ3q8bYv1oW8m0V0JmXJ2; charset=UTF-8",
			"--xk_Uk3yQ3q8bYv1oW8m0V0JmXJ2\r\nContent-Disposition: form-data; name=\"username\"\r\nContent-Type: text/plain; charset=ISO-8859-1\r\nContent-Transfer-Encoding: 8bit\r\n\r\nbob\r\n--xk_Uk3yQ3q8bYv1oW8m0V0JmXJ2--\r\n",
		},
		{
			"Go", "multipart/form-data; boundary=e2a1b6d4c0a3f6c8b9d7e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0c9d8e7f6",
			"--e2a1b6d4c0a3f6c8b9d7e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0c9d8e7f6\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nbob\r\n--e2a1b6d4c0a3f6c8b9d7e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0c9d8e7f6--\r\n",
		},
		{"form of a browser", "application/x-www-form-urlencoded", "username=bob&password=a%26b%3Dc+d&remember=on&_csrf=x%2Fy%3D%3D"},
		{"fetch with JSON", "application/json", `{"username":"bob","password":"a&b=c; <b>","device":{"os":"iOS 17"},"emoji":"😀"}`},
		{"axios", "application/json;charset=utf-8", `{"username":"bob"}`},
		{"old jQuery", "application/x-www-form-urlencoded; charset=UTF-8", "username=bob&password=%C3%A9"},
		{"curl with JSON and no type", "application/x-www-form-urlencoded", `{"username":"bob","password":"x"}`},
		{"semicolon at the end of the type", "application/json;", `{"username":"bob"}`},
		{"spring ISO type", "application/json; charset=ISO-8859-1", `{"username":"bob"}`},
	} {
		got := post{contentType: c.contentType, body: c.body}.read(mustCompile(t, "json:/username", "form:username", "multipart:username", "basic"))
		wantReading(t, c.name, got, Named, "", "bob")
		if got.Raw != "bob" {
			t.Errorf("%s: got raw %q", c.name, got.Raw)
		}
	}
}

func TestMultipartType(t *testing.T) {
	body := part(`name="username"`, "bob") + lastBoundary
	for _, c := range []struct {
		contentType string
		state       State
	}{
		{"multipart/form-data; boundary=B", Named},
		{"multipart/form-data;boundary=B", Named},
		{"Multipart/Form-Data; Boundary=B", Named},
		{`multipart/form-data; boundary="B"`, Named},
		{`multipart/form-data; boundary="B" ; charset=utf-8`, Named},
		{"multipart/form-data; charset=utf-8; boundary=B", Named},
		{"multipart/mixed; boundary=B", Named},
		{"multipart/form-data; boundary=B;", Named},
		{"multipart/form-data", Malformed},
		{"multipart/form-data; boundary=", Malformed},
		{"multipart/form-data; boundary=C", Malformed},
		{"multipart/form-data; boundary=b", Malformed},
		{"multipart/form-data; boundary=B; boundary=C", Malformed},
		{"multipart/form-data; boundary=B; boundary=B", Malformed},
		{"multipart/form-data; xboundary=C; boundary=B", Malformed},
		{`multipart/form-data; x="boundary=C"; boundary=B`, Malformed},
		{"multipart/form-data; boundary=B,C", Malformed},
		{"multipart/form-data; boundary= B", Malformed},
		{"multipart/form-data; boundary =B", Malformed},
		{"multipart/form-data; boundary*=utf-8''B", Malformed},
		{"multipart/form-data; boundary*0=B", Malformed},
		{`multipart/form-data; boundary="B`, Malformed},
		{`multipart/form-data; boundary="B"x`, Malformed},
		{`multipart/form-data; boundary=\B`, Malformed},
		{"multipart/form-data; boundary=" + strings.Repeat("B", 71), Malformed},
		{"multipart/form-data, x; boundary=B", Malformed},
		{"multipart/form-data boundary=B", Malformed},
		{"multipart/form-data; boundary=B; charset=ibm037", Malformed},
		{"application/json; boundary=B", Malformed},
		{"text/plain; boundary=B", Malformed},
		{"", Malformed},
	} {
		for _, selectors := range [][]string{{"multipart:username"}, {"form:username"}, {"json:/username"}} {
			if got := (post{contentType: c.contentType, body: body}).read(mustCompile(t, selectors...)); got.State != c.state {
				t.Errorf("%q, %v: got %+v, want state %d", c.contentType, selectors, got, c.state)
			}
		}
	}
}

func TestBoundary(t *testing.T) {
	for _, c := range []struct{ params, want string }{
		{"boundary=" + strings.Repeat("B", 70), strings.Repeat("B", 70)},
		{"boundary=" + strings.Repeat("B", 71), ""},
		{`boundary="a(b)/c:d=e?f"; x=y`, "a(b)/c:d=e?f"},
		{"boundary=a:b", ""},
		{"boundary=a b", ""},
		{`boundary="a b"`, ""},
		{"boundary=xboundaryx; x=boundar", "xboundaryx"},
		{"boundary=a; xboundary", ""},
		{"boundary=é", ""},
	} {
		if got := boundaryOf(c.params); got != c.want {
			t.Errorf("%s: got %q, want %q", c.params, got, c.want)
		}
	}
}

// FuzzMultipart holds the reader against mime/multipart.
func FuzzMultipart(f *testing.F) {
	f.Add(multipartType, part(`name="username"`, "bob")+lastBoundary)
	f.Add(multipartType, part(`name="x"; filename="y"`, "bob", "Content-Type: text/plain")+part("name=username", "")+"--B--")
	f.Add(`multipart/form-data; boundary="B B"`, "--B B\r\n\r\n\r\n--B B--")
	f.Add("multipart/mixed; x=boundary; boundary=B", "x\r\n--B\nContent-Disposition: form-data; name*=utf-8''username\n\nbob\n--B--")
	specs := []*Spec{mustCompile(f, "multipart:username"), mustCompile(f, "form:username")}
	f.Fuzz(func(t *testing.T, contentType, body string) {
		if strings.ContainsAny(contentType, "\r\n\x00") {
			return // no server lets these through
		}
		p := post{contentType: contentType, body: body}
		if name := multipartUsername(p); name != "" {
			for _, spec := range specs {
				if why := misses(p.read(spec), spec, name); why != "" {
					t.Fatal(why)
				}
			}
		}
	})
}
