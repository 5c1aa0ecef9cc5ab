package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	"authgate/internal/config"
	"authgate/internal/demo"
	"authgate/internal/gateway"
)

// runDemo serves in front of the built-in legacy login page.
func runDemo(c *call) error {
	f := flags("demo")
	listen := f.String("listen", "127.0.0.1:8080", "`address` of the gateway, or of the backend with --backend-only")
	alone := f.Bool("backend-only", false, "serve the legacy login page without a gateway in front")
	if err := c.parse(f, 0); err != nil {
		return err
	}
	ctx, stop := untilSignal()
	defer stop()
	address := "127.0.0.1:0"
	if *alone {
		address = *listen
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	site, err := demo.New(demo.Config{})
	if err != nil {
		return fmt.Errorf("making the demo's site: %w", err)
	}
	ended := make(chan error, 1)
	serving, end := context.WithCancel(ctx)
	defer end()
	go func() { ended <- site.Serve(serving, l) }()
	if *alone {
		fmt.Fprintf(c.stdout, "The legacy login page alone, unprotected: http://%s/login\n", l.Addr())
		return <-ended
	}
	cfg, _, err := config.Parse("demo", demoConfig(*listen, l.Addr()), config.Options{})
	if err != nil {
		return fmt.Errorf("preparing the demo: %w", err)
	}
	err = c.serve(ctx, cfg, &follower{}, func(g *gateway.Gateway, token string) {
		fmt.Fprintf(c.stdout, demoText, g.Addr(), g.AdminAddr(), token)
	})
	end()
	return errors.Join(err, <-ended)
}

func demoConfig(listen string, backend net.Addr) []byte {
	upstream := url.URL{Scheme: "http", Host: backend.String()}
	return fmt.Appendf(nil, demoFile, listen, upstream.String())
}

// demoFile protects the demo's pages. The admin listener takes a free port if the usual one is taken by nobody's plan.
const demoFile = `
server: {listen: %q}
upstream: {url: %q}
admin: {listen: "127.0.0.1:0"}
log: {level: warn, format: text, identifiers: plain}
policies:
  login:
    match: [{methods: [POST], path: /login}]
    target: {from: ["form:username", "json:/username"]}
    secret: {from: ["form:password", "json:/password"]}
    pending: {key: "set_cookie:pending"}
    failures:
      target_source: {limit: 5, window: 5m, lockout: {base: 1m, max: 24h}}
      source: {limit: 20, window: 5m, lockout: {base: 1m, max: 24h}}
    outcome:
      - {is: pending, status: 302, location: /user/two_factor}
      - {is: pending, status: 202, json: {/status: two_factor_required}}
      - {is: success, status: 302, location: /welcome, cookie_set: session}
      - {is: success, status: 200, json: {/access_token: "*"}}
      - {is: failure, status: 200, body: 'id="login_error"'}
      - {is: failure, status: 401}
  second-step:
    match: [{methods: [POST], path: /login/two_factor}]
    pending: {key: "cookie:pending"}
    factors:
      target: {limit: 5, window: 15m}
    outcome:
      - {is: success, status: 302, location: /welcome, cookie_set: session}
      - {is: factor_failure, status: 200, body: 'id="code_error"'}
  mail-code:
    match: [{methods: [POST], path: /mail-code}]
    target: {from: ["form:email", "json:/email"]}
    requests:
      source: {limit: 1200, window: 60m, burst: 300}
      target: {limit: 5, window: 60m}
`

const demoText = `
authgate stands in front of a legacy login page: http://%[1]s/login
Its users are alice/wonderland, bob/builder, and carol/singing, who needs a code that is in http://%[1]s/outbox as well.
Try, in another terminal:

  1. Codes by mail: five an hour for a mailbox, whatever its spelling and whoever asks. The sixth is refused:
     for i in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%%{http_code}\n' http://%[1]s/mail-code -d email=ann@example.com; done
     curl -i http://%[1]s/mail-code -d email=ANN@Example.COM
     curl -i http://%[1]s/mail-code -d email=ben@example.com

  2. Wrong passwords: the fifth locks alice, for this address, for a minute. Bob is not concerned:
     for i in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%%{http_code}\n' http://%[1]s/login -d username=alice -d password=$i; done
     curl -i http://%[1]s/login -d username=alice -d password=wonderland
     curl -i http://%[1]s/login -d username=bob -d password=builder

  3. What is locked, and how to release it:
     export AUTHGATE_TOKEN=%[3]s
     curl -s -H "Authorization: Bearer $AUTHGATE_TOKEN" http://%[2]s/meta/login-rate-limit
     curl -s -X DELETE -H "Authorization: Bearer $AUTHGATE_TOKEN" http://%[2]s/meta/login-rate-limit
     curl -s http://%[2]s/metrics | grep ^gateway_

Press Ctrl-C to stop.
`
