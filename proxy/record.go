package proxy

import (
	"log/slog"
	"sync"
	"time"

	"authgate/limits"
)

// Record takes down an event that somebody may want to prove later, with who caused it. An attribute "identity" is a name. It
// must not block.
type Record func(event, who string, details ...slog.Attr)

// audit takes down an event that no person but a policy has caused.
func (h *Handler) audit(event, policy string, details ...slog.Attr) {
	h.record(event, "gateway", append(details, slog.String("policy", policy))...)
}

// throttled takes down that a login was refused, or would have been: for each bucket once a minute, since a flood of guesses
// must not become a flood of events.
func (x *exchange) throttled(c *limits.Charge, mode string) {
	if c.Rule.Class == limits.Requests || !x.h.throttles.first(c.Key, time.Now()) {
		return
	}
	target := ""
	if cover := x.coverOf(c.Rule.Policy); cover.clears() {
		target = cover.targets[0].value
	}
	x.h.audit("login_throttled", c.Rule.Policy, slog.String("realm", x.realm.Name), slog.String("bucket", c.Rule.Dimension.String()),
		slog.String("mode", mode), slog.String("identity", target))
}

// sparing remembers for a minute what was told. The zero value is ready for use.
type sparing struct {
	mu   sync.Mutex
	told map[string]time.Time
}

// maxTold bounds what is remembered; beyond, all is forgotten, and told once more.
const maxTold = 10_000

// first reports whether the key was not told within the last minute, and remembers it.
func (s *sparing) first(key string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.told[key]; ok && now.Sub(at) < time.Minute {
		return false
	}
	if s.told == nil || len(s.told) >= maxTold {
		s.told = make(map[string]time.Time)
	}
	s.told[key] = now
	return true
}
