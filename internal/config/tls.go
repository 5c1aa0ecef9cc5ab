package config

import (
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"authgate/internal/route"
)

// checkServerTLS holds server.tls to what its mode needs.
func (b *builder) checkServerTLS(s *Server) {
	const path = "server.tls"
	t := &s.TLS
	switch t.Mode {
	case "off":
		b.unused(path+".hsts", t.HSTS != "", t.Mode)
		b.unused(path+".redirect_from", t.RedirectFrom != "", t.Mode)
	case "files":
		if len(t.Certificates) == 0 {
			b.wrong(path+".certificates", "is empty; name at least one pair: {cert: /path, key: /path}")
		}
	case "acme":
		b.checkACME(&t.ACME)
	}
	b.unused(path+".certificates", t.Mode != "files" && len(t.Certificates) > 0, t.Mode)
	b.unused(path+".acme.domains", t.Mode != "acme" && len(t.ACME.Domains) > 0, t.Mode)
	for i, c := range t.Certificates {
		b.checkPair(b.itemPath(path+".certificates", i), c.Cert, c.Key)
	}
	if t.HSTS != "" && !hstsValue.MatchString(t.HSTS) {
		b.wrong(path+".hsts", "%s is no value of Strict-Transport-Security; use one such as max-age=31536000; includeSubDomains", quote(t.HSTS))
	}
	if t.RedirectFrom == "" {
		return
	}
	b.checkListen(path+".redirect_from", t.RedirectFrom)
	for i, addr := range s.Listen {
		if addr == t.RedirectFrom && !strings.HasSuffix(addr, ":0") {
			b.wrong(path+".redirect_from", "is the address of %s too; use another port", b.itemPath("server.listen", i))
		}
	}
	if b.doc.Admin.Listen == t.RedirectFrom && !strings.HasSuffix(t.RedirectFrom, ":0") {
		b.wrong(path+".redirect_from", "is the address of admin.listen too; use another port")
	}
}

// unused warns of a key that is set and means nothing in a mode.
func (b *builder) unused(path string, set bool, mode string) {
	if set {
		b.warnf(path, "is set, but server.tls.mode is %s; it has no effect", mode)
	}
}

// hstsValue is a lifetime and at most the two directives that browsers know [RFC 6797, section 6.1].
var hstsValue = regexp.MustCompile(`(?i)^max-age=("[0-9]+"|[0-9]+)( *; *(includeSubDomains|preload)){0,2}$`)

func (b *builder) checkACME(a *ACME) {
	const path = "server.tls.acme"
	if len(a.Domains) == 0 {
		b.wrong(path+".domains", "is empty; name the hosts that certificates are ordered for")
	}
	seen := map[string]bool{}
	for i, name := range a.Domains {
		at := b.itemPath(path+".domains", i)
		if problem := domainProblem(name); problem != "" {
			b.wrong(at, "%s %s", quote(name), problem)
		} else if seen[strings.ToLower(name)] {
			b.wrong(at, "%s is there twice; keep one", quote(name))
		}
		seen[strings.ToLower(name)] = true
	}
	if a.Email != "" && !mailboxShape.MatchString(a.Email) {
		b.wrong(path+".email", "%s is no mailbox; use name@example.org, or leave it out", quote(a.Email))
	}
	if a.Directory != "" {
		u, err := url.Parse(a.Directory)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
			b.wrong(path+".directory", "%s is no directory of a certificate authority; use its https:// address", quote(a.Directory))
		}
	}
	b.checkRoots(path+".ca_file", a.CAFile)
	switch {
	case a.Storage != "valkey":
	case b.doc.Store.Backend != "valkey":
		b.wrong(path+".storage", "is valkey, but store.backend is %s; set store.backend: valkey, or use file", b.doc.Store.Backend)
	case a.Path != "":
		b.wrong(path+".path", "is for storage: file; leave it out")
	}
}

var mailboxShape = regexp.MustCompile(`^[^\s@<>,;:"]+@[^\s@<>,;:"]+$`)

// domainProblem says why no certificate can be ordered for a name, or nothing.
func domainProblem(name string) string {
	host := strings.TrimPrefix(name, "*.")
	_, err := netip.ParseAddr(host)
	switch canonical, ok := route.CanonicalHost(host); {
	case host != name:
		return "is a wildcard, which takes a challenge by DNS; name each host, or use mode: files"
	case err == nil:
		return "is an address; name a host"
	case !ok || canonical != strings.ToLower(name) || strings.ContainsAny(name, ":_"):
		return "is no host name; use letters, digits, dashes and dots, without a port"
	}
	return ""
}

// certificateFiles are the files that listeners take certificates from. A configuration that was refused because a pair was being
// replaced is worth another look when that is done.
func certificateFiles(cfg *Config) (files []string) {
	for _, c := range cfg.Server.TLS.Certificates {
		files = append(files, c.Cert, c.Key)
	}
	if cfg.Admin.TLS.Cert != "" {
		files = append(files, cfg.Admin.TLS.Cert, cfg.Admin.TLS.Key)
	}
	return files
}
