package config

import (
	"slices"
	"time"

	"authgate/limits"
)

// lint warns of what a policy says to no effect, or to less than was probably meant.
func (b *builder) lint(p *Policy, path string) {
	if len(p.Rules) == 0 && len(p.Outcome.Rules) == 0 {
		b.warnf(path, "has no rules, so it limits nothing; write requests or failures, or remove it")
	}
	b.lintVerdicts(p, path)
	lock := p.BackendLock
	switch {
	case (lock.Limit == 0) != (lock.Window == 0):
		b.wrong(path+".backend_lock", "needs both limit and window; write both, or {}")
	case lock.Limit > 0 && !slices.ContainsFunc(p.Rules, func(r limits.Rule) bool { return tripsFirst(&r, lock) }):
		b.warnf(path+".backend_lock", "the backend locks an account after %d failures in %s, and no failures.target rule here refuses before: strangers can lock it",
			lock.Limit, formatDuration(lock.Window))
	}
}

// lintVerdicts warns of rules that wait for a verdict which no outcome rule gives.
func (b *builder) lintVerdicts(p *Policy, path string) {
	gives := func(word string) bool {
		for i := range p.Outcome.Rules {
			if p.Outcome.Rules[i].Is == word {
				return true
			}
		}
		return false
	}
	needs := map[string]string{}
	for i := range p.Rules {
		switch r := &p.Rules[i]; {
		case r.Class == limits.Factors:
			needs["factor_failure"] = path + ".factors"
		case r.Class == limits.Failures && r.Dimension == limits.Client:
			needs["client_failure"] = path + ".failures.client"
		}
	}
	for _, word := range []string{"factor_failure", "client_failure"} {
		if at, needed := needs[word]; needed && !gives(word) {
			b.warnf(at, "never counts: no outcome rule says {is: %s}; write one", word)
		}
	}
}

// tripsFirst reports whether the rule refuses before the backend's own lock can. Within the lock's window at most
// limit failures are let through each time that the rule's own window, or its shortest lock, has passed.
func tripsFirst(r *limits.Rule, lock BackendLock) bool {
	if r.Class != limits.Failures || r.Dimension != limits.Target || r.Signal {
		return false
	}
	cycle := r.Window
	if r.Lockout.Base > 0 {
		cycle = r.Lockout.Base
	}
	rounds := max((lock.Window+cycle-1)/max(cycle, 1), 1)
	return rounds*time.Duration(r.Limit) < time.Duration(lock.Limit)
}
