package outcome

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func BenchmarkClassify(b *testing.B) {
	gzipped := received(b, "200 OK\nContent-Type: text/html\n\n"+strings.Repeat("<p>some page of a login server</p>\n", 200)+`<p id="login_error">no</p>`)
	gzipped.Prefix = compress(b, "gzip", gzipped.Prefix)
	gzipped.Header.Set("Content-Encoding", "gzip")
	for _, bm := range []struct {
		name   string
		rules  []Rule
		answer Answer
		req    RequestView
	}{
		{"status alone", []Rule{
			{Is: "locked", Status: []string{"429"}},
			{Is: "success", Status: []string{"2xx"}},
			{Is: "failure", Status: []string{"401"}},
		}, Answer{Status: 401}, typed("user", "alice")},
		{"cookie", djangoAdmin.rules, received(b, djangoAdmin.samples[0].raw), typed("user", "alice")},
		{"location", giteaForm.rules, received(b, giteaForm.samples[2].raw), typed("user", "alice")},
		{"json success", keycloakToken.rules, received(b, keycloakToken.samples[0].raw), grant("password")},
		{"json failure", keycloakToken.rules, received(b, keycloakToken.samples[1].raw), grant("password")},
		{"page", wordpressForm.rules, received(b, wordpressForm.samples[2].raw), typed("user", "alice")},
		{"page, gzip", wordpressForm.rules, gzipped, typed("user", "alice")},
	} {
		b.Run(bm.name, func(b *testing.B) {
			c := compiled(b, Config{Rules: bm.rules})
			b.ReportAllocs()
			for b.Loop() {
				c.Classify(bm.answer, bm.req)
			}
		})
	}
}

func BenchmarkPrepare(b *testing.B) {
	c := compiled(b, Config{Rules: djangoAdmin.rules})
	h := http.Header{"User-Agent": {"x"}, "Accept": {"*/*"}, "Cookie": {"a=b"}, "Content-Type": {"application/json"}, "Referer": {"x"}}
	b.ReportAllocs()
	for b.Loop() {
		h["Accept-Encoding"] = []string{"gzip, deflate, br, zstd"}
		c.Prepare(h)
	}
}

func TestStatusRulesDoNotAllocate(t *testing.T) {
	c := compiled(t, Config{Rules: []Rule{{Is: "success", Status: []string{"302"}, CookieSet: []string{"s"}}, {Is: "failure", Status: []string{"401"}}}})
	header := http.Header{"Set-Cookie": {"s=1; Path=/; HttpOnly"}}
	var req RequestView = typed("user", "alice")
	for _, status := range []int{302, 401} {
		if n := testing.AllocsPerRun(100, func() { c.Head(status, header, req) }); n != 0 {
			t.Errorf("Head(%d) allocates %v times, want none", status, n)
		}
	}
}

// The most that a request can make of the comparison with its answer.
func BenchmarkReflectionAtWorst(b *testing.B) {
	a := &attempt{form: url.Values{}}
	for i := range maxEchoes / 4 {
		a.form.Add("v", fmt.Sprint("<%26amp;Ab", strings.Repeat("welcome", i%20), i))
	}
	c := compiled(b, Config{Rules: []Rule{
		{Is: "neutral", Status: []string{"200"}, Body: []string{"ab&welcome"}},
		{Is: "locked", Status: []string{"200"}, Body: []string{"welcomewelcome<"}},
		{Is: "success", Status: []string{"200"}, JSON: map[string]string{"/a": "*welcome*"}},
		{Is: "neutral", Status: []string{"200"}, Location: []string{"*welcome*"}},
	}})
	answer := received(b, "200 OK\nLocation: /"+strings.Repeat("welcome/", 1000)+"\n\n"+strings.Repeat("welcomewelcome<", 1000))
	b.ReportAllocs()
	for b.Loop() {
		c.Classify(answer, a)
	}
}
