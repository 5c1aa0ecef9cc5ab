package outcome

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// forgery is an answer to a wrong password into which the request has written what a kinder verdict looks for [V3].
type forgery struct {
	name string
	rule Rule
	req  *attempt
	raw  string
}

func (tc forgery) check(t *testing.T) {
	for _, is := range []string{"success", "pending", "neutral", "locked", "factor_failure", "client_failure", "failure"} {
		rule := tc.rule
		rule.Is = is
		if is == "success" && len(rule.Body) > 0 {
			rule.CookieSet = []string{"s"}
			tc.raw = strings.Replace(tc.raw, "\n", "\nSet-Cookie: s=1\n", 1)
		}
		c := compiled(t, Config{Rules: []Rule{rule}})
		got := c.Classify(received(t, tc.raw), tc.req)
		want := Result{Verdict: Unknown, Counts: Neutral, Rule: -1, Reflected: true}
		if is == "failure" {
			want = Result{Verdict: Failure, Counts: Failure, Rule: 0}
		}
		if got != want {
			t.Errorf("%s, %s: %+v, want %+v", tc.name, is, got, want)
		}
		if len(tc.raw) > maxEchoedPath {
			continue
		}
		// The same answer to another request is the backend's own word.
		own := c.Classify(received(t, tc.raw), typed("user", "alice").with("/sign/in"))
		if own.Rule != 0 {
			t.Errorf("%s, %s: the backend's own words are %+v, want rule 0", tc.name, is, own)
		}
	}
}

// page is a page that shows a value, moved a redirect.
func page(value string) string {
	return "200 OK\nContent-Type: text/html\n\n<p class=\"error\">no</p><input name=\"u\" value=\"" + value + "\">"
}

func moved(to string) string { return "302 Found\nLocation: " + to + "\n\n" }

func TestReflectedTextIsNoEvidence(t *testing.T) {
	forged := `x" id="welcome`
	text := Rule{Status: []string{"200"}, Body: []string{`id="welcome`}}
	plain := Rule{Status: []string{"200"}, Body: []string{"Welcome back"}}
	for _, tc := range []forgery{
		{"text in a name, raw", text, typed("user", forged), page(forged)},
		{"text in a name, in upper case", text, typed("user", strings.ToUpper(forged)), page(forged)},
		{"text in a name, encoded once more", text, typed("user", url.QueryEscape(forged)), page(forged)},
		{"text in a name, encoded twice more", text, typed("user", url.QueryEscape(url.QueryEscape(forged))), page(forged)},
		{"text in a name, as HTML", text, typed("user", html.EscapeString(forged)), page(forged)},
		{"text in a name, as JSON", text, typed("user", `x\u0022 \u0069d=\"welcome`), page(forged)},
		{"text in a name, with blanks around", text, typed("user", "  "+forged+"\t"), page(forged)},
		{"text in a name, with tags in it", text, typed("user", `x" id="wel<b>come`), page(forged)},
		{"text in a name, with controls in it", text, typed("user", "x\" id=\"wel\x00come"), page(forged)},
		{"text in a name, with broken characters", text, typed("user", "\xff"+forged), page("\xff" + forged)},
		{"text in a name, in wide letters", text, typed("user", `x" id="ｗｅｌｃｏｍｅ`), page(forged)},
		{"text that repeats itself", Rule{Status: []string{"200"}, Body: []string{"<hr><hr><hr>"}}, typed("user", "<hr><hr>"), page(strings.Repeat("<hr>", 50))},
		{"text in a name, in wide letters with a blank", plain, typed("user", "Ｗｅｌｃｏｍｅ back"), page("Welcome back")},
		{"text without markup, escaped around it", plain, typed("user", `"Welcome back"`), page(`&#34;Welcome back&#34;`)},
		{"part of the text in a name", text, typed("user", "welcome"), page(`" id="welcome`)},
		{"part of the text, with signs", Rule{Status: []string{"200"}, Body: []string{`id=two_factor_[Due]`}}, typed("user", "two_factor_[due]"), page("id=two_factor_[Due]")},
		{"text of four letters", Rule{Status: []string{"200"}, Body: []string{"Done"}}, typed("user", `a"done`), page("a&#34;Done")},
		{"text in a JSON member", plain, &attempt{json: map[string]string{"/user": "Welcome back, Bob"}}, page("Welcome back, Bob")},
		{"text in the query", plain, &attempt{query: url.Values{"msg": {"Welcome back"}}}, page("Welcome back")},
		{"text in a header", plain, &attempt{header: http.Header{"User-Agent": {"Welcome back"}}}, page("Welcome back")},
		{"text in a header among others", plain, &attempt{header: http.Header{"Accept": {"*/*"}, "Origin": {"null"}, "Te": {"x"}, "Connection": {"x"}, "Accept-Language": {"en"}, "X-Note": {"Welcome back"}}}, page("Welcome back")},
		{"text in a cookie", plain, &attempt{header: http.Header{"Cookie": {"a=b; note=Welcome%20back"}}}, page("Welcome back")},
		{"text in a Basic name", plain, &attempt{header: http.Header{"Authorization": {"Basic V2VsY29tZSBiYWNrOng="}}}, page("Welcome back")},
		{"text in the path", plain, &attempt{path: "/x/Welcome back"}, page("Welcome back")},
		{"escaped text of a rule", Rule{Body: []string{"l&#39;accueil &amp; vous"}, Status: []string{"200"}}, typed("user", "l'accueil & vous"), page("l&#39;accueil &amp; vous")},
		{"too many values to tell", plain, flood(), page("Welcome back")},
	} {
		tc.check(t)
	}
}

func TestReflectedLocationIsNoEvidence(t *testing.T) {
	second := Rule{Status: []string{"302"}, Location: []string{"/user/two_factor*"}}
	for _, tc := range []forgery{
		{"whole location", second, typed("user", "a", "next", "/user/two_factor"), moved("/user/two_factor")},
		{"location with more behind it", second, typed("user", "a", "next", "/user/two_factor"), moved("/user/two_factor/x?error=1")},
		{"location with a query", second, typed("user", "a", "next", "/user/two_factor?a=b"), moved("/user/two_factor?a=b")},
		{"location on another host", second, typed("user", "a", "next", "https://evil.test/user/two_factor"), moved("https://evil.test/user/two_factor")},
		{"location, host cut off", second, typed("user", "a", "next", "https://evil.test/user/two_factor"), moved("/user/two_factor")},
		{"location with parameters", second, typed("user", "a", "next", "/user;a=b/two_factor"), moved("/user;a=b/two_factor")},
		{"location with dots", second, typed("user", "a", "next", "/user/x/../two_factor"), moved("/user/x/../two_factor")},
		{"location, encoded twice", second, typed("user", "a", "next", "/user/two%5Ffactor"), moved("/user/two%5Ffactor")},
		{"location, cut behind a control", second, typed("user", "a", "next", "/user/two_factor\x00x"), moved("/user/two_factor")},
		{"location, last part", second, typed("user", "a", "next", "two_factor"), moved("/user/two_factor")},
		{"location in upper case", second, typed("user", "a", "next", "/USER/TWO_FACTOR"), moved("/user/two_factor")},
		{"location from the Referer", second, &attempt{header: http.Header{"Referer": {"https://sign.example/user/two_factor"}}}, moved("https://sign.example/user/two_factor")},
		{"location from a cookie", second, &attempt{header: http.Header{"Cookie": {"redirect_to=%2Fuser%2Ftwo_factor"}}}, moved("/user/two_factor")},
		{"location from the path", second, &attempt{path: "/user/two_factor"}, moved("/user/two_factor?error=1")},
		{"any location", Rule{Status: []string{"302"}, Location: []string{"/*"}}, typed("user", "a", "back", "/start"), moved("/start?error=1")},
		{"any location, last part", Rule{Status: []string{"302"}, Location: []string{"*"}}, typed("user", "a", "back", "start"), moved("/start")},
		{"the root", Rule{Status: []string{"302"}, Location: []string{"/"}}, typed("user", "a", "back", "/"), moved("/?error=1")},
		{"the root, by host", Rule{Status: []string{"302"}, Location: []string{"/"}}, typed("user", "a", "back", "https://sign.example"), moved("https://sign.example?error=1")},
		{"a path too long to compare", Rule{Status: []string{"302"}, Location: []string{"/x*"}}, typed("user", "a", "back", strings.Repeat("y/", maxEchoedPath)), moved("/x" + strings.Repeat("y/", maxEchoedPath))},
		{"location query, value", Rule{Status: []string{"302"}, LocationQuery: map[string]string{"step": "second"}}, typed("user", "a", "step", "second"), moved("/login?step=second")},
		{"location query, present", Rule{Status: []string{"302"}, LocationQuery: map[string]string{"expired": "*"}}, typed("user", "a", "next", "/x?expired=1"), moved("/x?expired=1")},
		{"location query, whole", Rule{Status: []string{"302"}, LocationQuery: map[string]string{"expired": "*"}}, typed("user", "a", "to", "expired=1"), moved("/x?expired=1")},
		{"location query, name alone", Rule{Status: []string{"302"}, LocationQuery: map[string]string{"expired": "*"}}, typed("user", "a", "to", "expired"), moved("/x?expired")},
		{"location query, present without value", Rule{Status: []string{"302"}, LocationQuery: map[string]string{"expired": "*"}}, typed("user", "a", "next", "/x?a=b&expired"), moved("/x?a=b&expired")},
	} {
		tc.check(t)
	}
}

func TestReflectedMembersAndHeadersAreNoEvidence(t *testing.T) {
	for _, tc := range []forgery{
		{"broken characters in a header", Rule{Header: map[string]string{"X-Reason": "É*"}}, typed("user", "É\xff"), "200 OK\nX-Reason: É\xff\n\n"},
		{"header", Rule{Header: map[string]string{"X-Reason": "*session expired*"}}, typed("user", "session expired"), "200 OK\nX-Reason: unknown user session expired\n\n"},
		{"member", Rule{JSON: map[string]string{"/message": "*session expired*"}}, typed("user", "session expired"), "200 OK\n\n{\"message\":\"no such user: session expired\"}"},
		{"whole member", Rule{JSON: map[string]string{"/state": "ok"}}, typed("state", "ok"), "200 OK\n\n{\"state\":\"ok\"}"},
		{"injected member", Rule{JSON: map[string]string{"/access_token": "*"}}, typed("user", `a","access_token":"x`), "200 OK\n\n{\"user\":\"a\",\"access_token\":\"x\",\"error\":\"no\"}"},
	} {
		tc.check(t)
	}
}

func flood() *attempt {
	a := &attempt{form: url.Values{}}
	for i := range maxEchoes + 1 {
		a.form.Add("v", fmt.Sprint(i))
	}
	return a
}

// Requests of honest people hold words that answers hold as well.
func TestCoincidenceIsNoReflection(t *testing.T) {
	for _, tc := range []struct {
		name string
		rule Rule
		req  *attempt
		raw  string
	}{
		{"a word of the sentence", Rule{Is: "locked", Body: []string{"Too many failed login attempts."}}, typed("user", "login", "action", "login"), "401 No\n\nToo many failed login attempts."},
		{"a letter", Rule{Is: "neutral", Body: []string{strings.Repeat("else ", 20)}}, typed("user", "e"), "200 OK\n\n" + strings.Repeat("else ", 30)},
		{"a short text in a long cookie", Rule{Is: "neutral", Body: []string{"No."}}, &attempt{header: http.Header{"Cookie": {"a=xno.x"}}}, "200 OK\n\nNo."},
		{"elsewhere in the page", Rule{Is: "neutral", Body: []string{"Password expired today"}}, typed("user", "expired"), "200 OK\n\nexpired? Password expired today"},
		{"below the path of the form", Rule{Is: "pending", Location: []string{"/login/2fa"}}, typed("user", "a"), "302 Found\nLocation: /login/2fa\n\n"},
		{"half of the path", Rule{Is: "pending", Location: []string{"/login/2fa"}}, typed("user", "login"), "302 Found\nLocation: /login/2fa\n\n"},
		{"a path that another begins with, digit", Rule{Is: "pending", Location: []string{"/user"}}, typed("user", "a").with("/user9"), "302 Found\nLocation: /user\n\n"},
		{"a path that another begins with", Rule{Is: "pending", Location: []string{"/user"}}, typed("user", "a").with("/user/login"), "302 Found\nLocation: /user\n\n"},
		{"the profile of the user", Rule{Is: "success", Location: []string{"/profile/*"}}, typed("user", "alice"), "302 Found\nLocation: /profile/alice\n\n"},
		{"another value of the parameter", Rule{Is: "neutral", LocationQuery: map[string]string{"flow": "*"}}, kratosFlow("old"), "303 See Other\nLocation: /ui/login?flow=new\n\n"},
		{"a number", Rule{Is: "success", JSON: map[string]string{"/ok": "1"}}, typed("remember", "1"), "200 OK\n\n{\"ok\":1}"},
		{"a type that the client accepts", Rule{Is: "success", Header: map[string]string{"Content-Type": "application/json"}}, &attempt{header: http.Header{"Accept": {"application/json"}, "Content-Type": {"application/json"}}}, "200 OK\nContent-Type: application/json\n\n{}"},
	} {
		want, _ := ParseVerdict(tc.rule.Is)
		if got := compiled(t, Config{Rules: []Rule{tc.rule}}).Classify(received(t, tc.raw), tc.req); got.Verdict != want {
			t.Errorf("%s: %+v, want %v", tc.name, got, want)
		}
	}
}

// A backend that says a text itself, too, is believed, whatever it echoes besides.
func TestOwnWordsBesideAnEcho(t *testing.T) {
	c := compiled(t, Config{Rules: []Rule{{Is: "neutral", Body: []string{`id="welcome">`}}}})
	echo, own := `<p id="welcome">bob`, `<p id="welcome">`
	for _, tc := range []struct {
		name, body string
		want       Verdict
	}{
		{"echo", echo, Unknown},
		{"echoes", strings.Repeat(echo, 1000), Unknown},
		{"own", own, Neutral},
		{"both", echo + echo + own, Neutral},
	} {
		got := c.Classify(Answer{Status: 200, Prefix: []byte(tc.body)}, typed("user", `="WELCOME">bob`))
		if got.Verdict != tc.want {
			t.Errorf("%s: %+v, want %v", tc.name, got, tc.want)
		}
	}
}

// Writing a rule's text into the request must not turn its verdict into a kinder one of a later rule.
func TestReflectionGainsNothing(t *testing.T) {
	gitea := []Rule{
		{Is: "pending", Status: []string{"302"}, Location: []string{"/user/two_factor*"}},
		{Is: "success", Status: []string{"302"}, CookieSet: []string{"session"}},
		{Is: "neutral", Status: []string{"302"}},
	}
	codeDue := "302 Found\nLocation: /user/two_factor\nSet-Cookie: session=1\n\n"
	for _, tc := range []struct {
		name  string
		cfg   Config
		req   *attempt
		want  Verdict
		count Verdict
	}{
		{"plain", Config{Rules: gitea}, typed("user", "a"), Pending, Pending},
		{"pending does not become success", Config{Rules: gitea[:2]}, typed("user", "a", "junk", "/user/two_factor"), Unknown, Neutral},
		{"nor by unknown_as", Config{Rules: gitea[:2], UnknownAs: Success}, typed("user", "a", "junk", "/user/two_factor"), Unknown, Neutral},
		{"unknown_as failure stands", Config{Rules: gitea[:2], UnknownAs: Failure}, typed("user", "a", "junk", "/user/two_factor"), Unknown, Failure},
		{"an equal verdict of another rule stands", Config{Rules: gitea}, typed("user", "a", "junk", "/user/two_factor"), Neutral, Neutral},
		{
			"failure stands",
			Config{Rules: append(gitea[:2:2], Rule{Is: "failure", Status: []string{"302"}})},
			typed("user", "a", "junk", "/user/two_factor"), Failure, Failure,
		},
		{
			"a second rule for success stands on its own",
			Config{Rules: []Rule{{Is: "success", Location: []string{"/user/*"}}, gitea[1]}},
			typed("user", "a", "junk", "/user/two_factor"), Success, Success,
		},
	} {
		got := compiled(t, tc.cfg).Classify(received(t, codeDue), tc.req)
		if got.Verdict != tc.want || got.Counts != tc.count {
			t.Errorf("%s: %+v, want %v counted as %v", tc.name, got, tc.want, tc.count)
		}
	}
}

// A name so long that the message behind it is out of sight must not make room for a later rule.
func TestPaddingGainsNothing(t *testing.T) {
	const limit = 4096
	rules := []Rule{
		{Is: "failure", Status: []string{"200"}, Body: []string{"login_error"}},
		{Is: "success", Status: []string{"200"}, CookieSet: []string{"session"}},
	}
	c := compiled(t, Config{Rules: rules, InspectBytes: limit})
	long := strings.Repeat(`bob "the" <builder> `, 400)
	for _, tc := range []struct {
		name string
		req  *attempt
		body string
		want Verdict
	}{
		{"failure in sight", typed("user", "bob"), "<i id=login_error>", Failure},
		{"long page of the backend's own", typed("user", "bob"), strings.Repeat("<p>news</p>", 1000), Success},
		{"long name, echoed raw", typed("user", long), long + "<i id=login_error>", Unknown},
		{"long name, echoed as HTML", typed("user", long), html.EscapeString(long) + "<i id=login_error>", Unknown},
		{"long name, changed at the front", typed("user", "##"+long), long + "<i id=login_error>", Unknown},
		{"long name, not echoed", typed("user", long), strings.Repeat("<p>news</p>", 1000), Success},
		{"long name, page seen whole", typed("user", long), long[:200], Success},
	} {
		a := Answer{Status: 200, Header: http.Header{"Set-Cookie": {"session=1"}}, Prefix: []byte(tc.body)}
		if len(tc.body) > limit {
			a.Prefix, a.Truncated = a.Prefix[:limit], true
		}
		if got := c.Classify(a, tc.req); got.Verdict != tc.want {
			t.Errorf("%s: %+v, want %v", tc.name, got, tc.want)
		}
		if got := c.Classify(a, nil); got.Rule < 0 {
			t.Errorf("%s: %+v where nothing is known of the request, want a rule", tc.name, got)
		}
	}
}

func TestReflectionIsOnlyLookedForWhereItMatters(t *testing.T) {
	c := compiled(t, Config{Rules: []Rule{
		{Is: "success", Status: []string{"302"}, CookieSet: []string{"s"}},
		{Is: "failure", Status: []string{"200"}, Body: []string{"wrong"}},
	}})
	req := typed("user", "alice")
	c.Classify(received(t, "302 Found\nSet-Cookie: s=1\n\n"), req)
	c.Classify(received(t, "200 OK\n\nwrong"), req)
	if req.touched {
		t.Error("the values of the request were read, want them left alone")
	}
}

// A value that holds the text of a rule never makes that rule match, however it is written into the page.
func FuzzReflection(f *testing.F) {
	const text = `id="welcome"`
	c := compiled(f, Config{Rules: []Rule{{Is: "success", CookieSet: []string{"s"}, Body: []string{text}}}})
	f.Add("<p>", "x ", " y", "</p>")
	f.Add("", "&#34;%22", "\xff\\\"", text[:5])
	f.Fuzz(func(t *testing.T, before, left, right, after string) {
		value := left + text + right
		for _, echo := range []string{value, html.EscapeString(value), url.QueryEscape(value), strings.TrimSpace(value)} {
			a := Answer{Status: 200, Header: http.Header{"Set-Cookie": {"s=1"}}, Prefix: []byte(before + echo + after)}
			for _, sent := range []string{value, html.EscapeString(value), url.QueryEscape(value)} {
				if got := c.Classify(a, typed("user", sent)); got.Verdict == Success {
					t.Errorf("%q echoed as %q in %q: %+v", sent, echo, a.Prefix, got)
				}
			}
		}
	})
}
