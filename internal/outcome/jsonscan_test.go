package outcome

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestScanJSON(t *testing.T) {
	var pointers []pointer
	for _, text := range []string{"/a", "/a/b", "/x~1y/~0", "/l/1", "/"} {
		p, err := parsePointer(text)
		if err != nil {
			t.Fatal(err)
		}
		pointers = append(pointers, p)
	}
	for _, tc := range []struct {
		doc, want string
		whole     bool
	}{
		{`{"a":1}`, "0:1", true},
		{" \n{ \"a\" : \"x\" , \"z\" : [ ] } ", "0:x", true},
		{"\xef\xbb\xbf{\"a\":true}", "0:true", true},
		{`{"\u0061":"\u0062\/"}`, "0:b/", true},
		{`{"a":{"b":null}}`, "0:- 1:-", true},
		{`{"x/y":{"~":1.5e3}}`, "2:1.5e3", true},
		{`{"l":[1,"two",3]}`, "3:two", true},
		{`{"":7,"a":-1.5E+3}`, "4:7 0:-1.5E+3", true},
		{`{"a":1} trailing`, "0:1", true},
		{`{"a":1,}`, "0:1", false},
		{`{"a":1`, "", false},
		{`{"a":12`, "", false},
		{`{"a":1 `, "0:1", false},
		{`{"a":"x","b":"y`, "0:x", false},
		{`{"a":"x\"y","b":"y\`, "0:x\"y", false},
		{`{"a":tru`, "", false},
		{`{"a":{"b":2,`, "0:- 1:2", false},
		{`{"b":{"a":1}}`, "", true},
		{`[{"a":1}]`, "", true},
		{`"a"`, "", true},
		{`{a:1}`, "", false},
		{`{"a" 1}`, "", false},
		{`{:1}`, "", false},
		{strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1), "", true},
		{strings.Repeat("[", maxDepth+2) + strings.Repeat("]", maxDepth+2), "", false},
		{`{"a":1 "b":2}`, "0:1", false},
		{`<html>`, "", false},
		{``, "", false},
		{`{"a":"\ud800\q"}`, `0:\ud800\q`, true},
		{strings.Repeat(`{"a":`, 100000), "0:- 1:-", false},
	} {
		found, whole := scanJSON([]byte(tc.doc), pointers)
		var got []string
		for _, v := range found {
			text, ok := v.text()
			if !ok {
				text = "-"
			}
			got = append(got, string(rune('0'+v.pointer))+":"+text)
		}
		want := tc.want
		if len(tc.doc) > 1000 {
			want = "0:-"
		}
		if s := strings.Join(got, " "); s != want || whole != tc.whole {
			t.Errorf("%.60s: %q, whole %v, want %q, %v", tc.doc, s, whole, want, tc.whole)
		}
	}
}

func FuzzScanJSON(f *testing.F) {
	f.Add([]byte(`{"a":{"b":["x",1.5,true,null,{"c":"\u00e9"}]},"a":2}`))
	f.Add([]byte(`[{"a":"b"}`))
	pointers := []pointer{{"a"}, {"a", "b"}, {"*"}, {"*", "*"}, {"0"}}
	f.Fuzz(func(t *testing.T, doc []byte) {
		found, whole := scanJSON(doc, pointers)
		var tree any
		if !utf8.Valid(doc) || json.Unmarshal(doc, &tree) != nil {
			return
		}
		members, isObject := tree.(map[string]any)
		if _, isNumber := tree.(float64); !whole && !isNumber && !deep(doc) {
			t.Errorf("%q is sound and was not seen whole", doc)
		}
		// The last of several members is what the standard library reports.
		var last *jsonValue
		for i, v := range found {
			if v.pointer == 0 {
				last = &found[i]
			}
		}
		want, ok := members["a"]
		if isObject && ok != (last != nil) {
			t.Fatalf("%q: member a found %v, want %v", doc, last, ok)
		}
		if text, isText := want.(string); isText {
			if got, _ := last.text(); got != text {
				t.Errorf("%q: member a is %q, want %q", doc, got, text)
			}
		}
		for n := range doc {
			if cut, _ := scanJSON(doc[:n], pointers); len(cut) > len(found) {
				t.Errorf("%q, cut at %d, has more members than the whole", doc, n)
			}
		}
	})
}

func deep(doc []byte) bool {
	return strings.Count(string(doc), "[")+strings.Count(string(doc), "{") > maxDepth
}
