package device

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cookie is how browsers keep the value.
type Cookie struct {
	Name   string
	Domain string        // "": the host that set it
	TTL    time.Duration // whole seconds count
}

// Set is the Set-Cookie line that has a browser keep a value; secure on https.
func (c Cookie) Set(value string, secure bool) string {
	line := c.Name + "=" + value + "; Path=/; Max-Age=" + strconv.FormatInt(int64(c.TTL/time.Second), 10) + "; HttpOnly; SameSite=Lax"
	if c.Domain != "" {
		line += "; Domain=" + c.Domain
	}
	if secure {
		line += "; Secure"
	}
	return line
}

// maxCandidates bounds how many cookies of a request are looked at: all that a site next door can plant beside the real one
// count, or it would hide that. maxSeen bounds the devices of a success. A browser sends more than
// one if somebody set others for another path or a parent domain.
const (
	maxCandidates = 32
	maxSeen       = 8
)

// Candidates are the values of the cookies of exactly that name, in the order in which they came, each once, at most 32.
// They are read the way browsers write them; blanks and empty pairs do no harm.
func Candidates(header http.Header, name string) []string {
	var values []string
	for _, line := range header["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			key, value, found := strings.Cut(pair, "=")
			if !found || strings.Trim(key, " \t") != name {
				continue
			}
			if value = strings.Trim(value, " \t"); slices.Contains(values, value) {
				continue
			}
			if values = append(values, value); len(values) == maxCandidates {
				return values
			}
		}
	}
	return values
}

// Strip removes the cookies of a name from the Cookie lines. All others keep their bytes and their order; a line without
// any is removed. It costs no allocation if there is nothing to do, and changes no slice that others may hold.
//
// It removes whatever a backend might take for a cookie of that name, since they differ: in the case of letters (ASP.NET); in
// what divides two cookies, commas included (Rack, Perl, ASP.NET Core), blanks too (Python), quotes or no quotes; in percent
// escapes in names (Rack, Perl, PHP of old); and in characters that stand for an underscore or begin an index (PHP).
func Strip(header http.Header, name string) {
	lines := header["Cookie"]
	first := slices.IndexFunc(lines, func(line string) bool { return holds(line, name) })
	if first < 0 {
		return
	}
	kept := append(make([]string, 0, len(lines)), lines[:first]...)
	for _, line := range lines[first:] {
		if holds(line, name) {
			line = without(line, name)
			if line == "" {
				continue
			}
		}
		kept = append(kept, line)
	}
	if len(kept) == 0 {
		delete(header, "Cookie")
		return
	}
	header["Cookie"] = kept
}

// dividers are what may stand between two cookies, blanks aside.
const dividers = ";,"

// holds reports whether there is anything to remove.
func holds(line, name string) bool {
	for {
		i := strings.IndexAny(line, dividers)
		if i < 0 {
			return begin(line, name) < len(line)
		}
		if begin(line[:i], name) < i {
			return true
		}
		line = line[i+1:]
	}
}

// without is the line without cookies of the name, "" if no others are left. With each goes one of the dividers at its
// sides; where they differ, the semicolon stays, at which everybody divides.
func without(line, name string) string {
	out := make([]byte, 0, len(line))
	begun, others := false, false
	before := byte(0) // the divider before the next pair
	for more := true; more; {
		var pair string
		var after byte
		if i := strings.IndexAny(line, dividers); i >= 0 {
			pair, after, line = line[:i], line[i], line[i+1:]
		} else {
			pair, more = line, false
		}
		if i := begin(pair, name); i < len(pair) {
			pair = strings.TrimRight(pair[:i], " \t")
			if strings.TrimFunc(pair, hollow) == "" {
				switch {
				case !begun:
					line = strings.TrimLeft(line, " \t")
				case after == ';':
					before = ';'
				}
				continue
			}
		}
		if begun {
			out = append(out, before)
		}
		out = append(out, pair...)
		begun, before = true, after
		others = others || strings.Trim(pair, " \t") != ""
	}
	if !others {
		return ""
	}
	return string(out)
}

// begin is where in a pair a cookie of the name begins, after blanks or equal signs or, for those who divide at blanks,
// within another's value; the length of the pair if there is none. All the rest of the pair belongs to it.
func begin(pair, name string) int {
	head, edge := true, true
	for i := 0; i < len(pair); i++ {
		c := pair[i]
		switch {
		case blank(c):
			edge = true
		case c == '=' && head:
		case edge && names(pair[i:], name):
			return i
		default:
			head, edge = false, false
		}
	}
	return len(pair)
}

// names reports whether a text begins with the name, in any way of writing it, and the name ends there.
func names(text, name string) bool {
	for i := 0; i < len(name); i++ {
		if text == "" {
			return false
		}
		c, size := char(text)
		if alike(c) != alike(name[i]) {
			return false
		}
		text = text[size:]
	}
	if text == "" {
		return true
	}
	c, _ := char(text)
	return blank(c) || c == '=' || c == '['
}

// char is the first character of a text, and how many bytes it takes, percent escapes decoded.
func char(text string) (c byte, size int) {
	if text[0] == '%' && len(text) >= 3 {
		if n, err := strconv.ParseUint(text[1:3], 16, 8); err == nil {
			return byte(n), 3
		}
	}
	return text[0], 1
}

// alike maps characters that somebody takes for the same to one of them.
func alike(c byte) byte {
	switch {
	case c >= 'A' && c <= 'Z':
		return c + 'a' - 'A'
	case c == ' ', c == '+', c == '.', c == '[': // PHP, and those for whom a plus is a blank
		return '_'
	}
	return c
}

// blank reports whether somebody may take a byte for white space, alone or as a part of a character: no name of a cookie
// holds one of them.
func blank(c byte) bool { return c <= ' ' || c >= 0x7f }

// hollow reports whether a character before a name is no part of another cookie.
func hollow(r rune) bool { return r == '=' || r >= 0x7f || blank(byte(r)) }
