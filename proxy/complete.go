package proxy

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"

	"authgate/internal/device"
	"authgate/internal/outcome"
	"authgate/internal/selector"
	"authgate/limits"
)

// complete does what a completed login brings: the browser becomes a trusted device, and whatever else the policy wants of
// a success [D1] [D7]. As the cookie stands in the header, the answer is held until the verdict is there.
func (x *exchange) complete(res *http.Response) {
	for i := range x.covers {
		c := &x.covers[i]
		if !c.policy.Completes() || res.StatusCode == http.StatusSwitchingProtocols {
			continue
		}
		body := x.hold(c, res)
		if c.verdict != outcome.Success {
			continue
		}
		// What has been proved is done, even if nobody is there any more to see it.
		x.completed(context.WithoutCancel(x.r.Context()), c, res.Header, body)
	}
}

// Completes reports whether a success of the policy has consequences beyond the account.
func (p *Policy) Completes() bool {
	return p.TrustsDevice || p.ClearTarget || p.RevokeDevices || (p.Proves && p.identifies())
}

// identifies reports whether the policy says who signed in: then what a request claims does not count [D1].
func (p *Policy) identifies() bool { return p.FromPending || p.SignedIn != nil }

// held is a body of which the beginning was read already.
type held struct {
	io.Reader
	io.Closer
}

// hold reads from the answer as far as the verdict needs, and to the end if that says who signed in; at most what a
// policy may inspect. It returns what was read, which goes on to the client all the same.
func (x *exchange) hold(c *cover, res *http.Response) []byte {
	if c.judged && (c.policy.SignedIn == nil || c.verdict != outcome.Success) {
		return nil
	}
	most := c.policy.InspectBytes
	buf := make([]byte, 0, min(max(res.ContentLength, 512), int64(most)))
	var err error
	for err == nil && len(buf) < most && (!c.judged || (c.policy.SignedIn != nil && c.verdict == outcome.Success)) {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(2*cap(buf), most))
			copy(grown, buf)
			buf = grown
		}
		var n int
		n, err = res.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
	}
	rest := io.Reader(res.Body)
	if err != nil {
		rest = failed{err}
	}
	res.Body = held{Reader: io.MultiReader(bytes.NewReader(buf), rest), Closer: res.Body}
	if err != io.EOF && res.ContentLength != int64(len(buf)) {
		return nil // it goes on beyond what may be inspected
	}
	return buf
}

// failed is a reader at its end.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }

// completed does it, once the verdict is success.
func (x *exchange) completed(ctx context.Context, c *cover, header http.Header, body []byte) {
	p := c.policy
	proved, sure := x.proof(c, header, body)
	if sure {
		x.exists(p, proved)
	}
	if p.ClearTarget && sure {
		x.clearTarget(ctx, proved.Target)
	}
	if p.RevokeDevices && sure {
		x.revokeDevices(ctx, p.Name, proved)
	}
	if !p.TrustsDevice {
		return
	}
	switch {
	case sure:
		x.trust(ctx, p.Name, proved)
	case !p.identifies() && c.clears(): // or anybody might claim whom his own session signs in
		x.trust(ctx, p.Name, c.user(x.realm.Name))
	}
}

// proof is who signed in as the backend has it, whatever the request claims: the one of the login that was pending, else
// the one that the answer names. sure is false if that is nobody, or not clear.
func (x *exchange) proof(c *cover, header http.Header, body []byte) (user device.User, sure bool) {
	p := c.policy
	if p.FromPending && c.pending != "" && len(c.targets) == 1 {
		return c.user(x.realm.Name), true
	}
	if p.SignedIn == nil {
		return user, false
	}
	in := selector.Input{Header: header}
	if body != nil {
		read, err := selector.ReadBody(bytes.NewReader(body), header, int64(len(body)), int64(p.InspectBytes))
		defer read.Release()
		if err != nil {
			return user, false
		}
		in.Body = read
	}
	reading := p.SignedIn.Read(&in)
	if reading.State != selector.Named {
		return user, false
	}
	return device.User{Realm: x.realm.Name, Target: reading.Values[0], Spelling: spelling(reading)}, reading.Raw != ""
}

// revokeDevices ends the trust of all devices of a user.
func (x *exchange) revokeDevices(ctx context.Context, policy string, user device.User) {
	n, err := x.devices.Registry.RevokeUser(ctx, user.Realm, user.Target)
	if err == nil && n > 0 { // the store tells of its failures
		x.h.audit("device_revoked", policy, slog.String("realm", user.Realm), slog.String("identity", user.Target),
			slog.Int("devices", n), slog.String("reason", "on_success"))
	}
	x.seen = nil // or the login would make the device of before a trusted one again
}

// clearTarget forgets the failures of a target in all policies of the realm: a password that was reset has no past.
func (x *exchange) clearTarget(ctx context.Context, target string) {
	for _, p := range x.realm.Policies {
		if p == nil {
			continue
		}
		for i := range p.Cells {
			if r := p.Cells[i].Rule; r.Class == limits.Failures && r.Dimension == limits.Target {
				_, _ = x.h.limiter.Locks().Release(ctx, p.Cells[i].Scope.Key(target)) // the store tells of its failures
			}
		}
	}
}
