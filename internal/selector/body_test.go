package selector

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"hash/adler32"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

func TestReadBody(t *testing.T) {
	broken := errors.New("connection reset")
	for _, c := range []struct {
		name   string
		r      io.Reader
		length int64
		max    int64
		want   string
		err    error
	}{
		{"whole", strings.NewReader("hello"), 5, 64, "hello", nil},
		{"length unknown", strings.NewReader("hello"), -1, 64, "hello", nil},
		{"byte by byte", iotest.OneByteReader(strings.NewReader("hello")), 5, 64, "hello", nil},
		{"error with the last bytes", iotest.DataErrReader(strings.NewReader("hello")), 5, 64, "hello", nil},
		{"none", nil, 0, 64, "", nil},
		{"empty", strings.NewReader(""), -1, 64, "", nil},
		{"exactly the bound", strings.NewReader("hello"), -1, 5, "hello", nil},
		{"one more than the bound", strings.NewReader("hello!"), -1, 5, "hello!", ErrTooLarge},
		{"promised more than the bound", strings.NewReader(""), 6, 5, "", ErrTooLarge},
		{"less than promised", strings.NewReader("hell"), 5, 64, "", io.ErrUnexpectedEOF},
		{"broken off", iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("hello"))), 5, 64, "", iotest.ErrTimeout},
		{"failed", iotest.ErrReader(broken), 5, 64, "", broken},
		{"never anything", idleReader{}, -1, 64, "", io.ErrNoProgress},
		{"larger than the first buffer", strings.NewReader(strings.Repeat("x", 10000)), -1, 1 << 20, strings.Repeat("x", 10000), nil},
	} {
		b, err := ReadBody(c.r, http.Header{}, c.length, c.max)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: got error %v, want %v", c.name, err, c.err)
			continue
		}
		if got := string(b.Raw()); got != c.want {
			t.Errorf("%s: got %d bytes, want %d", c.name, len(got), len(c.want))
		}
		spec := mustCompile(t, "json:/username", "form:username")
		if got := spec.Read(&Input{Body: b}); errors.Is(err, ErrTooLarge) && (got.State != Malformed || got.Reason != TooLarge) {
			t.Errorf("%s: got %+v, want it malformed", c.name, got)
		}
		b.Release()
	}
}

type idleReader struct{}

func (idleReader) Read([]byte) (int, error) { return 0, nil }

// TestReleasedBodyIsForgotten uses one buffer for one request after another.
func TestReleasedBodyIsForgotten(t *testing.T) {
	spec := mustCompile(t, "json:/username", "form:username", "multipart:username", "xml://username")
	var first Reading
	for i, p := range []post{
		{contentType: "application/json", body: `{"username":"bob","password":"secret"}`},
		{contentType: formType, body: "x=1"},
		{contentType: multipartType, body: part(`name="username"`, "al") + lastBoundary},
		{contentType: formType, body: "x=1"},
		{contentType: "text/xml", body: "<username>al</username>"},
		{contentType: "application/json", body: "{}"},
		{contentType: "application/json", body: "{"},
		{contentType: "application/json", body: ""},
	} {
		got := p.read(spec)
		if i == 0 {
			first = got
		} else if strings.Contains(p.body, "al<") != (got.State == Named) && i != 2 {
			t.Errorf("request %d: got %+v", i, got)
		}
	}
	wantReading(t, "the first", first, Named, "", "bob")
}

func TestNilBody(t *testing.T) {
	var b *Body
	b.Release()
	if b.Raw() != nil {
		t.Error("got bytes")
	}
	got := mustCompile(t, "json:/username").Read(&Input{RawQuery: "x=1"})
	wantReading(t, "no body", got, Missing, Absent)
}

// pack compresses by the name of the encoding; "raw" is deflate without the zlib format.
func pack(t testing.TB, coding, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip", "x-gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw":
		w, _ = flate.NewWriter(&b, flate.BestCompression)
	case "stored":
		w, _ = gzip.NewWriterLevel(&b, gzip.NoCompression)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestContentEncoding(t *testing.T) {
	const login = `{"username":"bob","password":"correct horse"}`
	bomb := strings.Repeat("a", 65<<10)
	for _, c := range []struct {
		name   string
		coding []string
		body   string
		ok     bool
	}{
		{"gzip", []string{"gzip"}, pack(t, "gzip", login), true},
		{"gzip, other spelling", []string{"X-GZIP"}, pack(t, "gzip", login), true},
		{"gzip, stored", []string{"gzip"}, pack(t, "stored", login), true},
		{"deflate", []string{"deflate"}, pack(t, "deflate", login), true},
		{"bare deflate", []string{"deflate"}, pack(t, "raw", login), true},
		{"br", []string{"br"}, pack(t, "br", login), true},
		{"zstd", []string{"zstd"}, pack(t, "zstd", login), true},
		{"identity", []string{"identity"}, login, true},
		{"identity and gzip", []string{"identity, gzip"}, pack(t, "gzip", login), true},
		{"empty", []string{""}, login, true},
		{"gzip that is not stated", nil, pack(t, "gzip", login), false},
		{"gzip that is denied", []string{"identity"}, pack(t, "gzip", login), false},
		{"zstd that is not stated", nil, pack(t, "zstd", login), false},
		{"unknown", []string{"compress"}, login, false},
		{"a character set", []string{"utf-8"}, login, false},
		{"stack", []string{"gzip, gzip"}, pack(t, "gzip", pack(t, "gzip", login)), false},
		{"stack on two lines", []string{"gzip", "br"}, pack(t, "br", pack(t, "gzip", login)), false},
		{"not encoded", []string{"gzip"}, login, false},
		{"not encoded, br", []string{"br"}, login, false},
		{"not encoded, deflate", []string{"deflate"}, login, false},
		{"cut off", []string{"gzip"}, pack(t, "gzip", login)[:30], false},
		{"wrong checksum", []string{"gzip"}, strings.Replace(pack(t, "stored", login), "bob", "bab", 1), false},
		{"second member", []string{"gzip"}, pack(t, "gzip", login) + pack(t, "gzip", "x"), false},
		{"bytes behind, gzip", []string{"gzip"}, pack(t, "gzip", login) + "x", false},
		{"bytes behind, deflate", []string{"deflate"}, pack(t, "deflate", login) + "x", false},
		{"bytes behind, bare deflate", []string{"deflate"}, pack(t, "raw", login) + "x", false},
		{"bytes behind, br", []string{"br"}, pack(t, "br", login) + "x", false},
		{"second frame", []string{"zstd"}, pack(t, "zstd", login) + pack(t, "zstd", "x"), false},
		{"skippable frame first", []string{"zstd"}, "\x50\x2a\x4d\x18\x01\x00\x00\x00x" + pack(t, "zstd", login), false},
		{"skippable frame behind", []string{"zstd"}, pack(t, "zstd", login) + "\x50\x2a\x4d\x18\x01\x00\x00\x00x", false},
		{"bomb, gzip", []string{"gzip"}, pack(t, "gzip", bomb), false},
		{"bomb, deflate", []string{"deflate"}, pack(t, "deflate", bomb), false},
		{"bomb, bare deflate", []string{"deflate"}, pack(t, "raw", bomb), false},
		{"bomb, br", []string{"br"}, pack(t, "br", bomb), false},
		{"bomb, zstd", []string{"zstd"}, pack(t, "zstd", bomb), false},
		{"just no bomb", []string{"gzip"}, pack(t, "gzip", login+strings.Repeat(" ", (64<<10)-len(login))), true},
	} {
		header := http.Header{"Content-Type": {"application/json"}, "Content-Encoding": c.coding}
		b, err := ReadBody(strings.NewReader(c.body), header, int64(len(c.body)), 64<<10)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: got error %v, want readable %v", c.name, err, c.ok)
			continue
		}
		if string(b.Raw()) != c.body {
			t.Errorf("%s: the raw bytes are not those received", c.name)
		}
		got := mustCompile(t, "json:/username").Read(&Input{Header: header, Body: b})
		if b.Release(); c.ok {
			wantReading(t, c.name, got, Named, "", "bob")
		} else {
			wantReading(t, c.name, got, Malformed, Unreadable)
		}
	}
}

// TestBothZlibAndDeflate decodes bytes that are one text to zlib and another to a bare deflate decoder: 78 01 opens zlib,
// and is the head of a stored block to the other. Both go on in stored blocks, each in what is data to the other.
func TestBothZlibAndDeflate(t *testing.T) {
	raw := []byte("\x78\x01\x00\xfe\xff\x01\x00" + "\x00\x00\xff\xff\x01\xfb\xff\x04\x00")
	raw = append(raw, bytes.Repeat([]byte("a"), 7+0xfffe-len(raw))...)
	sum := adler32.Checksum(raw[7:])
	raw = append(raw, 3, 0)
	raw = binary.BigEndian.AppendUint32(raw, sum)

	z, err := zlib.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	one, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	other, err := io.ReadAll(flate.NewReader(bytes.NewReader(raw)))
	if err != nil || bytes.Equal(one, other) {
		t.Fatalf("the case itself is wrong: %v", err)
	}
	if _, err := decompress(nil, raw, "deflate", 1<<20); !errors.Is(err, ErrUnreadable) {
		t.Errorf("got %v, want unreadable", err)
	}
}

// TestEncodingThatBackendsIgnore hides a form in the head of a gzip body: a backend that never decodes reads that one.
func TestEncodingThatBackendsIgnore(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Name = "&username=victim&password=guess&"
	io.WriteString(w, "username=bob&password=x")
	w.Close()
	header := http.Header{"Content-Encoding": {"gzip"}}
	for _, contentType := range []string{formType, "", "application/json"} {
		got := post{contentType: contentType, body: b.String(), header: header}.read(mustCompile(t, "json:/username", "form:username"))
		if got.State != Malformed && !(got.State == Ambiguous && strings.Contains(strings.Join(got.Values, " "), "victim")) {
			t.Errorf("%q: got %+v, want both names or a refusal", contentType, got)
		}
	}
	// The same with parts: the stored bytes of an outer body hold the boundary.
	inner := "\r\n" + part(`name="username"`, "victim") + lastBoundary
	b.Reset()
	w = gzip.NewWriter(&b)
	w.Extra = []byte(inner)
	io.WriteString(w, part(`name="username"`, "bob")+lastBoundary)
	w.Close()
	got := post{contentType: multipartType, body: b.String(), header: header}.read(mustCompile(t, "form:username"))
	wantReading(t, "parts in the head", got, Ambiguous, Mismatch, "bob", "victim")
}

func TestUnicodeBodies(t *testing.T) {
	const login = `{"username":"Josć😀","x":"` + "\u20ac" + `"}`
	units := utf16.Encode([]rune(login))
	encode := func(order binary.AppendByteOrder, width int, mark bool) string {
		var b []byte
		put := func(u uint32) {
			if width == 4 {
				b = order.AppendUint32(b, u)
			} else {
				b = order.AppendUint16(b, uint16(u))
			}
		}
		if mark {
			put(0xfeff)
		}
		if width == 4 {
			for _, r := range login {
				put(uint32(r))
			}
			return string(b)
		}
		for _, u := range units {
			put(uint32(u))
		}
		return string(b)
	}
	half := encode(binary.LittleEndian, 2, true)
	for _, c := range []struct {
		name, contentType, body string
		state                   State
	}{
		{"UTF-16LE with a mark", "application/json", encode(binary.LittleEndian, 2, true), Named},
		{"UTF-16BE with a mark", "application/json", encode(binary.BigEndian, 2, true), Named},
		{"UTF-16LE", "application/json", encode(binary.LittleEndian, 2, false), Named},
		{"UTF-16BE", "application/json; charset=utf-16", encode(binary.BigEndian, 2, false), Named},
		{"UTF-32LE with a mark", "application/json", encode(binary.LittleEndian, 4, true), Named},
		{"UTF-32BE with a mark", "application/json", encode(binary.BigEndian, 4, true), Named},
		{"UTF-32LE", "application/json; charset=utf-32", encode(binary.LittleEndian, 4, false), Named},
		{"UTF-32BE", "application/json", encode(binary.BigEndian, 4, false), Named},
		{"UTF-16 without a type", "", encode(binary.LittleEndian, 2, true), Named},
		{"UTF-16 as a form", formType, encode(binary.LittleEndian, 2, false), Named},
		{"odd length", "application/json", half[:len(half)-1], Malformed},
		{"half a pair", "application/json", "\xff\xfe{\x00\x00\xd8}\x00", Malformed},
		{"beyond Unicode", "application/json", "{\x00\x00\x00\x00\x00\x11\x00", Malformed},
		{"said to be UTF-16 and not", "application/json; charset=utf-16", `{"username":"bob"}`, Malformed},
		{"form said to be UTF-16", formType + "; charset=utf-16", "username=bob", Malformed},
	} {
		got := post{contentType: c.contentType, body: c.body}.read(mustCompile(t, "json:/username", "form:username"))
		if got.State != c.state || got.State == Named && got.Values[0] != "josć😀" {
			t.Errorf("%s: got %+v, want state %d", c.name, got, c.state)
		}
	}
	// A mark in front of a form: its reader sees the fields behind it, whatever two bytes at a time may say.
	for _, body := range []string{"\xff\xfe&username=bob&", "\xff\xfe&username=bob", "x\x00&username=bob&", "\x00x\x00\xd8&username=bob"} {
		for _, contentType := range []string{formType, ""} {
			got := post{contentType: contentType, body: body}.read(mustCompile(t, "form:username"))
			wantReading(t, "form that begins like UTF-16", got, Named, "", "bob")
		}
	}
}

func TestContentType(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		body  string
		state State
	}{
		{"JSON", []string{"application/json"}, `{"username":"bob"}`, Named},
		{"JSON, upper case", []string{"Application/JSON"}, `{"username":"bob"}`, Named},
		{"JSON, structured suffix", []string{"application/vnd.api+json"}, `{"username":"bob"}`, Named},
		{"JSON, quoted character set", []string{`application/json; charset="UTF-8"`}, `{"username":"bob"}`, Named},
		{"JSON, blanks", []string{"application/json ; charset = utf-8"}, `{"username":"bob"}`, Named},
		{"JSON, odd type", []string{"application/json, text/plain"}, `{"username":"bob"}`, Named},
		{"JSON, type without a semicolon", []string{"application/json charset=utf-8"}, `{"username":"bob"}`, Named},
		{"JSON that is a form", []string{"application/json"}, "username=bob", Malformed},
		{"JSON that is XML", []string{"application/json"}, "<username>bob</username>", Malformed},
		{"XML that is JSON", []string{"application/xml"}, `{"username":"bob"}`, Malformed},
		{"multipart that is JSON", []string{multipartType}, `{"username":"bob"}`, Malformed},
		{"form that is JSON", []string{formType}, `{"username":"bob"}`, Named},
		{"form that is broken JSON", []string{formType}, `{"username":"bob",}`, Malformed},
		{"form that is JSON and a form", []string{formType}, `{"username":"bob","x":"&username=al&"}`, Ambiguous},
		{"JSON that is a form too", []string{"application/json"}, `{"username":"bob","x":"&username=al&"}`, Ambiguous},
		{"JSON that is a form of old too", []string{"application/json"}, `{"username":"bob","x":";username=al;"}`, Ambiguous},
		{"JSON that is a form of both kinds", []string{"application/json"}, `{"username":"bob","x":"&y=1;username=al"}`, Ambiguous},
		{"JSON with semicolons", []string{"application/json"}, `{"username":"bob","x":"a;b=c;&d;e"}`, Named},
		{"JSON with a very long name in it", []string{"application/json"}, `{"username":"bob","x":"&` + strings.Repeat("%20", 300) + `username=al"}`, Named},
		{"JSON with a name in it that is not ASCII", []string{"application/json"}, `{"username":"bob","x":"&u\u0000ſername=al"}`, Named},
		{"JSON with a blank before the name in it", []string{"application/json"}, `{"username":"bob","x":"& username=al&"}`, Ambiguous},
		{"form behind JSON", []string{formType}, `{"username":"bob"}&username=al`, Malformed},
		{"form that is XML", []string{formType}, "<login><username>bob</username></login>", Named},
		{"form with XML in it", []string{formType}, "x=<login><username>bob</username></login>", Malformed},
		{"no type, JSON", nil, `{"username":"bob"}`, Named},
		{"no type, form", nil, "username=bob", Named},
		{"no type, XML", nil, "<login><username>bob</username></login>", Named},
		{"no type, nothing", nil, "hello", Missing},
		{"text, slash", []string{"text/plain"}, "/x&username=bob", Named},
		{"text, comment", []string{"text/plain"}, "/*x&username=bob", Malformed},
		{"text, dashes", []string{"text/plain"}, "--x&username=bob", Named},
		{"text, one dash", []string{"text/plain"}, "-x&username=bob&y=content-disposition", Named},
		{"text, parts", []string{"text/plain"}, "--x\r\nCONTENT-DISPOSITION: form-data; name=username\r\n\r\nbob\r\n--x--", Malformed},
		{"text, JSON behind a blank of Unicode", []string{"text/plain"}, "\u2028{\"username\":\"bob\"}", Malformed},
		{"no type, JSON behind a blank of Latin-1", nil, "\xa0{\"username\":\"bob\"}", Malformed},
		{"no type, XML behind a blank of Unicode", nil, "\u3000<username>bob</username>", Named},
		{"text, form behind a blank of Unicode", []string{"text/plain"}, "\u00a0&username=bob", Named},
		{"text that is compressed", []string{"text/plain"}, "\x1f\x8b\x08username=bob", Malformed},
		{"a compressed file", []string{"application/gzip"}, "\x1f\x8b\x08x", Missing},
		{"text, JSON", []string{"text/plain"}, `{"username":"bob"}`, Named},
		{"text, form", []string{"text/plain;charset=UTF-8"}, "username=bob", Named},
		{"two that agree", []string{"application/json", " application/json"}, `{"username":"bob"}`, Named},
		{"two", []string{"application/json", formType}, `{"username":"bob"}`, Malformed},
		{"character set that is not read", []string{"application/json; charset=ibm037"}, `{"username":"bob"}`, Malformed},
		{"two character sets", []string{formType + "; charset=utf-8; charset=utf-7"}, "username=bob", Malformed},
		{"character set in quotes", []string{formType + `; x="; charset=utf-7"; charset=utf-8`}, "username=bob", Malformed},
		{"character set without a value", []string{formType + "; charset"}, "username=bob", Malformed},
		{"extended character set", []string{formType + "; charset*=utf-7''x"}, "username=bob", Malformed},
		{"UTF-16 and Latin", []string{"application/json; charset=utf-16; charset=latin1"}, `{"username":"bob"}`, Malformed},
		{"Latin form", []string{formType + "; charset=iso-8859-1"}, "username=bob", Named},
		{"Latin form, not ASCII", []string{formType + "; charset=iso-8859-1"}, "username=jos%C3%A9", Ambiguous},
		{"Latin JSON, not ASCII", []string{"application/json; charset=windows-1252"}, `{"username":"josé"}`, Ambiguous},
	} {
		header := http.Header{"Content-Type": c.lines}
		spec := mustCompile(t, "json:/username", "form:username", "multipart:username", "xml://username")
		if got := (post{header: header, body: c.body}).read(spec); got.State != c.state {
			t.Errorf("%s: got %+v, want state %d", c.name, got, c.state)
		}
	}
}

// FuzzReadBody holds the decoders to their bounds and the raw bytes to what was received.
func FuzzReadBody(f *testing.F) {
	for _, coding := range []string{"gzip", "deflate", "raw", "br", "zstd"} {
		f.Add(coding, "application/json", []byte(pack(f, coding, `{"username":"bob"}`)))
	}
	f.Add("", "text/plain; charset=utf-16", []byte("\xff\xfe{\x00"))
	f.Add("", "multipart/form-data; boundary=\"B\"; charset=x", []byte("--B--"))
	spec := mustCompile(f, "json:/username", "form:username", "xml://username", "multipart:username")
	f.Fuzz(func(t *testing.T, coding, contentType string, body []byte) {
		header := http.Header{"Content-Type": {contentType}, "Content-Encoding": {coding}}
		b, err := ReadBody(bytes.NewReader(body), header, -1, 4096)
		if err != nil {
			if b.Release(); !errors.Is(err, ErrUnreadable) && !errors.Is(err, ErrTooLarge) {
				t.Fatal(err)
			}
			return
		}
		defer b.Release()
		if !bytes.Equal(b.Raw(), body) {
			t.Fatal("the raw bytes are not those received")
		}
		if len(b.text) > 4096 {
			t.Fatalf("decoded %d bytes", len(b.text))
		}
		if r := spec.Read(&Input{Header: header, Body: b}); r.State == Named && len(r.Values) != 1 || len(r.Values) > maxValues {
			t.Fatalf("got %+v", r)
		}
	})
}
