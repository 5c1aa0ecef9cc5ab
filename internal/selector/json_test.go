package selector

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// reading is a short way to write down an expected Reading.
func wantReading(t *testing.T, name string, got Reading, state State, reason Reason, values ...string) {
	t.Helper()
	if got.State != state || got.Reason != reason || !slices.Equal(got.Values, values) {
		t.Errorf("%s: got %+v, want state %d, reason %q, values %q", name, got, state, reason, values)
	}
}

func TestJSON(t *testing.T) {
	for _, c := range []struct {
		name, selector, body string
		state                State
		reason               Reason
		values               []string
	}{
		{"plain", "json:/username", `{"username":"Bob"}`, Named, "", []string{"bob"}},
		{"nested", "json:/user/email", `{"user":{"email":"bob"}}`, Named, "", []string{"bob"}},
		{"escaped pointer", "json:/a~1b/c~0d", `{"a/b":{"c~d":"bob"}}`, Named, "", []string{"bob"}},
		{"index", "json:/users/1/name", `{"users":[{"name":"al"},{"name":"bob"}]}`, Named, "", []string{"bob"}},
		{"index beyond", "json:/users/7/name", `{"users":[{"name":"al"}]}`, Missing, Absent, nil},
		{"index as a member", "json:/0", `{"0":"bob"}`, Named, "", []string{"bob"}},
		{"case", "json:/username", `{"UserName":"bob"}`, Named, "", []string{"bob"}},
		{"case, twice the same", "json:/username", `{"UserName":"bob","username":"BOB "}`, Named, "", []string{"bob"}},
		{"case, two", "json:/username", `{"UserName":"al","username":"bob"}`, Ambiguous, Duplicate, []string{"al", "bob"}},
		{"duplicate", "json:/username", `{"username":"al","username":"bob"}`, Ambiguous, Duplicate, []string{"al", "bob"}},
		{"duplicate outer", "json:/u/n", `{"u":{"n":"al"},"u":{"n":"bob"}}`, Ambiguous, Duplicate, []string{"al", "bob"}},
		{"duplicate outer, one without", "json:/u/n", `{"u":{"n":"al"},"u":{}}`, Ambiguous, Duplicate, []string{"al"}},
		{"duplicate and null", "json:/username", `{"username":"al","username":null}`, Ambiguous, Duplicate, []string{"al"}},
		{"escaped name", "json:/username", `{"user\u006eame":"bob"}`, Named, "", []string{"bob"}},
		{"long s", "json:/username", `{"u\u017fername":"bob"}`, Named, "", []string{"bob"}},
		{"blank in the name", "json:/username", `{"username ":"bob"}`, Named, "", []string{"bob"}},
		{"prototype", "json:/username", `{"__proto__":{"username":"bob"}}`, Named, "", []string{"bob"}},
		{"prototype beside", "json:/username", `{"username":"al","__proto__":{"username":"bob"}}`, Ambiguous, Duplicate, []string{"al", "bob"}},
		{"absent", "json:/username", `{"x":1}`, Missing, Absent, nil},
		{"null", "json:/username", `{"username":null}`, Missing, Null, nil},
		{"empty", "json:/username", `{"username":""}`, Missing, Empty, nil},
		{"blank", "json:/username", `{"username":" \t\u00a0"}`, Missing, Empty, nil},
		{"outer null", "json:/user/email", `{"user":null}`, Missing, Absent, nil},
		{"number", "json:/username", `{"username":12345}`, Named, "", []string{"12345"}},
		{"negative number", "json:/username", `{"username":-5}`, Named, "", []string{"-5"}},
		{"zero", "json:/username", `{"username":0}`, Named, "", []string{"0"}},
		{"minus zero", "json:/username", `{"username":-0}`, Malformed, Number, nil},
		{"fraction", "json:/username", `{"username":1.0}`, Malformed, Number, nil},
		{"exponent", "json:/username", `{"username":1e3}`, Malformed, Number, nil},
		{"15 digits", "json:/username", `{"username":123456789012345}`, Named, "", []string{"123456789012345"}},
		{"16 digits", "json:/username", `{"username":1234567890123456}`, Malformed, Number, nil},
		{"true", "json:/username", `{"username":true}`, Named, "", []string{"true"}},
		{"false", "json:/username", `{"username":false}`, Named, "", []string{"false"}},
		{"array", "json:/username", `{"username":["bob"]}`, Malformed, Type, nil},
		{"object", "json:/username", `{"username":{"a":"bob"}}`, Malformed, Type, nil},
		{"text where an object should be", "json:/user/email", `{"user":"{\"email\":\"bob\"}"}`, Malformed, Type, nil},
		{"array where an object should be", "json:/user/email", `{"user":[{"email":"bob"}]}`, Malformed, Type, nil},
		{"NUL", "json:/username", `{"username":"bob\u0000"}`, Malformed, NUL, nil},
		{"NUL in the name", "json:/username", `{"username\u0000x":"bob"}`, Malformed, NUL, nil},
		{"NUL in another name", "json:/username", `{"username":"bob","x\u0000":1}`, Named, "", []string{"bob"}},
		{"NUL elsewhere", "json:/username", `{"username":"bob","x":"\u0000"}`, Named, "", []string{"bob"}},
		{"half a surrogate pair", "json:/username", `{"username":"bob\ud800"}`, Malformed, Surrogate, nil},
		{"wrong order", "json:/username", `{"username":"\ude00\ud83d"}`, Malformed, Surrogate, nil},
		{"surrogate pair", "json:/username", `{"username":"\ud83d\ude00"}`, Named, "", []string{"😀"}},
		{"half a pair elsewhere", "json:/username", `{"username":"bob","x":"\ud800"}`, Named, "", []string{"bob"}},
		{"half a pair in a name", "json:/username", `{"username":"bob","username\ud800":"al"}`, Malformed, Surrogate, []string{"bob"}},
		{"escapes", "json:/username", `{"username":"a\/\\\"b"}`, Named, "", []string{`a/\"b`}},
		{"tab within", "json:/username", `{"username":"a\tb"}`, Named, "", []string{"a b"}},
		{"byte order mark", "json:/username", "\ufeff" + `{"username":"bob"}`, Named, "", []string{"bob"}},
		{"broken UTF-8", "json:/username", "{\"username\":\"b\xff\"}", Malformed, Encoding, nil},
		{"overlong UTF-8", "json:/username", "{\"username\":\"b\xc1\xa1\"}", Malformed, Encoding, nil},
		{"comment", "json:/username", `{/**/"username":"bob"}`, Malformed, Syntax, nil},
		{"comment first", "json:/username", "//\n" + `{"username":"bob"}`, Malformed, Syntax, nil},
		{"NaN", "json:/username", `{"username":"bob","x":NaN}`, Malformed, Syntax, nil},
		{"trailing comma", "json:/username", `{"username":"bob",}`, Malformed, Syntax, nil},
		{"single quotes", "json:/username", `{'username':'bob'}`, Malformed, Syntax, nil},
		{"control character", "json:/username", "{\"username\":\"bob\",\"x\":\"\n\"}", Malformed, Syntax, nil},
		{"unknown escape", "json:/username", `{"username":"bob","x":"\x41"}`, Malformed, Syntax, nil},
		{"short escape", "json:/username", `{"username":"bob","x":"\u12"}`, Malformed, Syntax, nil},
		{"leading zero", "json:/username", `{"username":"bob","x":01}`, Malformed, Syntax, nil},
		{"bare point", "json:/username", `{"username":"bob","x":1.}`, Malformed, Syntax, nil},
		{"form feed", "json:/username", "\f" + `{"username":"bob"}`, Malformed, Syntax, nil},
		{"no name", "json:/username", `{1}`, Malformed, Syntax, nil},
		{"no colon", "json:/username", `{"username" "bob"}`, Malformed, Syntax, nil},
		{"no value", "json:/username", `{"username":}`, Malformed, Syntax, nil},
		{"no comma", "json:/username", `{"username":"bob" "x":1}`, Malformed, Syntax, nil},
		{"unfinished text", "json:/username", `{"username":"bob`, Malformed, Syntax, nil},
		{"unfinished escape", "json:/username", `{"username":"bob\`, Malformed, Syntax, nil},
		{"unfinished word", "json:/username", `{"username":"bob","x":tru}`, Malformed, Syntax, nil},
		{"unfinished exponent", "json:/username", `{"username":"bob","x":1e+}`, Malformed, Syntax, nil},
		{"large exponent", "json:/username", `{"username":"bob","x":-1.5E+10}`, Named, "", []string{"bob"}},
		{"unfinished", "json:/username", `{"username":"bob"`, Malformed, Syntax, nil},
		{"no JSON", "json:/username", `username=bob`, Malformed, Syntax, nil},
		{"second document", "json:/username", `{"username":"bob"}{"username":"al"}`, Malformed, Trailing, nil},
		{"text behind", "json:/username", `{"username":"bob"} x`, Malformed, Trailing, nil},
		{"NUL behind", "json:/username", "{\"username\":\"bob\"}\x00", Malformed, Trailing, nil},
		{"newline behind", "json:/username", "{\"username\":\"bob\"}\r\n", Named, "", []string{"bob"}},
		{"deep enough", "json:/username", `{"username":"bob","x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", Named, "", []string{"bob"}},
		{"too deep", "json:/username", `{"username":"bob","x":` + strings.Repeat("[", 101) + strings.Repeat("]", 101) + "}", Malformed, Depth, nil},
		{"scalar document", "json:/username", `"username"`, Missing, Absent, nil},
		{"too many values", "json:/username", `{"username":1,"username":2,"username":3,"username":4,"username":5,"username":6,"username":7,"username":8,"username":9}`, Malformed, Many, []string{"1", "2", "3", "4", "5", "6", "7", "8"}},
		{"too many odd names", "json:/username", `{"username":"bob"` + strings.Repeat(`,"é":1`, 1001) + "}", Malformed, Many, []string{"bob"}},
		{"blank body", "json:/username", " \r\n", Missing, Absent, nil},
		{"empty body", "json:/username", "", Missing, Absent, nil},
	} {
		got := post{contentType: "application/json", body: c.body}.read(mustCompile(t, c.selector))
		wantReading(t, c.name, got, c.state, c.reason, c.values...)
	}
}

// FuzzJSON holds the scanner against encoding/json: it accepts no more, and no less but for what it refuses on purpose.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"username":"bob"}`, `{"a":[1,2,{"b":null}]}`, `[1e5,-0.1,true,false]`, `"\u00e9\ud83d\ude00"`, "\ufeff{}", `{"a":"\\\""}`, `{"username":"a","Username":"b"}`, `{"u\u017fername":1}`} {
		f.Add(seed)
	}
	spec := mustCompile(f, "json:/username")
	f.Fuzz(func(t *testing.T, body string) {
		var doc jsonDoc
		fault := doc.parse([]byte(body))
		valid := json.Valid([]byte(body))
		if fault == "" && !json.Valid([]byte(strings.TrimPrefix(body, "\ufeff"))) {
			t.Fatalf("accepts %q", body)
		}
		if valid && fault != "" && fault != Depth && (fault != Encoding || utf8.ValidString(body)) {
			t.Fatalf("refuses %q: %s", body, fault)
		}
		p := post{contentType: "application/json", body: body}
		r := p.read(spec)
		for reader, name := range goReaders(p) {
			if strings.HasPrefix(reader, "go json") {
				if why := misses(r, spec, name); why != "" {
					t.Fatalf("%s: %s", reader, why)
				}
			}
		}
	})
}
