package outcome

import "testing"

// Servers that answer a wrong password with a page, mostly under the status of a right one.
func TestServersThatRenderAPage(t *testing.T) {
	for _, s := range []server{
		keycloakForm, gitlabForm, giteaForm, wordpressForm, wordpressXMLRPC, phpMyAdmin, djangoAdmin, aspnetUI,
		shibboleth, simpleSAMLphp, zabbixForm, roundcube, ltb, cas, drupal, soap,
	} {
		t.Run(s.name, s.check)
	}
}

var keycloakForm = server{
	name: "keycloak-form",
	rules: []Rule{
		{Is: "locked", Status: []string{"200"}, Body: []string{"Account is temporarily disabled"}},
		{Is: "neutral", Status: []string{"200"}, Body: []string{"Page has expired", "Login timeout"}},
		{Is: "factor_failure", Status: []string{"200"}, Body: []string{`id="input-error-otp-code"`}},
		{Is: "pending", Status: []string{"200"}, Body: []string{`id="kc-otp-login-form"`, `id="webauth"`}},
		{Is: "success", Status: []string{"302"}, CookieSet: []string{"KEYCLOAK_IDENTITY"}},
		{Is: "failure", Status: []string{"200"}, Body: []string{`id="input-error`, "kc-feedback-text"}},
	},
	samples: []sample{
		{"right", nil, "302 Found\nLocation: https://app.example/cb?state=x&code=4711.a.b\nSet-Cookie: KEYCLOAK_IDENTITY=eyJh.b.c; Version=1; Path=/realms/acme/; SameSite=None; Secure; HttpOnly\n\n", Success},
		{"wrong", nil, "200 OK\nContent-Type: text/html;charset=utf-8\n\n<form id=\"kc-form-login\"><input id=\"username\" value=\"alice\" aria-invalid=\"true\"><span id=\"input-error\" aria-live=\"polite\">Invalid username or password.</span></form>", Failure},
		{"wrong, old theme", nil, "200 OK\nContent-Type: text/html\n\n<div class=\"alert alert-error\"><span class=\"kc-feedback-text\">Invalid username or password.</span></div>", Failure},
		{"code due", nil, "200 OK\nContent-Type: text/html\n\n<form id=\"kc-otp-login-form\" action=\"/realms/acme/login-actions/authenticate\"><input id=\"otp\" name=\"otp\"></form>", Pending},
		{"key due", nil, "200 OK\nContent-Type: text/html\n\n<form id=\"webauth\" method=\"post\"></form>", Pending},
		{"wrong code", nil, "200 OK\nContent-Type: text/html\n\n<form id=\"kc-otp-login-form\"><input name=\"otp\"><span id=\"input-error-otp-code\">Invalid authenticator code.</span></form>", FactorFailure},
		{"locked", nil, "200 OK\nContent-Type: text/html\n\n<span id=\"input-error\">Account is temporarily disabled; contact your administrator.</span>", Locked},
		{"stale page", nil, "200 OK\nContent-Type: text/html\n\n<h1>Page has expired</h1>", Neutral},
		{"no cookies", nil, "400 Bad Request\nContent-Type: text/html\n\n<p>Restart login cookie not found.</p>", Unknown},
	},
}

var gitlabForm = server{
	name: "gitlab-form",
	rules: []Rule{
		{Is: "locked", Status: []string{"200"}, Body: []string{"Your account is locked"}},
		{Is: "pending", Status: []string{"200"}, Body: []string{`name="user[otp_attempt]"`}},
		{Is: "neutral", Status: []string{"302"}, Location: []string{"/users/sign_in"}},
		{Is: "success", Status: []string{"302"}, CookieSet: []string{"_gitlab_session"}},
		{Is: "failure", Status: []string{"200"}, Body: []string{"Invalid login or password.", "Invalid email or password."}},
	},
	samples: []sample{
		{"right", nil, "302 Found\nLocation: https://git.example/dashboard\nSet-Cookie: _gitlab_session=0fe1; path=/; secure; HttpOnly\n\n", Success},
		{"wrong", nil, "200 OK\nContent-Type: text/html\nSet-Cookie: _gitlab_session=0fe1; path=/\n\n<div class=\"gl-alert-body\">Invalid login or password.</div>", Failure},
		{"code due", nil, "200 OK\nContent-Type: text/html\nSet-Cookie: _gitlab_session=0fe1; path=/\n\n<input type=\"text\" name=\"user[otp_attempt]\" autocomplete=\"off\">", Pending},
		{"locked", nil, "200 OK\nContent-Type: text/html\n\n<div>Your account is locked.</div>", Locked},
		{"sent back", nil, "302 Found\nLocation: https://git.example/users/sign_in\nSet-Cookie: _gitlab_session=0fe1; path=/\n\n", Neutral},
		{"stale token", nil, "422 Unprocessable Entity\nContent-Type: text/html\n\n<h1>422</h1>", Unknown},
	},
}

var giteaForm = server{
	name: "gitea-form",
	rules: []Rule{
		{Is: "pending", Status: []string{"302", "303"}, Location: []string{"/user/two_factor", "/user/webauthn"}},
		{Is: "success", Status: []string{"302", "303"}, CookieSet: []string{"i_like_gitea"}},
		{Is: "failure", Status: []string{"200"}, Body: []string{"Username or password is incorrect."}},
	},
	samples: []sample{
		{"right", nil, "303 See Other\nLocation: /\nSet-Cookie: i_like_gitea=77aa; Path=/; HttpOnly\n\n", Success},
		{"wrong", nil, "200 OK\nContent-Type: text/html\nSet-Cookie: i_like_gitea=77aa; Path=/\n\n<div class=\"ui negative message flash-message\"><p>Username or password is incorrect.</p></div>", Failure},
		{"code due", typed("user_name", "alice").with("/user/login"), "303 See Other\nLocation: /user/two_factor\nSet-Cookie: i_like_gitea=77aa; Path=/\n\n", Pending},
		{"key due", typed("user_name", "alice").with("/user/login"), "303 See Other\nLocation: /user/webauthn\nSet-Cookie: i_like_gitea=77aa; Path=/\n\n", Pending},
		{"code without session", nil, "500 Internal Server Error\n\n", Neutral},
		{"suspended", nil, "200 OK\nContent-Type: text/html\n\n<p>Your account is suspended.</p>", Unknown},
	},
}

var wordpressForm = server{
	name: "wordpress-form",
	rules: []Rule{
		{Is: "neutral", Request: Request{Query: map[string]string{"action": "lostpassword"}}},
		{Is: "neutral", Request: Request{Query: map[string]string{"action": "register"}}},
		{Is: "neutral", Status: []string{"200"}, Body: []string{"Cookies are blocked"}},
		{Is: "success", Status: []string{"200", "302"}, CookieSet: []string{"wordpress_logged_in_*"}},
		{Is: "failure", Status: []string{"200"}, Body: []string{`id="login_error"`}},
	},
	warnings: 2, // neutral by the request alone: those forms ask for no password
	samples: []sample{
		{"right", nil, "302 Found\nLocation: https://blog.example/wp-admin/\nSet-Cookie: wordpress_logged_in_0f3c=alice%7C17; path=/; HttpOnly\n\n", Success},
		{"right, inside a frame", nil, "200 OK\nContent-Type: text/html\nSet-Cookie: wordpress_logged_in_0f3c=alice%7C17; path=/; HttpOnly\n\n<p class=\"message\">You have logged in successfully.</p>", Success},
		{"wrong", nil, "200 OK\nContent-Type: text/html\nSet-Cookie: wordpress_test_cookie=WP%20Cookie%20check; path=/\n\n<div id=\"login_error\" class=\"notice notice-error\"><p><strong>Error:</strong> The password you entered for the username <strong>alice</strong> is incorrect.</p></div>", Failure},
		{"logged out meanwhile", nil, "200 OK\nContent-Type: text/html\nSet-Cookie: wordpress_logged_in_0f3c=+; expires=Tue, 05 Aug 2025 10:00:00 GMT; Max-Age=0; path=/\n\n<div id=\"login_error\">Error</div>", Failure},
		{"no cookies", nil, "200 OK\nContent-Type: text/html\n\n<div id=\"login_error\"><strong>Error:</strong> Cookies are blocked or not supported by your browser.</div>", Neutral},
		{"lost password", &attempt{path: "/wp-login.php", query: map[string][]string{"action": {"lostpassword"}}}, "200 OK\nContent-Type: text/html\n\n<div id=\"login_error\">There is no account with that username.</div>", Neutral},
	},
}

var wordpressXMLRPC = server{
	name: "wordpress-xmlrpc",
	rules: []Rule{
		{Is: "failure", Status: []string{"200"}, Body: []string{"Incorrect username or password."}},
		{Is: "neutral", Status: []string{"200"}, Body: []string{"<name>faultCode</name>"}},
		{Is: "success", Status: []string{"200"}, Header: map[string]string{"Content-Type": "text/xml*"}, Body: []string{"<params>"}},
	},
	samples: []sample{
		{"right", nil, "200 OK\nContent-Type: text/xml; charset=UTF-8\n\n<?xml version=\"1.0\"?><methodResponse><params><param><value><array/></value></param></params></methodResponse>", Success},
		{"wrong", nil, "200 OK\nContent-Type: text/xml; charset=UTF-8\n\n<methodResponse><fault><value><struct><member><name>faultCode</name><value><int>403</int></value></member><member><name>faultString</name><value><string>Incorrect username or password.</string></value></member></struct></value></fault></methodResponse>", Failure},
		{"other fault", nil, "200 OK\nContent-Type: text/xml\n\n<methodResponse><fault><value><struct><member><name>faultCode</name><value><int>404</int></value></member></struct></value></fault></methodResponse>", Neutral},
		{"switched off", nil, "405 Method Not Allowed\nContent-Type: text/plain\n\nXML-RPC services are disabled on this site.", Unknown},
	},
}

var phpMyAdmin = server{
	name: "phpmyadmin",
	rules: []Rule{
		{Is: "neutral", Body: []string{"Your session has expired"}},
		{Is: "success", Status: []string{"302"}, CookieSet: []string{"pmaAuth-*"}},
		{Is: "failure", Status: []string{"200"}, JSON: map[string]string{"/success": "false", "/logged_in": "0"}},
		{Is: "failure", Status: []string{"200"}, Body: []string{"Cannot log in to the MySQL server", "Access denied for user"}},
	},
	samples: []sample{
		{"right", nil, "302 Found\nLocation: index.php?route=/\nSet-Cookie: pmaUser-1=%7B%22iv%22%3A%22x%22%7D; path=/; HttpOnly\nSet-Cookie: pmaAuth-1=%7B%22iv%22%3A%22y%22%7D; path=/; HttpOnly\n\n", Success},
		{"wrong", nil, "200 OK\nContent-Type: text/html\nSet-Cookie: pmaAuth-1=deleted; expires=Thu, 01 Jan 1970 00:00:01 GMT; Max-Age=0; path=/\n\n<div class=\"alert alert-danger\">Cannot log in to the MySQL server</div>", Failure},
		{"wrong, scripted", nil, "200 OK\nContent-Type: application/json\n\n{\"success\":false,\"logged_in\":0,\"message\":\"...\"}", Failure},
		{"expired", nil, "200 OK\nContent-Type: text/html\n\nYour session has expired. Please log in again. Access denied for user", Neutral},
	},
}

var djangoAdmin = server{
	name: "django-admin",
	rules: []Rule{
		{Is: "success", Status: []string{"302"}, CookieSet: []string{"sessionid"}},
		{Is: "failure", Status: []string{"200"}, Body: []string{`class="errornote"`}},
	},
	samples: []sample{
		{"right", typed("username", "alice", "next", "/admin/"), "302 Found\nLocation: /admin/\nSet-Cookie: csrftoken=c1; Path=/\nSet-Cookie: sessionid=s1; HttpOnly; Path=/; SameSite=Lax\n\n", Success},
		{"wrong", nil, "200 OK\nContent-Type: text/html\nSet-Cookie: csrftoken=c1; Path=/\n\n<p class=\"errornote\">Please enter the correct username and password for a staff account.</p>", Failure},
		{"stale token", nil, "403 Forbidden\nContent-Type: text/html\n\nCSRF verification failed.", Unknown},
	},
}

var aspnetUI = server{
	name: "aspnet-identity-ui",
	rules: []Rule{
		{Is: "locked", Status: []string{"302"}, Location: []string{"/Identity/Account/Lockout"}},
		{Is: "pending", Status: []string{"302"}, Location: []string{"/Identity/Account/LoginWith2fa"}},
		{Is: "success", Status: []string{"302"}, CookieSet: []string{".AspNetCore.Identity.Application*"}},
		{Is: "failure", Status: []string{"200"}, Body: []string{"Invalid login attempt."}},
	},
	samples: []sample{
		{"right", nil, "302 Found\nLocation: /\nSet-Cookie: .AspNetCore.Identity.Application=CfDJ8; path=/; secure; samesite=lax; httponly\n\n", Success},
		{"right, large ticket", nil, "302 Found\nLocation: /\nSet-Cookie: .AspNetCore.Identity.Application=chunks-2; path=/\nSet-Cookie: .AspNetCore.Identity.ApplicationC1=CfDJ8; path=/\n\n", Success},
		{"wrong", nil, "200 OK\nContent-Type: text/html\n\n<div class=\"text-danger validation-summary-errors\"><ul><li>Invalid login attempt.</li></ul></div>", Failure},
		{"code due", typed("Input.Email", "a@example.test").with("/Identity/Account/Login"), "302 Found\nLocation: /Identity/Account/LoginWith2fa?ReturnUrl=%2F&RememberMe=False\nSet-Cookie: Identity.TwoFactorUserId=CfDJ8; path=/\n\n", Pending},
		{"locked", typed("Input.Email", "a@example.test").with("/Identity/Account/Login"), "302 Found\nLocation: /Identity/Account/Lockout\n\n", Locked},
		{"field errors", nil, "200 OK\nContent-Type: text/html\n\n<span class=\"field-validation-error\">The Email field is required.</span>", Unknown},
	},
}

var shibboleth = server{
	name: "shibboleth-idp",
	rules: []Rule{
		{Is: "locked", Status: []string{"200"}, Body: []string{"Your account is locked."}},
		{Is: "failure", Status: []string{"200"}, Body: []string{"form-error"}},
		{Is: "success", Status: []string{"200", "302"}, CookieSet: []string{"shib_idp_session"}},
		{Is: "pending", Status: []string{"302"}, LocationQuery: map[string]string{"execution": "*"}},
	},
	samples: []sample{
		{"right", nil, "200 OK\nContent-Type: text/html\nSet-Cookie: shib_idp_session=4e; Path=/idp; Secure; HttpOnly\n\n<form action=\"https://sp.example/ACS\"><input name=\"SAMLResponse\" value=\"PD94\"></form>", Success},
		{"wrong name", nil, "200 OK\nContent-Type: text/html\n\n<p class=\"form-element form-error\">The username you entered cannot be identified.</p>", Failure},
		{"wrong password", nil, "200 OK\nContent-Type: text/html\n\n<p class=\"form-element form-error\">The password you entered was incorrect.</p>", Failure},
		{"locked", nil, "200 OK\nContent-Type: text/html\n\n<p class=\"form-element form-error\">Your account is locked.</p>", Locked},
		{"next page", &attempt{path: "/idp/profile/SAML2/Redirect/SSO", query: map[string][]string{"execution": {"e1s1"}}}, "302 Found\nLocation: /idp/profile/SAML2/Redirect/SSO?execution=e1s2\n\n", Pending},
	},
}
