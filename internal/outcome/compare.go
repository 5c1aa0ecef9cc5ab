package outcome

import (
	"bytes"
	"slices"
)

// covers says that every answer that other matches is matched by r, too. It may say no where the answer is yes.
func (r *rule) covers(other *rule) bool {
	return r.status.contains(&other.status) &&
		fieldsCover(r.header, other.header) &&
		fieldsCover(r.locationQuery, other.locationQuery) &&
		(globsCover(r.location, other.location) || onlyStars(r.location) && len(other.locationQuery) > 0) &&
		globsCover(r.cookieSet, other.cookieSet) &&
		globsCover(r.cookieDeleted, other.cookieDeleted) &&
		jsonCovers(r.json, other.json) &&
		textCovers(r.text, other.text) &&
		r.request.covers(other.request)
}

// fieldsCover says that each condition of a follows from one of b.
func fieldsCover(a, b []field) bool {
	for _, f := range a {
		if !slices.ContainsFunc(b, func(g field) bool {
			if f.same || g.same {
				return f.name == g.name && f.same == g.same
			}
			return f.name == g.name && f.want.covers(g.want)
		}) {
			return false
		}
	}
	return true
}

// globsCover says that each alternative of b is covered by one of a. No alternatives at all cover everything.
func globsCover(a, b []glob) bool {
	if len(a) == 0 {
		return true
	}
	if len(b) == 0 {
		return false
	}
	for _, g := range b {
		if !slices.ContainsFunc(a, func(h glob) bool { return h.covers(g) }) {
			return false
		}
	}
	return true
}

func onlyStars(globs []glob) bool {
	return slices.ContainsFunc(globs, func(g glob) bool { return g.any() || slices.Equal(g, glob{"/", ""}) })
}

func jsonCovers(a, b []jsonField) bool {
	for _, f := range a {
		if !slices.ContainsFunc(b, func(g jsonField) bool { return f.pointer == g.pointer && f.want.covers(g.want) }) {
			return false
		}
	}
	return true
}

// textCovers says that each alternative of b holds one of a.
func textCovers(a, b []needle) bool {
	if len(a) == 0 {
		return true
	}
	if len(b) == 0 {
		return false
	}
	for _, n := range b {
		if !slices.ContainsFunc(a, func(m needle) bool { return bytes.Contains(n.text, m.text) }) {
			return false
		}
	}
	return true
}

func (r *requestRule) covers(other *requestRule) bool {
	if r == nil {
		return true
	}
	if other == nil || !globsCover(r.path, other.path) {
		return false
	}
	if len(r.method) > 0 && (len(other.method) == 0 || slices.ContainsFunc(other.method, func(m string) bool { return !slices.Contains(r.method, m) })) {
		return false
	}
	for _, f := range r.fields {
		if !slices.ContainsFunc(other.fields, func(g requestField) bool {
			return f.from == g.from && f.name == g.name && f.want.covers(g.want)
		}) {
			return false
		}
	}
	return true
}

// sameKinds says that both rules rest on the same kinds of evidence, so that nothing but the values tells them apart.
func (r *rule) sameKinds(other *rule) bool {
	return sameNames(r.header, other.header) && sameNames(r.locationQuery, other.locationQuery) &&
		(len(r.location) == 0) == (len(other.location) == 0) &&
		(len(r.cookieSet) == 0) == (len(other.cookieSet) == 0) &&
		(len(r.cookieDeleted) == 0) == (len(other.cookieDeleted) == 0) &&
		slices.EqualFunc(r.json, other.json, func(f, g jsonField) bool { return f.pointer == g.pointer }) &&
		(len(r.text) == 0) == (len(other.text) == 0)
}

func sameNames(a, b []field) bool {
	return slices.EqualFunc(a, b, func(f, g field) bool { return f.name == g.name && f.same == g.same })
}

// meets says that some answer to some request is matched by both rules, which are of the same kinds. Different texts are
// taken to stand on different pages.
func (r *rule) meets(other *rule) bool {
	return r.status.meets(&other.status) &&
		fieldsMeet(r.header, other.header) && fieldsMeet(r.locationQuery, other.locationQuery) &&
		globsMeet(r.location, other.location) &&
		globsMeet(r.cookieSet, other.cookieSet) && globsMeet(r.cookieDeleted, other.cookieDeleted) &&
		jsonMeet(r.json, other.json) &&
		textsMeet(r.text, other.text) &&
		r.request.meets(other.request)
}

func textsMeet(a, b []needle) bool {
	return len(a) == 0 || slices.ContainsFunc(a, func(m needle) bool {
		return slices.ContainsFunc(b, func(n needle) bool { return bytes.Contains(m.text, n.text) || bytes.Contains(n.text, m.text) })
	})
}

func fieldsMeet(a, b []field) bool {
	for i := range a {
		if !a[i].same && !a[i].want.meets(b[i].want) {
			return false
		}
	}
	return true
}

func globsMeet(a, b []glob) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(g glob) bool { return slices.ContainsFunc(b, g.meets) })
}

func jsonMeet(a, b []jsonField) bool {
	for i := range a {
		if !a[i].want.meets(b[i].want) {
			return false
		}
	}
	return true
}

// meets says that some request satisfies both.
func (r *requestRule) meets(other *requestRule) bool {
	if r == nil || other == nil {
		return true
	}
	if len(r.method) > 0 && len(other.method) > 0 && !slices.ContainsFunc(r.method, func(m string) bool { return slices.Contains(other.method, m) }) {
		return false
	}
	for _, f := range r.fields {
		if slices.ContainsFunc(other.fields, func(g requestField) bool {
			return f.from == g.from && f.name == g.name && !f.want.meets(g.want)
		}) {
			return false
		}
	}
	return globsMeet(r.path, other.path)
}
