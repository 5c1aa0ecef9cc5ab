package gateway

import (
	"fmt"

	"authgate/internal/config"
	"authgate/internal/mimic"
	"authgate/internal/selector"
	"authgate/limits"
)

// looksOf says which policies refuse in a form that must look like the backend's own answers, and what is configured of
// those.
func looksOf(cfg *config.Config) ([]mimic.Policy, error) {
	var out []mimic.Policy
	for i := range cfg.Policies {
		p := &cfg.Policies[i]
		look := mimic.Policy{Name: p.Name, Fields: fieldsOf(p), Constants: constantsOf(p)}
		for _, r := range allRules(cfg, p) {
			var err error
			switch r.Refuse {
			case limits.Uniform:
				look.Uniform, err = answerOf(mimic.Failure, &p.Uniform)
				if p.UniformTemplate && err == nil {
					look.Uniform, look.Template = new(mimic.Answer), look.Uniform
				}
			case limits.Silent:
				look.Silent, err = answerOf(mimic.Success, &p.Silent)
			}
			if err != nil {
				return nil, fmt.Errorf("preparing policy %s: %w", p.Name, err)
			}
		}
		out = append(out, look)
	}
	return out, nil
}

// allRules are those of a policy in every realm and app.
func allRules(cfg *config.Config, p *config.Policy) []limits.Rule {
	rules := append([]limits.Rule(nil), p.Rules...)
	for i := range cfg.Realms {
		r := &cfg.Realms[i]
		rules = append(rules, r.Rules[p.Name]...)
		for j := range r.Apps {
			rules = append(rules, r.Apps[j].Rules[p.Name]...)
		}
	}
	return rules
}

// answerOf is a configured answer, or one of status 0 that stands for a learned one.
func answerOf(form mimic.Form, a *config.Answer) (*mimic.Answer, error) {
	if a.Status == 0 && len(a.Headers) == 0 && a.Body == "" {
		return new(mimic.Answer), nil
	}
	answer, err := mimic.NewAnswer(form, a.Status, a.Headers, a.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", form, err)
	}
	return &answer, nil
}

// fieldsOf are the names by which the policy finds its way in a request.
func fieldsOf(p *config.Policy) []string {
	var names []string
	for _, list := range [][]selector.Selector{p.Target.From, p.Client.From, p.Secret} {
		for _, s := range list {
			names = append(names, s.Name())
		}
	}
	return names
}

// constantsOf are the values that the policy demands of every request.
func constantsOf(p *config.Policy) []string {
	var values []string
	if len(p.Match) != 1 {
		return nil // what one way demands, another does not
	}
	for _, m := range []map[string]string{p.Match[0].Form, p.Match[0].JSON, p.Match[0].Route.Query} {
		for _, v := range m {
			if v != "*" {
				values = append(values, v)
			}
		}
	}
	return values
}

// warnLooks says at the start which refusals cannot look like the backend's answers yet [R2].
func (g *Gateway) warnLooks() {
	for _, st := range g.looks.Book.Status() {
		if st.Shows == mimic.Plain {
			g.log.Warn("refusals show a plain answer until real ones were seen: configure it, or let it be learned",
				"policy", st.Policy, "form", st.Form.String())
		}
	}
}
