package config

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"authgate/internal/clients"
	"authgate/internal/route"
	"authgate/limits"
)

func (b *builder) realm(name string, node *realmNode) Realm {
	path := join("realms", name)
	r := Realm{Name: name, Hosts: node.Hosts, Mode: node.Mode}
	b.checkHosts(path+".hosts", node.Hosts)
	for policy, legacy := range node.LegacyPerIP.all {
		r.LegacyPerIP = append(r.LegacyPerIP, LegacyRule{Policy: policy, Limit: legacy.Limit, Window: legacy.Window})
	}
	if len(r.LegacyPerIP) > 0 {
		b.warnf(path+".legacy_per_ip", "limits nothing, and without a mode the realm runs log-only; remove it, or set a mode")
	}
	r.Scope = Scope{Allowlist: node.Allowlist, Rules: b.overrides(path, &node.Policies, nil)}
	for name, app := range node.Apps.all {
		at := join(path+".apps", name)
		b.checkHosts(at+".hosts", app.Hosts)
		r.Apps = append(r.Apps, App{
			Name: name, Hosts: app.Hosts, Clients: app.Clients, Mode: app.Mode,
			Scope: Scope{Allowlist: app.Allowlist, Rules: b.overrides(at, &app.Policies, &realmCells{path, &node.Policies})},
		})
	}
	return r
}

// realmCells is what the realm of an app says about policies.
type realmCells struct {
	path     string
	policies *keyed[overrideNode]
}

// overrides gives the whole rules of each policy that the mapping changes; realm is nil for a realm's own.
func (b *builder) overrides(path string, policies *keyed[overrideNode], realm *realmCells) map[string][]limits.Rule {
	out := map[string][]limits.Rule{}
	for name, node := range policies.all {
		at := join(path+".policies", name)
		base, ok := b.doc.Policies.values[name]
		if !ok {
			b.wrong(at, "is no policy%s", hint(name, b.doc.Policies.names))
			continue
		}
		layers := []classCells{base.cells(join("policies", name))}
		if realm != nil {
			if cells, ok := realm.policies.values[name]; ok {
				layers = append(layers, cells.cells(join(realm.path+".policies", name)))
			}
		}
		layers = append(layers, node.cells(at))
		b.protectBase(base, layers[0].slots(), node.cells(at).slots())
		out[name], _ = b.rules(name, layers...)
	}
	return out
}

// protectBase is protectPreset for what a realm or an app changes.
func (b *builder) protectBase(node *policyNode, base, over []slot) {
	if node.preset == "" {
		return
	}
	for i, s := range over {
		switch preset := base[i].cell; {
		case !s.cell.set:
		case !preset.sealed:
			b.wrongDimension(s.path, s.class, s.dim, node.preset)
		case !slices.ContainsFunc(preset.preset, func(r ruleNode) bool { return r.signal() }):
		case s.cell.off || slices.ContainsFunc(s.cell.rules, func(r ruleNode) bool { return r.Signal != nil && !*r.Signal }):
			b.wrong(s.path, "is a signal of the preset %s, which can neither be turned off nor made to refuse; tune its limit and window instead", node.preset)
		}
	}
}

func (b *builder) checkHosts(path string, hosts []string) {
	for i, host := range hosts {
		b.checkHost(b.itemPath(path, i), host)
	}
}

// checkClients holds the clients against the realms and apps that they belong to.
func (b *builder) checkClients(list []Client) {
	seen := map[string]bool{}
	for i, c := range list {
		path := fmt.Sprintf("clients[%d]", i)
		key := c.Realm + "\x00" + c.ID
		if seen[key] {
			b.wrong(path+".id", "%s is there twice; keep one", quote(c.ID))
		}
		seen[key] = true
		if strings.HasPrefix(c.ID, "~") {
			b.wrong(path+".id", "%s begins with ~, which marks ids that are only claimed; use another id", quote(c.ID))
		}
		if _, err := clients.ParseHash(c.SecretHash.Reveal()); err != nil {
			b.wrong(path+".secret_hash", "%s", err)
		}
		realm, ok := b.doc.Realms.values[c.Realm]
		if c.Realm != "" && !ok {
			b.wrong(path+".realm", "%s is no realm%s", quote(c.Realm), hint(c.Realm, b.doc.Realms.names))
			continue
		}
		if c.App == "" {
			continue
		}
		if realm == nil || realm.Apps.values[c.App] == nil {
			b.wrong(path+".app", "%s is no app of the realm; name one of its apps", quote(c.App))
		}
	}
}

// checkClaims reports hosts that two realms or apps claim: whose request would it be?
func (b *builder) checkClaims(realms []Realm) {
	owner := map[string]string{}
	claim := func(path string, hosts []string) {
		for i, host := range hosts {
			name, ok := route.CanonicalHost(host)
			if !ok {
				continue // reported already
			}
			if first := owner[name]; first != "" {
				b.wrong(b.itemPath(path+".hosts", i), "%s is a host of %s already; name it once", quote(host), first)
				continue
			}
			owner[name] = path
		}
	}
	for i := range realms {
		r := &realms[i]
		path := join("realms", r.Name)
		claim(path, r.Hosts)
		for j := range r.Apps {
			claim(join(path+".apps", r.Apps[j].Name), r.Apps[j].Hosts)
		}
	}
}

// checkForwarder keeps the header of trusted forwarders apart from those that mean something else.
func (b *builder) checkForwarder(f *Forwarder) {
	switch name := http.CanonicalHeaderKey(f.Header); {
	case !httpguts.ValidHeaderFieldName(f.Header):
		b.wrong("forwarder.header", "%s is no header name; use one such as Gateway-Forwarded-For", quote(f.Header))
	case strings.HasPrefix(name, "X-Forwarded") || slices.Contains(takenHeaders, name):
		b.wrong("forwarder.header", "%s means something else; use a name of its own such as Gateway-Forwarded-For", quote(f.Header))
	}
}

// takenHeaders are some that a forwarder cannot use, in canonical form.
var takenHeaders = []string{
	"Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Cookie",
	"Forwarded", "Host", "Origin", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "X-Real-Ip", "X-Request-Id",
}
