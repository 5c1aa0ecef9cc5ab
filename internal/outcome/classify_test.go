package outcome

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"testing"
)

func TestVerdictWords(t *testing.T) {
	for v, word := range map[Verdict]string{
		Unknown: "unknown", Success: "success", Failure: "failure", Pending: "pending", FactorFailure: "factor_failure",
		ClientFailure: "client_failure", Locked: "locked", Neutral: "neutral",
	} {
		if got := v.String(); got != word {
			t.Errorf("Verdict(%d).String() = %q, want %q", v, got, word)
		}
		if got, err := ParseVerdict(word); got != v || err != nil {
			t.Errorf("ParseVerdict(%q) = %v, %v, want %v", word, got, err, v)
		}
	}
	for _, word := range []string{"", "Success", "ok", "verdict(9)"} {
		if _, err := ParseVerdict(word); err == nil {
			t.Errorf("ParseVerdict(%q) gives no error", word)
		}
	}
	if got := Verdict(9).String(); got != "verdict(9)" {
		t.Errorf("Verdict(9).String() = %q", got)
	}
}

// The example of the configuration's contract.
func TestExampleRules(t *testing.T) {
	c := compiled(t, Config{Required: true, Rules: []Rule{
		{Is: "pending", Status: []string{"302"}, Location: []string{"/user/two_factor*"}},
		{Is: "success", Status: []string{"302"}, CookieSet: []string{"session"}},
		{Is: "failure", Status: []string{"200", "401"}, Body: []string{`id="login_error"`}},
		{
			Is: "failure", Status: []string{"400"}, JSON: map[string]string{"/error": "invalid_grant"},
			Request: Request{Form: map[string]string{"grant_type": "password"}},
		},
	}})
	for _, tc := range []struct {
		name string
		req  RequestView
		raw  string
		want Result
	}{
		{"first rule", typed("u", "a"), "302 Found\nLocation: /user/two_factor/totp\nSet-Cookie: session=1\n\n", Result{Pending, Pending, 0, false}},
		{"second rule", typed("u", "a"), "302 Found\nLocation: /\nSet-Cookie: session=1\n\n", Result{Success, Success, 1, false}},
		{"third rule", typed("u", "a"), "401 Unauthorized\n\n<p id=\"login_error\">", Result{Failure, Failure, 2, false}},
		{"fourth rule", grant("password"), "400 Bad Request\n\n{\"error\":\"invalid_grant\"}", Result{Failure, Failure, 3, false}},
		{"another grant", grant("refresh_token"), "400 Bad Request\n\n{\"error\":\"invalid_grant\"}", Result{Unknown, Neutral, -1, false}},
		{"nothing known of the request", nil, "400 Bad Request\n\n{\"error\":\"invalid_grant\"}", Result{Unknown, Neutral, -1, false}},
		{"nothing known of the request, first rule", nil, "302 Found\nLocation: /user/two_factor\n\n", Result{Pending, Pending, 0, false}},
		{"no rule", typed("u", "a"), "200 OK\n\nhello", Result{Unknown, Neutral, -1, false}},
		{"server error", typed("u", "a"), "503 Service Unavailable\n\n", Result{Neutral, Neutral, -1, false}},
		{"cookie deleted", typed("u", "a"), "302 Found\nLocation: /\nSet-Cookie: session=; Max-Age=0\n\n", Result{Unknown, Neutral, -1, false}},
	} {
		a := received(t, tc.raw)
		if got := c.Classify(a, tc.req); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestUnknownAs(t *testing.T) {
	rules := []Rule{{Is: "success", Status: []string{"200"}, CookieSet: []string{"s"}}}
	for as, want := range map[Verdict]Verdict{Unknown: Neutral, Neutral: Neutral, Failure: Failure, Success: Success} {
		c := compiled(t, Config{Rules: rules, UnknownAs: as})
		if got := c.Classify(Answer{Status: 404}, nil); got != (Result{Unknown, want, -1, false}) {
			t.Errorf("unknown as %v: %+v, want counted as %v", as, got, want)
		}
		if got := c.Classify(Answer{Status: 500}, nil); got != (Result{Neutral, Neutral, -1, false}) {
			t.Errorf("a 500, unknown as %v: %+v, want neutral", as, got)
		}
	}
}

func TestNeedsBody(t *testing.T) {
	c := compiled(t, Config{Rules: []Rule{
		{Is: "locked", Status: []string{"429"}},
		{Is: "success", Status: []string{"302"}, CookieSet: []string{"s"}},
		{Is: "neutral", Status: []string{"200"}, Body: []string{"x"}, Request: Request{Method: []string{"GET"}}},
		{Is: "failure", Status: []string{"401"}, Body: []string{"wrong"}},
		{Is: "failure", Status: []string{"400", "304"}, JSON: map[string]string{"/error": "*"}},
	}})
	cookie := http.Header{"Set-Cookie": {"s=1"}}
	for _, tc := range []struct {
		status int
		header http.Header
		req    *attempt
		want   bool
	}{
		{429, nil, &attempt{}, false},
		{302, cookie, &attempt{}, false},
		{302, nil, &attempt{}, false},
		{200, cookie, &attempt{}, false},
		{200, nil, &attempt{method: "GET"}, true},
		{200, nil, &attempt{method: "HEAD"}, false},
		{401, cookie, &attempt{}, true},
		{401, cookie, &attempt{method: "HEAD"}, false},
		{400, nil, &attempt{}, true},
		{304, nil, &attempt{}, false},
		{500, nil, &attempt{}, false},
	} {
		if got := c.NeedsBody(tc.status, tc.header, tc.req); got != tc.want {
			t.Errorf("NeedsBody(%d, %v, %s) = %v, want %v", tc.status, tc.header, tc.req.Method(), got, tc.want)
		}
	}
}

func TestRequestPredicates(t *testing.T) {
	for _, tc := range []struct {
		name string
		rule Request
		req  *attempt
		want match
	}{
		{"method", Request{Method: []string{"put", "post"}}, &attempt{}, hit},
		{"other method", Request{Method: []string{"put"}}, &attempt{}, miss},
		{"path", Request{Path: []string{"/api/*/otp", "/x"}}, &attempt{path: "/API/v1/OTP"}, hit},
		{"other path", Request{Path: []string{"/api/*"}}, &attempt{path: "/apis"}, miss},
		{"form", Request{Form: map[string]string{"a": "b"}}, &attempt{form: url.Values{"a": {"B"}}}, hit},
		{"form, other value", Request{Form: map[string]string{"a": "b"}}, &attempt{form: url.Values{"a": {"c"}}}, miss},
		{"form, other part", Request{Form: map[string]string{"a": "b"}}, &attempt{query: url.Values{"a": {"b"}}}, miss},
		{"form, present", Request{Form: map[string]string{"a": "*"}}, &attempt{form: url.Values{"a": {""}}}, hit},
		{"form, not present", Request{Form: map[string]string{"a": "*"}}, &attempt{}, miss},
		{"form, absent", Request{Form: map[string]string{"a": ""}}, &attempt{}, hit},
		{"form, empty", Request{Form: map[string]string{"a": ""}}, &attempt{form: url.Values{"a": {""}}}, hit},
		{"form, not absent", Request{Form: map[string]string{"a": ""}}, &attempt{form: url.Values{"a": {"b"}}}, miss},
		{"form, twice the same", Request{Form: map[string]string{"a": "b"}}, &attempt{form: url.Values{"a": {"b", "b"}}}, hit},
		{"form, twice not the same", Request{Form: map[string]string{"a": "b"}}, &attempt{form: url.Values{"a": {"b", "c"}}}, doubtful},
		{"query", Request{Query: map[string]string{"a": "b*"}}, &attempt{query: url.Values{"a": {"bcd"}}}, hit},
		{"json", Request{JSON: map[string]string{"/a": "b"}}, &attempt{json: map[string]string{"/a": "b"}}, hit},
		{"json, other", Request{JSON: map[string]string{"/a": "b"}}, &attempt{json: map[string]string{"/b": "b"}}, miss},
		{"header", Request{Header: map[string]string{"x-kind": "Ab*"}}, &attempt{header: http.Header{"X-Kind": {"aBc"}}}, hit},
		{"all of several", Request{Form: map[string]string{"a": "1", "b": "2"}}, &attempt{form: url.Values{"a": {"1"}}}, miss},
	} {
		rules := []Rule{{Is: "neutral", Status: []string{"200"}, Request: tc.rule}}
		got := compiled(t, Config{Rules: rules}).Classify(Answer{Status: 200}, tc.req)
		want := map[match]Result{hit: {Neutral, Neutral, 0, false}, miss: {Unknown, Neutral, -1, false}, doubtful: {Unknown, Neutral, -1, true}}[tc.want]
		if got != want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, want)
		}
		rules[0].Is = "failure"
		if got := compiled(t, Config{Rules: rules}).Classify(Answer{Status: 200}, tc.req); (got.Verdict == Failure) != (tc.want != miss) {
			t.Errorf("%s: a failure is %+v", tc.name, got)
		}
	}
}

func TestHeaderConditions(t *testing.T) {
	header := http.Header{"X-Kind": {"one", "two"}, "X-Empty": {""}}
	for _, tc := range []struct {
		name, want string
		hits       bool
	}{
		{"X-Kind", "one", true},
		{"x-KIND", "two", true},
		{"X-Kind", "t*", true},
		{"X-Kind", "*", true},
		{"X-Kind", "three", false},
		{"X-Kind", "ONE", false},
		{"X-Kind", "", false},
		{"X-Empty", "*", true},
		{"X-Empty", "", true},
		{"X-Other", "*", false},
		{"X-Other", "", true},
	} {
		c := compiled(t, Config{Rules: []Rule{{Is: "success", Header: map[string]string{tc.name: tc.want}}}})
		if got := c.Classify(Answer{Status: 200, Header: header}, &attempt{}); (got.Rule == 0) != tc.hits {
			t.Errorf("%s: %q: %+v, want a match: %v", tc.name, tc.want, got, tc.hits)
		}
	}
}

func TestMemberConditions(t *testing.T) {
	const doc = `{"s":"text","n":1.50,"t":true,"z":null,"e":"","o":{"x":1},"l":[{"id":7},{"id":8}],"twice":"a","twice":"b","same":1,"same":1}`
	for _, tc := range []struct {
		pointer, want string
		match         match
	}{
		{"/s", "text", hit},
		{"/s", "te*", hit},
		{"/s", "TEXT", miss},
		{"/s", "*", hit},
		{"/s", "", miss},
		{"/n", "1.50", hit},
		{"/n", "1.5", miss},
		{"/t", "true", hit},
		{"/z", "*", miss},
		{"/z", "", hit},
		{"/z", "null", miss},
		{"/e", "", hit},
		{"/e", "*", hit},
		{"/none", "", hit},
		{"/none", "*", miss},
		{"/o", "*", hit},
		{"/o", "x*", miss},
		{"/o", "", miss},
		{"/o/x", "1", hit},
		{"/l/0/id", "7", hit},
		{"/l/1/id", "8", hit},
		{"/l/2/id", "*", miss},
		{"/l/*/id", "8", hit},
		{"/*/x", "1", hit},
		{"/twice", "b", doubtful},
		{"/twice", "*", hit},
		{"/same", "1", hit},
	} {
		rules := []Rule{{Is: "success", JSON: map[string]string{tc.pointer: tc.want}}}
		got := compiled(t, Config{Rules: rules}).Classify(Answer{Status: 200, Prefix: []byte(doc)}, &attempt{})
		want := map[match]Result{hit: {Success, Success, 0, false}, miss: {Unknown, Neutral, -1, false}, doubtful: {Unknown, Neutral, -1, true}}[tc.match]
		if got != want {
			t.Errorf("%s: %q: %+v, want %+v", tc.pointer, tc.want, got, want)
		}
		rules[0].Is = "failure"
		if got := compiled(t, Config{Rules: rules}).Classify(Answer{Status: 200, Prefix: []byte(doc)}, &attempt{}); (got.Rule == 0) != (tc.match != miss) {
			t.Errorf("%s: %q: a failure is %+v", tc.pointer, tc.want, got)
		}
	}
	absent := compiled(t, Config{Rules: []Rule{{Is: "success", JSON: map[string]string{"/none": ""}}}})
	if got := absent.Classify(Answer{Status: 200, Prefix: []byte(doc[:60]), Truncated: true}, &attempt{}); got.Rule != -1 {
		t.Errorf("a member counts as absent from a document that was not seen whole: %+v", got)
	}
}

func TestFailed(t *testing.T) {
	plain := []Rule{{Is: "failure", Status: []string{"401"}}}
	ruled := []Rule{
		{Is: "success", Status: []string{"5xx"}, Request: Request{Method: []string{"PUT"}}},
		{Is: "failure", Status: []string{"504"}},
		{Is: "locked", Status: []string{"502"}},
	}
	timeout := &url.Error{Op: "Post", URL: "/", Err: os.ErrDeadlineExceeded}
	neutral := Result{Neutral, Neutral, -1, false}
	for _, tc := range []struct {
		name  string
		rules []Rule
		err   error
		req   *attempt
		want  Result
	}{
		{"timeout", plain, timeout, &attempt{}, neutral},
		{"connection", plain, errors.New("refused"), &attempt{}, neutral},
		{"timeout, ruled", ruled, fmt.Errorf("asking: %w", timeout), &attempt{}, Result{Failure, Failure, 1, false}},
		{"deadline, ruled", ruled, context.DeadlineExceeded, &attempt{}, Result{Failure, Failure, 1, false}},
		{"connection, ruled", ruled, errors.New("refused"), &attempt{}, Result{Locked, Locked, 2, false}},
		{"cancelled, ruled", ruled, fmt.Errorf("asking: %w", context.Canceled), &attempt{}, neutral},
		{"never a success", ruled, errors.New("refused"), &attempt{method: "PUT"}, neutral},
	} {
		c := compiled(t, Config{Rules: tc.rules, UnknownAs: Failure})
		if got := c.Failed(tc.err, tc.req); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestJSONText(t *testing.T) {
	c := compiled(t, Config{})
	for _, tc := range []struct {
		doc, pointer, want string
		ok                 bool
	}{
		{`{"user":{"email":"a@example.test"}}`, "/user/email", "a@example.test", true},
		{`{"user":{"id":17}}`, "/user/id", "17", true},
		{`{"user":{"id":null}}`, "/user/id", "", false},
		{`{"user":{"id":{}}}`, "/user/id", "", false},
		{`{"user":"a","user":"b"}`, "/user", "", false},
		{`{"user":"a"}`, "/name", "", false},
		{`{"user":"a"}`, "user", "", false},
		{`{"user":"a`, "/user", "", false},
	} {
		got, ok := c.JSONText(Answer{Prefix: []byte(tc.doc)}, tc.pointer)
		if got != tc.want || ok != tc.ok {
			t.Errorf("JSONText(%s, %s) = %q, %v, want %q, %v", tc.doc, tc.pointer, got, ok, tc.want, tc.ok)
		}
	}
}
