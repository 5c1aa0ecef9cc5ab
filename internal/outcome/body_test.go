package outcome

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

func compress(t testing.TB, coding string, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	var err error
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "zlib":
		w = zlib.NewWriter(&out)
	case "deflate":
		w, err = flate.NewWriter(&out, flate.DefaultCompression)
	case "br":
		w = brotli.NewWriter(&out)
	case "zstd":
		w, err = zstd.NewWriter(&out)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestDecodersText(t *testing.T) {
	short := []byte(`<div id="login_error">wrong</div>`)
	long := append(bytes.Repeat([]byte("login server "), 4000), short...)
	const limit = 1000
	var d decoders
	for _, coding := range []struct{ name, header string }{
		{"gzip", "gzip"},
		{"gzip", " X-GZIP "},
		{"zlib", "deflate"},
		{"deflate", "deflate"},
		{"br", "br"},
		{"zstd", "zstd"},
		{"", "identity"},
		{"", ""},
	} {
		pack := func(text []byte) []byte {
			if coding.name == "" {
				return text
			}
			return compress(t, coding.name, text)
		}
		header := http.Header{}
		if coding.header != "" {
			header.Set("Content-Encoding", coding.header)
		}
		for range 2 { // the second time with a used reader
			if got, whole := d.text(pack(short), header, limit); string(got) != string(short) || !whole {
				t.Errorf("%s as %q: %q, whole %v, want all of %q", coding.name, coding.header, got, whole, short)
			}
			if got, whole := d.text(pack(short), header, len(short)); string(got) != string(short) || !whole {
				t.Errorf("%s as %q, limit at the end: %q, whole %v", coding.name, coding.header, got, whole)
			}
			if packed := pack(short); coding.name == "gzip" || coding.name == "zlib" {
				if got, whole := d.text(packed[:len(packed)-6], header, len(short)); whole {
					t.Errorf("%s as %q, without its end: %q counts as whole", coding.name, coding.header, got)
				}
			}
			if got, whole := d.text(pack(long), header, limit); string(got) != string(long[:limit]) || whole {
				t.Errorf("%s as %q: %d bytes, whole %v, want the first %d", coding.name, coding.header, len(got), whole, limit)
			}
			packed := pack(bytes.Repeat(short, 20))
			if got, whole := d.text(packed[:len(packed)-8], header, limit); coding.name != "" && whole || len(got) > limit {
				t.Errorf("%s as %q, cut: %d bytes, whole %v", coding.name, coding.header, len(got), whole)
			}
			if got, _ := d.text([]byte("\x1f\x8b no such data"), header, limit); coding.name != "" && strings.Contains(string(got), "data") {
				t.Errorf("%s as %q reads garbage as %q", coding.name, coding.header, got)
			}
		}
	}
}

func TestDecodersTextOfUnknownCodings(t *testing.T) {
	var d decoders
	for _, lines := range [][]string{{"compress"}, {"gzip, br"}, {"gzip", "br"}, {"aws-chunked"}} {
		if got, whole := d.text([]byte("text"), http.Header{"Content-Encoding": lines}, 100); len(got) != 0 || whole {
			t.Errorf("text as %q = %q, whole %v, want nothing", lines, got, whole)
		}
	}
}

func TestCompressedAnswers(t *testing.T) {
	c := compiled(t, Config{Rules: []Rule{
		{Is: "failure", Status: []string{"200"}, Body: []string{`id="login_error"`}},
		{Is: "success", Status: []string{"200"}, JSON: map[string]string{"/ok": "true"}},
	}})
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		header := http.Header{"Content-Encoding": {coding}}
		page := append(bytes.Repeat([]byte("<p>x</p>"), 500), `<i id="login_error">`...)
		for _, tc := range []struct {
			body []byte
			want Verdict
		}{
			{page, Failure},
			{[]byte(`{"ok":true}`), Success},
		} {
			if got := c.Classify(Answer{Status: 200, Header: header, Prefix: compress(t, coding, tc.body)}, nil); got.Verdict != tc.want {
				t.Errorf("%s: %v, want %v", coding, got.Verdict, tc.want)
			}
		}
	}
}

// A few bytes that unpack into millions must cost no more than what is looked at.
func TestDecodersTextStopsAtTheLimit(t *testing.T) {
	bomb := bytes.Repeat([]byte("0"), 32<<20)
	const limit = 16 << 10
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		var d decoders
		packed := compress(t, coding, bomb)
		got, whole := d.text(packed, http.Header{"Content-Encoding": {coding}}, limit)
		if len(got) != limit || cap(got) > 2*limit || whole {
			t.Errorf("%s: %d bytes in room for %d, whole %v, want %d", coding, len(got), cap(got), whole, limit)
		}
	}
}

func FuzzDecodersText(f *testing.F) {
	codings := []string{"gzip", "deflate", "br", "zstd", ""}
	for i, coding := range []string{"gzip", "zlib", "br", "zstd"} {
		f.Add(i, compress(f, coding, []byte(strings.Repeat("login ", 30))), 100)
	}
	var d decoders
	f.Fuzz(func(t *testing.T, coding int, body []byte, limit int) {
		limit = 1 + max(limit, -limit, 0)&0xfff
		header := http.Header{"Content-Encoding": {codings[uint(coding)%uint(len(codings))]}}
		text, whole := d.text(body, header, limit)
		if len(text) > limit {
			t.Errorf("%d bytes, want at most %d", len(text), limit)
		}
		more, _ := d.text(body, header, 2*limit)
		if !bytes.HasPrefix(more, text) || whole && len(more) != len(text) {
			t.Errorf("with twice the limit: %q, before: %q, whole %v", more, text, whole)
		}
	})
}
