package outcome

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// setCookie is one Set-Cookie line, read as browsers do [RFC 6265 5.2].
type setCookie struct {
	name, value  string
	path, domain string
	deleted      bool
}

// maxSetCookies bounds how many lines of an answer are looked at, the last ones; browsers keep some 50 to 180 a site.
const maxSetCookies = 128

// hasCookie reports whether the lines set a cookie whose name matches, or delete it.
func hasCookie(lines []string, name glob, deleted bool) bool {
	if len(lines) > maxSetCookies {
		lines = lines[len(lines)-maxSetCookies:]
	}
	for i, line := range lines {
		if !name.match(cookieName(line)) {
			continue
		}
		if c := parseSetCookie(line); c.deleted == deleted && !overridden(c, lines[i+1:]) {
			return true
		}
	}
	return false
}

// overridden says that a later line speaks of the same cookie.
func overridden(c setCookie, later []string) bool {
	for _, line := range later {
		if cookieName(line) != c.name {
			continue
		}
		if d := parseSetCookie(line); d.path == c.path && d.domain == c.domain {
			return true
		}
	}
	return false
}

// CookieValue is the value of the cookie of that name that an answer sets, without surrounding quotes.
// It is false if the answer sets none, or deletes it.
func CookieValue(header http.Header, name string) (string, bool) {
	lines := header["Set-Cookie"]
	for i := len(lines) - 1; i >= max(0, len(lines)-maxSetCookies); i-- {
		if c := parseSetCookie(lines[i]); c.name == name {
			return c.value, !c.deleted
		}
	}
	return "", false
}

func cookieName(line string) string {
	end := strings.IndexAny(line, "=;")
	if end < 0 {
		end = len(line)
	}
	return strings.TrimSpace(line[:end])
}

func parseSetCookie(line string) setCookie {
	pair, attributes, _ := strings.Cut(line, ";")
	name, value, _ := strings.Cut(pair, "=")
	c := setCookie{name: strings.TrimSpace(name), value: strings.Trim(strings.TrimSpace(value), `"`)}
	aged, expired := false, false
	for attributes != "" {
		var attribute string
		attribute, attributes, _ = strings.Cut(attributes, ";")
		key, value, _ := strings.Cut(attribute, "=")
		key, value = strings.TrimSpace(key), strings.Trim(strings.TrimSpace(value), `"`)
		switch {
		case strings.EqualFold(key, "path"):
			c.path = value
		case strings.EqualFold(key, "domain"):
			c.domain = strings.ToLower(strings.TrimPrefix(value, "."))
		case strings.EqualFold(key, "max-age"):
			if over, ok := maxAgeOver(value); ok {
				aged, c.deleted = true, over
			}
		case strings.EqualFold(key, "expires"):
			expired = past(value)
		}
	}
	// Max-Age outranks Expires, wherever it stands [RFC 6265 5.3].
	if !aged {
		c.deleted = expired
	}
	c.deleted = c.deleted || c.value == ""
	return c
}

// maxAgeOver says that a Max-Age ends the cookie at once; what is no number is as if absent.
func maxAgeOver(value string) (over, ok bool) {
	digits := strings.TrimPrefix(value, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return false, false
	}
	if digits != value {
		return true, true
	}
	seconds, err := strconv.Atoi(value)
	return err == nil && seconds == 0, true
}

// past says that a cookie date is over. The forms with dashes are what PHP and old servlet containers write.
func past(value string) bool {
	if t, err := http.ParseTime(value); err == nil {
		return !t.After(time.Now())
	}
	for _, layout := range [...]string{"Mon, 02-Jan-2006 15:04:05 MST", "Mon, 02-Jan-06 15:04:05 MST"} {
		if t, err := time.Parse(layout, value); err == nil {
			return !t.After(time.Now())
		}
	}
	return false
}
