package clientip

import (
	"net/netip"
	"strings"
)

// Bounds of one Forwarded element. They keep the search for duplicate names cheap; no sender comes near.
const (
	maxForwardedBytes = 1024
	maxForwardedPairs = 32
)

// parseForwardedElement reads one element of Forwarded (RFC 7239). One bad pair makes the whole element malformed; an
// element that names nobody is unknown.
func parseForwardedElement(element string) (netip.Addr, Reason) {
	if len(element) > maxForwardedBytes {
		return netip.Addr{}, ReasonMalformed
	}
	node, found, ok := forwardedFor(element)
	if !ok {
		return netip.Addr{}, ReasonMalformed
	}
	if !found {
		return netip.Addr{}, ReasonUnknown
	}
	name, port, ported := strings.Cut(node, ":")
	if strings.EqualFold(name, "unknown") || isObfuscated(name) {
		if ported && !isNodePort(port) {
			return netip.Addr{}, ReasonMalformed
		}
		return netip.Addr{}, ReasonUnknown
	}
	addr, ok := parseEndpoint(node, isNodePort)
	if !ok {
		return netip.Addr{}, ReasonMalformed
	}
	return addr, ReasonForwarded
}

// forwardedFor returns the decoded value of the "for" parameter and whether there is one. ok is false if any pair breaks
// the grammar or any name occurs twice. Empty pairs and blanks around ";" are tolerated.
func forwardedFor(element string) (node string, found, ok bool) {
	var names [maxForwardedPairs]string
	count := 0
	for rest := trimBlanks(element); rest != ""; rest = trimBlanks(rest) {
		if rest[0] == ';' {
			rest = rest[1:]
			continue
		}
		name, value, after, ok := cutPair(rest)
		if !ok || count == maxForwardedPairs {
			return "", false, false
		}
		for _, seen := range names[:count] {
			if strings.EqualFold(seen, name) {
				return "", false, false
			}
		}
		names[count] = name
		count++
		if strings.EqualFold(name, "for") {
			node, found = value, true
		}
		rest = trimBlanks(after)
		if rest != "" && rest[0] != ';' {
			return "", false, false
		}
	}
	return node, found, true
}

// cutPair reads name=value from the start of s. The value is a quoted string, or a token in which colons and brackets are
// tolerated, since some senders do not quote addresses.
func cutPair(s string) (name, value, after string, ok bool) {
	end := 0
	for end < len(s) && isTokenByte(s[end]) {
		end++
	}
	name, s = s[:end], s[end:]
	s, ok = strings.CutPrefix(s, "=")
	if name == "" || !ok {
		return "", "", "", false
	}
	if strings.HasPrefix(s, `"`) {
		value, after, ok = cutQuoted(s[1:])
		return name, value, after, ok
	}
	end = 0
	for end < len(s) && (isTokenByte(s[end]) || strings.IndexByte(":[]", s[end]) >= 0) {
		end++
	}
	return name, s[:end], s[end:], end > 0
}

// cutQuoted reads a quoted string whose opening quote is already gone, and decodes its quoted pairs.
func cutQuoted(s string) (value, after string, ok bool) {
	var decoded []byte
	start := 0 // of the text not yet copied
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case b == '"' && decoded == nil:
			return s[:i], s[i+1:], true
		case b == '"':
			return string(append(decoded, s[start:i]...)), s[i+1:], true
		case b == '\\':
			if decoded == nil {
				decoded = make([]byte, 0, len(s))
			}
			decoded = append(decoded, s[start:i]...)
			i++
			start = i
			if i == len(s) || !isTextByte(s[i]) {
				return "", "", false
			}
		case !isTextByte(b):
			return "", "", false
		}
	}
	return "", "", false
}

// isObfuscated reports whether s is an obfuscated node name or port: an underscore and at least one more character.
func isObfuscated(s string) bool {
	if len(s) < 2 || s[0] != '_' {
		return false
	}
	for i := range len(s) {
		if !isAlphanumeric(s[i]) && strings.IndexByte("._-", s[i]) < 0 {
			return false
		}
	}
	return true
}

func isNodePort(s string) bool { return isPort(s) || isObfuscated(s) }

// isToken reports whether s is a token of RFC 9110, such as a field name.
func isToken(s string) bool {
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return s != ""
}

func isTokenByte(b byte) bool {
	return isAlphanumeric(b) || strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0
}

// isTextByte reports whether b may stand in a quoted string, quoted or not: anything but control characters.
func isTextByte(b byte) bool { return b == '\t' || b >= ' ' && b != 0x7f }
