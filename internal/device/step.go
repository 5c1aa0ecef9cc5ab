package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"authgate/limits"
)

// step is one atomic change of records of a realm: what was read, and what becomes of it.
type step struct {
	g       *Registry
	realm   string
	now     int64 // seconds since the epoch
	was     []limits.Kept
	facts   []limits.Change
	devices []limits.Change
	lists   []limits.Change
}

const (
	// maxTries bounds how often somebody else may be faster.
	maxTries = 8
	// maxPause bounds the pause before another try.
	maxPause = 16 * time.Millisecond
)

// errBusy is what is left to say if others change the same records all the time.
var errBusy = errors.New("others change the same records all the time")

// change plans a step and takes it; from the beginning, if others change what was read meanwhile. A plan that changes
// nothing is done.
func (g *Registry) change(ctx context.Context, doing, realm string, plan func(*step) error) error {
	for try := range maxTries {
		if err := pause(ctx, try); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		s := g.step(realm)
		if err := plan(s); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		changes := slices.Concat(s.facts, s.devices, s.lists)
		if len(changes) == 0 {
			return nil
		}
		done, err := g.cfg.Records.Swap(ctx, s.was, changes...)
		if err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		if done {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", doing, errBusy)
}

// pause waits a random while before all tries but the first, longer each time, so that those who collided do not again.
func pause(ctx context.Context, try int) error {
	if try == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(rand.N(min(time.Millisecond<<try, maxPause)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *Registry) step(realm string) *step {
	return &step{g: g, realm: realm, now: time.Now().Unix()}
}

// load reads records, on which the step then depends.
func (s *step) load(ctx context.Context, keys ...string) ([]string, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	texts, err := s.g.cfg.Records.Load(ctx, keys...)
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		s.was = append(s.was, limits.Kept{Key: key, Text: texts[i]})
	}
	return texts, nil
}

// user is the record of a target within a step.
type user struct {
	target string
	before []pair
	pairs  []pair // those of the record that is to be
}

// user reads the record of a target. A time in the future is taken for now: it cannot have been.
func (s *step) user(target, text string) *user {
	pairs := parsePairs(text)
	for i := range pairs {
		pairs[i].last = min(pairs[i].last, s.now)
		pairs[i].since = min(pairs[i].since, pairs[i].last)
	}
	return &user{target: target, before: pairs, pairs: slices.Clone(pairs)}
}

// left is how long a pair has to live; it has ended at 0 or less.
func (s *step) left(p pair) time.Duration {
	return s.g.cfg.TTL - time.Duration(s.now-p.last)*time.Second
}

// drop removes the pairs that a condition holds for.
func (u *user) drop(gone func(pair) bool) { u.pairs = slices.DeleteFunc(u.pairs, gone) }

// prune removes what has ended.
func (s *step) prune(u *user) { u.drop(func(p pair) bool { return s.left(p) <= 0 }) }

// of are the living pairs of a device among those of a user.
func (s *step) of(u *user, device digest) (pairs []pair) {
	for _, p := range u.pairs {
		if p.device == device && s.left(p) > 0 {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

// keep plans the record of a user, and the facts of pairs that are new, renewed or gone.
func (s *step) keep(u *user) {
	for _, p := range u.before {
		if find(u.pairs, p.device, p.spelling) < 0 {
			s.facts = append(s.facts, limits.Change{Key: factKey(s.realm, u.target, p.device, p.spelling)})
		}
	}
	var longest time.Duration
	for _, p := range u.pairs {
		left := s.left(p)
		longest = max(longest, left)
		i := find(u.before, p.device, p.spelling)
		if left > 0 && (i < 0 || u.before[i].last != p.last) {
			s.facts = append(s.facts, limits.Change{Key: factKey(s.realm, u.target, p.device, p.spelling), Text: "1", TTL: left})
		}
	}
	record := limits.Change{Key: userKey(s.realm, u.target)}
	if longest > 0 {
		record.Text, record.TTL, record.Index = formatPairs(u.pairs), longest, listName(s.realm)
	}
	s.lists = append(s.lists, record)
}

// keepDevice plans the record of a device, one of whose users has just had a success.
func (s *step) keepDevice(device digest, targets []string) {
	s.devices = append(s.devices, limits.Change{
		Key: deviceKey(s.realm, device.public()), Text: formatDevice(device, targets), TTL: s.g.cfg.TTL,
	})
}

// forgetDevice plans the end of a device's record.
func (s *step) forgetDevice(publicID string) {
	s.devices = append(s.devices, limits.Change{Key: deviceKey(s.realm, publicID)})
}

func (s *step) doubt(ctx context.Context, u User, id ID) (ended bool, err error) {
	texts, err := s.load(ctx, userKey(s.realm, u.Target))
	if err != nil {
		return false, err
	}
	owner, device, exact := s.user(u.Target, texts[0]), id.digest(), s.g.spelling(s.realm, u.Spelling)
	s.prune(owner)
	ours := func(p *pair) bool { return p.device == device && (p.spelling == exact || p.spelling == anySpelling) }
	found, left := false, false
	for i := range owner.pairs {
		if p := &owner.pairs[i]; ours(p) {
			p.failures++
			found, left = true, left || p.failures < MaxFailures
		}
	}
	if !found {
		return false, nil
	}
	owner.drop(func(p pair) bool { return ours(&p) && p.failures >= MaxFailures })
	s.keep(owner)
	return !left, nil
}

func (s *step) revoke(ctx context.Context, publicID string) (targets []string, err error) {
	texts, err := s.load(ctx, deviceKey(s.realm, publicID))
	if err != nil {
		return nil, err
	}
	device, all, ok := parseDevice(texts[0])
	if !ok {
		return nil, nil
	}
	users, err := s.users(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, u := range users {
		if len(s.of(u, device)) > 0 {
			targets = append(targets, u.target)
		}
		if u.drop(func(p pair) bool { return p.device == device }); len(u.pairs) < len(u.before) {
			s.keep(u)
		}
	}
	s.forgetDevice(publicID)
	return targets, nil
}

// users reads the records of targets.
func (s *step) users(ctx context.Context, targets []string) ([]*user, error) {
	keys := make([]string, len(targets))
	for i, target := range targets {
		keys[i] = userKey(s.realm, target)
	}
	texts, err := s.load(ctx, keys...)
	if err != nil {
		return nil, err
	}
	users := make([]*user, len(targets))
	for i, target := range targets {
		users[i] = s.user(target, texts[i])
	}
	return users, nil
}

func (s *step) revokeUser(ctx context.Context, target string) (n int, err error) {
	texts, err := s.load(ctx, userKey(s.realm, target))
	if err != nil || texts[0] == "" {
		return 0, err
	}
	owner := s.user(target, texts[0])
	n = len(s.entries(nil, owner))
	gone := owner.pairs
	owner.pairs = nil
	if err := s.leave(ctx, owner, gone); err != nil {
		return 0, err
	}
	s.keep(owner)
	return n, nil
}

// leave takes a user off the records of the devices of pairs that went, unless others of the user are left, so that neither
// names nor devices that nobody uses stay behind.
func (s *step) leave(ctx context.Context, u *user, gone []pair) error {
	var devices []digest
	var keys []string
	for _, p := range gone {
		if !slices.Contains(devices, p.device) && len(s.of(u, p.device)) == 0 {
			devices = append(devices, p.device)
			keys = append(keys, deviceKey(s.realm, p.device.public()))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	texts, err := s.load(ctx, keys...)
	if err != nil {
		return err
	}
	for i, d := range devices {
		held, targets, ok := parseDevice(texts[i])
		if !ok || held != d {
			continue
		}
		targets = slices.DeleteFunc(targets, func(target string) bool { return target == u.target })
		if len(targets) == 0 {
			s.forgetDevice(d.public())
		} else {
			s.keepDevice(d, targets)
		}
	}
	return nil
}

// entries adds what there is to list of a user, latest success first. Pairs stand in the order in which they came.
func (s *step) entries(list []Entry, u *user) []Entry {
	first := len(list)
	for _, p := range u.pairs {
		left := s.left(p)
		if left <= 0 {
			continue
		}
		e := Entry{
			ID: p.device.public(), Realm: s.realm, Target: u.target, Failures: p.failures,
			Since: time.Unix(p.since, 0), Last: time.Unix(p.last, 0), Expires: time.Unix(s.now, 0).Add(left),
		}
		i := slices.IndexFunc(list[first:], func(other Entry) bool { return other.ID == e.ID })
		if i < 0 {
			list = append(list, e)
			continue
		}
		same := &list[first+i]
		same.Failures = max(same.Failures, e.Failures)
		if e.Last.After(same.Last) {
			same.Last, same.Expires = e.Last, e.Expires
		}
	}
	slices.SortStableFunc(list[first:], func(a, b Entry) int { return cmp.Compare(b.Last.Unix(), a.Last.Unix()) })
	return list
}
