package selector

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
)

// benchmark reads a body as the gateway does: buffered, read by one Spec, released.
func benchmark(b *testing.B, spec *Spec, contentType, body string) {
	b.Helper()
	header := http.Header{"Content-Type": {contentType}, "Accept": {"*/*"}, "User-Agent": {"bench"}}
	text, r := []byte(body), bytes.NewReader(nil)
	b.ReportAllocs()
	for b.Loop() {
		r.Reset(text)
		buffered, err := ReadBody(r, header, int64(len(text)), 64<<10)
		if err != nil {
			b.Fatal(err)
		}
		in := Input{Header: header, Body: buffered}
		if got := spec.Read(&in); got.State == Missing {
			b.Fatalf("got %+v", got)
		}
		buffered.Release()
	}
}

func BenchmarkJSONLogin(b *testing.B) {
	benchmark(b, mustCompile(b, "json:/username"), "application/json", `{"username":"user1@example.com","password":"correct horse battery"}`)
}

func BenchmarkJSONLoginDefaultPolicy(b *testing.B) {
	benchmark(b, mustCompile(b, "json:/username", "form:username", "basic"), "application/json", `{"username":"user1@example.com","password":"correct horse battery"}`)
}

func BenchmarkFormLogin(b *testing.B) {
	benchmark(b, mustCompile(b, "json:/username", "form:username", "basic"), "application/x-www-form-urlencoded", "username=user1%40example.com&password=correct+horse+battery")
}

func BenchmarkMultipartLogin(b *testing.B) {
	benchmark(b, mustCompile(b, "multipart:username"), "multipart/form-data; boundary=B", "--B\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nbob\r\n--B--\r\n")
}

func BenchmarkXMLLogin(b *testing.B) {
	benchmark(b, mustCompile(b, "xml://username"), "text/xml", "<login><username>bob</username></login>")
}

func BenchmarkPredicate(b *testing.B) {
	sel, err := Parse("form:grant_type")
	if err != nil {
		b.Fatal(err)
	}
	p, err := NewPredicate(sel, "password")
	if err != nil {
		b.Fatal(err)
	}
	in, err := post{contentType: "application/x-www-form-urlencoded", body: "grant_type=password&username=bob"}.input()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !p.Match(in) {
			b.Fatal("no match")
		}
	}
}

// BenchmarkHostile is the worst that a client can make of 64 KiB: none may cost more than some milliseconds.
func BenchmarkHostile(b *testing.B) {
	spec := mustCompile(b, "json:/username", "form:username", "multipart:username", "xml://username", "basic")
	fill := func(head, unit, tail string) string {
		return head + strings.Repeat(unit, ((64<<10)-len(head)-len(tail))/len(unit)) + tail
	}
	for _, c := range []struct{ name, contentType, body string }{
		{"json arrays", "application/json", fill(`{"username":"a","x":[`, "[],", "1]}")},
		{"json members", "application/json", fill(`{"username":"a"`, `,"a":1`, "}")},
		{"json odd members", "application/json", fill(`{"username":"a"`, `,"é":1`, "}")},
		{"json duplicates", "application/json", fill(`{"username":"a"`, `,"username":1`, "}")},
		{"json long name", "application/json", fill(`{"username":"`, "ﷺ", `"}`)},
		{"form fields", "application/x-www-form-urlencoded", fill("username=a", "&é=1", "")},
		{"form brackets", "application/x-www-form-urlencoded", fill("username=a&", "[a]", "=1")},
		{"form semicolons", "application/x-www-form-urlencoded", fill("username=a&", ";a", "=1")},
		{"loose fields", "application/json", fill(`{"username":"a","x":"`, "&%41=1", `"}`)},
		{"parts", "multipart/form-data; boundary=B", fill("", "--B\r\nContent-Disposition: form-data; name=é\r\n\r\n\r\n", "--B--\r\n")},
		{"elements", "text/xml", fill("<a><username>a</username>", "<é/>", "</a>")},
		{"attributes", "text/xml", fill("<a><username>a</username><b", " é=''", "/></a>")},
		{"comments", "text/xml", fill("<a><username>a</username>", "<!---->", "</a>")},
		{"GraphQL", "application/json", fill(`{"username":"a","query":"mutation{`, "...on a{", `"}`)},
		{"GraphQL fields", "application/json", fill(`{"username":"a","query":"mutation{`, "a(b:1)", `}"}`)},
	} {
		b.Run(c.name, func(b *testing.B) { benchmark(b, spec, c.contentType, c.body) })
	}
}
