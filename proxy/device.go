package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"authgate/internal/device"
	"authgate/limits"
)

// Devices tells browsers that have completed a login from others, and whose login it was [D1].
type Devices struct {
	Ring     *device.Ring
	Cookie   device.Cookie
	Registry *device.Registry
}

// takeDeviceCookie keeps what the device cookie says and takes it out of the request: it is nobody else's business, the
// backend's least of all.
func (x *exchange) takeDeviceCookie() {
	if x.devices == nil {
		return
	}
	name := x.devices.Cookie.Name
	x.tokens = device.Candidates(x.r.Header, name)
	device.Strip(x.r.Header, name) // in whatever spelling a backend may take for it
}

// readDevices verifies the cookies if a policy wants to know. A client may bring several of the name: it is whoever any of
// them says, since a planted one must not hide the real one. What does not verify is no device, silently.
func (x *exchange) readDevices() {
	wanted := false
	for i := range x.covers {
		p := x.covers[i].policy
		wanted = wanted || p.TwoPools || p.TrustsDevice
	}
	if wanted {
		x.verifyDevices()
	}
}

// maxSeen bounds the devices of one request: two facts are asked for each.
const maxSeen = 8

func (x *exchange) verifyDevices() {
	now := time.Now()
	for _, token := range x.tokens {
		if id, ok := x.devices.Ring.Verify(x.realm.Name, token, x.devices.Cookie.TTL, now); ok && len(x.seen) < maxSeen && !slices.Contains(x.seen, id) {
			x.seen = append(x.seen, id)
		}
	}
}

// pools divides the failure rules of a policy between trusted devices and everybody else [D2]: mine and others are what
// charges of the two kinds depend on.
type pools struct {
	each []uint32 // for each device of the request, the facts that make it a trusted one
	any  uint32   // those of all
}

// poolsOf adds what the store may know of the request's devices and the target. A request that does not name exactly one
// target outright is nobody's own.
func (x *exchange) poolsOf(a *limits.Attempt, c *cover) pools {
	if !c.policy.TwoPools || !c.clears() || len(a.Facts)+2*len(x.seen) > limits.MaxFacts {
		return pools{}
	}
	var p pools
	user := c.user(x.realm.Name)
	for _, id := range x.seen {
		exact, anyhow := x.devices.Registry.Facts(id, user)
		mask := ask(a, exact) | ask(a, anyhow)
		p.each = append(p.each, mask)
		p.any |= mask
	}
	c.pools = p
	return p
}

// ask adds a fact to an attempt that has room for it, unless it is there already, and returns its bit.
func ask(a *limits.Attempt, f limits.Fact) uint32 {
	at := slices.Index(a.Facts, f)
	if at < 0 {
		at = len(a.Facts)
		a.Facts = append(a.Facts, f)
	}
	return 1 << at
}

// user is the target of a cover, spelt the way the request spells it.
func (c *cover) user(realm string) device.User {
	return device.User{Realm: realm, Target: c.targets[0].value, Spelling: c.targets[0].spelling}
}

// deviceCharges adds the charges of a rule about trusted devices: one for each device that may be one, or one for all
// of the user's together.
func (x *exchange) deviceCharges(a *limits.Attempt, c *cover, cell *Cell, p pools) {
	if p.any == 0 {
		return
	}
	charge := limits.Charge{Rule: cell.Rule, LogOnly: c.policy.LogOnly, Outage: c.policy.Outage}
	target := c.targets[0].value
	if cell.AllDevices {
		// By the spelling, as trust is: those who own a look-alike of the name must not fill it.
		digest := x.devices.Registry.SpellingDigest(x.realm.Name, c.targets[0].spelling)
		charge.Key, charge.If = cell.Scope.Key(limits.PairValue(target, "all:"+digest)), p.any
		a.Charges = append(a.Charges, charge)
		return
	}
	for i, id := range x.seen {
		charge.Key, charge.If = cell.Scope.Key(limits.PairValue(target, id.Public())), p.each[i]
		a.Charges = append(a.Charges, charge)
	}
}

// trusted is the device of the request that is trusted for the target of a cover; ok is false if none is.
func (x *exchange) trusted(c *cover) (id device.ID, ok bool) {
	for i, mask := range c.pools.each {
		if mask&x.known != 0 {
			return x.seen[i], true
		}
	}
	return id, false
}

// trust makes the browser a trusted device of the one who has just signed in, and sees that it gets the cookie.
func (x *exchange) trust(ctx context.Context, policy string, user device.User) {
	if foreign(x.r) {
		return // a page elsewhere has sent the form: the browser has left its cookies out, and must not lose one by that
	}
	id, added, err := x.devices.Registry.Trust(ctx, user, x.seen)
	if err != nil {
		x.h.log.Warn("a device is not trusted after a login", "request_id", x.id, "policy", policy, "error", unquoted(err))
		return
	}
	value := x.devices.Ring.Sign(user.Realm, id, time.Now())
	x.deviceCookie = x.devices.Cookie.Set(value, x.forwarding.Secure(x.r.Header, x.client, x.r.TLS != nil))
	if added {
		x.h.audit("device_trusted", policy, slog.String("realm", user.Realm), slog.String("identity", user.Target), slog.String("device", id.Public()))
	}
}

// foreign reports whether a page of another site had the browser send a request that is more than a look: such a login is not
// its user's doing. Whoever follows a link, or comes back from another provider, is none.
func foreign(r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return false
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "cross-site"
	}
	origin := r.Header.Get("Origin") // of a browser that is too old to say
	u, err := url.Parse(origin)
	return origin != "" && (err != nil || !sameSite(u.Hostname(), hostname(r.Host)))
}

// sameSite reports whether two hosts are the same, or one is below the other.
func sameSite(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	return a == b || strings.HasSuffix(a, "."+b) || strings.HasSuffix(b, "."+a)
}

func hostname(hostport string) string {
	u := url.URL{Host: hostport}
	return u.Hostname()
}

// doubt counts a failure of a trusted device, off the way; too many without a success end the trust.
func (x *exchange) doubt(c *cover) {
	id, ok := x.trusted(c)
	if !ok {
		return
	}
	user, policy, registry, h := c.user(x.realm.Name), c.policy.Name, x.devices.Registry, x.h
	h.limiter.Go(func() {
		ended, err := registry.Doubt(context.Background(), user, id)
		if err == nil && ended { // the store tells of its failures
			h.audit("device_revoked", policy, slog.String("realm", user.Realm), slog.String("identity", user.Target),
				slog.String("device", id.Public()), slog.String("reason", "failures"))
		}
	})
}

// addDeviceCookie adds the cookie to an answer that is about to be sent.
func (x *exchange) addDeviceCookie(h http.Header) {
	if x.deviceCookie != "" {
		lines := h["Set-Cookie"]
		h["Set-Cookie"] = append(lines[:len(lines):len(lines)], x.deviceCookie)
	}
}
