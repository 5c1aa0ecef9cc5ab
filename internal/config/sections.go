package config

import (
	"net/url"
	"time"

	"authgate/clientip"
)

// Server is the public listener.
type Server struct {
	Listen            []string           `yaml:"listen" ref:"true" items:"64"` // host:port; port 0 takes a free one
	ReadHeaderTimeout time.Duration      `yaml:"read_header_timeout" min:"100ms" max:"10m"`
	ReadBodyTimeout   time.Duration      `yaml:"read_body_timeout" min:"100ms" max:"1h"` // on policy routes
	IdleTimeout       time.Duration      `yaml:"idle_timeout" min:"1s" max:"24h"`
	MaxConnections    int                `yaml:"max_connections" min:"1" max:"10000000"`
	MaxStreams        int                `yaml:"max_streams" min:"1" max:"10000"`     // of one HTTP/2 connection
	MaxUpstream       int                `yaml:"max_upstream" min:"1" max:"10000000"` // calls in flight; beyond: 503
	MaxHeaderBytes    Size               `yaml:"max_header_bytes" min:"4KiB" max:"16MiB"`
	ShutdownGrace     time.Duration      `yaml:"shutdown_grace" max:"1h"`
	ProxyProtocol     clientip.PrefixSet `yaml:"proxy_protocol" ref:"true"` // balancers that must send a PROXY header
	TLS               ServerTLS          `yaml:"tls"`
}

// ServerTLS is how the public listener gets its certificates.
type ServerTLS struct {
	Mode         string        `yaml:"mode" enum:"off|files|acme"`
	Certificates []Certificate `yaml:"certificates" items:"1000"` // mode files: the first is for clients that name no host, or none that is known
	ACME         ACME          `yaml:"acme"`
	HSTS         string        `yaml:"hsts"`                     // value of Strict-Transport-Security; empty: not sent
	RedirectFrom string        `yaml:"redirect_from" ref:"true"` // host:port of a plain listener; empty: none
}

// Certificate is a pair of PEM files.
type Certificate struct {
	Cert string `yaml:"cert" required:"true"`
	Key  string `yaml:"key" required:"true"`
}

// ACME is how certificates are ordered.
type ACME struct {
	Domains   []string `yaml:"domains" items:"100"`  // host names, each with a certificate of its own; no others are ever ordered
	Email     string   `yaml:"email" ref:"true"`     // of the account; empty: none
	Directory string   `yaml:"directory" ref:"true"` // https; empty: Let's Encrypt production
	CAFile    string   `yaml:"ca_file"`              // trusted for the directory beside the system's roots
	Storage   string   `yaml:"storage" enum:"file|valkey"`
	Path      string   `yaml:"path"` // of storage file; empty: the user's data directory
}

// Upstream is the backend.
type Upstream struct {
	URL             *url.URL      `yaml:"url" ref:"true"` // http, https, h2c with host and port alone, or unix with a path alone; never nil
	Host            string        `yaml:"host" enum:"pass|upstream"`
	ConnectTimeout  time.Duration `yaml:"connect_timeout" min:"10ms" max:"10m"`
	ResponseTimeout time.Duration `yaml:"response_timeout" min:"10ms" max:"1h"` // until the response header
	MaxIdle         int           `yaml:"max_idle_connections" min:"1" max:"1000000"`
	TLS             UpstreamTLS   `yaml:"tls"`
	SecretHeader    SecretHeader  `yaml:"secret_header"`
}

// UpstreamTLS is used with an https upstream. The files have been read once and hold what they should.
type UpstreamTLS struct {
	CAFile     string `yaml:"ca_file"`     // empty: the system's roots
	ServerName string `yaml:"server_name"` // empty: the host of the URL
	Cert       string `yaml:"cert"`        // client certificate; set if and only if Key is
	Key        string `yaml:"key"`
}

// SecretHeader proves to the backend that a request came through here. Both fields are set, or none.
type SecretHeader struct {
	Name  string `yaml:"name"`
	Value Secret `yaml:"value"`
}

// ClientIP says who sent a request, and who may talk at all.
type ClientIP struct {
	TrustHeaders   bool               `yaml:"trust_headers"`
	TrustedProxies clientip.TrustList `yaml:"trusted_proxies" ref:"true"`
	TrustedHops    int                `yaml:"trusted_hops" min:"0" max:"32"` // at most clientip.MaxHops
	Header         string             `yaml:"header"`
	Allow          clientip.PrefixSet `yaml:"allow" ref:"true" everyone:"true"`
	Deny           clientip.PrefixSet `yaml:"deny" ref:"true"`
	Outbound       string             `yaml:"outbound" enum:"verified|append|replace"`
}

// Walk is the part of the section that the hop walk takes.
func (c *ClientIP) Walk() clientip.Config {
	return clientip.Config{
		TrustHeaders: c.TrustHeaders, TrustedProxies: c.TrustedProxies,
		TrustedHops: c.TrustedHops, Header: c.Header,
	}
}

// Store is where buckets live.
type Store struct {
	Backend     string        `yaml:"backend" enum:"memory|valkey"`
	MaxEntries  int           `yaml:"max_entries" min:"1000" max:"1000000000"` // of the local store
	File        string        `yaml:"file"`                                    // memory store: what survives a restart; empty: nothing
	OnOutage    string        `yaml:"on_outage" enum:"local|allow|deny"`       // see Policy.OnOutage for what holds
	PendingWait time.Duration `yaml:"pending_wait" max:"1m"`                   // see Policy.PendingWait for what holds
	Valkey      Valkey        `yaml:"valkey"`
	Identifiers string        `yaml:"identifiers" enum:"plain|hashed" later:"hashed"`
	HashKey     Secret        `yaml:"hash_key"` // at least 16 bytes; empty: made once, kept in the store
}

// Valkey is the shared store.
type Valkey struct {
	Addresses      []string      `yaml:"addresses" ref:"true" items:"64"` // host:port, at least one
	Username       string        `yaml:"username" ref:"true"`
	Password       Secret        `yaml:"password"`
	Database       int           `yaml:"database" min:"0" max:"65535"`
	TLS            bool          `yaml:"tls"`
	CAFile         string        `yaml:"ca_file"` // empty: the system's roots
	SentinelMaster string        `yaml:"sentinel_master" later:"true"`
	Prefix         string        `yaml:"prefix"` // of every key; 1..32 of [a-zA-Z0-9._-]
	Timeout        time.Duration `yaml:"timeout" min:"1ms" max:"10s"`
}

// Admin is the listener of /meta, health and metrics.
type Admin struct {
	Listen string   `yaml:"listen" ref:"true"`   // host:port
	Tokens []Token  `yaml:"tokens" items:"1000"` // empty: one is made for this run
	Hosts  []string `yaml:"hosts" items:"1000"`  // accepted Host values; empty: loopback names and the listen address
	TLS    KeyPair  `yaml:"tls"`
	UI     bool     `yaml:"ui" later:"true"`
}

// Token lets its bearer use /meta.
type Token struct {
	Name string `yaml:"name" required:"true"` // unique
	Role string `yaml:"role" required:"true" enum:"viewer|operator"`
	Hash Secret `yaml:"hash" required:"true"` // sha256: and 64 hex digits; see Digest
}

// KeyPair is a certificate and its key, both or none.
type KeyPair struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// Log is the gateway's own log.
type Log struct {
	Level       string `yaml:"level" enum:"debug|info|warn|error"`
	Format      string `yaml:"format" enum:"json|text"`
	Identifiers string `yaml:"identifiers" enum:"hashed|plain"`
}

// Audit is where audit events go besides the log.
type Audit struct {
	File    string `yaml:"file"`    // appended to; empty: none
	Webhook Secret `yaml:"webhook"` // such addresses often carry a key; empty: none
	Secret  Secret `yaml:"secret"`  // signs what the webhook gets
}

// Telemetry is where traces go.
type Telemetry struct {
	OTLPEndpoint string `yaml:"otlp_endpoint" ref:"true"`
}
