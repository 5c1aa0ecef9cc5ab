package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"authgate/internal/gateway"
)

// runExplain says how a request would be taken, up to the decision.
func runExplain(c *call) error {
	var q curl
	f := flags("explain")
	file := f.String("config", "", "configuration `file`")
	f.StringVar(&q.peer, "peer", "127.0.0.1", "`IP` address of the connection's peer")
	f.StringVar(&q.method, "X", "", "`method`; default: GET, with -d POST")
	f.Func("H", "`header` as 'Name: value'; may be given again", func(s string) error { q.headers = append(q.headers, s); return nil })
	f.Func("d", "`data` of the body, or @FILE; given again, it is joined by &", func(s string) error { q.data = append(q.data, s); return nil })
	asJSON := f.Bool("json", false, "print JSON")
	admin := f.String("admin", "", "`URL` of the admin listener of a running gateway: shows the counts of failure buckets, with the token in AUTHGATE_TOKEN")
	if err := c.parse(f, 1); err != nil {
		return err
	}
	if f.NArg() != 1 || *file == "" {
		return usagef("use `gateway explain --config FILE [--peer IP] [-X METHOD] [-H 'Name: value'] [-d DATA] URL`")
	}
	q.url = f.Arg(0)
	cfg, err := c.load(*file, "")
	if err != nil {
		return err
	}
	r, err := q.request(c.open)
	if err != nil {
		return err
	}
	method, host := r.Method, r.Host
	e, err := gateway.Explain(cfg, r)
	if err != nil {
		return err
	}
	if *admin != "" {
		if err := addCounts(e, meta{base: strings.TrimSuffix(*admin, "/"), token: os.Getenv("AUTHGATE_TOKEN")}); err != nil {
			return fmt.Errorf("asking for the counts: %w", err)
		}
	}
	if *asJSON {
		enc := json.NewEncoder(c.stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(e)
	}
	return printExplanation(c.stdout, e, method+" "+host, *admin != "")
}

// addCounts asks a running gateway for what its failure buckets hold.
func addCounts(e *gateway.Explanation, m meta) error {
	for i := range e.Policies {
		for j := range e.Policies[i].Buckets {
			b := &e.Policies[i].Buckets[j]
			if b.ID == "" {
				continue
			}
			entry, err := m.lock(b.ID, b.Value)
			if err != nil {
				return err
			}
			b.Live = &gateway.Live{Attempts: entry.Attempts, LockedFor: entry.LockedFor, Level: entry.Level}
		}
	}
	e.Notes = append(e.Notes, "the counts are those of failure buckets; buckets of requests and signals are not listed by /meta")
	return nil
}

// lock finds one entry among those whose identifier holds the value; one that is not there counts nothing.
func (m meta) lock(id, value string) (lockEntry, error) {
	query := url.Values{"include": {"all"}, "q": {value}, "limit": {"10000"}}
	for {
		b, err := m.do(http.MethodGet, "/meta/login-rate-limit?"+query.Encode())
		if err != nil {
			return lockEntry{}, err
		}
		var page lockPage
		if err := json.Unmarshal(b, &page); err != nil {
			return lockEntry{}, fmt.Errorf("reading the answer: %w", err)
		}
		for _, entry := range page.Entries {
			if entry.ID == id {
				return entry, nil
			}
		}
		if page.Truncated {
			return lockEntry{}, errors.New("the gateway has too many entries to look at them all")
		}
		if page.Next == "" {
			return lockEntry{}, nil
		}
		query.Set("cursor", page.Next)
	}
}

func printExplanation(w io.Writer, e *gateway.Explanation, request string, counts bool) error {
	p := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(p, "%s\t%s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintln(p, printable(request))
	printClient(line, e)
	if len(e.Policies) == 0 && e.Answer == nil {
		line("  policies", "none: it is forwarded without being counted")
	}
	for i := range e.Policies {
		printPolicy(line, &e.Policies[i])
	}
	if err := p.Flush(); err != nil {
		return err
	}
	if a := e.Answer; a != nil {
		cause := ""
		if a.Cause != "" {
			cause = ": " + a.Cause
		}
		fmt.Fprintf(w, "\nanswered %d %s before anything is counted%s\n", a.Status, a.Error, printable(cause))
	}
	for i := range e.Policies {
		if err := printRules(w, &e.Policies[i], counts); err != nil {
			return err
		}
	}
	for _, note := range e.Notes {
		fmt.Fprintf(w, "\nnote: %s\n", note)
	}
	return nil
}

// printClient says who sent the request, and where it belongs.
func printClient(line func(name, format string, args ...any), e *gateway.Explanation) {
	c := &e.Client
	line("  client", "%s", c.Address)
	line("    because", "%s", reasonText(c))
	trusted := "not in client_ip.trusted_proxies"
	if c.PeerTrusted {
		trusted = "in client_ip.trusted_proxies"
	}
	line("    peer", "%s, %s", c.Peer, trusted)
	if len(c.Hops) > 0 {
		line("    hops", "%s, from the peer inward, by %s", strings.Join(c.Hops, ", "), c.Header)
	}
	if c.Stated != "" {
		line("    stated", "%s, by the trusted forwarder %s: buckets count by this one", c.Stated, e.ConfidentialClient)
	}
	if c.Allowlisted {
		line("    allowlist", "on it: rules by source and subnet do not apply")
	}
	if e.ConfidentialClient != "" {
		line("  proved", "it is the client %s", e.ConfidentialClient)
	}
	how := map[string]string{
		"host": "the host names it", "client": "the client belongs to the app", "default": "no realm names the host", "none": "no realm names the host, and unknown_host is reject",
	}[e.RealmBy]
	name := e.Realm
	if name == "" {
		name = "none"
	}
	if e.App != "" {
		name += ", app " + e.App
	}
	line("  realm", "%s (%s)", name, how)
}

func printPolicy(line func(name, format string, args ...any), p *gateway.ExplainedPolicy) {
	line("  policy", "%s, matched by %s, %s (%s)", p.Name, p.Route, p.Mode, p.ModeOrigin)
	t := &p.Target
	about := strings.Join(t.Values, ", ")
	switch t.State {
	case "named":
	case "none":
		about = "nobody: the policy asks for no name"
	case "missing":
		about = strings.TrimSuffix("nobody is named ("+t.Reason+"): "+about, ": ")
	default:
		about = strings.TrimSuffix(t.State+" ("+t.Reason+"): "+about, ": ")
	}
	line("    about", "%s", about)
	if t.Pending {
		line("    and", "whoever gave the right password in the step before, as a running gateway may remember")
	}
	if p.Client != "" {
		claimed := ""
		if strings.HasPrefix(p.Client, "~") {
			claimed = " (claimed)"
		}
		line("    sent for", "client %s%s", strings.TrimPrefix(p.Client, "~"), claimed)
	}
}

// reasonText is a client_reason as a sentence.
func reasonText(c *gateway.ClientView) string {
	text, ok := map[string]string{
		"no_peer":         "there is no usable address",
		"headers_off":     "client_ip.trust_headers is false: it is the peer",
		"no_mechanism":    "nothing says from whom headers are to be believed: it is the peer",
		"untrusted_peer":  "the peer is not trusted to name another: it is the peer",
		"no_header":       "the trusted peer sent no HEADER: it is the peer",
		"forwarded":       "it is the first hop of HEADER, from the peer inward, that is not trusted",
		"all_trusted":     "every hop of HEADER is trusted: it is the leftmost",
		"hops":            "it is where client_ip.trusted_hops points in HEADER",
		"single":          "the trusted peer states it in HEADER",
		"short_chain":     "HEADER has fewer entries than client_ip.trusted_hops: it is the peer, as a fallback",
		"malformed":       "the entry of HEADER that decides is no address: it is the peer, as a fallback",
		"unknown":         "the entry of HEADER that decides names nobody: it is the peer, as a fallback",
		"too_many":        "HEADER has too many entries to walk: it is the peer, as a fallback",
		"single_invalid":  "what HEADER holds is no address: it is the peer, as a fallback",
		"single_multiple": "HEADER holds several values: it is the peer, as a fallback",
	}[c.Reason]
	if !ok {
		return c.Reason
	}
	return strings.ReplaceAll(text, "HEADER", c.Header)
}

// printRules prints the buckets of a policy, and its rules without one.
func printRules(w io.Writer, p *gateway.ExplainedPolicy, counts bool) error {
	if len(p.Buckets)+len(p.Skipped) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%s\n", p.Name)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(p.Buckets) > 0 {
		head := "  COUNTED BY\tVALUE\tLIMIT\tREFUSES\tMODE\tFROM\tKEY"
		if counts {
			head = strings.Replace(head, "\tREFUSES", "\tCOUNT\tREFUSES", 1)
		}
		fmt.Fprintln(t, head)
	}
	for i := range p.Buckets {
		b := &p.Buckets[i]
		count := ""
		if counts {
			count = countText(b.Live) + "\t"
		}
		fmt.Fprintf(t, "  %s.%s\t%s\t%s\t%s%s\t%s\t%s\t%s\n", b.Class, b.Dimension, printable(b.Value), limitText(&b.RuleView), count,
			refuseText(&b.RuleView), b.Mode, b.Origin, printable(b.Key))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range p.Buckets {
		if b := &p.Buckets[i]; b.Note != "" {
			fmt.Fprintf(w, "  %s.%s %s\n", b.Class, b.Dimension, b.Note)
		}
	}
	for i := range p.Skipped {
		s := &p.Skipped[i]
		fmt.Fprintf(w, "  not counted by %s.%s (%s, %s): %s\n", s.Class, s.Dimension, limitText(&s.RuleView), s.Origin, s.Why)
	}
	return nil
}

func countText(l *gateway.Live) string {
	switch {
	case l == nil:
		return "not listed"
	case l.LockedFor != nil:
		return fmt.Sprintf("%d, locked for %s", l.Attempts, seconds(float64(*l.LockedFor)))
	}
	return fmt.Sprint(l.Attempts)
}

// limitText is a rule in a few words.
func limitText(r *gateway.RuleView) string {
	text := fmt.Sprintf("%d in %s", r.Limit, seconds(r.Window))
	if r.Burst > 0 {
		text += fmt.Sprintf(", %d at once", r.Burst)
	}
	if r.Lockout != nil {
		text += fmt.Sprintf(", lock %s to %s", seconds(r.Lockout.Base), seconds(r.Lockout.Max))
	}
	return text
}

func refuseText(r *gateway.RuleView) string {
	if r.Signal {
		return "never, reports"
	}
	return r.Refuse
}

// seconds is a duration without minutes and seconds that are none.
func seconds(n float64) string {
	text := time.Duration(n * float64(time.Second)).String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}
