package config

import (
	"time"

	"authgate/clientip"
)

// Client is a party that can prove who it is.
type Client struct {
	ID           string   `yaml:"id" required:"true"`
	Realm        string   `yaml:"realm"`
	App          string   `yaml:"app"`
	SecretHash   Secret   `yaml:"secret_hash" required:"true"` // argon2id, bcrypt, or sha256:SALT:HEX
	Capabilities []string `yaml:"capabilities" enum:"trusted-forwarder"`
}

// Forwarder names the header in which a trusted forwarder states its user's address [M5].
type Forwarder struct {
	Header string `yaml:"header"`
}

// Signups says how targets become known [M6].
type Signups struct {
	LookupURL     Secret         `yaml:"lookup_url"`
	LookupSecret  Secret         `yaml:"lookup_secret"`
	LookupTimeout time.Duration  `yaml:"lookup_timeout" min:"1ms" max:"10s"`
	LearnFor      *time.Duration `yaml:"learn_for"` // nil: sign-up rules only report
}

// Device is the cookie that tells a user's own browsers [D1].
type Device struct {
	Cookie   string        `yaml:"cookie"`
	Domain   string        `yaml:"domain"`
	TTL      time.Duration `yaml:"ttl" min:"1h" max:"400d"` // browsers keep no cookie longer
	MaxUsers int           `yaml:"max_users" min:"1" max:"10"`
	Keys     []Secret      `yaml:"keys"` // the first signs, all verify; empty: one is made and kept in the store
}

// Unlock is how the owner of a target that is under attack gets in [D3].
type Unlock struct {
	Via           string        `yaml:"via" enum:"none|webhook|smtp|backend"`
	URL           Secret        `yaml:"url"`
	Secret        Secret        `yaml:"secret"`
	PublicURL     string        `yaml:"public_url" ref:"true"`
	SMTP          SMTP          `yaml:"smtp"`
	MailboxDomain string        `yaml:"mailbox_domain"`
	PerDay        int           `yaml:"per_day" min:"1" max:"100"`
	LinkTTL       time.Duration `yaml:"link_ttl" min:"1m" max:"24h"`
}

// SMTP is the operator's mail server.
type SMTP struct {
	Host     string `yaml:"host" ref:"true"`
	Port     int    `yaml:"port" min:"1" max:"65535"`
	Username string `yaml:"username" ref:"true"`
	Password Secret `yaml:"password"`
	From     string `yaml:"from"`
	TLS      string `yaml:"tls" enum:"starttls|tls|none"`
}

// Answer is what a uniform or silent refusal looks like. The zero value: learned.
type Answer struct {
	Status  int               `yaml:"status" min:"200" max:"599"`
	Headers map[string]string `yaml:"headers"`
	Body    string            `yaml:"body"`
}

// realmNode is a realm as the file writes it.
type realmNode struct {
	Hosts       []string            `yaml:"hosts"`
	Mode        Mode                `yaml:"mode" enum:"|enforce|log-only"`
	Allowlist   *clientip.PrefixSet `yaml:"allowlist" ref:"true"` // nil: inherited
	LegacyPerIP keyed[legacyNode]   `yaml:"legacy_per_ip"`
	Policies    keyed[overrideNode] `yaml:"policies"`
	Apps        keyed[appNode]      `yaml:"apps"`
}

// legacyNode is a rule from before there were dimensions; it limits nothing [M3].
type legacyNode struct {
	Limit  int           `yaml:"limit" required:"true" min:"1"`
	Window time.Duration `yaml:"window" required:"true" min:"1s"`
}

// appNode is an application inside a realm.
type appNode struct {
	Hosts     []string            `yaml:"hosts"`
	Clients   []string            `yaml:"clients"`
	Mode      Mode                `yaml:"mode" enum:"|enforce|log-only"`
	Allowlist *clientip.PrefixSet `yaml:"allowlist" ref:"true"`
	Policies  keyed[overrideNode] `yaml:"policies"`
}

// overrideNode holds the cells that a realm or an app replaces [M2].
type overrideNode struct {
	Requests requestCells `yaml:"requests"`
	Failures failureCells `yaml:"failures"`
	Factors  factorCells  `yaml:"factors"`
}
