package selector

import (
	"strings"
	"testing"
)

func TestXML(t *testing.T) {
	for _, c := range []struct {
		name, selector, body string
		state                State
		reason               Reason
		values               []string
	}{
		{"from the root", "xml:/login/username", "<login><username>Bob</username></login>", Named, "", []string{"bob"}},
		{"from another root", "xml:/login/username", "<x><login><username>bob</username></login></x>", Missing, Absent, nil},
		{"anywhere", "xml://username", "<a><b><username>bob</username></b></a>", Named, "", []string{"bob"}},
		{"anywhere, the root itself", "xml://username", "<username>bob</username>", Named, "", []string{"bob"}},
		{"anywhere, two steps", "xml://token/username", "<a><username>al</username><token><username>bob</username></token></a>", Named, "", []string{"bob"}},
		{"declaration and blanks", "xml:/login/username", "<?xml version=\"1.0\" encoding=\"utf-8\"?>\r\n<login>\n\t<username>\n bob </username></login>\n", Named, "", []string{"bob"}},
		{"XML-RPC", "xml:/methodCall/params/param[2]/value", "<methodCall><methodName>wp.getBlogs</methodName><params><param><value><int>1</int></value></param><param><value><string>bob</string></value></param><param><value>pw</value></param></params></methodCall>", Named, "", []string{"bob"}},
		{"XML-RPC without a type", "xml:/methodCall/params/param[1]/value", "<methodCall><params><param><value>bob</value></param></params></methodCall>", Named, "", []string{"bob"}},
		{"SOAP", "xml://wsse:UsernameToken/wsse:Username", `<s:Envelope xmlns:s="urn:s" xmlns:w="urn:w"><s:Header><w:Security><w:UsernameToken w:Id="a"><w:Username>bob</w:Username><w:Password>x</w:Password></w:UsernameToken></w:Security></s:Header></s:Envelope>`, Named, "", []string{"bob"}},
		{"index beyond", "xml:/a/b[3]", "<a><b>1</b><b>2</b></a>", Missing, Absent, nil},
		{"duplicate", "xml:/a/b", "<a><b>al</b><b>bob</b></a>", Ambiguous, Duplicate, []string{"al", "bob"}},
		{"two namespaces", "xml:/a/b", `<a xmlns:x="urn:x"><b>al</b><x:b>bob</x:b></a>`, Ambiguous, Duplicate, []string{"al", "bob"}},
		{"case", "xml:/login/username", "<Login><UserName>bob</UserName></Login>", Named, "", []string{"bob"}},
		{"attribute", "xml:/login/username", `<login username="bob"/>`, Named, "", []string{"bob"}},
		{"attribute beside", "xml:/login/username", `<login username="al"><username>bob</username></login>`, Ambiguous, Duplicate, []string{"al", "bob"}},
		{"namespace is no attribute", "xml:/login/username", `<login xmlns:username="urn:x" xmlns="urn:y"><username>bob</username></login>`, Named, "", []string{"bob"}},
		{"empty", "xml:/a/b", "<a><b/></a>", Missing, Empty, nil},
		{"blank", "xml:/a/b", "<a><b> </b></a>", Missing, Empty, nil},
		{"character references", "xml:/a/b", "<a><b>&#98;o&#x62;&amp;</b></a>", Named, "", []string{"bob&"}},
		{"CDATA", "xml:/a/b", "<a><b>\n<![CDATA[b<b]]>\n</b></a>", Named, "", []string{"b<b"}},
		{"text beside CDATA", "xml:/a/b", "<a><b>vic<![CDATA[tim]]></b></a>", Malformed, Type, nil},
		{"comment within", "xml:/a/b", "<a><b>vic<!-- -->tim</b></a>", Malformed, Type, nil},
		{"comment beside", "xml:/a/b", "<a><b><!-- x -->bob</b></a>", Ambiguous, Spelling, []string{"bob"}},
		{"instruction within", "xml:/a/b", "<a><b>bob<?x y?></b></a>", Ambiguous, Spelling, []string{"bob"}},
		{"comment elsewhere", "xml:/a/b", "<!-- x --><a><!-- y --><b>bob</b></a><!-- z -->", Named, "", []string{"bob"}},
		{"mixed content", "xml:/a/b", "<a><b>al<c>bob</c></b></a>", Malformed, Type, nil},
		{"several children", "xml:/a/b", "<a><b><c>al</c><c>bob</c></b></a>", Malformed, Type, nil},
		{"document type", "xml:/a/b", `<!DOCTYPE a [<!ENTITY b "bob">]><a><b>&b;</b></a>`, Malformed, DTD, nil},
		{"external document type", "xml:/a/b", `<!DOCTYPE a SYSTEM "file:///etc/passwd"><a><b>bob</b></a>`, Malformed, DTD, nil},
		{"unknown entity", "xml:/a/b", "<a><b>&bob;</b></a>", Malformed, Syntax, nil},
		{"NUL", "xml:/a/b", "<a><b>bob&#0;</b></a>", Malformed, Syntax, nil},
		{"second root", "xml:/a/b", "<a><b>al</b></a><a><b>bob</b></a>", Malformed, Trailing, nil},
		{"text behind", "xml:/a/b", "<a><b>bob</b></a>x", Malformed, Trailing, nil},
		{"text before", "xml:/a/b", "x<a><b>bob</b></a>", Malformed, Trailing, nil},
		{"unfinished", "xml:/a/b", "<a><b>bob</b>", Malformed, Syntax, nil},
		{"crossed", "xml:/a/b", "<a><b>bob</a></b>", Malformed, Syntax, nil},
		{"no element", "xml:/a/b", "<!-- a -->", Malformed, Syntax, nil},
		{"no XML", "xml:/a/b", "username=bob", Malformed, Trailing, nil},
		{"broken UTF-8", "xml:/a/b", "<a><b>b\xff</b></a>", Malformed, Syntax, nil},
		{"Latin, ASCII", "xml:/a/b", `<?xml version="1.0" encoding="iso-8859-1"?><a><b>bob</b></a>`, Named, "", []string{"bob"}},
		{"Latin, or UTF-8", "xml:/a/b", `<?xml version="1.0" encoding="iso-8859-1"?><a><b>é</b></a>`, Ambiguous, Encoding, []string{"é", "ã©"}},
		{"another character set", "xml:/a/b", `<?xml version="1.0" encoding="UTF-7"?><a><b>bob</b></a>`, Malformed, Charset, nil},
		{"mark", "xml:/a/b", "\ufeff<a><b>bob</b></a>", Named, "", []string{"bob"}},
		{"deep", "xml:/a/b", "<a><b>bob</b>" + strings.Repeat("<c>", 101) + strings.Repeat("</c>", 101) + "</a>", Malformed, Depth, nil},
		{"many", "xml:/a/b", "<a><b>bob</b>" + strings.Repeat("<c/>", 2000) + "</a>", Malformed, Many, nil},
	} {
		got := post{contentType: "text/xml", body: c.body}.read(mustCompile(t, c.selector))
		wantReading(t, c.name, got, c.state, c.reason, c.values...)
	}
}

// XML in the code pages of mainframes is read by many backends and not by the gateway, which must not take it for a body
// without a name.
func TestXMLInEBCDIC(t *testing.T) {
	const ebcdic = "\x4c\x6f\xa7\x94\x93\x40\xa5\x85\x99\xa2\x89\x96\x95\x7e\x7f\xf1\x4b\xf0\x7f\x6f\x6e\x4c\xa4\x61\x6e" // <?xml version="1.0"?><u/>
	for _, contentType := range []string{"", "text/plain", "application/xml", formType} {
		got := post{contentType: contentType, body: ebcdic}.read(mustCompile(t, "xml://username"))
		if got.State != Malformed {
			t.Errorf("%q: got %+v, want it malformed", contentType, got)
		}
	}
}

// FuzzXML holds the reader against encoding/xml as a backend uses it.
func FuzzXML(f *testing.F) {
	for _, seed := range []string{"<login><username>bob</username></login>", `<a username="b"><username>c</username></a>`, "<a><username>a<!--b-->c</username></a>", "<?xml version='1.0'?><a><![CDATA[x]]><x:username>y</x:username></a>", "<!DOCTYPE a><a/>", "x<a/>"} {
		f.Add(seed)
	}
	spec := mustCompile(f, "xml://username")
	f.Fuzz(func(t *testing.T, body string) {
		for _, contentType := range []string{"application/xml", "", formType} {
			p := post{contentType: contentType, body: body}
			if name := goReaders(p)["go xml"]; name != "" {
				if why := misses(p.read(spec), spec, name); why != "" {
					t.Fatalf("%q: %s", contentType, why)
				}
			}
		}
	})
}
