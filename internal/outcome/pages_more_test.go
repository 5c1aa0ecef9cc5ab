package outcome

var simpleSAMLphp = server{
	name: "simplesamlphp",
	rules: []Rule{
		{Is: "success", Status: []string{"200", "302", "303"}, CookieSet: []string{"SimpleSAMLAuthToken"}},
		{Is: "failure", Status: []string{"200"}, Body: []string{"Incorrect username or password", `class="message-box error"`}},
	},
	samples: []sample{
		{"right", nil, "303 See Other\nLocation: https://sp.example/\nSet-Cookie: SimpleSAML=aa; path=/\nSet-Cookie: SimpleSAMLAuthToken=_bb; path=/; httponly\n\n", Success},
		{"wrong", nil, "200 OK\nContent-Type: text/html\nSet-Cookie: SimpleSAML=aa; path=/\n\n<div class=\"message-box error\"><h3>Incorrect username or password</h3></div>", Failure},
		{"state lost", nil, "500 Internal Server Error\nContent-Type: text/html\n\n<h2>State information lost</h2>", Neutral},
	},
}

var zabbixForm = server{
	name: "zabbix-form",
	rules: []Rule{
		{Is: "pending", Status: []string{"302"}, Location: []string{"index_mfa.php"}},
		{Is: "success", Status: []string{"302"}, Location: []string{"zabbix.php"}, CookieSet: []string{"zbx_session"}},
		{Is: "failure", Status: []string{"200"}, Body: []string{"Incorrect user name or password or account is temporarily blocked.", "Login name or password is incorrect."}},
	},
	samples: []sample{
		{"right", typed("name", "alice").with("/zabbix/index.php"), "302 Found\nLocation: zabbix.php?action=dashboard.view\nSet-Cookie: zbx_session=eyJz; HttpOnly\n\n", Success},
		{"wrong", typed("name", "alice").with("/zabbix/index.php"), "200 OK\nContent-Type: text/html\nSet-Cookie: zbx_session=eyJz; HttpOnly\n\n<div class=\"red\">Incorrect user name or password or account is temporarily blocked.</div>", Failure},
		{"wrong, old", nil, "200 OK\nContent-Type: text/html\n\n<div class=\"red\">Login name or password is incorrect.</div>", Failure},
		{"code due", typed("name", "alice").with("/zabbix/index.php"), "302 Found\nLocation: index_mfa.php\nSet-Cookie: zbx_session=eyJz; HttpOnly\n\n", Pending},
	},
}

var roundcube = server{
	name: "roundcube",
	rules: []Rule{
		{Is: "locked", Status: []string{"401"}, Body: []string{"Too many failed login attempts."}},
		{Is: "neutral", Status: []string{"401"}, Body: []string{"Invalid request! No data was saved.", "Connection to storage server failed."}},
		{Is: "success", Status: []string{"302"}, CookieSet: []string{"roundcube_sessauth"}},
		{Is: "failure", Status: []string{"200", "401"}, Body: []string{"Login failed."}},
	},
	samples: []sample{
		{"right", typed("_user", "alice", "_task", "login", "_action", "login").with("/"), "302 Found\nLocation: ./?_task=mail&_token=abc\nSet-Cookie: roundcube_sessid=1; path=/\nSet-Cookie: roundcube_sessauth=-2; path=/; HttpOnly\n\n", Success},
		{"wrong", typed("_user", "alice", "_task", "login", "_action", "login"), "401 Unauthorized\nContent-Type: text/html\nSet-Cookie: roundcube_sessauth=-del-; expires=Mon, 01 Jan 2024 00:00:00 GMT; path=/\n\n<script>rcmail.display_message(\"Login failed.\",\"warning\",0);</script>", Failure},
		{"locked", typed("_user", "alice", "_task", "login", "_action", "login"), "401 Unauthorized\nContent-Type: text/html\n\n<script>rcmail.display_message(\"Too many failed login attempts. Try again later.\",\"warning\",0);</script>", Locked},
		{"stale token", typed("_user", "alice", "_task", "login"), "401 Unauthorized\nContent-Type: text/html\n\n<script>rcmail.display_message(\"Invalid request! No data was saved.\",\"error\",0);</script>", Neutral},
	},
}

var ltb = server{
	name: "ltb-ssp",
	rules: []Rule{
		{Is: "locked", Status: []string{"200"}, Body: []string{"Too much attempts, please try again later"}},
		{Is: "success", Status: []string{"200"}, Body: []string{"Your password was changed"}},
		{Is: "failure", Status: []string{"200"}, Body: []string{"Login and/or password incorrect", "Login or password incorrect"}},
	},
	warnings: 1, // the text of a page is all that this server shows
	samples: []sample{
		{"right", nil, "200 OK\nContent-Type: text/html\n\n<div class=\"result alert alert-success\"><p>Your password was changed</p></div>", Success},
		{"wrong", nil, "200 OK\nContent-Type: text/html\n\n<div class=\"result alert alert-warning\"><p>Login or password incorrect</p></div>", Failure},
		{"throttled", nil, "200 OK\nContent-Type: text/html\n\n<div class=\"result alert alert-warning\"><p>Too much attempts, please try again later</p></div>", Locked},
		{"captcha", nil, "200 OK\nContent-Type: text/html\n\n<div class=\"result alert alert-warning\"><p>The captcha was not entered correctly</p></div>", Unknown},
	},
}

var cas = server{
	name: "cas-form",
	rules: []Rule{
		{Is: "locked", Status: []string{"423"}},
		{Is: "success", Status: []string{"302"}, LocationQuery: map[string]string{"ticket": "ST-*"}},
		{Is: "success", Status: []string{"200", "302"}, CookieSet: []string{"TGC"}},
		{Is: "failure", Status: []string{"401"}},
		{Is: "pending", Status: []string{"200"}, Body: []string{`name="token"`}},
	},
	samples: []sample{
		{"right", &attempt{path: "/cas/login", query: map[string][]string{"service": {"https://app.example/cb"}}, form: map[string][]string{"username": {"alice"}}}, "302 Found\nLocation: https://app.example/cb?ticket=ST-1-aBcD-cas\nSet-Cookie: TGC=eyJh; Path=/cas/; Secure; HttpOnly\n\n", Success},
		{"right, already known", nil, "302 Found\nLocation: https://app.example/cb?ticket=ST-2-xY-cas\n\n", Success},
		{"right, no service", nil, "200 OK\nContent-Type: text/html\nSet-Cookie: TGC=eyJh; Path=/cas/; Secure; HttpOnly\n\n<h2>Log In Successful</h2>", Success},
		{"wrong", nil, "401 Unauthorized\nContent-Type: text/html\n\n<div id=\"loginErrorsPanel\"><p>Authentication attempt has failed</p></div>", Failure},
		{"code due", nil, "200 OK\nContent-Type: text/html\n\n<input type=\"password\" id=\"token\" name=\"token\">", Pending},
		{"throttled", nil, "423 Locked\n\n", Locked},
	},
}

var drupal = server{
	name: "drupal",
	rules: []Rule{
		{Is: "locked", Status: []string{"200", "403"}, Body: []string{"too many failed", "Too many failed"}},
		{Is: "success", Status: []string{"303"}, CookieSet: []string{"SESS*", "SSESS*"}},
		{Is: "failure", Status: []string{"200"}, Body: []string{"Unrecognized username or password."}},
	},
	samples: []sample{
		{"right", typed("name", "alice", "form_id", "user_login_form", "op", "Log in"), "303 See Other\nLocation: https://site.example/user/1?check_logged_in=1\nSet-Cookie: SSESS49960de5880e8c687434170f6476605b=q; path=/; secure; HttpOnly\n\n", Success},
		{"wrong", typed("name", "alice", "form_id", "user_login_form", "op", "Log in"), "200 OK\nContent-Type: text/html\n\n<div class=\"messages messages--error\">Unrecognized username or password.</div>", Failure},
		{"flood", typed("name", "alice", "form_id", "user_login_form", "op", "Log in"), "403 Forbidden\nContent-Type: text/html\n\nToo many failed login attempts from your IP address.", Locked},
	},
}

var soap = server{
	name: "soap-wsse",
	rules: []Rule{
		{Is: "failure", Status: []string{"400", "500"}, Body: []string{"wsse:FailedAuthentication"}},
		{Is: "neutral", Body: []string{":Fault>", "<Fault>"}},
		{Is: "success", Status: []string{"200"}, Header: map[string]string{"Content-Type": "*xml*"}, Body: []string{":Body>"}},
	},
	samples: []sample{
		{"right", nil, "200 OK\nContent-Type: text/xml\n\n<soap:Envelope><soap:Body><ok/></soap:Body></soap:Envelope>", Success},
		{"wrong, 1.1", nil, "500 Internal Server Error\nContent-Type: text/xml\n\n<soap:Envelope><soap:Body><soap:Fault><faultcode>wsse:FailedAuthentication</faultcode></soap:Fault></soap:Body></soap:Envelope>", Failure},
		{"wrong, 1.2", nil, "400 Bad Request\nContent-Type: application/soap+xml\n\n<env:Fault><env:Code><env:Value>env:Sender</env:Value><env:Subcode><env:Value>wsse:FailedAuthentication</env:Value></env:Subcode></env:Code></env:Fault>", Failure},
		{"other fault", nil, "500 Internal Server Error\nContent-Type: text/xml\n\n<soap:Fault><faultcode>soap:Server</faultcode></soap:Fault>", Neutral},
		{"broken server", nil, "500 Internal Server Error\nContent-Type: text/html\n\n<h1>oops</h1>", Neutral},
	},
}
