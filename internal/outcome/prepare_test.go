package outcome

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"testing"
)

func TestPrepare(t *testing.T) {
	c := compiled(t, Config{PinHeaders: map[string]string{"accept-language": "en", "X-Requested-With": "XMLHttpRequest"}})
	h := http.Header{
		"Range": {"bytes=0-1"}, "If-Range": {"x"}, "If-None-Match": {"x"}, "If-Modified-Since": {"x"}, "If-Match": {"x"},
		"if-unmodified-since": {"x"}, "If_None_Match": {"x"}, "range": {"x"}, "Accept_Encoding": {"zstd"}, "Accept_Language": {"fr"},
		"Accept-Language": {"de"}, "accept-language": {"de"},
		"Accept": {"text/html"}, "Cookie": {"a=b"}, "Iffy": {"x"}, "If": {"x"}, "X-Range": {"x"}, "": {"x"},
	}
	c.Prepare(h)
	want := http.Header{
		"Accept": {"text/html"}, "Cookie": {"a=b"}, "Iffy": {"x"}, "If": {"x"}, "X-Range": {"x"}, "": {"x"},
		"Accept-Encoding": {"identity"}, "Accept-Language": {"en"}, "X-Requested-With": {"XMLHttpRequest"},
	}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("Prepare leaves %v, want %v", h, want)
	}
	h["Accept-Language"][0] = "fr"
	other := http.Header{}
	c.Prepare(other)
	if got := other.Get("Accept-Language"); got != "en" {
		t.Errorf("a pinned header is %q after another request's was changed, want en", got)
	}
}

func TestPrepareAcceptEncoding(t *testing.T) {
	c := compiled(t, Config{})
	for _, tc := range []struct {
		from []string
		want string
	}{
		{nil, "identity"},
		{[]string{""}, "identity"},
		{[]string{"gzip"}, "gzip"},
		{[]string{"gzip, deflate, br"}, "gzip, deflate, br"},
		{[]string{"gzip, deflate, br, zstd"}, "gzip, deflate, br"},
		{[]string{"zstd"}, "identity"},
		{[]string{"GZIP;q=0.5 , dcb,  BR"}, "GZIP;q=0.5, BR"},
		{[]string{"compress", "x-gzip, identity;q=0"}, "x-gzip, identity;q=0"},
		{[]string{"*"}, "gzip"},
		{[]string{"br, *;q=0"}, "br"},
		{[]string{"*;q=0.0"}, "identity"},
		{[]string{"*;q=0.1"}, "gzip"},
	} {
		h := http.Header{}
		if tc.from != nil {
			h["Accept-Encoding"] = tc.from
		}
		c.Prepare(h)
		if got := h["Accept-Encoding"]; !slices.Equal(got, []string{tc.want}) {
			t.Errorf("%q becomes %q, want %q", tc.from, got, tc.want)
		}
	}
}

func TestPinHeadersThatCannotBePinned(t *testing.T) {
	bad := map[string]string{
		"Cookie": "a=b", "authorization": "x", "Host": "x", "Content-Length": "1", "Transfer-Encoding": "chunked", "If-Match": "x",
		"Accept-Encoding": "br", "X-Forwarded-For": "1.2.3.4", "Proxy-Authorization": "x", "bad name": "x", "": "x", "X-Split": "a\r\nb: c",
	}
	_, problems := Compile(Config{PinHeaders: bad})
	if len(problems) != len(bad) {
		t.Errorf("%d problems for %v, want one each: %v", len(problems), slices.Sorted(maps.Keys(bad)), problems)
	}
	for _, p := range problems {
		if p.Rule != -1 || p.Field != "pin_headers" {
			t.Errorf("problem at rule %d, %s, want the policy's pin_headers", p.Rule, p.Field)
		}
	}
}
