package gateway

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"authgate/internal/config"
	"authgate/internal/metrics"
	"authgate/limits"
	"authgate/limits/memstore"
	"authgate/limits/valkeystore"
)

// stores are the local store and, if there is one, the shared store above it.
type stores struct {
	limits limits.Store
	common limits.Records // as all instances see them, for people [A4]
	mode   limits.Switchboard
	local  *memstore.Store
	shared *valkeystore.Store // nil: this process alone
}

// openStores makes the stores. A shared store that is down is no error [S6].
func openStores(cfg *config.Config, log *slog.Logger, m *metrics.Metrics, now func() limits.Millis) (*stores, error) {
	s := &stores{}
	mc := memstore.Config{MaxEntries: cfg.Store.MaxEntries, Now: now, Logger: log}
	if cfg.Store.File == "" {
		s.local = memstore.New(mc)
	} else {
		var err error
		if s.local, err = memstore.Open(cfg.Store.File, mc); err != nil {
			return nil, err
		}
		m.WatchFile(func() (waiting, failed int64, failing bool) {
			st := s.local.Stats()
			return st.FileWaiting, st.FileFailed, st.FileFailing
		})
	}
	s.limits, s.mode, s.common = s.local, &limits.KillSwitch{}, s.local
	if cfg.Store.Backend != "valkey" {
		return s, nil
	}
	v := &cfg.Store.Valkey
	var fallback *limits.Fallback
	vc := valkeystore.Config{
		Addresses: v.Addresses, Username: v.Username, Password: v.Password.Reveal(), Database: v.Database,
		Prefix: v.Prefix, Timeout: v.Timeout, Logger: log, Now: now,
		Events: valkeystore.Events{
			Degraded: m.StoreDegraded, Failed: m.StoreFailed, Known: m.KnownRefusal,
			Returning: func(ctx context.Context) { fallback.Merge(ctx) },
		},
	}
	if v.TLS {
		t, err := tlsConfig(v.CAFile, "")
		if err != nil {
			return nil, fmt.Errorf("preparing store.valkey: %w", err)
		}
		vc.TLS = t
	}
	shared, err := valkeystore.New(vc, func(st *valkeystore.Store) {
		s.shared = st
		fallback = limits.NewFallback(st, s.local)
	})
	if err != nil {
		_ = s.local.Close()
		return nil, err
	}
	s.shared, s.limits, s.mode, s.common = shared, fallback, shared, fallback.Shared()
	select { // so that the first requests ask the shared store already
	case <-shared.Probed():
	case <-time.After(firstProbe):
	}
	return s, nil
}

// firstProbe is how long a start waits to learn whether the shared store answers.
const firstProbe = time.Second

func (s *stores) Close() error { return s.limits.Close() }

// entries is what the local store holds.
func (s *stores) entries() (live, pinned, coarse int64) {
	st := s.local.Stats()
	return st.Entries, st.Pinned, st.Coarse
}

// keys are the keys of all digests, each for one purpose.
type keys struct {
	cookies []byte // cookies as keys of buckets; the same on all instances
	names   []byte // names in logs; the same on all instances
	known   []byte // targets that are known to exist; the same on all instances
	cookie  []byte // signs device cookies, unless keys are configured; the same on all instances
	devices []byte // how names are spelt on trusted devices; the same on all instances
	secrets []byte // wrong passwords seen again; never kept in the store [D6]
	kept    []byte // the secret that they are derived from, if it is kept in the store; nil: it is configured, or of this process
	shared  bool   // those that are the same on all instances really are, and will be in the next run
}

// newKeys derives the keys from store.hash_key or, without one, from a secret that is made once and kept in the store;
// the key for secrets is then one of this process.
func newKeys(cfg *config.Config, s *stores, log *slog.Logger) (keys, error) {
	private := make([]byte, 32)
	_, _ = rand.Read(private) // never fails
	root, secrets := []byte(cfg.Store.HashKey.Reveal()), []byte(cfg.Store.HashKey.Reveal())
	shared, keptRoot := len(root) > 0, []byte(nil)
	if !shared {
		root, secrets = private, private
		if s.shared != nil || cfg.Store.File != "" {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			kept, err := limits.KeptSecret(ctx, s.common, rootSecret, private)
			if err != nil {
				log.Warn("digests of this run will not match those of other instances: set store.hash_key", "error", err)
			} else {
				root, shared, keptRoot = kept, true, kept
			}
		}
	}
	k := keys{shared: shared, kept: keptRoot}
	for _, d := range []struct {
		into    *[]byte
		from    []byte
		purpose string
	}{
		{&k.cookies, root, "cookies"},
		{&k.names, root, "names"},
		{&k.known, root, "known targets"},
		{&k.cookie, root, "device cookies"},
		{&k.devices, root, "devices"},
		{&k.secrets, secrets, "secrets"},
	} {
		derived, err := hkdf.Key(sha256.New, d.from, nil, "authgate "+d.purpose, 32)
		if err != nil {
			return keys{}, fmt.Errorf("deriving keys: %w", err)
		}
		*d.into = derived
	}
	return k, nil
}

// rootSecret is the name of the secret that keys are derived from, unless one is configured.
const rootSecret = "hash_key"

// renewEvery is how often an instance renews what lives as long as instances do [L13], and puts it back where a store was emptied,
// before one that starts makes another.
const renewEvery = 10 * time.Second

// renewKeys keeps the secret in the store alive until ctx is done.
func (g *Gateway) renewKeys(ctx context.Context) {
	if g.keys.kept == nil {
		return
	}
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	told := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := limits.RenewSecret(ctx, g.stores.common, rootSecret, g.keys.kept)
		if errors.Is(err, limits.ErrSecretChanged) && !told {
			told = true // nothing but a restart changes it
			g.log.Error("the store keeps another key of digests than this process uses: restart it")
		}
	}
}
