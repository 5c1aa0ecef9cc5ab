package config

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"authgate/clientip"
	"authgate/internal/outcome"
)

// document is the whole file, as documents are laid over each other: defaults, presets, the file itself.
type document struct {
	Server      Server             `yaml:"server"`
	Upstream    Upstream           `yaml:"upstream"`
	ClientIP    ClientIP           `yaml:"client_ip"`
	Store       Store              `yaml:"store"`
	Mode        Mode               `yaml:"mode" enum:"enforce|log-only"`
	UnknownHost string             `yaml:"unknown_host" enum:"default|reject"`
	Allowlist   clientip.PrefixSet `yaml:"allowlist" ref:"true"`
	Presets     []string           `yaml:"presets" items:"32"`
	Policies    keyed[policyNode]  `yaml:"policies"`
	Realms      keyed[realmNode]   `yaml:"realms"`
	Clients     []Client           `yaml:"clients"`
	Forwarder   Forwarder          `yaml:"forwarder"`
	Signups     Signups            `yaml:"signups"`
	Device      Device             `yaml:"device"`
	Unlock      Unlock             `yaml:"unlock"`
	Admin       Admin              `yaml:"admin"`
	Log         Log                `yaml:"log"`
	Audit       Audit              `yaml:"audit"`
	Telemetry   Telemetry          `yaml:"telemetry"`
}

// newDocument is the defaults.
func newDocument() *document {
	everyone, _, _ := clientip.ParseAllow([]string{"*"})
	return &document{
		Server: Server{
			Listen:            []string{"127.0.0.1:8080"},
			ReadHeaderTimeout: 10 * time.Second,
			ReadBodyTimeout:   30 * time.Second,
			IdleTimeout:       2 * time.Minute,
			MaxConnections:    20_000,
			MaxStreams:        250,
			MaxUpstream:       2048,
			MaxHeaderBytes:    64 << 10,
			ShutdownGrace:     30 * time.Second,
			TLS:               ServerTLS{Mode: "off", ACME: ACME{Storage: "file"}},
		},
		Upstream: Upstream{
			URL:             new(url.URL),
			Host:            "pass",
			ConnectTimeout:  5 * time.Second,
			ResponseTimeout: time.Minute,
			MaxIdle:         256,
		},
		ClientIP: ClientIP{Header: clientip.DefaultHeader, Allow: everyone, Outbound: "verified"},
		Store: Store{
			Backend:     "memory",
			MaxEntries:  1_000_000,
			OnOutage:    "local",
			PendingWait: 2 * time.Second,
			Identifiers: "plain",
			Valkey: Valkey{
				Addresses: []string{"127.0.0.1:6379"},
				Prefix:    "gateway",
				Timeout:   50 * time.Millisecond,
			},
		},
		Mode:        Enforce,
		UnknownHost: "default",
		Forwarder:   Forwarder{Header: "Gateway-Forwarded-For"},
		Signups:     Signups{LookupTimeout: 300 * time.Millisecond},
		Device:      Device{Cookie: "gateway_device", TTL: 90 * 24 * time.Hour, MaxUsers: 10},
		Unlock: Unlock{
			Via: "none", SMTP: SMTP{Port: 587, TLS: "starttls"}, PerDay: 3, LinkTTL: 15 * time.Minute,
		},
		Admin: Admin{Listen: "127.0.0.1:9901", UI: true},
		Log:   Log{Level: "info", Format: "json", Identifiers: "hashed"},
	}
}

// policyNode is a policy as the file writes it.
type policyNode struct {
	Enabled          bool              `yaml:"enabled"`
	Scope            string            `yaml:"scope" enum:"realm|global"`
	Match            []matchNode       `yaml:"match" items:"1000"`
	Target           targetNode        `yaml:"target"`
	Client           clientNode        `yaml:"client"`
	Secret           secretNode        `yaml:"secret"`
	Pending          pendingNode       `yaml:"pending"`
	OnAmbiguous      string            `yaml:"on_ambiguous" enum:"reject|charge_all"`
	MaxBody          Size              `yaml:"max_body" min:"1KiB" max:"16MiB"`
	Requests         requestCells      `yaml:"requests"`
	Failures         failureCells      `yaml:"failures"`
	Factors          factorCells       `yaml:"factors"`
	Outcome          []outcome.Rule    `yaml:"outcome" items:"100"`
	UnknownAs        string            `yaml:"unknown_as" enum:"neutral|failure|success"`
	Proves           *bool             `yaml:"proves"`
	TrustsDevice     *bool             `yaml:"trusts_device"`
	IdentityFrom     []string          `yaml:"identity_from" items:"32"`
	InspectBytes     Size              `yaml:"inspect_bytes" min:"1KiB" max:"1MiB"`
	PinHeaders       map[string]string `yaml:"pin_headers"`
	OnSuccess        []string          `yaml:"on_success" enum:"clear_target|revoke_devices"`
	BackendLock      backendLockNode   `yaml:"backend_lock"`
	Mode             Mode              `yaml:"mode" enum:"|enforce|log-only"`
	OnOutage         string            `yaml:"on_outage" enum:"|local|allow|deny"`
	Uniform          Answer            `yaml:"uniform"`
	Silent           Answer            `yaml:"silent"`
	RateLimitHeaders bool              `yaml:"ratelimit_headers"`
	CORSOrigins      []string          `yaml:"cors_origins" items:"1000"`
	PendingWait      *time.Duration    `yaml:"pending_wait" max:"1m"`

	preset string // the preset that defines the policy, or empty
}

type matchNode struct {
	Methods []string          `yaml:"methods"`
	Strict  bool              `yaml:"strict"`
	Path    string            `yaml:"path" required:"true"`
	Hosts   []string          `yaml:"hosts"`
	Query   map[string]string `yaml:"query"`
	Form    map[string]string `yaml:"form"`
	JSON    map[string]string `yaml:"json"`
}

type targetNode struct {
	From      []string `yaml:"from" items:"32"`
	Normalize []string `yaml:"normalize" items:"16"`
	OnMissing string   `yaml:"on_missing" enum:"share|reject|skip"`
}

type clientNode struct {
	From              []string `yaml:"from" items:"32"`
	AuthenticatedOnly bool     `yaml:"authenticated_only"`
}

type secretNode struct {
	From []string `yaml:"from" items:"32"`
}

type pendingNode struct {
	Key string        `yaml:"key"`
	TTL time.Duration `yaml:"ttl" min:"1s" max:"24h"`
}

type backendLockNode struct {
	Limit  int           `yaml:"limit" min:"1"`
	Window time.Duration `yaml:"window" min:"1s"`
}

func (p *policyNode) setDefaults() {
	*p = policyNode{
		Enabled:      true,
		Scope:        "realm",
		Target:       targetNode{Normalize: []string{"trim", "fold", "nfkc"}, OnMissing: "share"},
		Secret:       secretNode{From: []string{"json:/password", "form:password", "basic"}},
		Pending:      pendingNode{TTL: 10 * time.Minute},
		OnAmbiguous:  "reject",
		MaxBody:      64 << 10,
		UnknownAs:    "neutral",
		InspectBytes: 16 << 10,
	}
}

// keyed is a mapping with names as keys, in the order in which the documents first name them.
type keyed[T any] struct {
	names  []string
	values map[string]*T
}

func (k *keyed[T]) entry(key string) any {
	if _, ok := k.values[key]; !ok {
		k.names = append(k.names, key)
		k.reset(key)
	}
	return k.values[key]
}

func (k *keyed[T]) reset(key string) {
	if k.values == nil {
		k.values = map[string]*T{}
	}
	v := new(T)
	if d, ok := any(v).(defaulter); ok {
		d.setDefaults()
	}
	k.values[key] = v
}

// checkName takes the name of a policy, realm, app or token. A bucket's key joins names with colons, so they hold none.
func checkName(s string) error {
	odd := func(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-') }
	if s == "" || len(s) > 64 || strings.ContainsFunc(s, odd) {
		return fmt.Errorf("%s is no name; use 1 to 64 of a-z, 0-9 and dash", quote(s))
	}
	return nil
}

// all ranges over the mapping in order.
func (k *keyed[T]) all(yield func(string, *T) bool) {
	for _, name := range k.names {
		if !yield(name, k.values[name]) {
			return
		}
	}
}
