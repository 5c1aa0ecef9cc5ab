package route

import "strings"

// splitTarget takes a request target apart. Where another reader may see more of an address as its authority, the
// path begins with two slashes or a backslash, and the walk reads it in both ways.
func splitTarget(target string) (path, query, authority string) {
	path, query, _ = strings.Cut(target, "?")
	if path == "" || path[0] == '/' {
		return path, query, ""
	}
	scheme, rest, found := strings.Cut(path, ":")
	if !found || !isScheme(scheme) {
		return path, query, ""
	}
	after, found := strings.CutPrefix(rest, "//")
	if !found {
		return rest, query, ""
	}
	end := strings.IndexAny(after, `/\#`)
	if end < 0 {
		end = len(after)
	}
	authority = after[strings.LastIndexByte(after[:end], '@')+1 : end]
	if end == 0 {
		return rest, query, ""
	}
	return after[end:], query, authority
}

// isScheme tells whether s can be the scheme of an address (RFC 3986, 3.1).
func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || !('0' <= c && c <= '9') && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return s != ""
}
