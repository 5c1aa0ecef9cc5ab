package limits

import (
	"net/netip"
	"strconv"
	"strings"
)

// Scope is the first part of a bucket's key, fixed for a rule in a realm: everything but the value. It is
// made once for a plan.
type Scope string

// GlobalRealm stands in keys of policies whose buckets are shared by all realms.
const GlobalRealm = "*"

// NewScope is the scope of rule r in a realm. The text is
//
//	CLASS ":" POLICY ":" DIMENSION ["." INDEX] ":" REALM ":"
//
// with the class's first letter (r, f; k for factors). None of the parts can hold a colon, so keys of
// different scopes never meet. The limit is not part of it [L12].
func NewScope(r *Rule, realm string) Scope {
	var b strings.Builder
	b.WriteByte("rfk"[r.Class])
	b.WriteByte(':')
	b.WriteString(r.Policy)
	b.WriteByte(':')
	b.WriteString(r.Dimension.String())
	if r.Index > 0 {
		b.WriteByte('.')
		b.WriteString(strconv.Itoa(r.Index))
	}
	b.WriteByte(':')
	b.WriteString(realm)
	b.WriteByte(':')
	return Scope(b.String())
}

// Key is the key of the bucket for one value.
func (s Scope) Key(value string) string { return string(s) + value }

// KeyParts is a key taken apart.
type KeyParts struct {
	Class     Class
	Policy    string
	Dimension Dimension
	Index     int
	Realm     string
	Value     string
}

// ParseKey takes a key apart; ok is false for text that [Scope.Key] cannot have made.
func ParseKey(key string) (p KeyParts, ok bool) {
	f := strings.SplitN(key, ":", 5)
	if len(f) != 5 || len(f[0]) != 1 {
		return p, false
	}
	class := strings.IndexByte("rfk", f[0][0])
	name, index, indexed := strings.Cut(f[2], ".")
	dim, err := ParseDimension(name)
	if class < 0 || err != nil {
		return p, false
	}
	p = KeyParts{Class: Class(class), Policy: f[1], Dimension: dim, Realm: f[3], Value: f[4]}
	if indexed {
		if p.Index, err = strconv.Atoi(index); err != nil || p.Index < 1 || strconv.Itoa(p.Index) != index {
			return p, false
		}
	}
	return p, true
}

// NoAddress is the value of an address that is not known.
const NoAddress = "none"

// AddressValue is how a client address becomes a value under rule r: folded to IPv4 where it is mapped, without
// zone, masked to the rule's prefix; whole addresses are written without a prefix length.
func (r *Rule) AddressValue(a netip.Addr) string {
	if !a.IsValid() {
		return NoAddress
	}
	a = a.Unmap().WithZone("")
	bits := r.PrefixV6
	if a.Is4() {
		bits = r.PrefixV4
	}
	if bits == a.BitLen() {
		return a.String()
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return NoAddress // unreachable for a rule that validates
	}
	return p.String()
}

// PairValue joins a target and an address into the value of target_source. An address never holds a bar, so
// the last one divides.
func PairValue(target, address string) string { return target + "|" + address }

// RepeatScope is the scope of the memory of wrong secrets of a policy in a realm [D6]. Its class is none of those of
// rules, so that no bucket meets it.
func RepeatScope(policy, realm string) Scope {
	return Scope("s:" + policy + ":" + TargetSource.String() + ":" + realm + ":")
}
