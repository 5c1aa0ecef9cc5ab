package clientip

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"strings"
)

// PrefixSet is a set of addresses, written as addresses and CIDR prefixes. The zero value is empty. It is immutable and safe
// for concurrent use; a lookup is a binary search over merged ranges.
type PrefixSet struct {
	everyone bool
	entries  []string
	ranges   []addrRange // ascending, apart from each other, no range in two families
}

// addrRange holds both ends.
type addrRange struct{ first, last netip.Addr }

// ParsePrefixes reads addresses and prefixes. Each entry may itself be a list separated by commas; blank ones are skipped. A
// warning tells of host bits that were masked away. The error names every bad entry.
func ParsePrefixes(entries []string) (PrefixSet, []string, error) {
	set, _, warnings, err := parseEntries(entries, "")
	return set, warnings, err
}

// ParseAllow is ParsePrefixes for a list of who may talk: the word * stands for everyone, senders without an address
// included [C7].
func ParseAllow(entries []string) (PrefixSet, []string, error) {
	set, everyone, warnings, err := parseEntries(entries, "*")
	set.everyone = everyone
	return set, warnings, err
}

// Empty reports whether nothing is in the set.
func (s PrefixSet) Empty() bool { return !s.everyone && len(s.ranges) == 0 }

// Entries returns the entries as they were understood, in their order: canonical prefixes, and * as it is.
func (s PrefixSet) Entries() []string { return slices.Clone(s.entries) }

// Contains reports whether a, without its zone and folded, is in the set. Only * contains the invalid address.
func (s PrefixSet) Contains(a netip.Addr) bool { return s.everyone || s.contains(fold(a)) }

// Allows reports whether the set, read as an allowlist, admits the sender of r. A degraded result and one without an
// address match no prefix [C2]; * matches them too. To read a set as a list of the unwanted, ask Contains(r.Addr).
func (s PrefixSet) Allows(r Result) bool { return s.everyone || !r.Degraded && s.contains(r.Addr) }

// contains is Contains for an address that is folded already.
func (s PrefixSet) contains(a netip.Addr) bool {
	after := sort.Search(len(s.ranges), func(i int) bool { return s.ranges[i].first.Compare(a) > 0 })
	return after > 0 && a.Compare(s.ranges[after-1].last) <= 0
}

// TrustList names the hops whose word is believed: addresses, prefixes, and unix-socket peers. The zero value is empty. It
// is immutable and safe for concurrent use.
type TrustList struct {
	set  PrefixSet
	unix bool
}

// ParseTrustList reads addresses, prefixes and the word unix, as ParsePrefixes does. A further warning tells of prefixes so
// wide (IPv4 below /8, IPv6 below /16) that a sender could choose its own address.
func ParseTrustList(entries []string) (TrustList, []string, error) {
	set, unix, warnings, err := parseEntries(entries, "unix")
	if err != nil {
		return TrustList{}, nil, err
	}
	for _, entry := range set.entries {
		prefix, err := netip.ParsePrefix(entry)
		switch {
		case err != nil: // the word
		case prefix.Bits() == 0:
			warnings = append(warnings, fmt.Sprintf("%s trusts everyone: any sender can choose its client address", entry))
		case prefix.Bits() < 8 || prefix.Addr().Is6() && prefix.Bits() < 16:
			warnings = append(warnings, fmt.Sprintf("%s is very wide: whoever is inside can choose its client address", entry))
		}
	}
	return TrustList{set: set, unix: unix}, warnings, nil
}

// Empty reports whether nobody is trusted.
func (t TrustList) Empty() bool { return !t.unix && t.set.Empty() }

// Entries returns the entries as they were understood, in their order: canonical prefixes and the word unix.
func (t TrustList) Entries() []string { return t.set.Entries() }

// trusts reports whether a peer is trusted, given its folded address, or that it is a unix socket and has none.
func (t TrustList) trusts(peer netip.Addr, unix bool) bool {
	return unix && t.unix || t.set.contains(peer)
}

// parseEntries reads a list in which, beside addresses and prefixes, word may occur ("": none).
func parseEntries(entries []string, word string) (set PrefixSet, hasWord bool, warnings []string, err error) {
	var prefixes []netip.Prefix
	var bad []string
	for _, list := range entries {
		for entry := range strings.SplitSeq(list, ",") {
			entry = trimBlanks(entry)
			switch {
			case entry == "":
				continue
			case entry == word:
				hasWord = true
				set.entries = append(set.entries, word)
				continue
			}
			prefix, problem := parsePrefix(entry)
			if problem != "" {
				bad = append(bad, fmt.Sprintf("%q %s", entry, problem))
				continue
			}
			masked := prefix.Masked()
			if masked != prefix {
				warnings = append(warnings, fmt.Sprintf("%s has host bits set; %s is used", entry, masked))
			}
			prefixes = append(prefixes, masked)
			set.entries = append(set.entries, masked.String())
		}
	}
	if len(bad) > 0 {
		want := "want addresses (192.0.2.1), prefixes (192.0.2.0/24)"
		if word != "" {
			want += " or " + word
		}
		return PrefixSet{}, false, nil, fmt.Errorf("parsing address list: %s; %s", strings.Join(bad, ", "), want)
	}
	set.ranges = mergeRanges(prefixes)
	return set, hasWord, warnings, nil
}

// parsePrefix reads one address or prefix and folds it, host bits kept. problem is empty on success.
func parsePrefix(s string) (prefix netip.Prefix, problem string) {
	if strings.IndexByte(s, '%') >= 0 {
		return prefix, "has a zone"
	}
	if strings.IndexByte(s, '/') < 0 {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			return prefix, "is not an address"
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), ""
	}
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		return prefix, "is not a prefix"
	}
	if !prefix.Addr().Is4In6() {
		return prefix, ""
	}
	if prefix.Bits() < 96 {
		return prefix, "is an IPv4-mapped prefix of fewer than 96 bits"
	}
	return netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96), ""
}

// mergeRanges turns masked prefixes into ranges for contains. IPv4 sorts before IPv6, and the last address of a family has no
// next one, so families never merge.
func mergeRanges(prefixes []netip.Prefix) []addrRange {
	ranges := make([]addrRange, 0, len(prefixes))
	for _, prefix := range prefixes {
		ranges = append(ranges, addrRange{first: prefix.Addr(), last: lastAddr(prefix)})
	}
	slices.SortFunc(ranges, func(a, b addrRange) int {
		return cmp.Or(a.first.Compare(b.first), a.last.Compare(b.last))
	})
	merged := ranges[:0]
	for _, next := range ranges {
		if len(merged) > 0 {
			last := &merged[len(merged)-1]
			if next.first.Compare(last.last) <= 0 || next.first == last.last.Next() {
				if last.last.Less(next.last) {
					last.last = next.last
				}
				continue
			}
		}
		merged = append(merged, next)
	}
	return slices.Clip(merged)
}

// lastAddr returns the highest address of a masked prefix.
func lastAddr(prefix netip.Prefix) netip.Addr {
	bytes := prefix.Addr().AsSlice()
	for bit := prefix.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}
