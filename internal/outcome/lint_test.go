package outcome

import (
	"strings"
	"testing"
)

// linted are rules and what Lint says of them, by parts of its messages.
type linted struct {
	name  string
	rules []Rule
	want  []Problem
}

func (tc linted) check(t *testing.T) {
	got := Lint(Config{Rules: tc.rules})
	if len(got) != len(tc.want) {
		t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		return
	}
	for i, want := range tc.want {
		if got[i].Rule != want.Rule || got[i].Field != want.Field || !strings.Contains(got[i].Message, want.Message) {
			t.Errorf("%s: %+v, want %+v", tc.name, got[i], want)
		}
	}
}

func m(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

func s(texts ...string) []string { return texts }

func TestLintSuccess(t *testing.T) {
	success := Rule{Is: "success", Status: s("302"), CookieSet: s("session")}
	for _, tc := range []linted{
		{"sound", []Rule{success, {Is: "failure", Status: s("401")}}, nil},
		{"cannot be compiled", []Rule{{Is: "success", Status: s("2xx")}, {Is: "no"}}, nil},
		{"success by class", []Rule{{Is: "success", Status: s("2xx")}}, []Problem{{0, "status", "success by status alone"}}},
		{"success by code", []Rule{{Is: "success", Status: s("302", "401")}}, []Problem{{0, "status", "success by status alone"}}},
		{"success by status and request", []Rule{{Is: "success", Status: s("200"), Request: passwordGrant}}, []Problem{{0, "status", "success by status alone"}}},
		{"success by any location", []Rule{{Is: "success", Status: s("302"), Location: s("/*")}}, []Problem{{0, "status", "success by status alone"}}},
		{"success by the root", []Rule{{Is: "success", Status: s("302"), Location: s("/")}}, nil},
		{"success by another status", []Rule{{Is: "success", Status: s("409")}}, nil},
		{"success by text", []Rule{{Is: "success", Status: s("200"), Body: s("Hello")}}, []Problem{{0, "body", "success by status and text"}}},
		{"success by text and cookie", []Rule{{Is: "success", Status: s("200"), Body: s("Hello"), CookieSet: s("s")}}, nil},
		{"neutral by the request", []Rule{{Is: "neutral", Request: passwordGrant}}, []Problem{{0, "request", "whoever sends"}}},
		{"neutral by status and request", []Rule{{Is: "neutral", Status: s("400"), Request: passwordGrant}}, nil},
	} {
		tc.check(t)
	}
}

func TestLintContradictions(t *testing.T) {
	for _, tc := range []linted{
		{"text without a body", []Rule{{Is: "failure", Status: s("204", "304", "1xx"), Body: s("x")}}, []Problem{{0, "status", "has no body"}}},
		{"json without a body", []Rule{{Is: "failure", Status: s("204"), JSON: m("/a", "*")}}, []Problem{{0, "status", "has no body"}}},
		{"text, perhaps with a body", []Rule{{Is: "failure", Status: s("204", "200"), Body: s("x")}}, nil},
		{"location without a move", []Rule{{Is: "failure", Status: s("200", "4xx"), Location: s("/a")}}, []Problem{{0, "status", "come with a Location"}}},
		{"location query without a move", []Rule{{Is: "failure", Status: s("401"), LocationQuery: m("a", "b")}}, []Problem{{0, "status", "come with a Location"}}},
		{"location with a class", []Rule{{Is: "failure", Status: s("2xx"), Location: s("/a")}}, nil},
		{"location with any status", []Rule{{Is: "failure", Location: s("/a")}}, nil},
		{"set and deleted", []Rule{{Is: "failure", CookieSet: s("a"), CookieDeleted: s("a")}}, []Problem{{0, "cookie_deleted", "set and deleted"}}},
		{"one set, another deleted", []Rule{{Is: "failure", CookieSet: s("a"), CookieDeleted: s("b")}}, nil},
		{"json in a page", []Rule{{Is: "failure", Header: m("content-type", "text/html*"), JSON: m("/a", "*")}}, []Problem{{0, "json", "content type is not JSON"}}},
		{"json in a problem", []Rule{{Is: "failure", Header: m("content-type", "application/problem+json*"), JSON: m("/a", "*")}}, nil},
		{"json in anything", []Rule{{Is: "failure", Header: m("content-type", "application/*"), JSON: m("/a", "*")}}, nil},
		{"text with members", []Rule{{Is: "failure", JSON: m("/a", "x", "/a/b", "*")}}, []Problem{{0, "json", "have the member /a/b"}}},
		{"object with members", []Rule{{Is: "failure", JSON: m("/a", "*", "/a/b", "*", "/ab", "x")}}, nil},
	} {
		tc.check(t)
	}
}

func TestLintShadowed(t *testing.T) {
	for _, tc := range []linted{
		{"shadowed by status", []Rule{{Is: "failure", Status: s("4xx")}, {Is: "locked", Status: s("423", "429")}}, []Problem{{1, "is", "taken by outcome[0] (failure)"}}},
		{"not shadowed by status", []Rule{{Is: "failure", Status: s("4xx")}, {Is: "locked", Status: s("423", "503")}}, nil},
		{"shadowed twice, told once", []Rule{{Is: "failure", Status: s("4xx")}, {Is: "failure", Status: s("40x", "401")[1:]}, {Is: "locked", Status: s("401")}}, []Problem{
			{1, "is", "taken by outcome[0]"}, {2, "is", "taken by outcome[0]"},
		}},
		{"shadowed by header", []Rule{{Is: "failure", Header: m("X-A", "*")}, {Is: "locked", Header: m("X-A", "b")}}, []Problem{{1, "is", "taken by outcome[0]"}}},
		{"not shadowed by absence", []Rule{{Is: "failure", Header: m("X-A", "*")}, {Is: "locked", Header: m("X-A", "")}}, nil},
		{"not shadowed by header", []Rule{{Is: "failure", Header: m("X-A", "b")}, {Is: "locked", Header: m("X-A", "*")}}, nil},
		{"shadowed by location", []Rule{{Is: "failure", Location: s("/a*", "/b")}, {Is: "locked", Location: s("/ab", "/b")}}, []Problem{{1, "is", "taken by outcome[0]"}}},
		{"not shadowed by location", []Rule{{Is: "failure", Location: s("/a*")}, {Is: "locked", Location: s("/ab", "/b")}}, nil},
		{"shadowed by any location", []Rule{{Is: "failure", Location: s("*")}, {Is: "locked", LocationQuery: m("a", "b")}}, []Problem{{1, "is", "taken by outcome[0]"}}},
		{"shadowed by location query", []Rule{{Is: "failure", LocationQuery: m("a", "*")}, {Is: "locked", LocationQuery: m("a", "b"), Location: s("/x")}}, []Problem{{1, "is", "taken by outcome[0]"}}},
		{"shadowed by sameness", []Rule{{Is: "failure", LocationQuery: m("a", "=")}, {Is: "failure", LocationQuery: m("a", "=")}}, []Problem{{1, "is", "taken by outcome[0]"}}},
		{"not shadowed by sameness of another", []Rule{{Is: "failure", LocationQuery: m("a", "=")}, {Is: "failure", LocationQuery: m("b", "=")}}, nil},
		{"not shadowed by sameness", []Rule{{Is: "failure", LocationQuery: m("a", "=")}, {Is: "locked", LocationQuery: m("a", "b")}}, nil},
		{"shadowed by cookie", []Rule{{Is: "failure", CookieSet: s("a*")}, {Is: "locked", CookieSet: s("ab")}}, []Problem{{1, "is", "taken by outcome[0]"}}},
		{"not shadowed by a deleted cookie", []Rule{{Is: "failure", CookieDeleted: s("a*")}, {Is: "locked", CookieSet: s("ab")}}, nil},
		{"shadowed by text", []Rule{{Is: "failure", Body: s("error", "x")}, {Is: "locked", Body: s("an error")}}, []Problem{{1, "is", "taken by outcome[0]"}}},
		{"not shadowed by text", []Rule{{Is: "failure", Body: s("an error")}, {Is: "locked", Body: s("error")}}, nil},
		{"shadowed by json", []Rule{{Is: "failure", JSON: m("/a", "*")}, {Is: "locked", JSON: m("/a", "b", "/c", "*")}}, []Problem{{1, "is", "taken by outcome[0]"}}},
		{"not shadowed by json", []Rule{{Is: "failure", JSON: m("/a", "*", "/c", "*")}, {Is: "locked", JSON: m("/a", "b")}}, nil},
		{"shadowed for a request", []Rule{{Is: "failure", Status: s("400")}, {Is: "locked", Status: s("400"), Request: passwordGrant}}, []Problem{{1, "is", "taken by outcome[0]"}}},
		{"shadowed for a field of a request", []Rule{{Is: "failure", Status: s("400"), Request: Request{Form: m("a", "*")}}, {Is: "locked", Status: s("400"), Request: Request{Form: m("a", "b")}}}, []Problem{{1, "is", "taken by outcome[0]"}}},
		{"not shadowed for another field of a request", []Rule{{Is: "failure", Status: s("400"), Request: Request{Form: m("a", "*")}}, {Is: "locked", Status: s("400"), Request: Request{Form: m("b", "b")}}}, nil},
		{"not shadowed for a field elsewhere", []Rule{{Is: "failure", Status: s("400"), Request: Request{Form: m("a", "*")}}, {Is: "locked", Status: s("400"), Request: Request{Query: m("a", "b")}}}, nil},
		{"not shadowed for a request", []Rule{{Is: "failure", Status: s("400"), Request: passwordGrant}, {Is: "locked", Status: s("400")}}, nil},
		{"shadowed by method", []Rule{{Is: "failure", Status: s("400"), Request: Request{Method: s("post", "put")}}, {Is: "locked", Status: s("400"), Request: Request{Method: s("POST")}}}, []Problem{{1, "is", "taken by outcome[0]"}}},
		{"not shadowed by method", []Rule{{Is: "failure", Status: s("400"), Request: Request{Method: s("post")}}, {Is: "locked", Status: s("400"), Request: Request{Method: s("POST", "PUT")}}}, nil},
		{"not shadowed by path", []Rule{{Is: "failure", Status: s("400"), Request: Request{Path: s("/a")}}, {Is: "locked", Status: s("400"), Request: Request{Path: s("/a*")}}}, nil},
	} {
		tc.check(t)
	}
}

func TestLintOverlaps(t *testing.T) {
	success := Rule{Is: "success", Status: s("302"), CookieSet: s("session")}
	for _, tc := range []linted{
		{"fallthrough to success", []Rule{{Is: "failure", Status: s("200"), Body: s("wrong")}, {Is: "success", Status: s("200")}}, []Problem{
			{1, "status", "success by status alone"}, {1, "is", "overlaps outcome[0] (failure): whatever that rule does not recognise"},
		}},
		{"fallthrough to failure", []Rule{success, {Is: "failure", Status: s("302")}}, nil},
		{"same kinds", []Rule{{Is: "success", Status: s("302"), Location: s("/a*")}, {Is: "failure", Status: s("302"), Location: s("*error")}}, []Problem{{1, "is", "overlaps outcome[0] (success): an answer can match both"}}},
		{"same kinds, apart", []Rule{{Is: "success", Status: s("302"), Location: s("/a*")}, {Is: "failure", Status: s("302"), Location: s("/login*")}}, nil},
		{"same kinds, other status", []Rule{{Is: "success", Status: s("302"), Location: s("/a*")}, {Is: "failure", Status: s("303"), Location: s("*error")}}, nil},
		{"same kinds, other request", []Rule{
			{Is: "success", Status: s("302"), Location: s("/a*"), Request: Request{Form: m("x", "1")}},
			{Is: "failure", Status: s("302"), Location: s("*error"), Request: Request{Form: m("x", "2")}},
		}, nil},
		{"same kinds, other method", []Rule{
			{Is: "success", Status: s("302"), Location: s("/a*"), Request: Request{Method: s("GET")}},
			{Is: "failure", Status: s("302"), Location: s("*error"), Request: Request{Method: s("POST")}},
		}, nil},
		{"same kinds, any method", []Rule{
			{Is: "success", Status: s("302"), Location: s("/a*"), Request: Request{Method: s("GET")}},
			{Is: "failure", Status: s("302"), Location: s("*error"), Request: Request{Form: m("x", "1")}},
		}, []Problem{{1, "is", "an answer can match both"}}},
		{"same members", []Rule{{Is: "success", JSON: m("/a", "x*")}, {Is: "failure", JSON: m("/a", "*y")}}, []Problem{{1, "is", "overlaps outcome[0]"}}},
		{"same members, apart", []Rule{{Is: "success", JSON: m("/a", "x*")}, {Is: "failure", JSON: m("/a", "y*")}}, nil},
		{"same headers", []Rule{{Is: "success", Header: m("A", "x*")}, {Is: "failure", Header: m("A", "*y")}}, []Problem{{1, "is", "overlaps outcome[0]"}}},
		{"same headers, apart", []Rule{{Is: "success", Header: m("A", "x")}, {Is: "failure", Header: m("A", "y")}}, nil},
		{"other kinds", []Rule{success, {Is: "failure", Status: s("302"), Location: s("/login*")}}, nil},
		{"other texts", []Rule{{Is: "failure", Status: s("200"), Body: s("wrong")}, {Is: "success", Status: s("200"), Body: s("right")}}, []Problem{{1, "body", "success by status and text"}}},
		{"text within a text", []Rule{{Is: "success", Status: s("200"), Body: s("signed in")}, {Is: "failure", Status: s("200", "401"), Body: s("not signed in", "wrong")}}, []Problem{
			{0, "body", "success by status and text"}, {1, "is", "an answer can match both"},
		}},
	} {
		tc.check(t)
	}
}
