package gateway_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"authgate/internal/config"
	"authgate/internal/gateway"
)

// tenantsFile is a configuration in which everything is overridden somewhere.
const tenantsFile = `upstream: {url: "http://127.0.0.1:9"}
store: {backend: valkey, valkey: {addresses: ["127.0.0.1:1"]}}
audit: {file: /nowhere/audit}
allowlist: [192.0.2.0/24]
policies:
  code:
    match: [{path: /code}]
    target: {from: ["form:email"]}
    requests:
      source: {limit: 9, window: 1h}
      target: {limit: 5, window: 1h, burst: 2}
      app: {limit: 99, window: 1h}
      signups: {limit: 3, window: 1h}
  login:
    match: [{path: /login}]
    target: {from: ["form:user"]}
    mode: enforce
    failures:
      target_source: {limit: 5, window: 5m, lockout: {base: 5m, max: 24h}}
    outcome: [{is: success, status: 302, cookie_set: session}, {is: failure, status: 401}]
realms:
  acme:
    hosts: [auth.acme.test]
    legacy_per_ip: {code: {limit: 5, window: 60m}}
    policies: {code: {requests: {target: {limit: 3, window: 1h}}}}
    apps:
      shop:
        hosts: [shop.acme.test]
        clients: [shop-web]
        allowlist: []
        policies: {code: {requests: {source: off}}}
      desk: {mode: enforce}
  bell:
    hosts: [auth.bell.test]
    mode: enforce
clients:
  - {id: shop-web, realm: acme, secret_hash: "sha256:saltsalt:d1ced7a0e6e5cd4a35db1c0e29ea4a8a2a7c4a7a0d2b0a1a1a1a1a1a1a1a1a1a"}
`

func explain(t *testing.T, yaml, url, body string) *gateway.Explanation {
	t.Helper()
	cfg, _, err := config.Parse("test.yaml", []byte(yaml), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, url, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = "198.51.100.7:1"
	e, err := gateway.Explain(cfg, r)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		name, url, body string
		want            []string // realm, then policies, then buckets
	}{
		{
			"in an app", "http://shop.acme.test/code", "email=Bob@x.test",
			[]string{
				"acme shop by host", "code log-only test.yaml:24 named bob@x.test",
				"requests.target 3 test.yaml:25 r:code:target:acme:bob@x.test",
				"requests.app 99 test.yaml:12 r:code:app:acme:app|shop",
				"requests.signups 3 test.yaml:13 r:code:signups:acme:198.51.100.7 counts only if the target is not known to exist; only reports until targets were imported",
			},
		},
		{
			"in a realm, by its own mode, in the policy's", "http://auth.bell.test/login", "user=bob",
			[]string{
				"bell by host", "login enforce test.yaml:17 named bob",
				"failures.target_source 5 test.yaml:19 f:login:target_source:bell:bob|198.51.100.7",
			},
		},
		{
			"in none", "http://nobody.test/code", "",
			[]string{
				"default by default", "code enforce default missing (missing)|198.51.100.7",
				"requests.source 9 test.yaml:10 r:code:source:default:198.51.100.7",
				"requests.target 5 test.yaml:11 r:code:target:default:(missing)|198.51.100.7",
				"requests.app 99 test.yaml:12 r:code:app:default:realm",
				"requests.signups 3 test.yaml:13 r:code:signups:default:198.51.100.7 counts only if the target is not known to exist; only reports until targets were imported",
			},
		},
		{"without a policy", "http://auth.acme.test/", "", []string{"acme by host"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := explain(t, tenantsFile, c.url, c.body)
			got := []string{strings.TrimSpace(e.Realm+" "+e.App) + " by " + e.RealmBy}
			for _, p := range e.Policies {
				got = append(got, strings.Join([]string{p.Name, p.Mode, p.ModeOrigin, p.Target.State, strings.Join(p.Target.Values, " ")}, " "))
				for _, b := range p.Buckets {
					line, _ := json.Marshal(b.Limit)
					got = append(got, strings.TrimSpace(b.Class+"."+b.Dimension+" "+string(line)+" "+b.Origin+" "+b.Key+" "+b.Note))
					if b.Mode != p.Mode || b.Refuse != "429" || (b.ID == "") != (b.Class == "requests") {
						t.Errorf("bucket %+v", b)
					}
				}
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestExplainUnknownHost(t *testing.T) {
	e := explain(t, tenantsFile+"unknown_host: reject\n", "http://nobody.test/code", "email=a")
	if e.RealmBy != "none" || e.Answer == nil || e.Answer.Status != http.StatusMisdirectedRequest || len(e.Policies) > 0 {
		t.Errorf("got %+v", e)
	}
}

// Neither hook nor store nor backend is asked for a request that is only explained.
func TestExplainAsksNobody(t *testing.T) {
	anybody := httptest.NewUnstartedServer(http.NotFoundHandler())
	anybody.Config.ConnState = func(net.Conn, http.ConnState) { t.Error("somebody was asked") }
	anybody.Start()
	defer anybody.Close()
	yaml := strings.NewReplacer("127.0.0.1:9", anybody.Listener.Addr().String(), "127.0.0.1:1", anybody.Listener.Addr().String()).Replace(tenantsFile)
	e := explain(t, yaml+"signups: {lookup_url: \""+anybody.URL+"\", lookup_secret: 0123456789abcdef0123456789abcdef}\n", "http://auth.bell.test/code", "email=a@x.test")
	last := e.Policies[0].Buckets[len(e.Policies[0].Buckets)-1]
	if last.Dimension != "signups" || !strings.Contains(last.Note, "the hook says") || last.Mode != "enforce" {
		t.Errorf("got %+v", last)
	}
}
