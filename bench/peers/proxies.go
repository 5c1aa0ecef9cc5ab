//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// bench is what all proxies share: a folder, a backend and a Valkey.
type bench struct {
	dir             string
	backend, shared string // addresses
	behind          *http.Server
	valkey          *process
}

// proxy is one of those that are compared.
type proxy struct {
	name    string
	port    int
	missing string // a program that is not installed
	command []string
	file    string // its configuration, the last of command
	text    string
}

func (p *proxy) address() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

func openBench(ctx context.Context) (_ *bench, err error) {
	b := &bench{}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.dir, err = os.MkdirTemp("", "peers-"); err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, "go", "build", "-o", b.dir+"/gateway", "authgate/cmd/gateway").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("building the gateway: %w: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b.behind = &http.Server{Handler: http.HandlerFunc(backend)}
	go func() { _ = b.behind.Serve(l) }()
	b.backend, b.shared = l.Addr().String(), fmt.Sprint("127.0.0.1:", freePort())
	_, port, _ := net.SplitHostPort(b.shared)
	b.valkey, err = launch(ctx, b.dir, b.shared, "valkey-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", b.dir)
	return b, err
}

func (b *bench) close() {
	if b.behind != nil {
		_ = b.behind.Close()
	}
	b.valkey.stop()
	_ = os.RemoveAll(b.dir)
}

// start runs a proxy.
func (b *bench) start(ctx context.Context, p *proxy) (*process, error) {
	if err := os.WriteFile(p.file, []byte(p.text), 0o600); err != nil {
		return nil, err
	}
	return launch(ctx, b.dir, p.address(), p.command[0], p.command[1:]...)
}

func freePort() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0 // the program that is to listen there says what is wrong
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// proxies are all that are compared, the yardstick early.
func (b *bench) proxies() []*proxy {
	_, backendPort, _ := net.SplitHostPort(b.backend)
	_, valkeyPort, _ := net.SplitHostPort(b.shared)
	var all []*proxy
	add := func(name, text, program string, args ...string) {
		p := &proxy{name: name, port: freePort()}
		p.file = filepath.Join(b.dir, name+".conf")
		p.command = append(append([]string{program}, args...), p.file)
		p.text = strings.NewReplacer("DIR", b.dir, "NAME", name, "ADMIN", fmt.Sprint(freePort()), "BACKEND", backendPort, "VALKEY", valkeyPort, "PORT", fmt.Sprint(p.port)).Replace(text)
		if _, err := exec.LookPath(program); err != nil {
			p.missing = program
		}
		all = append(all, p)
	}
	add("nginx", nginx("", nginxPlain), "nginx", "-c")
	add("nginx-lua", nginx(nginxModules, nginxLua), "nginx", "-c")
	add("haproxy", haproxy, "haproxy", "-f")
	gateway := b.dir + "/gateway"
	add("memory", gatewayRequests+gatewayFailures+gatewayRest+"store: {backend: memory}\n", gateway, "run", "--config")
	add("valkey", gatewayRequests+gatewayRest+gatewayStore, gateway, "run", "--config")
	add("valkey-login", gatewayRequests+gatewayFailures+gatewayRest+gatewayStore, gateway, "run", "--config")
	if _, err := os.Stat(luaModule); err != nil {
		all[1].missing = "nginx's Lua module"
	}
	return all
}

// luaModule is where Debian puts it.
const luaModule = "/usr/lib/nginx/modules/ngx_http_lua_module.so"

const nginxModules = "load_module modules/ndk_http_module.so;\nload_module modules/ngx_http_lua_module.so;\n"

// nginx is a configuration for one worker that keeps its connections to the backend.
func nginx(modules, server string) string {
	return modules + `
daemon off;
worker_processes 1;
pid DIR/NAME.pid;
error_log stderr error;
events { worker_connections 2048; }
http {
	access_log off;
	client_body_temp_path DIR/NAME-1;
	proxy_temp_path DIR/NAME-2;
	fastcgi_temp_path DIR/NAME-3;
	uwsgi_temp_path DIR/NAME-4;
	scgi_temp_path DIR/NAME-5;
	upstream behind { server 127.0.0.1:BACKEND; keepalive 128; keepalive_requests 1000000000; }
	keepalive_requests 1000000000;
	proxy_http_version 1.1;
	proxy_set_header Connection "";
	proxy_set_header X-Forwarded-For $remote_addr;
` + server + "}\n"
}

// nginxPlain limits by address alone, without a look at the body.
const nginxPlain = `
	limit_req_zone $binary_remote_addr zone=many:16m rate=1000000r/s;
	limit_req_zone $binary_remote_addr zone=few:16m rate=1r/m;
	limit_req_status 429;
	server {
		listen 127.0.0.1:PORT;
		location /login { limit_req zone=many burst=1000000 nodelay; proxy_pass http://behind; }
		location /deny { limit_req zone=few; proxy_pass http://behind; }
	}
`

// nginxLua reads the name from the body and counts by name, address and application in Valkey, in one script.
const nginxLua = `
	lua_package_path "/usr/share/lua/5.1/?.lua;/usr/share/lua/5.1/nginx/?.lua;;";
	init_by_lua_block {
		json, client = require "cjson.safe", require "nginx.redis"
		script = [[
			local wait = 0
			for i, key in ipairs(KEYS) do
				if tonumber(redis.call('GET', key) or 0) >= tonumber(ARGV[1]) then
					wait = math.max(wait, redis.call('PTTL', key))
				end
			end
			if wait > 0 then
				return wait
			end
			for i, key in ipairs(KEYS) do
				if redis.call('INCR', key) == 1 then
					redis.call('PEXPIRE', key, ARGV[2])
				end
			end
			return 0
		]]
	}
	server {
		listen 127.0.0.1:PORT;
		location / {
			access_by_lua_block {
				ngx.req.read_body()
				local login = json.decode(ngx.req.get_body_data() or "") or {}
				local path, conn = ngx.var.uri, client:new()
				conn:set_timeout(1000)
				if not conn:connect("127.0.0.1", VALKEY) then
					return ngx.exit(503)
				end
				digest = digest or conn:script("LOAD", script)
				local limit = path == "/deny" and 1 or 1000000000
				local wait = conn:evalsha(digest, 3, "name:" .. tostring(login.username) .. path, "address:" .. ngx.var.remote_addr .. path, "all:" .. path, limit, 3600000)
				conn:set_keepalive(60000, 256)
				if wait ~= 0 then
					ngx.status = 429
					ngx.header["Content-Type"], ngx.header["Retry-After"] = "application/json", math.ceil(wait / 1000)
					ngx.say('{"error":"too_many_requests"}')
					return ngx.exit(429)
				end
			}
			proxy_pass http://behind;
		}
	}
`

// haproxy reads the body and counts by address and name.
const haproxy = `
global
	nbthread 1
	maxconn 2048
defaults
	mode http
	timeout connect 2s
	timeout client 60s
	timeout server 60s
frontend public
	bind 127.0.0.1:PORT
	option http-buffer-request
	http-request set-var(txn.name) req.body,json_query('$.username')
	http-request track-sc0 src table addresses
	http-request track-sc1 var(txn.name) table names
	http-request deny deny_status 429 if { path /deny } { sc0_http_req_rate gt 1 }
	http-request deny deny_status 429 if { sc1_http_req_rate gt 1000000000 }
	default_backend behind
backend addresses
	stick-table type ip size 100k expire 1h store http_req_rate(1h)
backend names
	stick-table type string len 64 size 1m expire 1h store http_req_rate(1h)
backend behind
	option forwardfor
	http-reuse always
	server one 127.0.0.1:BACKEND
`

// The gateway's configuration: three request rules, three failure rules, and a path whose bucket is soon full.
const (
	gatewayRequests = `
server: {listen: "127.0.0.1:PORT"}
admin: {listen: "127.0.0.1:ADMIN"}
upstream: {url: "http://127.0.0.1:BACKEND"}
log: {level: error}
policies:
  login:
    match: [{methods: [POST], path: /login}]
    target: {from: ["json:/username"]}
    outcome: [{is: success, status: 200}, {is: failure, status: 401}]
    requests:
      source: {limit: 100000, window: 1s, burst: 100000}
      target: {limit: 100000, window: 1h}
      app: {limit: 100000, window: 1s, burst: 100000}
`
	gatewayFailures = `
    failures:
      target_source: {limit: 5, window: 5m, lockout: {base: 5m, max: 24h}}
      source: {limit: 1000, window: 5m, lockout: {base: 5m, max: 24h}}
      subnet: {limit: 5000, window: 5m, lockout: {base: 5m, max: 24h}}
`
	gatewayRest = `
  deny:
    match: [{methods: [POST], path: /deny}]
    target: {from: ["json:/username"]}
    requests: {source: {limit: 1, window: 1h}, target: {limit: 100000, window: 1h}}
`
	gatewayStore = `store: {backend: valkey, valkey: {addresses: ["127.0.0.1:VALKEY"], prefix: NAME, timeout: 1s}}
`
)
