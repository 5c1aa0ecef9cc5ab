package proxy

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"authgate/internal/device"
	"authgate/internal/outcome"
	"authgate/limits"
)

// Strangers says how a realm tells targets that exist from those that do not, for its rules of sign-ups [M6]. Its
// methods are called for each request and must not block, but for Ask.
type Strangers interface {
	// Learned reports whether enough is known of the realm for the rules to refuse; until then they only report.
	Learned(realm string) bool
	// Ask is what a hook says of a target; asked is false where there is none, and then the store's knowledge counts.
	Ask(ctx context.Context, realm, target string) (known, asked bool, err error)
}

// KeepKnown is how long it is remembered that a target exists [M6].
const KeepKnown = 400 * 24 * time.Hour

// Reachable is the fact that the owner of a target has signed in by its very spelling, so that mail to it reaches no look-alike.
func Reachable(key []byte, realm, target string) limits.Fact {
	return "reachable:" + KnownTarget(key, realm, target)
}

// KnownTarget is the fact that a target exists in a realm, by a keyed digest.
func KnownTarget(key []byte, realm, target string) limits.Fact {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(realm))
	mac.Write([]byte{0}) // neither part can hold it
	mac.Write([]byte(target))
	return limits.Fact("known:" + realm + ":" + hex.EncodeToString(mac.Sum(nil)[:16]))
}

// KnownRecord keeps that fact.
func KnownRecord(fact limits.Fact) limits.Change {
	return limits.Change{Key: string(fact), Text: "1", TTL: KeepKnown}
}

// signups adds the charge of a rule about sign-ups, unless the target is known. A request that names nobody, or not
// outright, is about a stranger [I5].
func (x *exchange) signups(a *limits.Attempt, c *cover, cell *Cell) {
	charge := limits.Charge{
		Rule: cell.Rule, Key: cell.Scope.Key(cell.Rule.AddressValue(x.source.Addr)),
		LogOnly: c.policy.LogOnly || !x.strangers.Learned(x.realm.Name), Outage: c.policy.Outage,
	}
	if c.clears() {
		known, asked, err := x.strangers.Ask(x.r.Context(), x.realm.Name, c.targets[0].value)
		switch {
		case err != nil:
			charge.LogOnly = true // the hook tells of its failures
		case asked && known:
			return
		case !asked && len(a.Facts) < limits.MaxFacts:
			charge.Unless, charge.Doubt = ask(a, KnownTarget(x.knownKey, x.realm.Name, c.targets[0].value)), true
		}
	}
	a.Charges = append(a.Charges, charge)
}

// remember keeps that a target exists, once its owner has proved it [M6].
func (x *exchange) remember(c *cover, v outcome.Verdict) {
	if v == outcome.Success && c.clears() && !c.policy.identifies() {
		x.exists(c.policy, c.user(x.realm.Name))
	}
}

// exists keeps that a target exists, if success under the policy proves it and somebody asks. Who spells the name as it is kept,
// but for upper and lower case, proves besides that mail to it reaches the owner: of "straße.de" and "strasse.de", which are one
// to the gateway, only the latter is.
func (x *exchange) exists(p *Policy, user device.User) {
	if !p.Proves || !x.learns {
		return
	}
	changes := []limits.Change{KnownRecord(KnownTarget(x.knownKey, user.Realm, user.Target))}
	if strings.ToLower(user.Spelling) == user.Target {
		changes = append(changes, KnownRecord(Reachable(x.knownKey, user.Realm, user.Target)))
	}
	l := x.h.limiter
	l.Go(func() {
		_, _ = l.Records().Swap(context.Background(), nil, changes...) // the store tells of its failures
	})
}
