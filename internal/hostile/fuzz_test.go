package hostile

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

// fuzzRounds is how many requests go to each backend where no time is set.
const fuzzRounds = 1500

// TestFuzz sends changed bodies and targets to the real backends, and holds what they make of them against what was charged.
// HOSTILE_FUZZ=10m has it go on for so long; HOSTILE_SEED=2 has it take another way than the usual one.
func TestFuzz(t *testing.T) {
	var long time.Duration
	seed := uint64(1)
	if text := os.Getenv("HOSTILE_FUZZ"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("HOSTILE_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	end := time.Now().Add(long)
	bodies, routes := class("fuzzed bodies"), class("fuzzed routes")
	cases := append(tableCases(t), requestCases()...)
	for i, b := range backends.all(t) {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			if !b.names {
				fuzzRoutes(t, routes, b, random, func(round int) bool { return long == 0 && round < fuzzRounds || time.Now().Before(end) })
				return
			}
			r := newBodyRun(t, bodies, b)
			r.s.account.quiet = true
			for round := 0; long == 0 && round < fuzzRounds || time.Now().Before(end); round++ {
				if round%1000 == 999 && long > 0 {
					// A while for the routes: their gateway has buckets of its own.
					fuzzRoutes(t, routes, b, random, func(round int) bool { return round < 300 })
				}
				c := mutateCase(random, cases)
				r.try(&c, random.IntN(headList))
				if round%100 == 0 {
					b.take() // or it would grow for as long as this goes on
				}
			}
			r.finish(r.tries / 50)
		})
	}
}

// fuzzRoutes tries random spellings of the login, for as long as on says.
func fuzzRoutes(t *testing.T, tally *tally, b *backend, random *rand.Rand, on func(round int) bool) {
	t.Run("routes", func(t *testing.T) {
		s := begin(t, b, patient, routePolicies)
		s.account.quiet = true
		for round := 0; on(round); {
			list := make([]spelling, 100)
			for i := range list {
				list[i] = spelling{method: "POST", target: randomTarget(random), probe: "/login"}
			}
			tryRoutes(t, tally, b, s, list, fmt.Sprint("f", round))
			b.take()
			round += len(list)
		}
	})
}

// mutateCase changes one of the known requests in a few ways.
func mutateCase(random *rand.Rand, cases []bodyCase) bodyCase {
	c := cases[random.IntN(len(cases))]
	if random.IntN(2) == 0 { // most of the others are refused as they are
		c = plainCases[random.IntN(len(plainCases))]
	}
	c.body = bytes.Clone(c.body)
	for range 1 + random.IntN(3) {
		switch random.IntN(8) {
		case 0:
			c.contentType = otherTypes[random.IntN(len(otherTypes))]
			c.fields = nil
		case 1:
			c.query = []string{"", "", "username=query", "user%6eame=query", "username[]=query", "x=1&username=query&username=query", "Username=query", "x;username=query"}[random.IntN(8)]
		case 2: // a piece of another body
			other := cases[random.IntN(len(cases))].body
			if len(other) == 0 {
				continue
			}
			from := random.IntN(len(other))
			c.body = insert(random, c.body, other[from:from+random.IntN(len(other)-from)+1])
		default:
			c.body = mutateBody(random, c.body)
		}
	}
	c.body = c.body[:min(len(c.body), 32<<10)]
	c.name = "mutation of " + c.name
	return c
}

// plainCases are requests that pass.
var plainCases = []bodyCase{
	{name: "JSON", contentType: "application/json", body: []byte(`{"username":"bob","password":"x"}`)},
	{name: "longer JSON", contentType: "application/json", body: []byte(`{"a":{"b":[1,2,{"username":"x"}]},"username":"bob","c":"d\u0065","e":null}`)},
	{name: "JSON with semicolons", contentType: "application/json", body: []byte(`{"username":"bob","x":"a;b=c&d;e=f"}`)},
	{name: "JSON without a type", body: []byte(`{"username":"bob"}`)},
	{name: "a form", contentType: "application/x-www-form-urlencoded", body: []byte("username=bob&password=x")},
	{name: "a longer form", contentType: "application/x-www-form-urlencoded; charset=utf-8", body: []byte("a=b%20c&d&username=jos%C3%A9&e[]=f&password=x%2By")},
	{name: "text", contentType: "text/plain", body: []byte("username=bob")},
	{name: "parts", contentType: "multipart/form-data; boundary=B", body: []byte("--B\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nbob\r\n--B--\r\n")},
	{name: "more parts", contentType: "multipart/form-data; boundary=B", body: []byte("--B\r\nContent-Disposition: form-data; name=\"a\"; filename=\"b\"\r\nContent-Type: text/plain\r\n\r\nc\r\n--B\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nbob\r\n--B--\r\n")},
	{name: "XML", contentType: "application/xml", body: []byte("<?xml version=\"1.0\"?><login a=\"b\"><username>bob</username><c/></login>")},
}

var otherTypes = []string{
	"", "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=B", "application/xml", "text/plain", "application/octet-stream", "text/xml; charset=utf-8",
	"application/json; charset=utf-8", "application/json; charset=latin1", "application/x-www-form-urlencoded; charset=utf-8", "multipart/form-data; boundary=\"B\"", "multipart/mixed; boundary=B",
	"multipart/form-data; boundary=B; boundary=C", "multipart/form-data; charset=utf-8; boundary=B", "application/json, text/plain", "application/ld+json", "Application/JSON ; charset=\"utf-8\"",
	"multipart/form-data;boundary=B;", "multipart/form-data; boundary='B'", "multipart/form-data; boundary=B ; x=\"boundary=C\"", "application/x-www-form-urlencoded;boundary=B", "application/json;boundary=B",
}

// tokens are what parsers look for.
var tokens = []string{
	"username", "user", "Username", `"username"`, `"username":`, `"username":"victim"`, `,"username":"victim"`, "username=victim", "&username=victim", ";username=victim", "user%6eame=", "username[]=", "[username]=", "%00", "\x00",
	"\\u0000", "\\u006e", "\\", "\"", "'", "{", "}", "[", "]", ",", ":", "&", "=", ";", "?", "#", "%", "+", " ", "\t", "\r\n", "\n", "\r", "\v", "\f", "\ufeff", "\u00a0", "\u200b", "\u2028", "\u0131", "\u017f", "\u212a", "\xff", "\xc0\xaf", "\xc1\xa9", "\xed\xa0\x80",
	"//", "/*", "*/", "<!--", "-->", "<![CDATA[", "]]>", "<?x?>", "<username>victim</username>", "</username>", "<username>", "&#118;", "&amp;", "&v;", "<!DOCTYPE a>", "xmlns=\"a\"", "--B", "--B--", "\r\n--B\r\n", "\r\n--B--\r\n", "--B\r\n",
	"Content-Disposition: form-data; name=\"username\"\r\n\r\nvictim\r\n", "Content-Disposition: form-data; name=\"username\"", "; name=\"username\"", "; name=username", "; name*=utf-8''username", "; filename=\"x\"", "; filename*=utf-8''x", "name=", "\r\n\r\n", "\r\nContent-Type: text/plain; charset=utf-16le",
	"\r\nContent-Transfer-Encoding: base64", "form-data", "null", "true", "NaN", "1e3", "-0", "\"\"", "{}", "[]", "__proto__", "constructor", "operations", "_charset_=utf-7&", "utf8=\u2713&", "\xfe\xff", "\xff\xfe", "\x1f\x8b",
}

// mutateBody changes a body in one way.
func mutateBody(random *rand.Rand, body []byte) []byte {
	if len(body) == 0 {
		return []byte(tokens[random.IntN(len(tokens))])
	}
	at := random.IntN(len(body))
	to := min(len(body), at+1+random.IntN(12))
	switch random.IntN(9) {
	case 0: // another byte
		body[at] = byte(random.IntN(256))
		return body
	case 1: // fewer bytes
		return append(body[:at], body[to:]...)
	case 2: // again
		return insert(random, body, bytes.Clone(body[at:to]))
	case 3: // all of it again
		return append(body, body...)
	case 4: // other letters
		return append(append(bytes.Clone(body[:at]), bytes.ToUpper(body[at:to])...), body[to:]...)
	case 5: // percent-encoded
		return append(append(bytes.Clone(body[:at]), fmt.Sprintf("%%%02x", body[at])...), body[at+1:]...)
	case 6: // escaped as in JSON
		return append(append(bytes.Clone(body[:at]), fmt.Sprintf("\\u%04x", body[at])...), body[at+1:]...)
	case 7: // something in place of something
		old, with := tokens[random.IntN(len(tokens))], tokens[random.IntN(len(tokens))]
		if strings.Contains(string(body), old) {
			return []byte(strings.Replace(string(body), old, with, 1+random.IntN(2)))
		}
	}
	return insert(random, body, []byte(tokens[random.IntN(len(tokens))]))
}

func insert(random *rand.Rand, body, piece []byte) []byte {
	at := random.IntN(len(body) + 1)
	return append(append(bytes.Clone(body[:at]), piece...), body[at:]...)
}
