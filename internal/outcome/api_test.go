package outcome

import (
	"net/http"
	"net/url"
	"testing"
)

// Servers that answer in JSON, with a header, or by the status alone.
func TestServersWithAnAPI(t *testing.T) {
	for _, s := range []server{
		keycloakToken, oauthToken, vaultwarden, vaultwardenAdmin, bitwarden, homeAssistant, kratosJSON, authelia, authentik,
		mattermost, grafana, zabbixAPI, aspnetAPI, casREST, wordpressREST, atlassian, jenkinsBasic, nextcloudDAV, httpBasic,
	} {
		t.Run(s.name, s.check)
	}
}

func grant(kind string) *attempt {
	return &attempt{path: "/token", form: url.Values{"grant_type": {kind}, "username": {"alice"}, "password": {"x"}, "client_id": {"web"}}}
}

func basic() *attempt {
	return &attempt{method: "GET", header: http.Header{"Authorization": {"Basic YWxpY2U6eA=="}}}
}

func challenged() *attempt { return &attempt{method: "GET"} }

var passwordGrant = Request{Form: map[string]string{"grant_type": "password"}}

var keycloakToken = server{
	name: "keycloak-token",
	rules: []Rule{
		{Is: "client_failure", Status: []string{"400", "401"}, JSON: map[string]string{"/error": "invalid_client"}},
		{Is: "success", Status: []string{"200"}, JSON: map[string]string{"/access_token": "*"}, Request: passwordGrant},
		{Is: "failure", Status: []string{"401"}, JSON: map[string]string{"/error": "invalid_grant"}, Request: passwordGrant},
		{Is: "neutral", Status: []string{"400"}, JSON: map[string]string{"/error": "invalid_grant"}},
	},
	samples: []sample{
		{"right", grant("password"), "200 OK\nContent-Type: application/json\n\n{\"access_token\":\"eyJh\",\"expires_in\":300,\"token_type\":\"Bearer\"}", Success},
		{"wrong", grant("password"), "401 Unauthorized\nContent-Type: application/json\n\n{\"error\":\"invalid_grant\",\"error_description\":\"Invalid user credentials\"}", Failure},
		{"disabled", grant("password"), "400 Bad Request\nContent-Type: application/json\n\n{\"error\":\"invalid_grant\",\"error_description\":\"Account disabled\"}", Neutral},
		{"wrong client", grant("password"), "401 Unauthorized\nContent-Type: application/json\n\n{\"error\":\"invalid_client\"}", ClientFailure},
		{"refresh", grant("refresh_token"), "200 OK\nContent-Type: application/json\n\n{\"access_token\":\"eyJh\"}", Unknown},
		{"parallel guessing", grant("password"), "403 Forbidden\n\n", Unknown},
	},
}

var oauthToken = server{
	name: "oauth2-token",
	rules: []Rule{
		{Is: "client_failure", Status: []string{"400", "401"}, JSON: map[string]string{"/error": "invalid_client"}},
		{Is: "pending", Status: []string{"400", "403"}, JSON: map[string]string{"/error": "mfa_required"}},
		{Is: "neutral", Status: []string{"400"}, JSON: map[string]string{"/error": "authorization_pending"}},
		{Is: "neutral", Status: []string{"400"}, JSON: map[string]string{"/error": "slow_down"}},
		{Is: "success", Status: []string{"200"}, JSON: map[string]string{"/access_token": "*"}, Request: passwordGrant},
		{Is: "failure", Status: []string{"400"}, JSON: map[string]string{"/error": "invalid_grant"}, Request: passwordGrant},
	},
	samples: []sample{
		{"right", grant("password"), "200 OK\nContent-Type: application/json\n\n{\"access_token\":\"2Yot\"}", Success},
		{"wrong", grant("password"), "400 Bad Request\nContent-Type: application/json\n\n{\"error\":\"invalid_grant\"}", Failure},
		{"stale refresh token", grant("refresh_token"), "400 Bad Request\nContent-Type: application/json\n\n{\"error\":\"invalid_grant\"}", Unknown},
		{"code due", grant("password"), "403 Forbidden\nContent-Type: application/json\n\n{\"error\":\"mfa_required\",\"mfa_token\":\"Fe26\"}", Pending},
		{"wrong client", grant("client_credentials"), "401 Unauthorized\nWWW-Authenticate: Basic realm=\"token\"\nContent-Type: application/json\n\n{\"error\":\"invalid_client\"}", ClientFailure},
		{"not yet", grant("urn:ietf:params:oauth:grant-type:device_code"), "400 Bad Request\nContent-Type: application/json\n\n{\"error\":\"authorization_pending\"}", Neutral},
	},
}

var vaultwarden = server{
	name: "vaultwarden",
	rules: []Rule{
		{Is: "locked", Status: []string{"429"}},
		{Is: "pending", Status: []string{"400"}, JSON: map[string]string{"/error": "invalid_grant", "/TwoFactorProviders": "*"}},
		{Is: "factor_failure", Status: []string{"400"}, JSON: map[string]string{"/message": "Invalid TOTP code!*"}},
		{Is: "success", Status: []string{"200"}, JSON: map[string]string{"/access_token": "*"}, Request: passwordGrant},
		{Is: "failure", Status: []string{"400"}, JSON: map[string]string{"/message": "*is incorrect*", "/error": ""}, Request: passwordGrant},
	},
	samples: []sample{
		{"right", grant("password"), "200 OK\nContent-Type: application/json\n\n{\"access_token\":\"eyJh\",\"Key\":\"2.x\"}", Success},
		{"wrong", grant("password"), "400 Bad Request\nContent-Type: application/json\n\n{\"error\":\"\",\"error_description\":\"\",\"message\":\"Username or password is incorrect. Try again\"}", Failure},
		{"code due", grant("password"), "400 Bad Request\nContent-Type: application/json\n\n{\"error\":\"invalid_grant\",\"error_description\":\"Two factor required.\",\"TwoFactorProviders\":[\"0\"]}", Pending},
		{"wrong code", grant("password"), "400 Bad Request\nContent-Type: application/json\n\n{\"error\":\"\",\"message\":\"Invalid TOTP code! Server time: 2026-01-01\"}", FactorFailure},
		{"disabled", grant("password"), "400 Bad Request\nContent-Type: application/json\n\n{\"error\":\"\",\"message\":\"This user has been disabled\"}", Unknown},
		{"stale refresh token", grant("refresh_token"), "400 Bad Request\nContent-Type: application/json\n\n{\"error\":\"invalid_grant\"}", Unknown},
		{"throttled", grant("password"), "429 Too Many Requests\n\n", Locked},
	},
}

var vaultwardenAdmin = server{
	name: "vaultwarden-admin",
	rules: []Rule{
		{Is: "success", Status: []string{"200", "303"}, CookieSet: []string{"VW_ADMIN"}},
		{Is: "failure", Status: []string{"401"}, Body: []string{"Invalid admin token"}},
		{Is: "locked", Status: []string{"429"}},
	},
	samples: []sample{
		{"right", nil, "303 See Other\nLocation: /admin\nSet-Cookie: VW_ADMIN=eyJ0; HttpOnly; SameSite=Strict; Path=/admin\n\n", Success},
		{"wrong", nil, "401 Unauthorized\nContent-Type: text/html\n\n<strong>Invalid admin token, please try again.</strong>", Failure},
		{"throttled", nil, "429 Too Many Requests\n\n", Locked},
	},
}

var bitwarden = server{
	name: "bitwarden",
	rules: []Rule{
		{Is: "pending", Status: []string{"400"}, JSON: map[string]string{"/TwoFactorProviders": "*"}},
		{Is: "success", Status: []string{"200"}, JSON: map[string]string{"/access_token": "*"}, Request: passwordGrant},
		{Is: "failure", Status: []string{"400"}, JSON: map[string]string{"/error": "invalid_grant", "/ErrorModel/Message": "Username or password is incorrect*"}},
	},
	samples: []sample{
		{"right", grant("password"), "200 OK\nContent-Type: application/json\n\n{\"access_token\":\"eyJh\"}", Success},
		{"wrong", grant("password"), "400 Bad Request\nContent-Type: application/json\n\n{\"error\":\"invalid_grant\",\"error_description\":\"invalid_username_or_password\",\"ErrorModel\":{\"Message\":\"Username or password is incorrect. Try again.\",\"Object\":\"error\"}}", Failure},
		{"code due", grant("password"), "400 Bad Request\nContent-Type: application/json\n\n{\"error\":\"invalid_grant\",\"error_description\":\"Two factor required.\",\"TwoFactorProviders\":[0,1]}", Pending},
		{"new device", grant("password"), "400 Bad Request\nContent-Type: application/json\n\n{\"error\":\"device_error\",\"ErrorModel\":{\"Message\":\"new device verification required\"}}", Unknown},
	},
}

var homeAssistant = server{
	name: "home-assistant",
	rules: []Rule{
		{Is: "success", Status: []string{"200"}, JSON: map[string]string{"/type": "create_entry"}},
		{Is: "factor_failure", Status: []string{"200"}, JSON: map[string]string{"/type": "form", "/errors/base": "invalid_code"}},
		{Is: "failure", Status: []string{"200"}, JSON: map[string]string{"/type": "form", "/errors/base": "invalid_auth"}},
		{Is: "pending", Status: []string{"200"}, JSON: map[string]string{"/type": "form", "/step_id": "mfa"}},
	},
	samples: []sample{
		{"right", nil, "200 OK\nContent-Type: application/json\n\n{\"version\":1,\"type\":\"create_entry\",\"flow_id\":\"a\",\"result\":\"b\"}", Success},
		{"wrong", nil, "200 OK\nContent-Type: application/json\n\n{\"type\":\"form\",\"flow_id\":\"a\",\"step_id\":\"init\",\"errors\":{\"base\":\"invalid_auth\"}}", Failure},
		{"code due", nil, "200 OK\nContent-Type: application/json\n\n{\"type\":\"form\",\"flow_id\":\"a\",\"step_id\":\"mfa\",\"errors\":{}}", Pending},
		{"wrong code", nil, "200 OK\nContent-Type: application/json\n\n{\"type\":\"form\",\"step_id\":\"mfa\",\"errors\":{\"base\":\"invalid_code\"}}", FactorFailure},
		{"unknown flow", nil, "404 Not Found\nContent-Type: application/json\n\n{\"message\":\"Invalid flow specified\"}", Unknown},
	},
}

var kratosJSON = server{
	name: "kratos-json",
	rules: []Rule{
		{Is: "success", Status: []string{"200"}, JSON: map[string]string{"/session": "*"}},
		{Is: "pending", Status: []string{"422"}, JSON: map[string]string{"/error/id": "browser_location_change_required"}},
		{Is: "failure", Status: []string{"400"}, JSON: map[string]string{"/ui/messages/*/id": "4000006"}},
	},
	samples: []sample{
		{"right", nil, "200 OK\nContent-Type: application/json\n\n{\"session\":{\"id\":\"s\",\"active\":true}}", Success},
		{"wrong", nil, "400 Bad Request\nContent-Type: application/json\n\n{\"id\":\"f\",\"ui\":{\"nodes\":[{\"messages\":[]}],\"messages\":[{\"id\":1010016,\"type\":\"info\"},{\"id\":4000006,\"text\":\"The provided credentials are invalid.\",\"type\":\"error\"}]}}", Failure},
		{"second step due", nil, "422 Unprocessable Entity\nContent-Type: application/json\n\n{\"error\":{\"id\":\"browser_location_change_required\",\"code\":422},\"redirect_browser_to\":\"https://x\"}", Pending},
		{"field errors", nil, "400 Bad Request\nContent-Type: application/json\n\n{\"ui\":{\"messages\":[{\"id\":4000002}]}}", Unknown},
		{"expired", nil, "410 Gone\nContent-Type: application/json\n\n{\"error\":{\"id\":\"self_service_flow_expired\"}}", Unknown},
	},
}

var authelia = server{
	name: "authelia",
	rules: []Rule{
		{Is: "locked", Status: []string{"429"}},
		{Is: "success", Status: []string{"200"}, JSON: map[string]string{"/status": "OK"}},
		{Is: "failure", Status: []string{"401"}, JSON: map[string]string{"/status": "KO"}},
		{Is: "factor_failure", Status: []string{"403"}, JSON: map[string]string{"/status": "KO"}, Request: Request{Path: []string{"/api/secondfactor/*"}}},
	},
	samples: []sample{
		{"right", nil, "200 OK\nContent-Type: application/json\n\n{\"status\":\"OK\"}", Success},
		{"wrong", nil, "401 Unauthorized\nContent-Type: application/json\n\n{\"status\":\"KO\",\"message\":\"Authentication failed. Check your credentials.\"}", Failure},
		{"wrong code", &attempt{path: "/api/secondfactor/totp"}, "403 Forbidden\nContent-Type: application/json\n\n{\"status\":\"KO\",\"message\":\"Authentication failed.\"}", FactorFailure},
		{"throttled", nil, "429 Too Many Requests\n\n", Locked},
	},
}

var authentik = server{
	name: "authentik",
	rules: []Rule{
		{Is: "failure", Status: []string{"200"}, JSON: map[string]string{"/response_errors": "*"}},
		{Is: "success", Status: []string{"200"}, JSON: map[string]string{"/component": "xak-flow-redirect"}},
		{Is: "pending", Status: []string{"200"}, JSON: map[string]string{"/component": "ak-stage-authenticator-validate"}},
		{Is: "neutral", Status: []string{"200"}, JSON: map[string]string{"/component": "ak-stage-*"}},
	},
	samples: []sample{
		{"right", nil, "200 OK\nContent-Type: application/json\n\n{\"component\":\"xak-flow-redirect\",\"to\":\"/\"}", Success},
		{"wrong", nil, "200 OK\nContent-Type: application/json\n\n{\"component\":\"ak-stage-password\",\"response_errors\":{\"password\":[{\"string\":\"Failed to authenticate.\",\"code\":\"invalid\"}]}}", Failure},
		{"code due", nil, "200 OK\nContent-Type: application/json\n\n{\"component\":\"ak-stage-authenticator-validate\",\"device_challenges\":[]}", Pending},
		{"denied", nil, "200 OK\nContent-Type: application/json\n\n{\"component\":\"ak-stage-access-denied\"}", Neutral},
	},
}
