package config

import "strings"

// hint proposes the word that was probably meant, or else lists the words if they are few.
func hint(word string, words []string) string {
	if best := nearest(word, words); best != "" {
		return "; did you mean " + best + "?"
	}
	if len(words) <= 24 && len(words) > 0 {
		return "; use " + oneOf(words, nil)
	}
	return "; leave it out"
}

// nearest is the word of least edit distance, if it is near enough to be meant: at most a third of its length.
func nearest(word string, words []string) string {
	const longest = 40 // no key is longer, and the work is the product of both lengths
	if len(word) > longest {
		return ""
	}
	best, least := "", len(word)/3+1
	for _, w := range words {
		if dist := distance(strings.ToLower(word), w); dist < least {
			best, least = w, dist
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of neighbours that turn a into b
// (optimal string alignment).
func distance(a, b string) int {
	before, last, now := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}
