package transport

// What may stand where, by RFC 9110 and RFC 3986. Both directions are held to it: what the upstream says, and
// what is said to the upstream.

const tokenExtras = "!#$%&'*+-.^_`|~"

// hostExtras are the other characters of reg-name, IP literals and ports.
const hostExtras = "-._~!$&'()*+,;=%:[]"

var (
	tokenBytes = alphanumericAnd(tokenExtras)
	hostBytes  = alphanumericAnd(hostExtras)
)

func alphanumericAnd(extras string) (set [256]bool) {
	for c := range 128 {
		set[c] = c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
	}
	for _, c := range []byte(extras) {
		set[c] = true
	}
	return set
}

// validToken reports whether s is a token, as field names and methods are.
func validToken(s string) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return s != ""
}

func validHost(s string) bool {
	for i := range len(s) {
		if !hostBytes[s[i]] {
			return false
		}
	}
	return s != ""
}

// validValue reports whether s has no control characters but tabs. Other bytes mean what the two ends make of them.
func validValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// validTarget reports whether b, the path and query or an asterisk, ends where it seems to. Bytes above ASCII pass, since
// clients send them and servers take them.
func validTarget(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	return len(b) > 0 && (b[0] == '/' || string(b) == "*")
}

// framesMessage reports whether a field, by its canonical name, tells where a message ends.
func framesMessage(name string) bool {
	switch name {
	case "Content-Length", "Transfer-Encoding", "Trailer":
		return true
	}
	return false
}

// safeTrailer reports whether a field, by its canonical name, may come after the body: not if it frames, routes,
// authenticates or qualifies the message, since that was decided before (RFC 9110, section 6.5.1).
func safeTrailer(name string) bool {
	switch name {
	case "Content-Length", "Transfer-Encoding", "Trailer", "Te", "Connection", "Keep-Alive", "Proxy-Connection", "Upgrade",
		"Host", "Forwarded", "Via", "Max-Forwards", "Expect", "Range", "Pragma", "Cache-Control", "Expires", "Age", "Vary", "Date",
		"Authorization", "Proxy-Authorization", "Www-Authenticate", "Proxy-Authenticate", "Cookie", "Set-Cookie",
		"Content-Encoding", "Content-Type", "Content-Range", "Location", "Retry-After", "Realm":
		return false
	}
	return len(name) < 3 || name[:3] != "If-"
}
