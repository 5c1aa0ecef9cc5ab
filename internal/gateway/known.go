package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"authgate/internal/config"
	"authgate/internal/metrics"
	"authgate/internal/selector"
	"authgate/limits"
	"authgate/proxy"
)

// KnownImport tells the shared store which targets of a realm exist, so that rules about sign-ups know them from strangers
// [M6]. Use [NewKnownImport].
type KnownImport struct {
	cfg         config.Config
	realm       string
	normalizers []selector.Normalizer // of the policies that will look the targets up
	log         *slog.Logger
}

// NewKnownImport prepares an import into a realm; "" is the only one there is. The error says why the configuration
// has no use for one. log is told of an outage of the store.
func NewKnownImport(cfg *config.Config, realm string, log *slog.Logger) (*KnownImport, error) {
	if cfg.Store.Backend != "valkey" {
		return nil, errors.New("store.backend is memory, and the memory of a running gateway cannot be reached from here: " +
			"set store.backend to valkey, or let the gateway learn (signups.learn_for) or ask (signups.lookup_url)")
	}
	if cfg.Signups.LookupURL != "" {
		return nil, errors.New("signups.lookup_url is set, and then the hook alone says which targets exist: an import would not be looked at")
	}
	t, err := tenantNamed(cfg, realm)
	if err != nil {
		return nil, err
	}
	k := &KnownImport{cfg: *cfg, realm: t.realm, normalizers: lookups(cfg, t), log: log}
	// Nobody waits for an import as a request does, so it need not give up as soon as one.
	k.cfg.Store.Valkey.Timeout = max(k.cfg.Store.Valkey.Timeout, importTimeout)
	if len(k.normalizers) == 0 {
		return nil, fmt.Errorf("no policy of realm %s counts sign-ups or proves targets, so nothing would look an import up", t.realm)
	}
	return k, nil
}

// importTimeout is the least budget of one call during an import.
const importTimeout = 2 * time.Second

// tenantNamed is the realm of that name; "" is the only one.
func tenantNamed(cfg *config.Config, realm string) (*tenant, error) {
	all := tenants(cfg)
	var names []string
	for i := range all {
		if all[i].realm == realm || (realm == "" && len(all) == 1) {
			return &all[i], nil
		}
		names = append(names, all[i].realm)
	}
	if realm == "" {
		return nil, fmt.Errorf("the configuration has several realms; say which one with --realm: %s", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("%q is no realm; use %s", realm, strings.Join(names, ", "))
}

// lookups are the ways in which policies of a realm spell the targets that they look up or learn, each once.
func lookups(cfg *config.Config, t *tenant) []selector.Normalizer {
	var out []selector.Normalizer
	for i := range cfg.Policies {
		p := &cfg.Policies[i]
		asks := p.Proves
		for _, at := range append([]place{t.place}, t.apps...) {
			asks = asks || slices.ContainsFunc(at.rulesOf(p), func(r limits.Rule) bool { return r.Dimension == limits.Signups })
		}
		if p.Enabled && asks && len(p.Target.From) > 0 && !slices.Contains(out, p.Target.Normalize) {
			out = append(out, p.Target.Normalize)
		}
	}
	return out
}

// Realm is the realm that is imported into.
func (k *KnownImport) Realm() string { return k.realm }

const (
	// maxLine bounds a line of a list, in bytes: no mailbox and no name comes near it.
	maxLine = 4 << 10
	// factStep is how many facts are handed to the store at once.
	factStep = limits.MaxSwap
)

// Run imports a list, one target a line; blank lines and those that begin with # are passed over. It returns how many
// targets it read. Only a list that was read to its end makes the rules refuse; importing it again does no harm. Its memory
// does not grow with the list.
func (k *KnownImport) Run(ctx context.Context, list io.Reader) (targets int, err error) {
	s, err := openStores(&k.cfg, k.log, metrics.New(nil), nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	keys, err := newKeys(&k.cfg, s, k.log)
	if err != nil {
		return 0, err
	}
	if !keys.shared {
		return 0, errors.New("reading the key of digests from the store: it does not answer; look to store.valkey, or set store.hash_key")
	}
	facts := make([]limits.Fact, 0, factStep+len(k.normalizers))
	learn := func() error {
		defer func() { facts = facts[:0] }()
		for step := range slices.Chunk(facts, limits.MaxSwap) {
			changes := make([]limits.Change, len(step))
			for i, fact := range step {
				changes[i] = proxy.KnownRecord(fact)
			}
			if _, err := s.shared.Swap(ctx, nil, changes...); err != nil {
				return err
			}
		}
		return nil
	}
	targets, err = eachLine(list, func(line string) error {
		facts = k.facts(facts, keys.known, line)
		if len(facts) < factStep {
			return nil
		}
		return learn()
	})
	if err == nil && len(facts) > 0 {
		err = learn()
	}
	if err != nil {
		return targets, err
	}
	if targets == 0 {
		return 0, errors.New("the list names nobody")
	}
	_, err = s.shared.Swap(ctx, nil, limits.Change{
		Key: importedKey(k.realm), Text: strconv.FormatInt(time.Now().Unix(), 10), TTL: proxy.KeepKnown,
	})
	return targets, err
}

// facts adds what is to be known of one target.
func (k *KnownImport) facts(facts []limits.Fact, key []byte, target string) []limits.Fact {
	first := len(facts)
	for _, n := range k.normalizers {
		value := n.Key(target)
		if value == "" {
			continue
		}
		if fact := proxy.KnownTarget(key, k.realm, value); !slices.Contains(facts[first:], fact) {
			facts = append(facts, fact)
		}
	}
	return facts
}

// eachLine calls each for every line of a list that names somebody, and counts these. Errors say which line.
func eachLine(list io.Reader, each func(line string) error) (n int, err error) {
	lines := bufio.NewScanner(list)
	lines.Buffer(make([]byte, 0, maxLine), maxLine)
	at := 0
	bad := func(format string, args ...any) (int, error) {
		return n, fmt.Errorf("line %d: "+format, append([]any{at}, args...)...)
	}
	for lines.Scan() {
		at++
		b := lines.Bytes()
		if at == 1 {
			b = bytes.TrimPrefix(b, []byte("\ufeff")) // which some editors put first
		}
		b = bytes.TrimSpace(b)
		switch {
		case len(b) == 0 || b[0] == '#':
			continue
		case bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b):
			return bad("is no text in UTF-8; convert the list")
		}
		n++
		if err := each(string(b)); err != nil {
			return bad("%w", err)
		}
	}
	if err := lines.Err(); err != nil {
		at++
		if errors.Is(err, bufio.ErrTooLong) {
			return bad("is longer than %d bytes; a list has one target a line", maxLine)
		}
		return bad("%w", err)
	}
	return n, nil
}
