package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// lists are the selectors of policies, by path: all that a careful operator lists, and lists that leave out what the backend reads
// all the same.
var lists = []struct{ path, selectors string }{
	{"/login", `"json:/username", "form:username", "multipart:username", "xml://username", "basic"`},
	{"/in/few", `"json:/username", "form:username", "basic"`},
	{"/in/json", `"json:/username"`},
	{"/in/form", `"form:username"`},
	{"/in/parts", `"multipart:username"`},
	{"/in/xml", `"xml://username"`},
	{"/in/head", `"header:X-User", "cookie:who"`},
	{"/user/{name}", `"path:{name}"`},
}

// bodyPolicies let every name in once. Requests without a name are not counted, so that what the gateway overlooks
// shows.
func bodyPolicies() string {
	var b strings.Builder
	b.WriteString("policies:\n")
	for i, l := range lists {
		fmt.Fprintf(&b, "  list%d:\n    match: [{path: %q}]\n    target: {from: [%s], on_missing: skip}\n    requests: {target: {limit: 1, window: 1m}}\n", i, l.path, l.selectors)
	}
	return b.String()
}

// bodyCase is a request about somebody.
type bodyCase struct {
	target                           string // if it is not the path of the list
	name, method, query, contentType string
	body                             []byte
	fields                           []string
	chunked                          bool
}

func (c *bodyCase) bytes(path string) []byte {
	method := c.method
	if method == "" {
		method = "POST"
	}
	target := path
	if c.target != "" {
		target = c.target
	}
	if c.query != "" {
		target += "?" + c.query
	}
	raw := message(method, target, c.contentType, string(c.body), c.fields...)
	if !c.chunked {
		return raw
	}
	head, _, _ := bytes.Cut(raw, []byte("Content-Length:"))
	head = append(bytes.Clone(head), "Transfer-Encoding: chunked\r\n\r\n"...)
	for piece := range slices.Chunk(c.body, 7) {
		head = fmt.Appendf(head, "%x;a=b\r\n%s\r\n", len(piece), piece)
	}
	return append(head, "0\r\n\r\n"...)
}

// TestBodies: whatever name any reader of any backend reads, the gateway has charged it, or has refused the request [I3].
func TestBodies(t *testing.T) {
	tally := class("bodies")
	cases := append(tableCases(t), requestCases()...)
	for _, b := range backends.all(t) {
		if !b.names {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			r := newBodyRun(t, tally, b)
			for i := range cases {
				for j := range headList {
					r.try(&cases[i], j)
				}
			}
			for _, c := range headCases() {
				r.try(&c, headList)
			}
			for _, c := range pathCases() {
				r.try(&c, pathList)
			}
			r.finish(len(cases) * headList / 8)
		})
	}
}

// bodyRun is one gateway that many requests about somebody are sent to.
type bodyRun struct {
	t      *testing.T
	tally  *tally
	b      *backend
	s      *site
	conn   *client
	prober *client
	tries  int
	passed int // reached the backend, which read at least one name
}

func newBodyRun(t *testing.T, tally *tally, b *backend) *bodyRun {
	s := begin(t, b, patient, bodyPolicies())
	s.wire.deaf.Store(true)
	r := &bodyRun{t: t, tally: tally, b: b, s: s, conn: open(t, s.addr()), prober: open(t, s.addr())}
	t.Cleanup(func() {
		r.conn.close()
		r.prober.close()
	})
	return r
}

// try sends one request, and asks for each name that the backend read whether it has been charged. Before, all buckets
// are empty.
func (r *bodyRun) try(c *bodyCase, list int) {
	r.tries++
	r.s.later()
	raw := c.bytes(lists[list].path)
	a, err := r.conn.ask(raw)
	if err != nil {
		return // it was turned away without an answer
	}
	saw := a.backendSaw()
	if saw == nil || len(saw.Names) == 0 {
		return
	}
	r.passed++
	tried := map[string]bool{}
	for reader, name := range saw.Names {
		if tried[name] || !r.expects(reader, list, c) {
			continue
		}
		tried[name] = true
		if !r.charged(lists[list].path, name) {
			r.tally.evasion(r.t, "%s, %s, selectors %s: %s reads %q, and it was not charged\n%q", c.name, r.b.name, lists[list].selectors, reader, name, head(raw))
		}
	}
}

func (r *bodyRun) finish(atLeast int) {
	r.tally.try(r.tries)
	r.tally.also("passed with a name", r.passed)
	r.b.take()
	if r.passed < atLeast {
		r.t.Errorf("only %d of %d requests passed with a name: the test shows little", r.passed, r.tries)
	}
}

// expects reports whether a list of selectors is to cover a reader. Credentials and the like are covered only where they are
// listed, and so is XML that other text precedes.
func (r *bodyRun) expects(reader string, list int, c *bodyCase) bool {
	body := c.body
	switch {
	case strings.Contains(reader, "basic"):
		return strings.Contains(lists[list].selectors, "basic")
	case strings.Contains(reader, "header") || strings.Contains(reader, "cookie"):
		return strings.Contains(lists[list].selectors, "header")
	case strings.Contains(lists[list].selectors, "header") || strings.Contains(lists[list].selectors, "path"):
		return strings.Contains(reader, "path") && strings.Contains(lists[list].selectors, "path") // the body is nobody's there
	case strings.Contains(reader, "path"):
		return false
	case reader == "semicolons": // in parts and in XML they stand for something else
		return !strings.Contains(c.contentType+fmt.Sprint(c.fields), "multipart") && !bytes.HasPrefix(bytes.TrimSpace(body), []byte("--")) && !bytes.Contains(body, []byte("<"))
	case strings.HasSuffix(reader, "xml"):
		return strings.Contains(lists[list].selectors, "xml") || bytes.HasPrefix(bytes.TrimLeft(body, "\ufeff \t\r\n\x00"), []byte("<"))
	}
	return true
}

// charged asks, by a plain login, whether the bucket of a name is full.
func (r *bodyRun) charged(path, name string) bool {
	if strings.TrimFunc(name, isInvisible) == "" || path == "/user/{name}" && strings.Trim(name, ".") == "" {
		return true // nobody
	}
	spellings := []string{name, fromLatin(name)} // who takes UTF-8 for Latin-1 does so with every name
	if !strings.Contains(name, "@") {
		spellings = append(spellings, strings.ReplaceAll(name, "+", " ")) // a plus is a blank, unless it stands in a mailbox
	}
	for _, spelling := range slices.Compact(spellings) {
		for _, raw := range plain(path, spelling) {
			a, err := r.prober.ask(raw)
			if err != nil {
				r.t.Fatalf("asking for %q: %v", spelling, err)
			}
			if a.status == 429 {
				return true
			}
		}
	}
	return false
}

// isInvisible holds for what no name is made of alone.
func isInvisible(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}

// plain are the simplest requests that name somebody. No form can say every name, and where no selector reads a form, it counts
// all the same.
func plain(path, name string) [][]byte {
	switch path {
	case "/in/head":
		return plainHead(name)
	case "/user/{name}":
		return [][]byte{plainPath(name)}
	}
	escaped := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", ";", "&#59;").Replace(name)
	return [][]byte{
		signIn(path, name),
		post(path, "application/x-www-form-urlencoded", "username="+url.QueryEscape(name)),
		post(path, "multipart/form-data; boundary=XyZ", "--XyZ\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\n"+name+"\r\n--XyZ--\r\n"),
		post(path, "application/xml", "<login><username>"+escaped+"</username></login>"),
	}
}

// fromLatin undoes what reading UTF-8 as Latin-1 has done.
func fromLatin(name string) string {
	var b []byte
	for _, c := range name {
		if c > 0xff {
			return name
		}
		b = append(b, byte(c))
	}
	return string(b)
}

// tableCases are the bodies against which the package selector holds itself, here before real servers.
func tableCases(t testing.TB) []bodyCase {
	t.Helper()
	text, err := os.ReadFile("../selector/testdata/readers.json")
	if err != nil {
		t.Fatal(err)
	}
	var table []struct{ Name, Type, Query, Body string }
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	var cases []bodyCase
	for _, c := range table {
		body := make([]byte, 0, len(c.Body))
		for _, r := range c.Body {
			body = append(body, byte(r)) // one character a byte
		}
		cases = append(cases, bodyCase{name: c.Name, query: c.Query, contentType: c.Type, body: body})
	}
	if len(cases) < 200 {
		t.Fatalf("got %d bodies, want the whole table", len(cases))
	}
	return cases
}

// requestCases are requests whose header says something odd about their body, or names somebody itself.
func requestCases() []bodyCase {
	const (
		object = `{"username":"bob"}`
		other  = `{"username":"victim"}`
		form   = "username=bob"
		jsonT  = "Content-Type: application/json"
		formT  = "Content-Type: application/x-www-form-urlencoded"
		partsT = "Content-Type: multipart/form-data; boundary=B"
	)
	parts := "--B\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nbob\r\n--B--\r\n"
	var cases []bodyCase
	add := func(name, body string, fields ...string) {
		cases = append(cases, bodyCase{name: name, body: []byte(body), fields: fields})
	}
	for _, body := range []string{object, form, parts, "<l><username>bob</username></l>", `{"username":"bob","x":"&username=victim&"}`, object + "&username=victim"} {
		add("two types", body, jsonT, formT)
		add("two types", body, formT, jsonT)
		add("two types", body, partsT, jsonT)
		add("two types in one line", body, jsonT+", application/x-www-form-urlencoded")
		add("a type with an underscore", body, "Content_Type: application/json")
		add("a type twice by spelling", body, formT, "Content_Type: application/json")
		add("a type twice by spelling", body, jsonT, "content_type: application/x-www-form-urlencoded")
		add("a type that Connection removes", body, jsonT, "Connection: Content-Type")
		add("a type that Connection removes", body, formT, "Connection: close, content-type")
		add("a folded type", body, "Content-Type: text/plain;\r\n charset=utf-8")
		add("an empty type", body, "Content-Type:")
		add("an odd type", body, "Content-Type: ;application/json")
		add("an odd type", body, "Content-Type: application/json/x")
		add("an odd type", body, "Content-Type: application/ json")
		add("an odd type", body, "Content-Type: application/vnd.api+json")
		add("an odd type", body, "Content-Type: text/json")
		add("an odd type", body, "Content-Type: application/jsonx")
		add("an odd type", body, "Content-Type: text/xml")
		add("a type by GET", body, "X-HTTP-Method-Override: POST", jsonT)
		add("charsets", body, "Content-Type: application/json; charset=utf-8; charset=utf-16le")
		add("charsets", body, "Content-Type: application/x-www-form-urlencoded; charset=utf-16")
		add("an encoding that it has not", body, jsonT, "Content-Encoding: gzip")
		add("an encoding that it has not", body, formT, "Content-Encoding: identity, deflate")
		add("an encoding with an underscore", body, formT, "Content_Encoding: gzip")
		add("an unknown encoding", body, jsonT, "Content-Encoding: x-unknown")
		add("no encoding", body, formT, "Content-Encoding: identity")
		add("a transfer encoding of a part", body, partsT, "Content-Transfer-Encoding: base64")
		add("expecting", body, jsonT, "Expect: 100-continue")
		add("expecting something", body, formT, "Expect: x")
		cases = append(cases, bodyCase{name: "by GET", method: "GET", body: []byte(body), fields: []string{jsonT}}, bodyCase{name: "by GET", method: "GET", body: []byte(body), fields: []string{formT}},
			bodyCase{name: "by PUT", method: "PUT", body: []byte(body), fields: []string{formT}}, bodyCase{name: "by DELETE", method: "DELETE", body: []byte(body), fields: []string{jsonT}},
			bodyCase{name: "chunked", body: []byte(body), fields: []string{jsonT}, chunked: true}, bodyCase{name: "chunked", body: []byte(body), fields: []string{partsT}, chunked: true})
		cases = append(cases, encodedCases(body, jsonT, formT, partsT)...)
	}
	// What TestFuzz has found.
	add("half an escaped character", "username=jos%C3\x90A9", formT)
	add("half an escaped character", "username=-->jos%C3\xb8A9&e[]=f", formT)
	add("a form with semicolons in JSON", "{\"\\u;username=victim\":\"bob\"}", jsonT)
	add("a form with semicolons in JSON", `{"username":"bob","passw;username=+victim":"x"}`, jsonT)
	add("a form with semicolons in JSON", `{";username=victim":1}`, jsonT)
	for _, blank := range []string{"\u2028", "\u00a0", "\u3000", "\u0085", "\xa0", "\x85", "\u180e", "\ufeff", "\u200b", "\v", "\x1c"} {
		for _, contentType := range []string{"Content-Type: text/plain", "Content-Type: application/json, text/plain", formT, jsonT, partsT} {
			add("JSON behind a blank", blank+object, contentType)
			add("a form behind a blank", blank+form, contentType)
			add("XML behind a blank", blank+"<l><username>bob</username></l>", contentType)
			add("parts behind a blank", blank+parts, contentType)
		}
	}
	for _, scheme := range []string{"Basic", "basic", "BASIC", "Basic ", "xBasic", "Bearer", "Basic\t", "Basic x"} {
		for _, credentials := range []string{"Ym9iOng=", "Ym9iOng", "Ym9i", "dmljdGltOmE6Yg==", "dmlj dGltOng=", "Ym9iOng=,dmljdGltOng=", "dmljdGltOng=x", "dmljdGltOng==", "am9z6Tp4", "OmJvYg==", "dmljdGltADp4", "_-9ib2I6eA=="} {
			add("basic", `{"x":1}`, jsonT, "Authorization: "+scheme+" "+credentials)
			add("basic and another name", other, jsonT, "Authorization: "+scheme+" "+credentials)
		}
	}
	for _, fields := range [][]string{
		{"Authorization: Basic Ym9iOng=", "Authorization: Basic dmljdGltOng="},
		{"Authorization: Basic Ym9iOng=", "Connection: Authorization"},
		{"Proxy-Authorization: Basic Ym9iOng="},
		{"Authorization:", "Authorization: Basic Ym9iOng="},
		{"Authorization : Basic Ym9iOng="},
		{"Authorization: Basic\r\n Ym9iOng="},
	} {
		add("several credentials", `{"x":1}`, append([]string{jsonT}, fields...)...)
	}
	return cases
}

// encodedCases are a body in each encoding, and in some lies about it.
func encodedCases(body string, types ...string) []bodyCase {
	var cases []bodyCase
	gz, zl, br, zs := encode(body)
	for _, contentType := range types {
		for coding, encoded := range sorted(map[string][]byte{
			"gzip": gz, "x-gzip": gz, "GZIP": gz, "deflate": zl, "br": br, "zstd": zs, "gzip, gzip": gz, "gzip, identity": gz, "identity": gz, "": gz,
			" gzip ": gz, "gzip;q=1": gz, `"gzip"`: gz, "gzip,": gz, "deflate, gzip": gz, "gzip\r\nContent-Encoding: br": gz, "compress": gz,
		}) {
			cases = append(cases, bodyCase{name: "encoded as " + coding, body: encoded, fields: []string{contentType, "Content-Encoding: " + coding}})
		}
		for name, fields := range sorted(map[string][]string{
			"in another spelling": {"Content_Encoding: gzip"}, "without a header": nil, "by Connection": {"Content-Encoding: gzip", "Connection: Content-Encoding"},
			"by Transfer-Encoding": {"TE: gzip"},
		}) {
			cases = append(cases, bodyCase{name: "gzip " + name, body: gz, fields: append([]string{contentType}, fields...)})
		}
		twice, _, _, _ := encode(string(gz))
		for name, encoded := range sorted(map[string][]byte{
			"two streams": append(bytes.Clone(gz), gz...), "text after the stream": append(bytes.Clone(gz), "&username=victim"...), "cut off": gz[:len(gz)-9], "text in front": append([]byte("username=victim&"), gz...),
			"twice": twice,
		}) {
			cases = append(cases, bodyCase{name: "gzip, " + name, body: encoded, fields: []string{contentType, "Content-Encoding: gzip"}})
		}
	}
	return cases
}

// sorted are the entries of a map in an order that is always the same, or a seed would mean nothing.
func sorted[T any](m map[string]T) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

func encode(body string) (gz, zl, br, zs []byte) {
	var g, z, b bytes.Buffer
	gw := gzip.NewWriter(&g)
	_, _ = gw.Write([]byte(body))
	_ = gw.Close()
	zw := zlib.NewWriter(&z)
	_, _ = zw.Write([]byte(body))
	_ = zw.Close()
	bw := brotli.NewWriter(&b)
	_, _ = bw.Write([]byte(body))
	_ = bw.Close()
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // of options that are constant
	}
	return g.Bytes(), z.Bytes(), b.Bytes(), enc.EncodeAll([]byte(body), nil)
}
