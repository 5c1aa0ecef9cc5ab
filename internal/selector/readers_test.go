package selector

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
)

// The tests of this file are the heart of [I3]: whatever a real parser reads as the username, the gateway has among its
// readings, or it refuses.

// mustCompile compiles selectors with the default way to normalise.
func mustCompile(t testing.TB, selectors ...string) *Spec {
	t.Helper()
	normalize, err := ParseNormalize(nil)
	if err != nil {
		t.Fatal(err)
	}
	return mustCompileConfig(t, Config{Normalize: normalize, DigestKey: []byte("0123456789abcdef")}, selectors...)
}

func mustCompileConfig(t testing.TB, cfg Config, selectors ...string) *Spec {
	t.Helper()
	for _, text := range selectors {
		s, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg.From = append(cfg.From, s)
	}
	spec, err := Compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// post is a request as the tests write it down.
type post struct {
	contentType string
	query       string
	body        string
	header      http.Header
}

func (p post) input() (*Input, error) {
	header := p.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if p.contentType != "" {
		header.Set("Content-Type", p.contentType)
	}
	body, err := ReadBody(strings.NewReader(p.body), header, int64(len(p.body)), 64<<10)
	return &Input{Header: header, RawQuery: p.query, Body: body}, err
}

// read returns what a Spec reads; a body that is refused before reads as Malformed.
func (p post) read(spec *Spec) Reading {
	in, err := p.input()
	if err != nil {
		return Reading{State: Malformed, Reason: "refused"}
	}
	defer in.Body.Release()
	return spec.Read(in)
}

// misses reports why a reading does not cover a name that a backend reads; empty if it does.
func misses(r Reading, spec *Spec, name string) string {
	key := spec.key(strings.ToValidUTF8(name, "\ufffd"), false)
	switch {
	case key == "" || r.State == Malformed || slices.Contains(r.Values, key):
		return ""
	case slices.Contains(r.Values, spec.key(fromLatin(name), false)):
		return "" // a backend that takes UTF-8 for Latin does so with every name
	case !strings.Contains(name, "@") && slices.Contains(r.Values, spec.key(strings.ReplaceAll(name, "+", " "), false)):
		return "" // a plus is a blank, unless it stands in a mailbox
	case r.State == Ambiguous && (!isASCII(name) || strings.ContainsAny(name, "%+")):
		return "" // what some make of broken bytes and escapes is the name of nobody
	}
	return fmt.Sprintf("a backend reads %q, the gateway %+v", name, r)
}

// fromLatin undoes what reading UTF-8 as Latin-1 has done.
func fromLatin(name string) string {
	var b []byte
	for _, r := range name {
		if r > 0xff {
			return name
		}
		b = append(b, byte(r))
	}
	return string(b)
}

// usernames are the selectors that a careful operator lists, and lists that leave out what the backend reads all the same.
var usernames = [][]string{
	{"json:/username", "form:username", "multipart:username", "xml://username"},
	{"json:/username", "form:username", "basic"},
	{"form:username"},
	{"json:/username"},
	{"multipart:username"},
	{"xml://username"},
}

// realCase is a request and what real parsers of several languages read as its username. testdata/readers makes the table.
type realCase struct {
	Name, Type, Query string
	Body              string // one character a byte
	Readers           map[string]string
}

func (c *realCase) bytes() []byte {
	var b []byte
	for _, r := range c.Body {
		b = append(b, byte(r))
	}
	return b
}

func realCases(t testing.TB) []realCase {
	t.Helper()
	text, err := os.ReadFile("testdata/readers.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []realCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestRealReaders(t *testing.T) {
	readings := 0
	for _, c := range realCases(t) {
		p := post{contentType: c.Type, query: c.Query, body: string(c.bytes())}
		for name, value := range goReaders(p) {
			c.Readers[name] = value
		}
		for _, selectors := range usernames {
			spec := mustCompile(t, selectors...)
			r := p.read(spec)
			for reader, value := range c.Readers {
				readings++
				if why := misses(r, spec, value); why != "" {
					t.Errorf("%s, %v, %s: %s", c.Name, selectors, reader, why)
				}
			}
		}
	}
	if readings < 8000 {
		t.Errorf("got %d readings, want the whole table", readings)
	}
}

// goReaders are the parsers of the standard library as handlers use them.
func goReaders(p post) map[string]string {
	out := map[string]string{}
	var login struct {
		Username any `json:"username"`
	}
	put := func(name string, value any) {
		switch v := value.(type) {
		case string:
			if v != "" {
				out[name] = v
			}
		case json.Number, bool:
			out[name] = fmt.Sprint(v)
		}
	}
	dec := json.NewDecoder(strings.NewReader(p.body))
	dec.UseNumber()
	if dec.Decode(&login) == nil {
		put("go json first value", login.Username)
	}
	var object map[string]any
	if json.Unmarshal([]byte(p.body), &object) == nil {
		put("go json map", object["username"])
	}
	values, _ := url.ParseQuery(p.body)
	put("go form", values.Get("username"))
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(p.body))
	r.URL.RawQuery = p.query
	if p.contentType != "" {
		r.Header.Set("Content-Type", p.contentType)
	}
	put("go form value", r.FormValue("username"))
	put("go multipart", multipartUsername(p))
	var document struct {
		Username string `xml:"username"`
	}
	if xml.Unmarshal([]byte(p.body), &document) == nil {
		put("go xml", document.Username)
	}
	return out
}

func multipartUsername(p post) string {
	essence, params, err := mime.ParseMediaType(p.contentType)
	if err != nil || params["boundary"] == "" || !strings.HasPrefix(essence, "multipart/") {
		return ""
	}
	found := ""
	for r := multipart.NewReader(strings.NewReader(p.body), params["boundary"]); ; {
		part, err := r.NextPart()
		if err != nil {
			return found
		}
		value, err := io.ReadAll(part)
		if part.FormName() == "username" && part.FileName() == "" && (err == nil || found == "") {
			found = string(bytes.TrimSpace(value))
		}
	}
}

// FuzzReaders holds every list of selectors against every parser of the standard library.
func FuzzReaders(f *testing.F) {
	for _, c := range realCases(f) {
		f.Add(c.Type, c.Query, c.bytes())
	}
	var specs []*Spec
	for _, selectors := range usernames {
		specs = append(specs, mustCompile(f, selectors...))
	}
	f.Fuzz(func(t *testing.T, contentType, query string, body []byte) {
		if strings.ContainsAny(contentType+query, "\r\n\x00 #") || len(body) > 64<<10 {
			return // no server lets these through
		}
		p := post{contentType: contentType, query: query, body: string(body)}
		names := goReaders(p)
		if looksLike(body) != XML {
			delete(names, "go xml") // it passes over text in front of the document: only a list with xml selectors sees to that
		}
		for i, spec := range specs {
			r := p.read(spec)
			for reader, name := range names {
				if why := misses(r, spec, name); why != "" {
					t.Fatalf("%v, %s: %s", usernames[i], reader, why)
				}
			}
		}
	})
}
