package selector

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

// Normalizer turns the spelling of a name into the one form that all spellings of it share, as the backend looks it up
// [I4]. The zero value changes nothing. It is a small value, safe for concurrent use.
type Normalizer struct{ steps step }

type step uint16

const (
	stepTrim step = 1 << iota
	stepFold
	stepNFKC
	stepDropAccents
	stepDropPlusTag
	stepASCIIDomain
	stepStripDomain
	stepPhoneDigits
)

// stepNames are the words of the configuration, in the order in which ParseNormalize lists them.
var stepNames = [...]struct {
	name string
	step step
}{
	{"trim", stepTrim},
	{"fold", stepFold},
	{"nfkc", stepNFKC},
	{"keep_case", 0},
	{"drop_accents", stepDropAccents},
	{"drop_plus_tag", stepDropPlusTag},
	{"ascii_domain", stepASCIIDomain},
	{"strip_domain", stepStripDomain},
	{"phone_digits", stepPhoneDigits},
}

const (
	// maxKey bounds a key in bytes [I4]: twice the longest mailbox that is seen in practice (64 characters).
	maxKey = 128
	// hashMark opens a key that stands for a longer one. A name that begins with it is hashed too, so nobody can claim one.
	hashMark = '#'
	// hashHex is how many digits of SHA-256 such a key keeps: 128 bits, beyond any search for a collision.
	hashHex = 32
	// maxRounds bounds the search for a form that normalising leaves alone. Two rounds are the rule, three are rare.
	maxRounds = 8
	// maxName bounds what is composed and folded in full, in bytes. What is longer without its padding is the name of nobody,
	// and the work may grow eighteenfold with the text.
	maxName = 1024
	// maxDomain bounds what is converted to IDNA, in bytes: no domain is longer (RFC 1035), and the work grows with the square.
	maxDomain = 253
	// minPhoneDigits is how many digits make a phone number rather than a short id (E.164 knows none shorter).
	minPhoneDigits = 5
)

// ParseNormalize compiles a list of steps; their order in the list does not matter. nil is the default list [trim, fold,
// nfkc]; an empty list changes nothing. The steps:
//
//   - trim: blanks and control characters at both ends go, inner runs of them become one space.
//   - fold: full Unicode case folding; the dotted and dotless i of Turkish are one, since upper-casing makes them so.
//   - nfkc: compatibility composition (full-width letters, ligatures), default-ignorable characters dropped.
//   - keep_case: says that the backend tells case apart; the same as leaving out fold, and an error together with it.
//   - drop_accents: combining marks go: é is e.
//   - drop_plus_tag: bob+tag@example.com is bob@example.com.
//   - ascii_domain: a mailbox without a name or comments around it, its domain in IDNA form, lower case, without a trailing dot.
//   - strip_domain: CORP\bob is bob.
//   - phone_digits: a value that is a phone number keeps only its digits, in ASCII; an international 00 or + goes, and so
//     do tel: before it and an extension behind it.
func ParseNormalize(names []string) (Normalizer, error) {
	if names == nil {
		return Normalizer{stepTrim | stepFold | stepNFKC}, nil
	}
	var n Normalizer
	for i, name := range names {
		at := slices.IndexFunc(stepNames[:], func(s struct {
			name string
			step step
		},
		) bool {
			return s.name == name
		})
		switch {
		case at < 0:
			return Normalizer{}, fmt.Errorf("parsing normalize: no step %q: want some of %s", name, stepList())
		case slices.Contains(names[:i], name):
			return Normalizer{}, fmt.Errorf("parsing normalize: %s is stated twice", name)
		}
		n.steps |= stepNames[at].step
	}
	if n.steps&stepFold != 0 && slices.Contains(names, "keep_case") {
		return Normalizer{}, fmt.Errorf("parsing normalize: fold and keep_case contradict each other: leave out one")
	}
	return n, nil
}

func stepList() string {
	var b strings.Builder
	for i, s := range stepNames {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(s.name)
	}
	return b.String()
}

// Key returns the key of a name: normalised, and bounded to 128 bytes. A longer name, and one that begins with "#", becomes
// "#" and 32 hex digits of its SHA-256. The key of an empty name is empty.
func (n Normalizer) Key(name string) string {
	name = n.Apply(name)
	if len(name) <= maxKey && (name == "" || name[0] != hashMark) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return string(hashMark) + hex.EncodeToString(sum[:])[:hashHex]
}

// Apply returns the normalised form of a name, unbounded. It is a fixpoint: normalising the result changes nothing.
// Plain lower-case ASCII is returned as it is, without allocation. Bytes that are not UTF-8 become U+FFFD.
func (n Normalizer) Apply(name string) string {
	for range maxRounds {
		if n.settled(name) {
			return name
		}
		next := n.round(name)
		if next == name {
			return name
		}
		name = next
	}
	return name
}

// settled says, at the cost of one pass, that no step would change the name. It may say no for a name that none would.
func (n Normalizer) settled(name string) bool {
	if n.steps == 0 {
		return true
	}
	fold, trim := n.steps&stepFold != 0, n.steps&stepTrim != 0
	var special bool
	blank := true
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c >= 0x7f:
			return false
		case c <= ' ':
			if trim && (blank || c != ' ') {
				return false
			}
			blank = true
			continue
		case c >= 'A' && c <= 'Z':
			if fold {
				return false
			}
			special = true
		case c == '+' || c == '@' || c == '\\' || c == '(' || c >= '0' && c <= '9':
			special = true
		}
		blank = false
	}
	if blank && trim && name != "" {
		return false
	}
	return !special || n.steps&(stepDropPlusTag|stepASCIIDomain|stepStripDomain|stepPhoneDigits) == 0
}

// round applies every step once, compatibility forms first, for they may bring forth any of the characters that the
// others look at.
func (n Normalizer) round(s string) string {
	wide := !isASCII(s)
	if wide && len(s) > maxName && n.steps&(stepNFKC|stepDropAccents) != 0 {
		s = n.thin(s)
	}
	long := len(s) > maxName
	if wide && !long && n.steps&stepNFKC != 0 {
		s = compatible(s)
	}
	if wide && !long && n.steps&stepDropAccents != 0 {
		s = dropMarks(s)
	}
	if n.steps&stepTrim != 0 {
		s = collapseBlanks(trimBlanks(s))
	}
	if n.steps&stepStripDomain != 0 {
		s = s[strings.LastIndexByte(s, '\\')+1:]
	}
	if n.steps&stepDropPlusTag != 0 {
		s = dropPlusTag(s)
	}
	if n.steps&stepASCIIDomain != 0 {
		s = asciiDomain(s)
	}
	if n.steps&stepFold != 0 {
		if long {
			s = strings.ToLower(s)
		} else {
			s = foldCase(s)
		}
	}
	if n.steps&stepPhoneDigits != 0 {
		s = phoneDigits(s)
	}
	return s
}

// thin takes away what a name can be padded with, in one cheap pass.
func (n Normalizer) thin(s string) string {
	return strings.Map(func(r rune) rune {
		if n.steps&stepNFKC != 0 && ignorable(r) || n.steps&stepDropAccents != 0 && unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, s)
}

func dropPlusTag(s string) string {
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return s
	}
	plus := strings.IndexByte(s[:at], '+')
	if plus <= 0 {
		return s
	}
	return s[:plus] + s[at:]
}

// bareMailbox takes a mailbox out of what mail programs write around it (RFC 5322): Al <bob@x>, bob@x (Al), "bob"@x.
func bareMailbox(s string) string {
	if open, shut := strings.LastIndexByte(s, '<'), strings.LastIndexByte(s, '>'); open >= 0 && open < shut && strings.Contains(s[open:shut], "@") {
		s = s[open+1 : shut]
	}
	if strings.Contains(s, "@") && strings.ContainsAny(s, "()") {
		s = dropComments(s)
	}
	if local, domain, ok := strings.Cut(s, `"@`); ok && strings.HasPrefix(local, `"`) && !strings.ContainsAny(local[1:], `"\ `) {
		s = local[1:] + "@" + domain
	}
	if local, domain, ok := strings.Cut(s, "@"); ok {
		s = trimBlanks(local) + "@" + trimBlanks(domain)
	}
	return s
}

// dropComments drops what stands in parentheses, which may stand within each other.
func dropComments(s string) string {
	depth := 0
	return strings.Map(func(r rune) rune {
		switch {
		case r == '(':
			depth++
			return -1
		case r == ')' && depth > 0:
			depth--
			return -1
		case depth > 0:
			return -1
		}
		return r
	}, s)
}

func asciiDomain(s string) string {
	s = bareMailbox(s)
	at := strings.LastIndexByte(s, '@') + 1
	domain := strings.TrimRight(s[at:], ".")
	if at == 0 || domain == "" {
		return s
	}
	if len(domain) <= maxDomain {
		if ascii, err := idna.Lookup.ToASCII(domain); err == nil {
			return s[:at] + ascii
		}
	}
	return s[:at] + strings.ToLower(domain)
}

// phoneDigits leaves alone what has any other character than a phone number is written with. Digits of any script count; a
// "tel:" before the number does not, nor does an extension behind it. Behind a number that says that it is one, by "tel:" or
// "+", readers pass over any letters.
func phoneDigits(s string) string {
	digits := make([]byte, 0, 32)
	text, isTel := s, false
	if len(text) > 4 && strings.EqualFold(text[:4], "tel:") {
		text, isTel = text[4:], true
	}
scan:
	for i, c := range text {
		switch {
		case c >= '0' && c <= '9':
			digits = append(digits, byte(c))
		case c == '+' && len(digits) == 0:
			isTel = true
		case strings.ContainsRune(" ()-./", c):
		case unicode.Is(unicode.Nd, c):
			digits = append(digits, byte('0'+digitOf(c)))
		case len(digits) >= minPhoneDigits && (isExtension(text[i:]) || isTel && unicode.IsLetter(c) && !strings.Contains(text, "@")):
			break scan
		default:
			return s
		}
	}
	if len(digits) < minPhoneDigits {
		return s
	}
	number := string(digits)
	for strings.HasPrefix(number, "00") {
		number = number[2:]
	}
	return number
}

// isExtension tells whether text is one, as it stands behind a phone number: "x5", "ext. 5", "#5", ";ext=5".
func isExtension(text string) bool {
	number := strings.TrimLeft(text, "extnsioEXTNSIO;,#:.= ")
	return number != "" && number != text && strings.Trim(number, "0123456789#") == "" && strings.ContainsRune("eExX;,#", rune(text[0]))
}

// digitOf is the value of a decimal digit of any script. They come in runs of ten, one or several, that begin with a zero.
func digitOf(r rune) rune {
	zero := r
	for unicode.Is(unicode.Nd, zero-1) {
		zero--
	}
	return (r - zero) % 10
}
