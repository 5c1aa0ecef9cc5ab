package mimic

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// dates are the ways in which a moment is usually written, with a day, or at least with hours and minutes. A year alone is a
// copyright.
var dates = regexp.MustCompile(`(?i)\b(?:` +
	`\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:t|\b)|` + // 2006-01-02, and what follows in ISO 8601
	`(?:19|20)\d{6}(?:t\d|\b)|` + // 20060102
	`\d{1,2}[-/.]\d{1,2}[-/.]\d{4}\b|` +
	`\d{1,2}(?:st|nd|rd|th|\.)?[ -](?:` + months + `)[a-z]*[ ,-]+\d{2,4}\b|` +
	`(?:` + months + `)[a-z]* \d{1,2}(?:st|nd|rd|th)?,? \d{4}\b|` +
	`(?:[01]?\d|2[0-3]):[0-5]\d\b)`)

const months = `jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec`

// nearDigits is how far from a digit the rest of a date can stand.
const nearDigits = 16

// holdsDate reports whether a text holds a date or a time of day. It looks where there are digits, which is quicker by far.
func holdsDate(text string) bool {
	start, end := 0, 0 // of the stretch to look at
	for i := range len(text) {
		if class(text[i]) != '0' {
			continue
		}
		if i-nearDigits > end {
			if dates.MatchString(text[start:end]) {
				return true
			}
			start = i - nearDigits
		}
		end = min(i+1+nearDigits, len(text))
	}
	return dates.MatchString(text[start:end])
}

var masked = regexp.MustCompile(`[\pL\d](?:\*{2,}|•{2,})|(?:\*{2,}|•{2,})[\pL\d@]`)

// holdsMasked reports whether a text holds what is left to see of a mailbox or a number: a***@example.com.
func holdsMasked(text string) bool {
	return (strings.Contains(text, "**") || strings.Contains(text, "••")) && masked.MatchString(text)
}

// How random a run of letters, digits, blank-less joints must look to be taken for a token. Between the classes lower, upper and
// digit, random hex changes at about 0.47 of all places, base 36 at 0.40 and base 64 at 0.6 (a capital before a small letter
// is no change: words begin so); words joined in camel case change at 0.17.
const (
	longRun     = 16 // bytes from which on one change in longChange places is enough
	longChange  = 5
	shortRun    = 8 // below, nothing is a token
	shortChange = 3
	numberRun   = 9 // digits: seconds since 1970 have ten, the constants of max-age eight
)

// holdsToken reports whether a text holds something that looks random: a token, a digest, an id, a count of seconds. It is a
// guess, on the side of yes.
func holdsToken(text string) bool {
	start := -1
	for i := 0; i <= len(text); i++ {
		if i < len(text) && class(text[i]) != 0 {
			if start < 0 {
				start = i
			}
			continue
		}
		if start >= 0 && random(text[start:i]) {
			return true
		}
		start = -1
	}
	return false
}

// class is what a byte is in a token; 0: it is not part of one.
func class(c byte) byte {
	switch {
	case 'a' <= c && c <= 'z':
		return 'a'
	case 'A' <= c && c <= 'Z':
		return 'A'
	case '0' <= c && c <= '9':
		return '0'
	case c == '-' || c == '_' || c == '+' || c == '/' || c == '=' || c == '~':
		return '-'
	}
	return 0
}

func random(run string) bool {
	if uuid(run) {
		return true
	}
	changes, digits := 0, 0
	last := byte(0)
	for i := range len(run) {
		c := class(run[i])
		if c != last && last != 0 && last != '-' && c != '-' && (last != 'A' || c != 'a') {
			changes++
		}
		if digits++; c != '0' {
			digits = 0
		}
		if digits >= numberRun {
			return true
		}
		last = c
	}
	switch n := len(run); {
	case n >= longRun:
		return changes*longChange >= n
	case n >= shortRun:
		return changes*shortChange >= n
	}
	return false
}

// uuid reports whether a run contains one, in the usual spelling.
func uuid(run string) bool {
	const length = 36
	for ; len(run) >= length; run = run[1:] {
		if run[8] == '-' && run[13] == '-' && run[18] == '-' && run[23] == '-' && hex(run[:8]) && hex(run[9:13]) && hex(run[14:18]) && hex(run[19:23]) && hex(run[24:length]) {
			return true
		}
	}
	return false
}

func hex(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
			return false
		}
	}
	return true
}

// isText reports whether a body is UTF-8 without controls. Anything else may be read as characters that are not its bytes.
func isText(body []byte) bool {
	for _, c := range body {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f' {
			return false
		}
	}
	return utf8.Valid(body)
}
