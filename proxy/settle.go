package proxy

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"net/http"
	"time"

	"authgate/internal/mimic"
	"authgate/internal/outcome"
	"authgate/internal/selector"
	"authgate/limits"
)

// answered looks at the backend's answer: each policy that watches reaches its verdict, at the latest when the body is
// over, and when all have, the account is settled [L7].
func (x *exchange) answered(res *http.Response) {
	x.awaited = 0
	for i := range x.covers {
		if x.covers[i].policy.Outcome != nil {
			x.awaited++
		}
	}
	for i := range x.covers {
		c := &x.covers[i]
		if c.policy.Outcome == nil {
			continue
		}
		res.Body = c.policy.Outcome.Observe(res.Body, res.StatusCode, res.Header, (*view)(c), func(r outcome.Result) {
			x.rememberPending(c, r.Counts, res.Header)
			x.judged(c, r)
		})
	}
	x.complete(res)
	x.learnLooks(res)
}

// prepare gives the backend what makes its answer one that the policies' rules were written for [V3].
func (x *exchange) prepare(header http.Header) {
	for i := range x.covers {
		p := x.covers[i].policy
		if p.Outcome != nil {
			p.Outcome.Prepare(header)
		}
		if book := x.h.looks.Book; book.Wants(p.Name, mimic.Failure) || book.Wants(p.Name, mimic.Success) {
			header["Accept-Encoding"] = []string{"identity"} // or there is nothing to learn from
			x.ownDate = true
		}
	}
}

// unanswered settles an attempt that got no answer: the call failed, or the backend was too slow.
func (x *exchange) unanswered(err error) {
	x.awaited = 0
	for i := range x.covers {
		if x.covers[i].policy.Outcome != nil {
			x.awaited++
		}
	}
	for i := range x.covers {
		if c := &x.covers[i]; c.policy.Outcome != nil {
			x.judged(c, c.policy.Outcome.Failed(err, (*view)(c)))
		}
	}
}

// judged takes the verdict of one policy; the last one settles.
func (x *exchange) judged(c *cover, r outcome.Result) {
	c.verdict, c.judged = r.Counts, true
	x.remember(c, r.Counts)
	x.h.events.Verdict(c.policy.Name, r.Verdict.String())
	if x.verdict == "" || r.Verdict != outcome.Neutral {
		x.verdict = r.Verdict.String()
	}
	if x.awaited--; x.awaited > 0 {
		return
	}
	x.settle()
}

// settle closes the account of the attempt by the verdicts of its policies. A verdict that counts is settled before its
// answer goes on, so that whoever reads it finds it counted; the rest is nobody's to wait for, unless the store is so near
// that to hand it over would take longer.
func (x *exchange) settle() {
	a := x.reservation.Attempt()
	if a == nil {
		return
	}
	account := &struct { // with room for as many closings as most have
		limits.Settlement
		closings [8]limits.Closing
	}{}
	s := &account.Settlement
	s.Closings = account.closings[:0]
	counts := false
	for i := range a.Charges {
		ch := &a.Charges[i]
		if ch.Rule.Kind() != limits.KindFailures && ch.Rule.Kind() != limits.KindSignal || !ch.Applies(x.reservation.Known()) {
			continue
		}
		c := x.coverOf(ch.Rule.Policy)
		closing := limits.Closing{Rule: ch.Rule, Key: ch.Key, Do: action(ch.Rule, c.verdict, c.clears() && !c.policy.countsAllDevices(ch.Rule))}
		if closing.Do == limits.Count {
			counts = true
			closing.Repeat = x.repeat(c, s)
			if ch.Rule.Dimension == limits.Device && !c.policy.countsAllDevices(ch.Rule) {
				x.doubt(c)
			}
		}
		s.Closings = append(s.Closings, closing)
	}
	if counts || x.h.near {
		x.reservation.Settle(s, x.settled(s))
	} else {
		x.reservation.SettleLater(s, x.settled(s))
	}
}

// settled tells what settling came to.
func (x *exchange) settled(s *limits.Settlement) func(limits.Settled) {
	h, events, log, id, names, filled := x.h, x.h.events, x.h.log, x.id, x.names, x.filled()
	return func(out limits.Settled) {
		for i, e := range out.Effects {
			c := &s.Closings[i]
			events.Settled(c.Rule, e)
			if (e.Filled || e.Locked > 0) && filled != nil {
				filled(c.Rule, e)
			}
			if e.Locked > 0 {
				parts, _ := limits.ParseKey(c.Key)
				log.Warn("bucket locked", "request_id", id, "policy", c.Rule.Policy, "dimension", c.Rule.Dimension.String(),
					"realm", parts.Realm, "lockout_level", e.Level, "locked_for_seconds", (e.Locked+999)/1000, names.Name("bucket", parts.Value))
				h.audit("lockout", c.Rule.Policy, slog.String("realm", parts.Realm), slog.String("bucket", c.Rule.Dimension.String()),
					slog.Int64("level", e.Level), slog.Int64("seconds", (e.Locked+999)/1000), slog.String("identity", parts.Value))
			}
			if e.Crossed {
				log.LogAttrs(context.Background(), slog.LevelWarn, "signal exceeded", slog.String("policy", c.Rule.Policy),
					slog.String("dimension", c.Rule.Dimension.String()), slog.Int("limit", c.Rule.Limit))
				parts, _ := limits.ParseKey(c.Key)
				h.audit("login_spray_detected", c.Rule.Policy, slog.String("realm", parts.Realm), slog.String("bucket", c.Rule.Dimension.String()),
					slog.Int("count", c.Rule.Limit), slog.String("identity", parts.Value))
			}
		}
	}
}

// filled tells the owner of a target when strangers have used up its bucket, in policies that leave the owner's own
// devices a way in [D3]; nil where nobody is to be told.
func (x *exchange) filled() func(*limits.Rule, limits.Effect) {
	if x.unlock == nil || x.lenient {
		return nil
	}
	owners := make(map[string]string, 1)
	for i := range x.covers {
		if c := &x.covers[i]; c.policy.TwoPools && !c.policy.LogOnly && c.clears() && c.verdict == outcome.Failure {
			owners[c.policy.Name] = c.targets[0].value
		}
	}
	if len(owners) == 0 {
		return nil
	}
	unlock, realm := x.unlock, x.realm.Name
	return func(r *limits.Rule, e limits.Effect) {
		if target := owners[r.Policy]; target != "" && r.Class == limits.Failures && r.Dimension == limits.Target {
			unlock.Filled(realm, r.Policy, target, max(r.Window, time.Duration(e.Locked)*time.Millisecond))
		}
	}
}

// action is what a verdict does to a bucket of a rule [L7] [L16] [V5].
func action(r *limits.Rule, v outcome.Verdict, clears bool) limits.Action {
	counts := outcome.Failure
	switch {
	case r.Class == limits.Factors:
		counts = outcome.FactorFailure
	case r.Dimension == limits.Client:
		counts = outcome.ClientFailure
	}
	switch {
	case v == counts:
		return limits.Count
	case r.Kind() == limits.KindSignal:
		return limits.Free
	case v == outcome.Success && clears && (r.Dimension == limits.TargetSource || r.Dimension == limits.Device):
		return limits.Clear
	case !r.Shadowed():
		return limits.Free
	case v == outcome.Neutral || v == outcome.Unknown:
		return limits.ShadowNeutral
	case v == outcome.Pending:
		return limits.ShadowPending
	}
	return limits.Free
}

// countsAllDevices reports whether a rule counts the devices of a user together: none of them alone clears that.
func (p *Policy) countsAllDevices(r *limits.Rule) bool {
	for i := range p.Cells {
		if p.Cells[i].Rule == r {
			return p.Cells[i].AllDevices
		}
	}
	return false
}

// clears reports whether a success clears the pair's failures: only if the request named exactly one target outright.
func (c *cover) clears() bool { return len(c.targets) == 1 && c.targets[0].named }

// repeat asks, once for each policy, whether the wrong secret was seen before [D6]: 1 + the index of the check, or 0.
func (x *exchange) repeat(c *cover, s *limits.Settlement) int {
	p := c.policy
	if p.Secret == nil || !c.clears() {
		return 0
	}
	if c.repeat > 0 {
		return c.repeat
	}
	reading := p.Secret.Read(&x.in)
	if reading.State != selector.Named {
		return 0
	}
	sum := truncate(reading.Values[0])
	if sum == 0 {
		return 0
	}
	place := sourceRule.AddressValue(x.source.Addr)
	if id, ok := x.trusted(c); ok {
		place = id.Public() // a phone has many addresses
	}
	pair := limits.PairValue(c.targets[0].value, place)
	s.Repeats = append(s.Repeats, limits.RepeatCheck{Key: p.RepeatScope.Key(pair), Sum: sum, Window: p.RepeatWindow})
	c.repeat = len(s.Repeats)
	return c.repeat
}

// truncate takes 64 bits of a digest written in hex; 0 if it is none.
func truncate(digest string) uint64 {
	b, err := hex.DecodeString(digest)
	if err != nil || len(b) < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (x *exchange) coverOf(policy string) *cover {
	for i := range x.covers {
		if x.covers[i].policy.Name == policy {
			return &x.covers[i]
		}
	}
	return &x.covers[0] // not reached: only covering policies are charged
}
