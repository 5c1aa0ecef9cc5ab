package route

import (
	"math/bits"
	"net/http"
	"strings"
)

// methodSet is a set of known methods, a bit for each.
type methodSet uint32

// everyMethod is what a method that nobody knows may be taken for.
const everyMethod = ^methodSet(0)

// methodNames lists the known methods, in the order of their bits: those of RFC 9110, PATCH, QUERY, and those of
// WebDAV and its kin.
func methodNames() [21]string {
	return [...]string{
		"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY", "PROPFIND",
		"PROPPATCH", "MKCOL", "MKCALENDAR", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH", "ACL",
	}
}

// methodBit gives the set that holds only the method, which must be in upper case, and whether it is known.
// The two commonest come without a look at the list.
func methodBit(method string) (methodSet, bool) {
	switch method {
	case "GET":
		return methodGET, true
	case "POST":
		return methodPOST, true
	}
	for i, name := range methodNames() {
		if name == method {
			return 1 << i, true
		}
	}
	return 0, false
}

const (
	methodGET  methodSet = 1 << 0
	methodHEAD methodSet = 1 << 1
	methodPOST methodSet = 1 << 2
)

// methodsOf gives what a method in a request may be taken for: itself in any case, GET and HEAD for each
// other, and everything if it is not known.
func methodsOf(method string) methodSet {
	set, known := methodBit(method)
	if !known {
		if set, known = methodBit(strings.ToUpper(strings.TrimSpace(method))); !known {
			return everyMethod
		}
	}
	return set.withTwin()
}

func (s methodSet) withTwin() methodSet {
	if s&(methodGET|methodHEAD) != 0 {
		s |= methodGET | methodHEAD
	}
	return s
}

// readOnly tells whether the set has nothing but GET and HEAD.
func (s methodSet) readOnly() bool {
	return s&^(methodGET|methodHEAD) == 0
}

// String lists the methods, for tests and messages.
func (s methodSet) String() string {
	if s == everyMethod {
		return "every method"
	}
	var names []string
	for list := methodNames(); s != 0; s &= s - 1 {
		names = append(names, list[bits.TrailingZeros32(uint32(s))])
	}
	return strings.Join(names, " ")
}

// overrides are what headers say in place of the request line.
type overrides struct {
	// methods are the methods that override headers name.
	methods methodSet
	// targets are the paths or addresses that rewrite headers name.
	targets []string
}

// add takes in the headers that some backends believe more than the request line. A gateway interface that
// turns headers into variables knows no difference between dashes and underscores, so none is made.
func (o *overrides) add(header http.Header) {
	for name := range header {
		if len(name) < len("x-http-method") || len(name) > len("x-http-method-override") || name[0]|0x20 != 'x' {
			continue
		}
		switch {
		case sameHeader(name, "x-http-method-override"), sameHeader(name, "x-http-method"),
			sameHeader(name, "x-method-override"):
			for _, value := range header[name] {
				for method := range strings.SplitSeq(value, ",") {
					o.methods |= methodsOf(method)
				}
			}
		case sameHeader(name, "x-original-url"), sameHeader(name, "x-rewrite-url"):
			o.targets = append(o.targets, header[name]...)
		}
	}
}

// sameHeader compares a header name with one in lower case, without regard to case, dash or underscore.
func sameHeader(name, want string) bool {
	if len(name) != len(want) {
		return false
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_':
			c = '-'
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		}
		if c != want[i] {
			return false
		}
	}
	return true
}

// preflight tells whether the request is a question of a browser about CORS: one that carries neither
// credentials nor a body, nor asks to be taken for something else.
func preflight(in Request, o *overrides) bool {
	if in.Method != http.MethodOptions || in.Body || o.methods != 0 || len(o.targets) != 0 {
		return false
	}
	h := in.Header
	return len(h["Origin"]) == 1 && len(h["Access-Control-Request-Method"]) == 1 &&
		h["Origin"][0] != "" && h["Access-Control-Request-Method"][0] != "" &&
		len(h["Authorization"]) == 0 && len(h["Cookie"]) == 0
}
