package main

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestCurlRequest(t *testing.T) {
	files := map[string]string{"body": "a=1\r\n&b=\xe9\n"}
	open := func(name string) (io.ReadCloser, error) {
		text, ok := files[name]
		if !ok {
			return nil, errors.New(name + " is not there")
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}
	for _, c := range []struct {
		name   string
		curl   curl
		want   string // method, RequestURI, Host, RemoteAddr
		header string
		body   string
	}{
		{"plain", curl{url: "http://a.test"}, "GET / a.test 127.0.0.1:0", "Accept: */*|User-Agent: curl", ""},
		{"no scheme", curl{url: "a.test:8080/x"}, "GET /x a.test:8080 127.0.0.1:0", "Accept: */*|User-Agent: curl", ""},
		{"path as it is spelled", curl{url: "https://bob:pw@a.test//x/../%2e/LOGIN;v=1?q=%zz&#f"}, "GET //x/../%2e/LOGIN;v=1?q=%zz& a.test 127.0.0.1:0", "Accept: */*|User-Agent: curl", ""},
		{"a query alone", curl{url: "http://a.test?x"}, "GET /?x a.test 127.0.0.1:0", "Accept: */*|User-Agent: curl", ""},
		{"a peer of IPv6", curl{url: "http://[::1]/", peer: "2001:db8::1"}, "GET / [::1] [2001:db8::1]:0", "Accept: */*|User-Agent: curl", ""},
		{
			"data",
			curl{url: "http://a.test/", data: []string{"x=1", "@body"}},
			"POST / a.test 127.0.0.1:0",
			"Accept: */*|Content-Length: 11|Content-Type: application/x-www-form-urlencoded|User-Agent: curl", "x=1&a=1&b=\xe9",
		},
		{
			"headers",
			curl{url: "http://a.test/", method: "PUT", data: []string{""}, headers: []string{"host: b.test", "x-y:  z ", "Content-Type: application/json", "User-Agent:", "Accept;", "X-Y: w"}},
			"PUT / b.test 127.0.0.1:0", "Accept: |Content-Length: 0|Content-Type: application/json|X-Y: z|X-Y: w", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.curl.peer == "" {
				c.curl.peer = "127.0.0.1"
			}
			r, err := c.curl.request(open)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join([]string{r.Method, r.RequestURI, r.Host, r.RemoteAddr}, " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			var header []string
			for _, name := range []string{"Accept", "Content-Length", "Content-Type", "User-Agent", "X-Y"} {
				for _, value := range r.Header[name] {
					header = append(header, name+": "+value)
				}
			}
			if got := strings.Join(header, "|"); got != c.header {
				t.Errorf("got %q, want %q", got, c.header)
			}
			body, err := io.ReadAll(r.Body)
			if err != nil || string(body) != c.body {
				t.Errorf("got %q %v, want %q", body, err, c.body)
			}
		})
	}
	for _, c := range []struct {
		name string
		curl curl
		want string
	}{
		{"no host", curl{url: "/login"}, "names no host"},
		{"another scheme", curl{url: "ftp://a.test/"}, "no http or https URL"},
		{"a blank", curl{url: "http://a.test/a b"}, "has blanks"},
		{"a peer that is none", curl{url: "http://a.test/", peer: "bob"}, `"bob" is no IP address`},
		{"a method that is none", curl{url: "http://a.test/", method: "A B"}, "is no method"},
		{"a header that is none", curl{url: "http://a.test/", headers: []string{"Bearer hunter2"}}, "is no header"},
		{"a header over two lines", curl{url: "http://a.test/", headers: []string{"A: b\r\nC: hunter2"}}, "is no header"},
		{"a length", curl{url: "http://a.test/", headers: []string{"content-length: 1"}}, "follows from the data"},
		{"a file that is not there", curl{url: "http://a.test/", data: []string{"@nope"}}, "nope is not there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.curl.peer == "" {
				c.curl.peer = "127.0.0.1"
			}
			_, err := c.curl.request(open)
			var usage usageError
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzCurlRequest(f *testing.F) {
	f.Add("POST", "X-Forwarded-For: 1.1.1.1", "a=b", "http://a.test/x?y#z")
	f.Add("", "A;", "", "a.test")
	f.Fuzz(func(t *testing.T, method, header, data, url string) {
		q := curl{method: method, headers: []string{header}, data: []string{strings.TrimPrefix(data, "@")}, peer: "::1", url: url}
		if strings.HasPrefix(q.data[0], "@") {
			return
		}
		r, err := q.request(nil)
		if err != nil {
			var usage usageError
			if !errors.As(err, &usage) {
				t.Fatalf("got %v", err)
			}
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != q.data[0] || len(r.TransferEncoding) > 0 || (method != "" && r.Method != method) {
			t.Fatalf("got %s %q %v of %+v", r.Method, body, err, q)
		}
		if n := len(http.Header(r.Header)); n > 5 {
			t.Fatalf("got %v of %+v", r.Header, q)
		}
	})
}
