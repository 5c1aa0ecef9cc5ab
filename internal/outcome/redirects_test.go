package outcome

import (
	"net/http"
	"net/url"
	"testing"
)

// Servers whose right and wrong answers share a status and differ in where they lead.
func TestServersThatRedirect(t *testing.T) {
	for _, s := range []server{nextcloudForm, owncloudForm, spring, laravel, jenkins, kratosBrowser, exchangeOWA, devise} {
		t.Run(s.name, s.check)
	}
}

var nextcloudForm = server{
	name: "nextcloud-form",
	rules: []Rule{
		{Is: "locked", Status: []string{"429"}},
		{Is: "pending", Status: []string{"303"}, Location: []string{"/login/selectchallenge", "/login/challenge/*", "/index.php/login/selectchallenge", "/index.php/login/challenge/*"}},
		{Is: "failure", Status: []string{"303"}, Location: []string{"/login", "/index.php/login"}, LocationQuery: map[string]string{"user": "*"}},
		{Is: "success", Status: []string{"303"}, CookieSet: []string{"nc_session_id"}},
		{Is: "success", Status: []string{"303"}, Location: []string{"/*"}},
	},
	warnings: 2, // success elsewhere by 303: a session that is not to be remembered sets no cookie of its own
	samples: []sample{
		{"right", typed("user", "alice", "redirect_url", "/apps/files"), "303 See Other\nLocation: https://cloud.example/apps/files\nSet-Cookie: nc_session_id=8; path=/; secure; HttpOnly\n\n", Success},
		{"right, not to be remembered", typed("user", "alice"), "303 See Other\nLocation: https://cloud.example/apps/dashboard/\n\n", Success},
		{"wrong", typed("user", "alice"), "303 See Other\nLocation: https://cloud.example/login?user=alice&direct=1\nX-Nextcloud-Bruteforce-Throttled: 200ms\n\n", Failure},
		{"wrong, front controller", typed("user", "alice"), "303 See Other\nLocation: /index.php/login?user=alice&direct=1&redirect_url=/apps/files\n\n", Failure},
		{"code due", typed("user", "alice"), "303 See Other\nLocation: https://cloud.example/login/challenge/totp\nSet-Cookie: nc_session_id=8; path=/\n\n", Pending},
		{"choice of codes", typed("user", "alice").with("/index.php/login"), "303 See Other\nLocation: /index.php/login/selectchallenge\n\n", Pending},
		{"throttled", nil, "429 Too Many Requests\n\n", Locked},
	},
}

var owncloudForm = server{
	name: "owncloud-form",
	rules: []Rule{
		{Is: "pending", Status: []string{"303"}, Location: []string{"*/login/selectchallenge"}},
		{Is: "failure", Status: []string{"303"}, Location: []string{"*/login"}, LocationQuery: map[string]string{"user": "*"}},
		{Is: "success", Status: []string{"303"}, CookieSet: []string{"oc_username"}},
	},
	samples: []sample{
		{"right", nil, "303 See Other\nLocation: https://files.example/index.php/apps/files/\nSet-Cookie: oc_username=alice; path=/\n\n", Success},
		{"wrong", nil, "303 See Other\nLocation: https://files.example/index.php/login?user=alice\n\n", Failure},
		{"code due", nil, "303 See Other\nLocation: https://files.example/index.php/login/selectchallenge\n\n", Pending},
	},
}

var spring = server{
	name: "spring-form",
	rules: []Rule{
		{Is: "failure", Status: []string{"302"}, LocationQuery: map[string]string{"error": "*"}},
		{Is: "failure", Status: []string{"401"}},
		{Is: "success", Status: []string{"302"}, CookieSet: []string{"JSESSIONID", "SESSION"}},
	},
	samples: []sample{
		{"right", nil, "302 Found\nLocation: https://app.example/\nSet-Cookie: JSESSIONID=9B; Path=/; HttpOnly\n\n", Success},
		{"wrong", nil, "302 Found\nLocation: https://app.example/login?error\n\n", Failure},
		{"wrong, without cookies", nil, "302 Found\nLocation: https://app.example/login;jsessionid=9B?error\nSet-Cookie: JSESSIONID=9B; Path=/; HttpOnly\n\n", Failure},
		{"wrong, no failure page", nil, "401 Unauthorized\n\n", Failure},
		{"stale token", nil, "403 Forbidden\n\n", Unknown},
	},
}

var laravel = server{
	name:      "laravel",
	unknownAs: Failure, // a failure leads back to the Referer, wherever that is
	rules: []Rule{
		{Is: "locked", Status: []string{"429"}},
		{Is: "neutral", Status: []string{"419"}},
		{Is: "pending", Status: []string{"302"}, Location: []string{"/two-factor-challenge"}},
		{Is: "pending", Status: []string{"200"}, JSON: map[string]string{"/two_factor": "true"}},
		{Is: "failure", Status: []string{"302"}, Location: []string{"/login"}},
		{Is: "failure", Status: []string{"422"}, JSON: map[string]string{"/errors/email": "*"}},
		{Is: "success", Status: []string{"200"}, JSON: map[string]string{"/two_factor": "false"}},
		{Is: "success", Status: []string{"302"}, Location: []string{"/dashboard", "/home"}},
	},
	samples: []sample{
		{"right", typed("email", "a@example.test"), "302 Found\nLocation: https://app.example/dashboard\nSet-Cookie: laravel_session=e; path=/; httponly\n\n", Success},
		{"right, json", &attempt{json: map[string]string{"/email": "a@example.test"}}, "200 OK\nContent-Type: application/json\n\n{\"two_factor\":false}", Success},
		{"wrong", typed("email", "a@example.test"), "302 Found\nLocation: https://app.example/login\nSet-Cookie: laravel_session=e; path=/; httponly\n\n", Failure},
		{"wrong, sent from where a success leads", typed("email", "a@example.test").with("/dashboard"), "302 Found\nLocation: https://sign.example/dashboard\nSet-Cookie: laravel_session=e; path=/\n\n", Unknown},
		{"wrong, json", nil, "422 Unprocessable Entity\nContent-Type: application/json\n\n{\"message\":\"These credentials do not match our records.\",\"errors\":{\"email\":[\"These credentials do not match our records.\"]}}", Failure},
		{"code due", typed("email", "a@example.test"), "302 Found\nLocation: https://app.example/two-factor-challenge\n\n", Pending},
		{"code due, json", nil, "200 OK\nContent-Type: application/json\n\n{\"two_factor\":true}", Pending},
		{"stale token", nil, "419 unknown status\n\n", Neutral},
		{"throttled", nil, "429 Too Many Requests\n\n", Locked},
	},
}

var jenkins = server{
	name: "jenkins",
	rules: []Rule{
		{Is: "failure", Status: []string{"302"}, Location: []string{"/loginError"}, Request: Request{Form: map[string]string{"Jenkins-Crumb": "*"}}},
		{Is: "failure", Status: []string{"302"}, Location: []string{"/loginError"}, Request: Request{Header: map[string]string{"jenkins-crumb": "*"}}},
		{Is: "neutral", Status: []string{"302"}, Location: []string{"/loginError"}},
		{Is: "success", Status: []string{"302"}, CookieSet: []string{"JSESSIONID*"}},
	},
	samples: []sample{
		{"right", typed("j_username", "alice", "from", "/", "Jenkins-Crumb", "c0ffee"), "302 Found\nLocation: https://ci.example/\nSet-Cookie: JSESSIONID.0ab1=node0x; Path=/; Secure; HttpOnly\n\n", Success},
		{"wrong", typed("j_username", "alice", "from", "/", "Jenkins-Crumb", "c0ffee"), "302 Found\nLocation: https://ci.example/loginError\nSet-Cookie: JSESSIONID.0ab1=node0x; Path=/\n\n", Failure},
		{"wrong, crumb in the header", &attempt{header: http.Header{"Jenkins-Crumb": {"c0ffee"}}}, "302 Found\nLocation: https://ci.example/loginError\n\n", Failure},
		{"no crumb", typed("j_username", "alice", "from", "/"), "302 Found\nLocation: https://ci.example/loginError\n\n", Neutral},
	},
}

var kratosBrowser = server{
	name: "kratos-browser",
	rules: []Rule{
		{Is: "success", Status: []string{"303"}, CookieSet: []string{"ory_kratos_session"}},
		{Is: "pending", Status: []string{"303"}, LocationQuery: map[string]string{"aal": "aal2"}},
		{Is: "failure", Status: []string{"303"}, LocationQuery: map[string]string{"flow": "="}},
		{Is: "neutral", Status: []string{"303"}, LocationQuery: map[string]string{"flow": "*"}},
	},
	samples: []sample{
		{"right", kratosFlow("f-1"), "303 See Other\nLocation: https://app.example/\nSet-Cookie: ory_kratos_session=MTc; Path=/; HttpOnly\n\n", Success},
		{"wrong", kratosFlow("f-1"), "303 See Other\nLocation: https://sign.example/ui/login?flow=f-1\n\n", Failure},
		{"code due", kratosFlow("f-1"), "303 See Other\nLocation: https://sign.example/ui/login?aal=aal2&flow=f-2\n\n", Pending},
		{"expired flow", kratosFlow("f-1"), "303 See Other\nLocation: https://sign.example/ui/login?flow=f-9\n\n", Neutral},
		{"stale token", kratosFlow("f-1"), "403 Forbidden\n\n", Unknown},
	},
}

func kratosFlow(id string) *attempt {
	return &attempt{
		path:   "/self-service/login",
		query:  url.Values{"flow": {id}},
		form:   url.Values{"identifier": {"alice"}, "password": {"x"}, "method": {"password"}},
		header: http.Header{"Referer": {"https://sign.example/ui/login?flow=" + id}},
	}
}

var exchangeOWA = server{
	name: "exchange-owa",
	rules: []Rule{
		{Is: "failure", Status: []string{"302"}, Location: []string{"/owa/auth/logon.aspx"}, LocationQuery: map[string]string{"reason": "2"}},
		{Is: "success", Status: []string{"302"}, CookieSet: []string{"cadata"}},
		{Is: "neutral", Status: []string{"440"}},
	},
	samples: []sample{
		{"right", nil, "302 Found\nLocation: https://mail.example/owa\nSet-Cookie: cadata=k; path=/; secure; HttpOnly\n\n", Success},
		{"wrong", nil, "302 Found\nLocation: https://mail.example/owa/auth/logon.aspx?url=https%3a%2f%2fmail.example%2fowa&reason=2\n\n", Failure},
		{"no cookies", nil, "440 Login Timeout\n\n", Neutral},
	},
}

var devise = server{
	name: "rails-devise",
	rules: []Rule{
		{Is: "failure", Body: []string{"You have one more attempt before your account is locked."}},
		{Is: "locked", Body: []string{"Your account is locked."}},
		{Is: "neutral", Body: []string{"You have to confirm your email"}},
		{Is: "failure", Status: []string{"200", "422"}, Body: []string{"Invalid Email or password."}},
		{Is: "failure", Status: []string{"401"}, JSON: map[string]string{"/error": "Invalid*"}},
		{Is: "success", Status: []string{"302", "303"}, CookieSet: []string{"_app_session"}},
		{Is: "success", Status: []string{"200", "201"}, JSON: map[string]string{"/id": "*"}},
	},
	samples: []sample{
		{"right", nil, "303 See Other\nLocation: https://app.example/\nSet-Cookie: _app_session=e; path=/; HttpOnly\n\n", Success},
		{"right, json", nil, "201 Created\nContent-Type: application/json\n\n{\"id\":17,\"email\":\"a@example.test\"}", Success},
		{"wrong", nil, "422 Unprocessable Content\nContent-Type: text/html\n\n<p class=\"alert\">Invalid Email or password.</p>", Failure},
		{"wrong, json", nil, "401 Unauthorized\nContent-Type: application/json\n\n{\"error\":\"Invalid Email or password.\"}", Failure},
		{"last try", nil, "422 Unprocessable Content\nContent-Type: text/html\n\n<p>You have one more attempt before your account is locked.</p>", Failure},
		{"locked", nil, "422 Unprocessable Content\nContent-Type: text/html\n\n<p>Your account is locked.</p>", Locked},
		{"unconfirmed", nil, "422 Unprocessable Content\nContent-Type: text/html\n\n<p>You have to confirm your email address before continuing.</p>", Neutral},
	},
}
