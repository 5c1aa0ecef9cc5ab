package unlock

import "strings"

// The bounds of RFC 5321, 4.5.3.1, and RFC 1035, 2.3.4, in bytes.
const (
	maxMailbox = 254
	maxLocal   = 64
	maxLabel   = 63
)

// mailbox is where mail for a target goes: the target itself, or, if it has no "@", the target at domain. ok says that this
// is one mailbox beyond doubt: a dot-atom and a host name, in ASCII, without quotes, comments, lists or an address literal, nor
// with what old mail servers take for a route or what begins the digest of a long name.
func mailbox(target, domain string) (box string, ok bool) {
	box = target
	if !strings.Contains(target, "@") {
		box += "@" + domain
	}
	local, host, found := strings.Cut(box, "@")
	whole := found && (!strings.Contains(target, "@") || strings.Contains(host, ".")) // a name without a dot is some machine next door
	return box, whole && len(box) <= maxMailbox && isDotAtom(local) && isHostname(host)
}

func isDotAtom(s string) bool {
	if len(s) > maxLocal {
		return false
	}
	for atom := range strings.SplitSeq(s, ".") {
		if atom == "" {
			return false
		}
		for i := range len(atom) {
			if !isAlnum(atom[i]) && strings.IndexByte("$&'*+-/=?^_`{|}~", atom[i]) < 0 { // RFC 5322, 3.2.3
				return false
			}
		}
	}
	return true
}

func isHostname(s string) bool {
	last := ""
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if !isAlnum(label[i]) && label[i] != '-' {
				return false
			}
		}
		last = label
	}
	return strings.Trim(last, "0123456789") != "" // an address is no name
}

func isAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
