package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"authgate/internal/config"
	"authgate/internal/gateway"
)

func start(t *testing.T, yaml string) *gateway.Gateway {
	t.Helper()
	cfg, warnings, err := config.Parse("test.yaml", []byte(yaml), config.Options{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Log(warnings)
	g, err := gateway.New(cfg, gateway.Options{AdminToken: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}

func TestSmoke(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %v", r.Method, r.RequestURI, b, r.Header)
	}))
	defer backend.Close()
	g := start(t, `
server: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0"}
upstream: {url: "`+backend.URL+`"}
policies:
  otp:
    match: [{methods: [POST], path: /otp}]
    target: {from: ["json:/email"]}
    requests:
      target: {limit: 2, window: 60m}
`)
	for range 3 {
		res, err := http.Post("http://"+g.Addr().String()+"/otp?x=1", "application/json", strings.NewReader(`{"email":"a@b.c"}`))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		t.Logf("%d %v %s", res.StatusCode, res.Header, b)
	}
}
