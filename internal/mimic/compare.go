package mimic

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Compare tells in what a client could see that one answer is real and the other a refusal, in a fixed order; nil: in nothing.
// Volatile headers are left aside, and of cookies only the names are looked at. No value of either answer is repeated.
func Compare(real, refused Answer) []string {
	var out []string
	if real.Status != refused.Status {
		out = append(out, fmt.Sprintf("status: really %d, refused %d", real.Status, refused.Status))
	}
	is, shown := visible(real.Header), visible(refused.Header)
	names := maps.Clone(is)
	maps.Copy(names, shown)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		want, really := is[name]
		got, refusal := shown[name]
		switch {
		case !refusal:
			out = append(out, "header "+name+": only the real answer has it")
		case !really:
			out = append(out, "header "+name+": only the refusal has it")
		case name != "Content-Length" && !slices.Equal(want, got): // of which the body tells more
			out = append(out, "header "+name+": another value")
		}
	}
	if want, got := cookieNames(real.Header), cookieNames(refused.Header); !slices.Equal(want, got) {
		out = append(out, "cookies: really "+spelled(want)+", refused "+spelled(got))
	}
	switch {
	case bytes.Equal(real.Body, refused.Body):
	case len(real.Body) != len(refused.Body):
		out = append(out, fmt.Sprintf("body: really %d bytes, refused %d", len(real.Body), len(refused.Body)))
	default:
		out = append(out, "body: another text of the same length")
	}
	return out
}

func visible(h http.Header) http.Header {
	out, _ := stable(h)
	delete(out, "Set-Cookie")
	return out
}

// cookieNames are the names of the cookies that an answer sets, sorted.
func cookieNames(h http.Header) []string {
	var names []string
	for _, line := range h["Set-Cookie"] {
		pair, _, _ := strings.Cut(line, ";")
		name, _, _ := strings.Cut(pair, "=")
		names = append(names, strings.TrimSpace(name))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func spelled(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " ")
}
