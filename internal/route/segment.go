package route

import (
	"bytes"
	"net/url"
	"strings"
)

// reader reads one segment between slashes in all the ways in which a backend might. Its buffers are used
// again for the next one.
type reader struct {
	text  []byte
	subs  [][]byte
	names []byte
}

// split decodes a segment and splits it at the separators that decoding brings to light and at
// backslashes. The result is valid until the next call; cost is that of folded.
func (r *reader) split(segment string) (subs [][]byte, cost int) {
	r.text, cost = folded(r.text[:0], segment)
	r.subs = r.subs[:0]
	r.names = r.names[:0]
	rest := r.text
	for {
		i := bytes.IndexAny(rest, `/\`)
		if i < 0 {
			r.subs = append(r.subs, rest)
			return r.subs, cost
		}
		r.subs = append(r.subs, rest[:i])
		rest = rest[i+1:]
	}
}

// kind is what a backend may do with a segment.
type kind uint8

const (
	push kind = iota // go down to the segment of that name
	drop             // stay
	pop              // go up
)

// take is one way to take a segment.
type take struct {
	kind kind
	name []byte // of a push: canonical
}

// ways are all the ways to take a segment, besides the literal one, in which it is a name that no route has.
type ways struct {
	whole take
	// params is the way with ";params" or the name of a file stream cut off, where there are any.
	params    take
	hasParams bool
	// end is the way with everything cut off from the first character that ends the path for some backend,
	// where there is one.
	end  take
	ends bool
	// vanishes is set for ".." with more around it: what drops the rest may take the dots with it.
	vanishes bool
	// literal is set when the segment may be the value of a parameter: when it is no dots and not empty.
	literal bool
}

// ways reads one part of what split gave. The names in the result are valid until the next call of split.
func (r *reader) ways(sub []byte) ways {
	name := r.canonical(sub)
	w := ways{whole: takeOf(name), literal: len(sub) > 0 && string(name) != "." && string(name) != ".."}
	if i := paramsIndex(name); i >= 0 {
		w.params, w.hasParams = takeOf(trimBlanks(name[:i])), true
	}
	if i := bytes.IndexAny(sub, endMarks); i >= 0 {
		w.end, w.ends = takeOf(r.canonical(sub[:i])), true
	}
	w.vanishes = len(sub) > len("..") && (w.whole.kind == pop || w.params.kind == pop || w.end.kind == pop)
	return w
}

// endMarks are the characters at which one backend or another stops reading a path.
const endMarks = ";?#\x00\r\n"

// paramsIndex is where ";params" or a file stream of Windows begins, or -1.
func paramsIndex(name []byte) int {
	for i, c := range name {
		if c == ';' || c == ':' && i+1 < len(name) && (name[i+1] == '$' || name[i+1] == ':') {
			return i
		}
	}
	return -1
}

// canonical drops control characters, and blanks around the name. It does not touch sub.
func (r *reader) canonical(sub []byte) []byte {
	start := len(r.names)
	r.names = appendVisible(r.names, sub)
	return trimBlanks(r.names[start:])
}

// appendVisible appends text without its control characters.
func appendVisible(dst, text []byte) []byte {
	for _, c := range text {
		if c >= 0x20 && c != 0x7F {
			dst = append(dst, c)
		}
	}
	return dst
}

func trimBlanks(name []byte) []byte { return bytes.Trim(name, " ") }

// trimDots drops dots, and blanks between them, from the end, as Windows does with file names.
func trimDots(name []byte) []byte { return bytes.TrimRight(name, ". ") }

// takeOf says what a canonical name asks for.
func takeOf(name []byte) take {
	if string(name) == ".." {
		return take{kind: pop}
	}
	name = trimDots(name)
	if len(name) == 0 || frontController(name) || cookieless(name) {
		return take{kind: drop, name: name}
	}
	return take{kind: push, name: name}
}

// frontController tells whether a name is that of a script which a server runs for a folder, and which takes the
// rest of the path for its own: /index.php/login is /login.
func frontController(name []byte) bool {
	base, ext, found := bytes.Cut(name, []byte("."))
	switch string(base) {
	case "index", "default", "app", "app_dev", "main", "front", "web": // app and app_dev are Symfony's
		return found && scriptExtension(string(ext))
	}
	return false
}

// cookieless tells whether a name is what ASP.NET keeps in paths for browsers without cookies, and takes out again:
// (S(id)), or several of these in one pair of parentheses.
func cookieless(name []byte) bool {
	return len(name) > 5 && name[0] == '(' && name[2] == '(' && 'a' <= name[1]|0x20 && name[1]|0x20 <= 'z' && bytes.HasSuffix(name, []byte("))"))
}

// scriptExtension tells whether a server hands the rest of a path to a file of that extension: /x.php/more runs
// /x.php.
func scriptExtension(ext string) bool {
	switch ext {
	case "php", "php3", "php4", "php5", "php7", "php8", "phtml", "asp", "aspx", "ashx", "asmx", "cgi", "fcgi", "pl",
		"py", "cfm", "dll":
		return true
	}
	return false
}

// withoutFormat cuts the extension off a name, for frameworks that take /login.json for /login. quiet
// says that the request only fetches something, so that /login.css is no login.
func withoutFormat(name []byte, quiet bool) ([]byte, bool) {
	dot := bytes.LastIndexByte(name, '.')
	if dot <= 0 || !isFormat(name[dot+1:], quiet) {
		return nil, false
	}
	return trimDots(name[:dot]), true
}

// isFormat tells whether an extension may be the suffix of a format.
func isFormat(ext []byte, quiet bool) bool {
	for _, c := range ext {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9') {
			return false
		}
	}
	return len(ext) <= 8 && !(quiet && assetExtension(ext))
}

func assetExtension(ext []byte) bool {
	switch string(ext) {
	case "css", "js", "mjs", "map", "png", "jpg", "jpeg", "gif", "svg", "webp", "avif", "ico", "woff", "woff2", "ttf", "otf",
		"eot":
		return true
	}
	return false
}

// clean tells whether a segment can be read in one way only, apart from its case: no escapes, no separators, no
// dots that might mean a folder or an extension, no ":" of a file stream, no "(" of a session in the path.
func clean(segment string) bool {
	for i := range len(segment) {
		switch c := segment[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		case strings.IndexByte("~!$&')*+,=@", c) >= 0:
		default:
			return false
		}
	}
	return segment != ""
}

// values lists what a segment may be worth as the value of a parameter: decoded once and as deep as it goes,
// whole and in parts, with and without what may be cut off. Case and blanks are kept.
func values(segment string) []string {
	if clean(segment) {
		return []string{segment}
	}
	var list []string
	if once, err := url.PathUnescape(segment); err == nil {
		list = append(list, once)
	}
	deep := string(decoded(nil, segment, '+'))
	list = append(list, deep)
	for sub := range strings.FieldsFuncSeq(deep, func(c rune) bool { return c == '/' || c == '\\' }) {
		if i := strings.IndexAny(sub, endMarks); i > 0 {
			list = append(list, sub[:i])
		}
		if sub != "." && sub != ".." {
			list = append(list, sub)
		}
	}
	return list
}
