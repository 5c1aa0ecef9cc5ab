package limits

// Repeats is what is remembered of the last wrong secrets that one address sent for one target, as truncated
// keyed digests: a phone that sends an old password again and again counts once in a window [D6]. The zero
// value remembers nothing.
type Repeats struct {
	Seen  [3]Digest // latest first
	Freed Window    // how many repetitions were freed in the current window
}

// Digest is a truncated keyed digest of a secret, and when it was counted. A Sum of 0 is none.
type Digest struct {
	Sum uint64
	At  Millis
}

// MaxRepeats is how many repetitions of known wrong secrets are freed in one window [D6].
const MaxRepeats = 50

// Again reports whether a failure with this secret is a repetition that need not count, and remembers the
// secret otherwise. A sum of 0 stands for a secret that could not be read, which is never a repetition.
func (p *Repeats) Again(sum uint64, window, now Millis) bool {
	if sum == 0 {
		return false
	}
	seen := p.Seen
	for i := range seen {
		seen[i].At = min(seen[i].At, now)
	}
	place := len(seen) - 1 // where a new digest pushes one out: the oldest
	for i, d := range seen {
		if d.Sum != sum {
			continue
		}
		if now-d.At < window {
			freed := p.Freed.At(window, now)
			if freed.Count >= MaxRepeats {
				return false
			}
			p.Seen, p.Freed = seen, freed.Charge()
			return true
		}
		place = i // known, but from an earlier window: it counts again
		break
	}
	copy(seen[1:place+1], seen[:place])
	seen[0] = Digest{Sum: sum, At: now}
	p.Seen = seen
	return false
}

// Expires is when the state may be forgotten.
func (p *Repeats) Expires(window Millis) Millis {
	var end Millis
	for _, d := range p.Seen {
		end = max(end, d.At+window)
	}
	return max(end, p.Freed.Start+window)
}
