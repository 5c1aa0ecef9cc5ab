package device

import (
	"encoding/binary"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
)

// pair is one device trusted for one spelling of a target.
type pair struct {
	device      digest
	spelling    spelling
	since, last int64 // first and latest success, in seconds since the epoch
	failures    int   // since the latest
}

// The record of a user is a byte for the version and then, for each pair, the digests of device and spelling, the two times in
// four bytes each (until 2106, the first byte first) and the failures in one. So 128 pairs stay far below limits.MaxRecord.
const (
	pairsVersion = 1
	pairSize     = len(digest{}) + len(spelling{}) + 4 + 4 + 1
)

func formatPairs(pairs []pair) string {
	b := append(make([]byte, 0, 1+len(pairs)*pairSize), pairsVersion)
	for i := range pairs {
		p := &pairs[i]
		b = append(append(b, p.device[:]...), p.spelling[:]...)
		b = binary.BigEndian.AppendUint32(b, uint32(p.since))
		b = binary.BigEndian.AppendUint32(b, uint32(p.last))
		b = append(b, byte(p.failures))
	}
	return string(b)
}

// parsePairs reads a record; none and one of another version, which must not keep anybody from being trusted anew, have no
// pairs. A second one of the same device and spelling, and what is left at the end, is passed over.
func parsePairs(text string) []pair {
	if text == "" || text[0] != pairsVersion {
		return nil
	}
	pairs := make([]pair, 0, len(text)/pairSize)
	for b := range slices.Chunk([]byte(text[1:]), pairSize) {
		if len(b) < pairSize {
			break
		}
		p := pair{failures: int(b[pairSize-1])}
		copy(p.device[:], b)
		copy(p.spelling[:], b[len(p.device):])
		times := b[len(p.device)+len(p.spelling):]
		p.since, p.last = int64(binary.BigEndian.Uint32(times)), int64(binary.BigEndian.Uint32(times[4:]))
		if find(pairs, p.device, p.spelling) < 0 {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

// find is the index of a pair, or -1.
func find(pairs []pair, device digest, by spelling) int {
	for i := range pairs {
		if p := &pairs[i]; p.device == device && p.spelling == by {
			return i
		}
	}
	return -1
}

// The record of a device is its digest and then the targets that it may be trusted for, each on a line and escaped.
func formatDevice(device digest, targets []string) string {
	var b strings.Builder
	b.WriteString(device.String())
	for _, target := range targets {
		b.WriteByte('\n')
		b.WriteString(url.QueryEscape(target))
	}
	return b.String()
}

// parseDevice reads a record; ok is false if there is none. Lines that cannot be read are passed over.
func parseDevice(text string) (device digest, targets []string, ok bool) {
	first, rest, _ := strings.Cut(text, "\n")
	raw, err := hex.DecodeString(first)
	if err != nil || len(raw) != len(device) {
		return digest{}, nil, false
	}
	device = digest(raw)
	for line := range strings.SplitSeq(rest, "\n") {
		target, err := url.QueryUnescape(line)
		if err == nil && target != "" && !slices.Contains(targets, target) {
			targets = append(targets, target)
		}
	}
	return device, targets, true
}

func listName(realm string) string { return "devices:" + realm }

func userKey(realm, target string) string { return "device:user:" + realm + ":" + target }

func targetOf(realm, userKey string) string {
	return strings.TrimPrefix(userKey, "device:user:"+realm+":")
}

func deviceKey(realm, publicID string) string { return "device:id:" + realm + ":" + publicID }

// factKey is the key of the fact of a pair.
func factKey(realm, target string, device digest, by spelling) string {
	const head = "device:fact:"
	b := make([]byte, 0, len(head)+len(realm)+2*len(device)+2*len(by)+len(target)+3)
	b = append(append(append(b, head...), realm...), ':')
	b = append(hex.AppendEncode(b, device[:]), ':')
	if by != anySpelling {
		b = hex.AppendEncode(b, by[:])
	}
	return string(append(append(b, ':'), target...))
}
