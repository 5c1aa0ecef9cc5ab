package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"authgate/internal/config"
	"authgate/internal/gateway"
)

// metaPolicies is what /meta/policies says of a configuration.
func metaPolicies(t *testing.T, yaml string) map[string]any {
	t.Helper()
	cfg, _, err := config.Parse("test.yaml", []byte(yaml), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(cfg, gateway.Options{AdminToken: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Stop(context.Background()) }()
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodGet, "http://"+g.AdminAddr().String()+"/meta/policies", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer secret")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMetaPolicies(t *testing.T) {
	yaml := strings.NewReplacer("store: {backend: valkey, valkey: {addresses: [\"127.0.0.1:1\"]}}", "server: {listen: \"127.0.0.1:0\"}", "audit: {file: /nowhere/audit}", "admin: {listen: \"127.0.0.1:0\"}").Replace(tenantsFile)
	got := metaPolicies(t, yaml)
	if got["unknown_host"] != "default" || len(got["policies"].([]any)) != 2 {
		t.Errorf("got %v", got)
	}
	const want = `[
	{"name":"acme","hosts":["auth.acme.test"],"mode":"log-only","mode_origin":"test.yaml:24",
	 "allowlist":["192.0.2.0/24"],"allowlist_origin":"test.yaml:4",
	 "legacy_per_ip":[{"policy":"code","limit":5,"window_seconds":3600,"origin":"test.yaml:24"}],
	 "warning":"legacy_per_ip limits nothing; delete it, and set a mode: without one the realm runs log-only",
	 "policies":[
	  {"name":"code","mode":"log-only","mode_origin":"test.yaml:24","rules":[
	   {"class":"requests","dimension":"target","limit":3,"window_seconds":3600,"refuse":"429","path":"realms.acme.policies.code.requests.target","origin":"test.yaml:25"}]},
	  {"name":"login","mode":"enforce","mode_origin":"test.yaml:17"}],
	 "apps":[
	  {"name":"shop","hosts":["shop.acme.test"],"clients":["shop-web"],"mode":"log-only","mode_origin":"test.yaml:24",
	   "allowlist":[],"allowlist_origin":"test.yaml:30","policies":[
	    {"name":"code","mode":"log-only","mode_origin":"test.yaml:24","rules":[
	     {"class":"requests","dimension":"target","limit":3,"window_seconds":3600,"refuse":"429","path":"realms.acme.policies.code.requests.target","origin":"test.yaml:25"}],
	     "off":[{"class":"requests","dimension":"source","path":"realms.acme.apps.shop.policies.code.requests.source","origin":"test.yaml:31"}]},
	    {"name":"login","mode":"enforce","mode_origin":"test.yaml:17"}]},
	  {"name":"desk","hosts":[],"mode":"enforce","mode_origin":"test.yaml:32",
	   "allowlist":["192.0.2.0/24"],"allowlist_origin":"test.yaml:4","policies":[
	    {"name":"code","mode":"enforce","mode_origin":"test.yaml:32","rules":[
	     {"class":"requests","dimension":"target","limit":3,"window_seconds":3600,"refuse":"429","path":"realms.acme.policies.code.requests.target","origin":"test.yaml:25"}]},
	    {"name":"login","mode":"enforce","mode_origin":"test.yaml:17"}]}]},
	{"name":"bell","hosts":["auth.bell.test"],"mode":"enforce","mode_origin":"test.yaml:35",
	 "allowlist":["192.0.2.0/24"],"allowlist_origin":"test.yaml:4","policies":[
	  {"name":"code","mode":"enforce","mode_origin":"test.yaml:35"},{"name":"login","mode":"enforce","mode_origin":"test.yaml:17"}]},
	{"name":"default","hosts":[],"mode":"enforce","mode_origin":"default",
	 "allowlist":["192.0.2.0/24"],"allowlist_origin":"test.yaml:4","policies":[
	  {"name":"code","mode":"enforce","mode_origin":"default"},{"name":"login","mode":"enforce","mode_origin":"test.yaml:17"}]}]`
	var wanted any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got["realms"], wanted) {
		b, _ := json.MarshalIndent(got["realms"], "", " ")
		t.Errorf("got %s", b)
	}
	reject := metaPolicies(t, yaml+"unknown_host: reject\n")
	if n := len(reject["realms"].([]any)); reject["unknown_host"] != "reject" || n != 2 {
		t.Errorf("with unknown_host: reject there are %d realms, %v", n, reject["unknown_host"])
	}
}
