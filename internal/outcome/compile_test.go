package outcome

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestCompileProblems(t *testing.T) {
	success := Rule{Is: "success", Status: []string{"200"}, CookieSet: []string{"s"}}
	many := map[string]string{}
	for i := range maxPointers + 1 {
		many[fmt.Sprintf("/%d", i)] = "*"
	}
	for _, tc := range []struct {
		name string
		cfg  Config
		want []Problem // by parts of their messages
	}{
		{"nothing", Config{}, nil},
		{"sound", Config{Rules: []Rule{success}}, nil},
		{"no verdict", Config{Rules: []Rule{{Status: []string{"200"}}}}, []Problem{{0, "is", `"" is no verdict, use one of success`}}},
		{"bad verdict", Config{Rules: []Rule{success, {Is: "ok", Status: []string{"200"}}}}, []Problem{{1, "is", `"ok" is no verdict`}}},
		{"unknown", Config{Rules: []Rule{{Is: "unknown", Status: []string{"200"}}}}, []Problem{{0, "is", "leave the rule out"}}},
		{"no condition", Config{Rules: []Rule{{Is: "failure"}}}, []Problem{{0, "is", "no condition"}}},
		{"request alone", Config{Rules: []Rule{{Is: "success", Request: passwordGrant}}}, []Problem{{0, "is", "success is stated by the request alone"}}},
		{"request alone, locked", Config{Rules: []Rule{{Is: "locked", Request: passwordGrant}}}, []Problem{{0, "is", "locked is stated by the request alone"}}},
		{"request alone, neutral", Config{Rules: []Rule{{Is: "neutral", Request: passwordGrant}}}, nil},
		{"text alone", Config{Rules: []Rule{{Is: "success", Body: []string{"Welcome"}}}}, []Problem{{0, "body", "text alone never makes a success"}}},
		{"text alone with a request", Config{Rules: []Rule{{Is: "success", Body: []string{"Welcome"}, Request: passwordGrant}}}, []Problem{{0, "body", "text alone"}}},
		{"text alone, failure", Config{Rules: []Rule{{Is: "failure", Body: []string{"wrong"}}}}, nil},
		{"status", Config{Rules: []Rule{{Is: "failure", Status: []string{"200", "2yy", "4000"}}}}, []Problem{{0, "status", `"2yy" is no status`}, {0, "status", `"4000" is no status`}}},
		{"header", Config{Rules: []Rule{{Is: "failure", Header: map[string]string{"a b": "x", "location": "x", "SET-COOKIE": "x"}}}}, []Problem{
			{0, "header", "cookie_set and cookie_deleted"},
			{0, "header", `"a b" is no header name`},
			{0, "header", "location and location_query"},
			{0, "is", "no condition"},
		}},
		{"location", Config{Rules: []Rule{{Is: "failure", Location: []string{"", "/a?b", "https://x/a", "//x/a", "/sound"}}}}, []Problem{
			{0, "location", "use * for any"}, {0, "location", "put it into location_query"}, {0, "location", "has a host"}, {0, "location", "has a host"},
		}},
		{"the same as the request", Config{Rules: []Rule{{Is: "success", LocationQuery: map[string]string{"flow": "="}}}}, []Problem{{0, "location_query", "only a failure"}}},
		{"the same as the request, failure", Config{Rules: []Rule{{Is: "failure", LocationQuery: map[string]string{"flow": "="}}}}, nil},
		{"parameter without name", Config{Rules: []Rule{{Is: "failure", LocationQuery: map[string]string{"": "x"}}}}, []Problem{{0, "location_query", "empty name"}}},
		{"cookies", Config{Rules: []Rule{{Is: "failure", Status: []string{"200"}, CookieSet: []string{"a=b", "c d"}, CookieDeleted: []string{""}}}}, []Problem{
			{0, "cookie_set", `"a=b" is no cookie name`}, {0, "cookie_set", `"c d"`}, {0, "cookie_deleted", `"" is no cookie name`},
		}},
		{"json", Config{Rules: []Rule{{Is: "failure", Status: []string{"200"}, JSON: map[string]string{"a": "*", "b": "*"}}}}, []Problem{{0, "json", "must start with a slash"}, {0, "json", `"b"`}}},
		{"too many pointers", Config{Rules: []Rule{{Is: "failure", JSON: many}}}, []Problem{{0, "json", "more than 64"}}},
		{"body", Config{InspectBytes: 4, Rules: []Rule{{Is: "failure", Body: []string{"", "four", "fives"}}}}, []Problem{{0, "body", "an empty text"}, {0, "body", "within the inspected 4"}}},
		{"request", Config{Rules: []Rule{{Is: "failure", Request: Request{
			Method: []string{"PO ST"}, Path: []string{"login"}, Header: map[string]string{"a b": "x"}, JSON: map[string]string{"a": "x"},
		}}}}, []Problem{{0, "request.method", "no method"}, {0, "request.path", "no path"}, {0, "request.header", "no header name"}, {0, "request.json", "no JSON pointer"}}},
		{"inspect_bytes", Config{InspectBytes: -1}, []Problem{{-1, "inspect_bytes", "out of bounds"}}},
		{"inspect_bytes, large", Config{InspectBytes: 1<<20 + 1}, []Problem{{-1, "inspect_bytes", "out of bounds"}}},
		{"unknown_as", Config{UnknownAs: Pending}, []Problem{{-1, "unknown_as", "pending cannot stand in"}}},
		{"required, nothing", Config{Required: true}, []Problem{{-1, "outcome", "what a success looks like"}, {-1, "outcome", "what a failure looks like"}}},
		{"required, no failure", Config{Required: true, Rules: []Rule{success, {Is: "pending", Status: []string{"302"}}}}, []Problem{{-1, "outcome", "what a failure looks like"}}},
		{"required, second factor", Config{Required: true, Rules: []Rule{success, {Is: "factor_failure", Status: []string{"401"}}}}, nil},
	} {
		c, problems := Compile(tc.cfg)
		if (c == nil) != (len(tc.want) > 0) || len(problems) != len(tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, problems, tc.want)
			continue
		}
		for i, want := range tc.want {
			got := problems[i]
			if got.Rule != want.Rule || got.Field != want.Field || !strings.Contains(got.Message, want.Message) {
				t.Errorf("%s: %+v, want %+v", tc.name, got, want)
			}
		}
	}
}

// Every field of a rule must be read and be compared: one that is forgotten is a condition that does not hold.
func TestEveryFieldOfARuleCounts(t *testing.T) {
	full := Rule{
		Is: "failure", Status: []string{"200"}, Header: map[string]string{"X-A": "*"}, Location: []string{"/a"}, LocationQuery: map[string]string{"q": "1"},
		CookieSet: []string{"s"}, CookieDeleted: []string{"d"}, JSON: map[string]string{"/a": "b"}, Body: []string{"b"},
		Request: Request{
			Method: []string{"POST"}, Path: []string{"/login"}, Header: map[string]string{"X-B": "1"}, Query: map[string]string{"c": "1"},
			Form: map[string]string{"d": "1"}, JSON: map[string]string{"/e": "1"},
		},
	}
	raw := "200 OK\nX-A: 1\nLocation: /a?q=1\nSet-Cookie: s=1\nSet-Cookie: d=\n\n{\"a\":\"b\"}"
	req := &attempt{
		header: map[string][]string{"X-B": {"1"}}, query: map[string][]string{"c": {"1"}}, form: map[string][]string{"d": {"1"}},
		json: map[string]string{"/e": "1"},
	}
	answer := received(t, raw)
	classify := func(r Rule, a Answer, req *attempt) Verdict {
		return compiled(t, Config{Rules: []Rule{r}}).Classify(a, req).Verdict
	}
	if got := classify(full, answer, req); got != Failure {
		t.Fatalf("all conditions hold, and the verdict is %v", got)
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Rule]()) {
		if f.Name == "Is" || f.Name == "Request" {
			continue
		}
		one := Rule{Is: "failure"}
		reflect.ValueOf(&one).Elem().FieldByIndex(f.Index).Set(reflect.ValueOf(full).FieldByIndex(f.Index))
		if got := classify(one, answer, req); got != Failure {
			t.Errorf("%s holds, and the verdict is %v", f.Name, got)
		}
		if got := classify(one, Answer{Status: 404, Prefix: []byte("{}")}, req); got == Failure {
			t.Errorf("%s does not hold, and the rule matches", f.Name)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Request]()) {
		one := Rule{Is: "failure"}
		reflect.ValueOf(&one.Request).Elem().FieldByIndex(f.Index).Set(reflect.ValueOf(full.Request).FieldByIndex(f.Index))
		if got := classify(one, answer, req); got != Failure {
			t.Errorf("request.%s holds, and the verdict is %v", f.Name, got)
		}
		if got := classify(one, answer, &attempt{method: "GET", path: "/"}); got == Failure {
			t.Errorf("request.%s does not hold, and the rule matches", f.Name)
		}
	}
}
