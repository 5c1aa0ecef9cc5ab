package config

import (
	"net/mail"
	"net/url"
	"slices"
	"strings"

	"authgate/internal/outcome"
	"authgate/internal/route"
	"authgate/internal/selector"
	"authgate/limits"

	"golang.org/x/net/http/httpguts"
)

// completion reads what a success of the policy completes: who signed in, whose device is trusted, and what else becomes
// of the user [D1] [D7].
func (b *builder) completion(p *Policy, node *policyNode, path string) {
	b.identityFrom(p, node, path)
	for _, word := range node.OnSuccess {
		p.OnSuccess.ClearTarget = p.OnSuccess.ClearTarget || word == "clear_target"
		p.OnSuccess.RevokeDevices = p.OnSuccess.RevokeDevices || word == "revoke_devices"
	}
	b.lintPools(p, path)
	named := len(node.Target.From) > 0 || len(node.IdentityFrom) > 0 || node.Pending.Key != ""
	if p.TrustsDevice && !named {
		b.wrong(path+".trusts_device", `is true, but nothing says who signed in; write identity_from: ["response:json:/user/email"], or target.from`)
	}
	if len(node.OnSuccess) == 0 {
		return
	}
	if len(node.IdentityFrom) == 0 {
		b.wrong(path+".on_success", `acts on the one who signed in, whom a request may only claim to be; write identity_from: [pending], or ["response:json:/user/email"]`)
	}
	if !slices.ContainsFunc(node.Outcome, func(r outcome.Rule) bool { return r.Is == outcome.Success.String() }) {
		b.wrong(path+".on_success", "never happens: no outcome rule says {is: success}; write one")
	}
}

// lintPools warns where the failures of trusted devices are counted apart and yet nobody gains anything from it [D2].
func (b *builder) lintPools(p *Policy, path string) {
	for i := range p.Rules {
		r := &p.Rules[i]
		if r.Class != limits.Failures || r.Dimension != limits.Device {
			continue
		}
		switch {
		case r.Signal:
			b.warnf(path+".failures.device", "is a signal, so that a trusted device is refused by no rule of the policy; leave signal out")
		case !hasTwoPools(*p):
			b.warnf(path+".failures.device", "counts trusted devices apart, but no failures.target limits everybody else; write one")
		}
	}
}

const identityForm = `use pending, or where the answer says it, such as "response:json:/user/email" or "response:header:X-User"`

func (b *builder) identityFrom(p *Policy, node *policyNode, path string) {
	at := path + ".identity_from"
	for i, text := range node.IdentityFrom {
		item := b.itemPath(at, i)
		if text == "pending" {
			if node.Pending.Key == "" {
				b.wrong(item, "is the one who is remembered between two steps, but pending.key does not say where; write pending: {key: cookie:session}")
			}
			p.Identity.Pending = true
			continue
		}
		rest, ok := strings.CutPrefix(text, "response:")
		if !ok {
			b.wrong(item, "%s is no way to tell; %s", quote(text), identityForm)
			continue
		}
		s, err := selector.Parse(rest)
		switch {
		case err != nil:
			b.wrong(item, "%v; %s", err, identityForm)
		case s.Kind() != selector.JSON && s.Kind() != selector.XML && s.Kind() != selector.Header:
			b.wrong(item, "%s is in no answer; %s", quote(rest), identityForm)
		case slices.Contains(node.IdentityFrom[:i], text):
			b.wrong(item, "%s is there twice; keep one", quote(text))
		default:
			p.Identity.Response = append(p.Identity.Response, s)
		}
	}
}

// maxDeviceKeys bounds the key ring: each is tried on every cookie.
const maxDeviceKeys = 16

func (b *builder) checkDevice(d *Device, policies []Policy) {
	const path = "device"
	if owner := cookieOwner(d.Cookie, policies); owner != "" {
		b.wrong(path+".cookie", "%s is a cookie of the backend, as policies.%s says; use another name", quote(d.Cookie), owner)
	}
	if d.Domain != "" && len(d.Cookie) > len("__Host-") && strings.EqualFold(d.Cookie[:len("__Host-")], "__Host-") {
		b.wrong(path+".domain", "is set, but browsers refuse a cookie with a domain whose name begins with __Host-; leave it out, or use another name")
	}
	if !httpguts.ValidHeaderFieldName(d.Cookie) || len(d.Cookie) > 64 { // both are tokens
		b.wrong(path+".cookie", "%s is no name of a cookie; use letters, digits, dash and underscore", quote(d.Cookie))
	}
	if d.Domain != "" {
		name, ok := route.CanonicalHost(strings.TrimPrefix(d.Domain, "."))
		if !ok || strings.ContainsAny(name, ":/") || !strings.Contains(name, ".") {
			b.wrong(path+".domain", "%s is no domain of a cookie; use one such as example.org, or leave it out", quote(d.Domain))
		}
	}
	if len(d.Keys) > maxDeviceKeys {
		b.wrong(path+".keys", "holds %d keys; use at most %d, and drop those whose cookies have expired", len(d.Keys), maxDeviceKeys)
	}
	for i, key := range d.Keys {
		at := b.itemPath(path+".keys", i)
		if len(key) < minSecret {
			b.wrong(at, guessable)
		}
		if slices.Contains(d.Keys[:i], key) {
			b.wrong(at, "is there twice; keep one")
		}
	}
}

// cookieOwner is the policy that knows a cookie of that name as one of the backend's; "" if none does.
func cookieOwner(name string, policies []Policy) string {
	for i := range policies {
		p := &policies[i]
		if k := p.Pending.Key.Kind(); (k == selector.Cookie || k == selector.SetCookie) && strings.EqualFold(p.Pending.Key.Name(), name) {
			return p.Name
		}
		for _, r := range p.Outcome.Rules {
			if slices.ContainsFunc(r.CookieSet, func(set string) bool { return strings.EqualFold(set, name) }) {
				return p.Name
			}
		}
	}
	return ""
}

// checkSecret takes a key that signs or hashes; without one there is another way.
func (b *builder) checkSecret(path string, s Secret) {
	if s != "" && len(s) < minSecret {
		b.wrong(path, guessable)
	}
}

// minSecret is how long such a key is at least, in bytes.
const (
	minSecret = 16
	guessable = "is short enough to guess; use at least 16 bytes"
)

func (b *builder) checkUnlock(u *Unlock, policies []Policy) {
	const path = "unlock"
	if b.broken[path+".via"] {
		return
	}
	b.checkSecret(path+".secret", u.Secret)
	if u.Via == "none" {
		if u.URL != "" || u.SMTP.Host != "" {
			b.warnf(path+".via", "is none, so that nobody is told; use webhook, smtp or backend, or leave the rest of unlock out")
		}
		return
	}
	if !slices.ContainsFunc(policies, hasTwoPools) && !b.broken["policies"] {
		b.warnf(path+".via", "is %s, but no policy has both failures.target and failures.device, so that there is nothing to unlock", u.Via)
	}
	if u.Via == "webhook" || u.Via == "backend" {
		b.checkHook(path+".url", u.URL, "unlock.via is "+u.Via)
	}
	if u.Via == "webhook" && u.Secret == "" {
		b.warnf(path+".secret", "is empty, so that the service cannot tell whose notice it gets; set it")
	}
	if u.MailboxDomain != "" {
		if _, err := mail.ParseAddress("user@" + u.MailboxDomain); err != nil {
			b.wrong(path+".mailbox_domain", "%s is no mail domain; use one such as example.org", quote(u.MailboxDomain))
		}
	}
	if u.Via != "backend" {
		b.checkPublicURL(path+".public_url", u.PublicURL)
	}
	if u.Via == "smtp" {
		b.checkSMTP(path+".smtp", &u.SMTP)
	}
}

// hasTwoPools reports whether a policy counts the failures of trusted devices apart [D2].
func hasTwoPools(p Policy) bool {
	has := func(dim limits.Dimension) bool {
		return slices.ContainsFunc(p.Rules, func(r limits.Rule) bool {
			return r.Class == limits.Failures && r.Dimension == dim && !r.Signal
		})
	}
	return has(limits.Target) && has(limits.Device)
}

// checkHook takes the address of a service. The message does not repeat it: it may hold a key.
func (b *builder) checkHook(path string, address Secret, why string) {
	text := address.Reveal()
	u, err := url.Parse(text)
	switch {
	case text == "":
		b.wrong(path, "is missing, but %s; use http://host/path or https://host/path", why)
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		b.wrong(path, "is no address that can be asked; use http://host/path or https://host/path")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		b.warnf(path, "is not https, so that whoever is on the way can read what is sent")
	}
}

func (b *builder) checkPublicURL(path, text string) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		b.wrong(path, "is missing: a link must lead back here; use https://auth.example.org")
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		b.wrong(path, "%s leads nowhere; use https://auth.example.org", quote(text))
	case strings.Trim(u.Path, "/") != "":
		b.wrong(path, "has a path, but the gateway's pages are at the root; leave it out")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		b.warnf(path, "is not https, so that whoever is on the way can use the link first")
	}
}

func (b *builder) checkSMTP(path string, s *SMTP) {
	if s.Host == "" {
		b.wrong(path+".host", "is missing; name the mail server")
	} else {
		b.checkHost(path+".host", s.Host)
	}
	if _, err := mail.ParseAddress(s.From); err != nil {
		b.wrong(path+".from", "%s is no sender; use a mailbox such as no-reply@example.org", quote(s.From))
	}
	if (s.Username == "") != (s.Password == "") {
		b.wrong(path, "has one of username and password; write both, or neither")
	}
	if s.TLS == "none" && s.Username != "" && !isLoopback(s.Host) {
		b.warnf(path+".tls", "is none, so that the password travels in plain; use starttls or tls")
	}
}

func (b *builder) checkAudit(a *Audit) {
	b.checkSecret("audit.secret", a.Secret)
	if a.Webhook == "" {
		if a.Secret != "" {
			b.wrong("audit.secret", "signs what the webhook gets, but audit.webhook is empty; write both, or neither")
		}
		return
	}
	b.checkHook("audit.webhook", a.Webhook, "audit.secret is set")
	if a.Secret == "" {
		b.warnf("audit.secret", "is empty, so that the service cannot tell whose events it gets; set it")
	}
}
