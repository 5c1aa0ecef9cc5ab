package config

import (
	"net/url"
	"strings"

	"authgate/internal/mimic"
)

// answer checks a configured answer the way it will be used, so that what cannot be shown is an error of the file.
func (b *builder) answer(path string, form mimic.Form, a *Answer) {
	if a.Status == 0 && len(a.Headers) == 0 && a.Body == "" {
		return // learned
	}
	if _, err := mimic.NewAnswer(form, a.Status, a.Headers, a.Body); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			b.wrong(path, "%s", line)
		}
	}
}

// checkSignups checks where the lookup hook is. The message does not repeat the URL, which may hold a key.
func (b *builder) checkSignups(s *Signups) {
	const path = "signups.lookup_url"
	text := s.LookupURL.Reveal()
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		b.wrong(path, "is no address that can be asked; use http://host/path or https://host/path")
		return
	}
	if s.LookupSecret.Reveal() == "" {
		b.warnf("signups.lookup_secret", "is empty, so that the service cannot tell whose question it gets; set it")
	}
}
