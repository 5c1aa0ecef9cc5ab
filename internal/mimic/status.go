package mimic

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
)

// State is what refusals show for one key, and whether that is like the real answer. It holds nothing of any request.
type State struct {
	Policy string
	Form   Form
	// Realm, Method and Kind are empty where there was no real answer yet; the state is then of the policy as a whole.
	Realm, Method, Kind string
	Shows               Origin
	// Reason says why a refusal cannot be uniform: why there is nothing but a plain answer, or what tells the answer shown from a
	// real one. Empty: nothing is known to.
	Reason Reason
	// Differences between the last real answer and the configured one, as [Compare] tells them.
	Differences []string
	// Odd of the last Of real answers, at most 64, were others than the learned one.
	Odd, Of int
	// Delays is from how many real answers delays are drawn, at most 1024.
	Delays int
}

// Origin is where the answer comes from that a refusal shows.
type Origin string

// The origins.
const (
	Plain      Origin = "plain"
	Configured Origin = "configured"
	Learned    Origin = "learned"
	Template   Origin = "template" // of a preset, until one is learned
)

// Status tells of every policy that refuses in one of the forms, sorted: of each key with real answers, or of the policy if there
// are none. What Reason says there is for a warning at start-up, for `gateway check` and for /meta.
func (b *Book) Status() []State {
	known := *b.policies.Load()
	var out []State
	seen := make(map[timing]bool)
	b.mu.Lock()
	for element := b.recent.Front(); element != nil; element = element.Next() {
		e := element.Value.(*entry)
		if look := known.look(e.key.Policy, e.key.Form); look != nil {
			seen[timing{e.key.Policy, e.key.Form}] = true
			s := e.state(look)
			if s.Shows == Plain && known.template(s.Policy, s.Form) != nil {
				s.Shows = Template
			}
			out = append(out, s)
		}
	}
	b.mu.Unlock()
	for name, p := range known {
		for form, look := range p.looks {
			if look == nil || seen[timing{name, Form(form)}] {
				continue
			}
			s := State{Policy: name, Form: Form(form), Shows: Plain, Reason: Unseen}
			switch {
			case look.Status != 0:
				s.Shows, s.Reason = Configured, ""
			case known.template(name, Form(form)) != nil:
				s.Shows, s.Reason = Template, ""
			}
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Form, b.Form), cmp.Compare(a.Realm, b.Realm),
			cmp.Compare(a.Method, b.Method), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}

func sortedNames(h http.Header) []string { return slices.Sorted(maps.Keys(h)) }
