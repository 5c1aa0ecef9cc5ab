package gateway

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"authgate/internal/config"
	"authgate/internal/lookup"
	"authgate/limits"
	"authgate/proxy"
)

// strangers tells known targets from others for one plan [M6].
type strangers struct {
	hook     *lookup.Hook // nil: there is none
	learnFor *time.Duration
	learned  map[string]*atomic.Bool // by realm
}

var _ proxy.Strangers = (*strangers)(nil)

// Learned reports whether the rules of a realm refuse: a hook decides, or targets were imported, or the time for learning is
// over.
func (s *strangers) Learned(realm string) bool {
	if s.hook != nil {
		return true
	}
	l := s.learned[realm]
	return l != nil && l.Load()
}

// Ask asks the hook, if there is one.
func (s *strangers) Ask(ctx context.Context, realm, target string) (known, asked bool, err error) {
	if s.hook == nil {
		return false, false, nil
	}
	known, err = s.hook.Known(ctx, realm, target)
	return known, true, err
}

// newStrangers compiles the section signups. learns: some policy asks which targets are known.
func (g *Gateway) newStrangers(cfg *config.Config) (s *strangers, learns bool) {
	s = &strangers{learnFor: cfg.Signups.LearnFor, learned: make(map[string]*atomic.Bool)}
	for i := range cfg.Policies {
		for j := range cfg.Policies[i].Rules {
			learns = learns || cfg.Policies[i].Rules[j].Dimension == limits.Signups
		}
	}
	if url := cfg.Signups.LookupURL.Reveal(); url != "" {
		s.hook = lookup.New(lookup.Config{
			URL: url, Secret: cfg.Signups.LookupSecret.Reveal(), Timeout: cfg.Signups.LookupTimeout,
			Failed: func(err error) {
				g.log.LogAttrs(context.Background(), slog.LevelWarn, "lookup failed", slog.Any("error", err))
			},
		})
	}
	s.learned[defaultRealm] = new(atomic.Bool)
	for i := range cfg.Realms {
		s.learned[cfg.Realms[i].Name] = new(atomic.Bool)
	}
	return s, learns
}

// refresh looks up how far learning has come in each realm: when it began, and whether targets were imported.
func (s *strangers) refresh(ctx context.Context, records limits.Records) {
	for realm, learned := range s.learned {
		if learned.Load() {
			continue
		}
		texts, err := records.Load(ctx, importedKey(realm), beganKey(realm))
		if err != nil {
			continue // until the store is back the rules only report
		}
		imported, began := texts[0], texts[1]
		if imported != "" {
			learned.Store(true)
			continue
		}
		if began == "" {
			began = strconv.FormatInt(time.Now().Unix(), 10)
			change := limits.Change{Key: beganKey(realm), Text: began, TTL: proxy.KeepKnown}
			if done, err := records.Swap(ctx, []limits.Kept{{Key: change.Key}}, change); err != nil || !done {
				continue // next time
			}
		}
		unix, err := strconv.ParseInt(began, 10, 64)
		if err == nil && s.learnFor != nil && time.Since(time.Unix(unix, 0)) >= *s.learnFor {
			learned.Store(true)
		}
	}
}

// importedKey is the key of the record that says when the known targets of a realm were imported.
func importedKey(realm string) string { return "signups-imported:" + realm }

// beganKey is the key of the record that says when a realm began to learn.
func beganKey(realm string) string { return "signups-began:" + realm }

// refreshEvery is how soon an import, or the end of learning, is noticed.
const refreshEvery = 10 * time.Second

// learn keeps the plan in force informed until ctx is done.
func (g *Gateway) learn(ctx context.Context) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		if s := g.strangers.Load(); s != nil {
			s.refresh(ctx, g.stores.limits)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
