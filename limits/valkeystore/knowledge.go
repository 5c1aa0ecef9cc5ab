package valkeystore

import (
	"context"
	"time"

	"github.com/valkey-io/valkey-go"

	"authgate/limits"
)

// factKey begins the keys of facts.
const factKey = "fact:"

// learnStep is how many facts are sent in one flight.
const learnStep = 1000

// Learn has the server know the facts; see [limits.Knowledge]. A long list goes in steps, each within a bound of its own.
func (s *Store) Learn(ctx context.Context, ttl time.Duration, facts ...limits.Fact) error {
	if s.health.open() {
		return s.unavailable("learn", errNotAsked)
	}
	for len(facts) > 0 {
		n := min(len(facts), learnStep)
		if err := s.learn(ctx, ttl, facts[:n]); err != nil {
			return s.failed("learn", err)
		}
		facts = facts[n:]
	}
	return nil
}

func (s *Store) learn(ctx context.Context, ttl time.Duration, facts []limits.Fact) error {
	limit := s.cfg.Timeout
	if len(facts) > 1 {
		limit = max(limit, adminTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	commands := make(valkey.Commands, len(facts))
	for i, fact := range facts {
		commands[i] = s.client.B().Set().Key(s.key(factKey + string(fact))).Value("1").PxMilliseconds(ttl.Milliseconds()).Build()
	}
	for _, reply := range s.client.DoMulti(ctx, commands...) {
		if err := reply.Error(); err != nil {
			return err
		}
	}
	return nil
}
