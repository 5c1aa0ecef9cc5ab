package outcome

import "net/http"

var mattermost = server{
	name: "mattermost",
	rules: []Rule{
		{Is: "locked", Status: []string{"401"}, JSON: map[string]string{"/id": "*too_many*"}},
		{Is: "pending", Status: []string{"401"}, JSON: map[string]string{"/id": "mfa.validate_token.authenticate.app_error"}},
		{Is: "success", Status: []string{"200"}, Header: map[string]string{"token": "*"}},
		{Is: "failure", Status: []string{"401"}, JSON: map[string]string{"/id": "api.user.login.invalid_credentials*"}},
	},
	samples: []sample{
		{"right", nil, "200 OK\nContent-Type: application/json\nToken: abc\n\n{\"id\":\"u1\"}", Success},
		{"wrong", nil, "401 Unauthorized\nContent-Type: application/json\n\n{\"id\":\"api.user.login.invalid_credentials_email_username\",\"status_code\":401}", Failure},
		{"code due", nil, "401 Unauthorized\nContent-Type: application/json\n\n{\"id\":\"mfa.validate_token.authenticate.app_error\"}", Pending},
		{"locked", nil, "401 Unauthorized\nContent-Type: application/json\n\n{\"id\":\"api.user.check_user_login_attempts.too_many.app_error\"}", Locked},
	},
}

var grafana = server{
	name: "grafana",
	rules: []Rule{
		{Is: "locked", Status: []string{"400", "401"}, JSON: map[string]string{"/messageId": "login-attempt.blocked"}},
		{Is: "success", Status: []string{"200"}, CookieSet: []string{"grafana_session"}},
		{Is: "failure", Status: []string{"400", "401"}, JSON: map[string]string{"/messageId": "password-auth.*"}},
	},
	samples: []sample{
		{"right", nil, "200 OK\nContent-Type: application/json\nSet-Cookie: grafana_session=0d; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax\n\n{\"message\":\"Logged in\",\"redirectUrl\":\"/\"}", Success},
		{"wrong", nil, "401 Unauthorized\nContent-Type: application/json\n\n{\"message\":\"Invalid username or password\",\"messageId\":\"password-auth.failed\",\"statusCode\":401}", Failure},
		{"blocked", nil, "401 Unauthorized\nContent-Type: application/json\n\n{\"message\":\"Invalid username or password\",\"messageId\":\"login-attempt.blocked\"}", Locked},
	},
}

var zabbixAPI = server{
	name: "zabbix-api",
	rules: []Rule{
		{Is: "failure", Status: []string{"200"}, JSON: map[string]string{"/error/data": "Incorrect user name or password*"}},
		{Is: "failure", Status: []string{"200"}, JSON: map[string]string{"/error/data": "Login name or password is incorrect*"}},
		{Is: "success", Status: []string{"200"}, JSON: map[string]string{"/result": "*", "/error": ""}},
	},
	samples: []sample{
		{"right", nil, "200 OK\nContent-Type: application/json\n\n{\"jsonrpc\":\"2.0\",\"result\":\"0424bd59b807674191e7d77572075f33\",\"id\":1}", Success},
		{"wrong", nil, "200 OK\nContent-Type: application/json\n\n{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32500,\"message\":\"Application error.\",\"data\":\"Incorrect user name or password or account is temporarily blocked.\"},\"id\":1}", Failure},
		{"wrong, old", nil, "200 OK\nContent-Type: application/json\n\n{\"error\":{\"code\":-32602,\"data\":\"Login name or password is incorrect.\"},\"result\":null}", Failure},
		{"other error", nil, "200 OK\nContent-Type: application/json\n\n{\"error\":{\"code\":-32601,\"data\":\"Incorrect method.\"},\"result\":null}", Unknown},
	},
}

var aspnetAPI = server{
	name: "aspnet-identity-api",
	rules: []Rule{
		{Is: "pending", Status: []string{"401"}, JSON: map[string]string{"/detail": "RequiresTwoFactor"}},
		{Is: "locked", Status: []string{"401"}, JSON: map[string]string{"/detail": "LockedOut"}},
		{Is: "failure", Status: []string{"401"}, JSON: map[string]string{"/detail": "Failed"}},
		{Is: "success", Status: []string{"200"}, JSON: map[string]string{"/accessToken": "*"}},
		{Is: "success", Status: []string{"200"}, CookieSet: []string{".AspNetCore.Identity.Application"}},
	},
	samples: []sample{
		{"right, token", nil, "200 OK\nContent-Type: application/json\n\n{\"tokenType\":\"Bearer\",\"accessToken\":\"CfDJ8\"}", Success},
		{"right, cookie", nil, "200 OK\nSet-Cookie: .AspNetCore.Identity.Application=CfDJ8; path=/\nContent-Length: 0\n\n", Success},
		{"wrong", nil, "401 Unauthorized\nContent-Type: application/problem+json\n\n{\"title\":\"Unauthorized\",\"status\":401,\"detail\":\"Failed\"}", Failure},
		{"code due", nil, "401 Unauthorized\nContent-Type: application/problem+json\n\n{\"detail\":\"RequiresTwoFactor\"}", Pending},
		{"locked", nil, "401 Unauthorized\nContent-Type: application/problem+json\n\n{\"detail\":\"LockedOut\"}", Locked},
	},
}

var casREST = server{
	name: "cas-rest",
	rules: []Rule{
		{Is: "success", Status: []string{"201"}, Location: []string{"/cas/v1/tickets/TGT-*"}},
		{Is: "failure", Status: []string{"401"}},
	},
	samples: []sample{
		{"right", typed("username", "alice").with("/cas/v1/tickets"), "201 Created\nLocation: https://sso.example/cas/v1/tickets/TGT-1-abc\n\n", Success},
		{"wrong", nil, "401 Unauthorized\n\n", Failure},
		{"malformed", nil, "400 Bad Request\n\n", Unknown},
	},
}

var wordpressREST = server{
	name: "wordpress-rest",
	rules: []Rule{
		{Is: "failure", Status: []string{"401"}, JSON: map[string]string{"/code": "incorrect_password"}},
		{Is: "failure", Status: []string{"401"}, JSON: map[string]string{"/code": "invalid_username"}},
		{Is: "success", Status: []string{"2xx"}, Request: Request{Header: map[string]string{"Authorization": "Basic *"}}},
	},
	warnings: 1, // a call that went through shows nothing else
	samples: []sample{
		{"right", basic(), "200 OK\nContent-Type: application/json\n\n[]", Success},
		{"wrong", basic(), "401 Unauthorized\nContent-Type: application/json\n\n{\"code\":\"incorrect_password\",\"message\":\"...\"}", Failure},
		{"anonymous", challenged(), "200 OK\nContent-Type: application/json\n\n[]", Unknown},
	},
}

var atlassian = server{
	name: "atlassian",
	rules: []Rule{
		{Is: "locked", Header: map[string]string{"X-Seraph-LoginReason": "AUTHENTICATION_DENIED"}},
		{Is: "failure", Header: map[string]string{"x-seraph-loginreason": "AUTHENTICATED_FAILED"}},
		{Is: "success", Status: []string{"200", "302"}, Header: map[string]string{"X-Seraph-LoginReason": "OK"}},
	},
	samples: []sample{
		{"right", typed("os_username", "alice"), "302 Found\nLocation: /secure/Dashboard.jspa\nX-Seraph-LoginReason: OK\n\n", Success},
		{"wrong", typed("os_username", "alice"), "200 OK\nContent-Type: text/html\nX-Seraph-LoginReason: AUTHENTICATED_FAILED\n\n<p>Welcome, guest</p>", Failure},
		{"captcha", typed("os_username", "alice"), "200 OK\nContent-Type: text/html\nX-Seraph-LoginReason: AUTHENTICATION_DENIED\n\n", Locked},
	},
}

// basicRules count a 401 only where credentials were sent: without them it is the challenge.
func basicRules(success ...string) []Rule {
	sent := Request{Header: map[string]string{"Authorization": "*"}}
	return []Rule{
		{Is: "failure", Status: []string{"401"}, Request: sent},
		{Is: "neutral", Status: []string{"401"}},
		{Is: "success", Status: success, Request: sent},
	}
}

var jenkinsBasic = server{
	name: "jenkins-basic", rules: basicRules("2xx", "3xx", "403", "404"), warnings: 1,
	samples: []sample{
		{"right", basic(), "403 Forbidden\n\n", Success},
		{"wrong", basic(), "401 Unauthorized\nWWW-Authenticate: Basic realm=\"Jenkins\"\n\n", Failure},
		{"challenge", challenged(), "401 Unauthorized\n\n", Neutral},
	},
}

var nextcloudDAV = server{
	name: "nextcloud-dav", rules: basicRules("2xx"), warnings: 1,
	samples: []sample{
		{"right", basic(), "207 Multi-Status\nContent-Type: application/xml\n\n<d:multistatus/>", Success},
		{"wrong", basic(), "401 Unauthorized\nContent-Type: application/xml\n\n<s:exception>Sabre\\DAV\\Exception\\NotAuthenticated</s:exception>", Failure},
		{"challenge", challenged(), "401 Unauthorized\n\n", Neutral},
	},
}

var httpBasic = server{
	name: "http-basic", rules: basicRules("2xx", "3xx", "403", "404"), warnings: 1,
	samples: []sample{
		{"right", basic(), "204 No Content\n\n", Success},
		{"wrong", basic(), "401 Unauthorized\n\n", Failure},
		{"odd spelling", &attempt{header: http.Header{"Authorization": {"bAsIc  YWxpY2U6eA=="}}}, "401 Unauthorized\n\n", Failure},
		{"challenge", challenged(), "401 Unauthorized\n\n", Neutral},
		{"overloaded", basic(), "503 Service Unavailable\n\n", Neutral},
	},
}
