package proxy

import (
	"hash/maphash"
	"net/http"
	"time"

	"authgate/internal/mimic"
	"authgate/internal/outcome"
	"authgate/limits"
)

// Looks are what refusals show that must look like the backend's own answers, and how long they take. They belong to the
// program, so that what was learned outlives a reload.
type Looks struct {
	Book    *mimic.Book
	Delayer *mimic.Delayer
	seed    maphash.Seed
}

// NewLooks makes looks of which nothing is known yet.
func NewLooks() *Looks {
	return &Looks{Book: mimic.New(mimic.Config{}), Delayer: mimic.NewDelayer(maxDelayed), seed: maphash.MakeSeed()}
}

// maxDelayed bounds the refusals that are being delayed at once; beyond it they are answered at once.
const maxDelayed = 1024

// aDecision is how long a decision may take that waited for nobody.
const aDecision = 20 * time.Millisecond

// formOf is the look of a form of refusal.
func formOf(r limits.Refuse) mimic.Form {
	if r == limits.Silent {
		return mimic.Success
	}
	return mimic.Failure
}

func (x *exchange) lookKey(p *Policy, form mimic.Form) mimic.Key {
	return mimic.Key{Realm: x.realm.Name, Policy: p.Name, Method: x.r.Method, Kind: mimic.KindOf(x.r), Form: form}
}

// refuseAlike answers a refusal so that it cannot be told from the backend's own answer: by what it says, nor by its
// time [R2] [R3].
func (x *exchange) refuseAlike(r *refusal) error {
	key := x.lookKey(r.policy, formOf(r.rule.Refuse))
	looks := x.h.looks
	answer := looks.Book.Answer(key)
	looks.Delayer.Wait(x.r.Context(), x.asked, looks.Book.Delay(key))
	if x.r.Context().Err() != nil {
		return errClientGone
	}
	x.finishHeader(x.w.Header())
	x.w.Header()["Date"] = []string{time.Now().UTC().Format(http.TimeFormat)} // where the backend's stands, not where the server adds its own
	_ = answer.Send(&x.w, x.r.Method)                                         // the client may be gone; there is no other way to tell it
	return nil
}

// learnLooks takes the answer down, as it goes by, for policies that may have to show one like it.
func (x *exchange) learnLooks(res *http.Response) {
	for i := range x.covers {
		c := &x.covers[i]
		failure, success := x.h.looks.Book.Wants(c.policy.Name, mimic.Failure), x.h.looks.Book.Wants(c.policy.Name, mimic.Success)
		if !failure && !success {
			continue
		}
		header := res.Header.Clone() // the one that is sent gets more
		var capture *mimic.Capture
		capture = mimic.NewCapture(res.Body, header, func() {
			form, real := c.looksLike(res.StatusCode)
			if !real || (form == mimic.Failure && !failure) || (form == mimic.Success && !success) {
				return
			}
			took := time.Since(x.asked)
			if x.storeTook > aDecision {
				took = 0 // it waited for the verdicts of others, which a refusal does not
			}
			body, whole := capture.Body()
			x.h.looks.Book.Observe(x.lookKey(c.policy, form), mimic.Sample{
				Answer: mimic.Answer{Status: res.StatusCode, Header: header, Body: body}, Cut: !whole, Took: took,
				Target: x.hashed(c.targetText()), Source: x.hashed(x.source.Addr.String()),
				Host: x.r.Host, Path: x.r.URL.Path, Header: x.r.Header, Values: x.chosen(c),
			})
		})
		res.Body = capture
	}
}

// looksLike says which form an answer is an example of. Where no verdict is reached, whatever is no error is a success.
func (c *cover) looksLike(status int) (form mimic.Form, real bool) {
	switch {
	case c.policy.Outcome == nil:
		return mimic.Success, status < 400
	case c.verdict == outcome.Success:
		return mimic.Success, true
	case c.verdict == outcome.Failure:
		return mimic.Failure, true
	}
	return 0, false
}

func (c *cover) targetText() string {
	if c.clears() {
		return c.targets[0].value
	}
	return ""
}

// hashed stands for a name; 0 is none.
func (x *exchange) hashed(name string) uint64 {
	if name == "" {
		return 0
	}
	return maphash.String(x.h.looks.seed, name)
}

// chosen yields what the client may have chosen.
func (x *exchange) chosen(c *cover) func(yield func(string, bool) bool) {
	return func(yield func(string, bool) bool) {
		more := true
		x.in.Each(func(text string, name bool) bool {
			more = yield(text, name)
			return more
		})
		if more && x.routes[c.hit.Route].Match.Path != x.r.URL.Path {
			more = yield(x.r.URL.Path, false)
		}
		if more && x.realm == x.Plan.rest { // no realm names the host
			more = yield(x.r.Host, false)
		}
		if more {
			yield(x.source.Addr.String(), false)
		}
	}
}
