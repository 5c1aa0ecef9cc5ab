package config

import (
	"fmt"
	"slices"
	"strings"

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
func (b *builder) checkClients(clients []Client) {
	seen := map[string]bool{}
	for i, c := range clients {
		path := fmt.Sprintf("clients[%d]", i)
		key := c.Realm + "\x00" + c.ID
		if seen[key] {
			b.wrong(path+".id", "%s is there twice; keep one", quote(c.ID))
		}
		seen[key] = true
		if hash := c.SecretHash.Reveal(); !knownHash(hash) {
			b.wrong(path+".secret_hash", "is no hash; make one with `gateway hash-secret --client`")
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

// knownHash looks at the form of a hash only.
func knownHash(s string) bool {
	for _, prefix := range []string{"$argon2id$", "$2a$", "$2b$", "$2y$", "sha256:"} {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}
