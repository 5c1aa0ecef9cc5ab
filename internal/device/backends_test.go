package device

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// backends are models of how servers read the names of cookies, each reduced to what it does with names.
var backends = map[string]func(line string) []string{
	"a browser's line": func(line string) []string { return eachName(line, ";", " \t") },
	"Go": func(line string) (names []string) {
		r := http.Request{Header: http.Header{"Cookie": {line}}}
		for _, c := range r.Cookies() {
			names = append(names, c.Name)
		}
		return names
	},
	"Node": func(line string) []string { return eachName(line, ";", " \t\n\v\f\r\u00a0\ufeff\u2028\u2029\u3000") },
	"Django": func(line string) (names []string) {
		for pair := range strings.SplitSeq(line, ";") {
			key, _, found := strings.Cut(pair, "=")
			if found {
				names = append(names, strings.TrimSpace(key))
			}
		}
		return names
	},
	"Python": func(line string) (names []string) {
		for {
			m := pythonPair.FindStringSubmatch(line)
			if m == nil {
				return names
			}
			names, line = append(names, m[1]), line[len(m[0]):]
		}
	},
	"Rack": func(line string) (names []string) {
		for _, key := range eachName(line, ";,", " ") {
			if name, err := url.QueryUnescape(key); err == nil {
				names = append(names, name)
			}
		}
		return names
	},
	"PHP": func(line string) (names []string) {
		for _, key := range eachName(line, ";", "") {
			if name, err := url.PathUnescape(key); err == nil { // as versions before 7.2.34 do
				key = name
			}
			key = strings.TrimLeft(key, " \t\n\v\f\r")
			key, _, _ = strings.Cut(key, "\x00")
			if i := strings.IndexByte(key, '['); i > 0 && strings.IndexByte(key[i:], ']') > 0 {
				key = key[:i]
			}
			names = append(names, strings.NewReplacer(" ", "_", ".", "_", "[", "_").Replace(key))
		}
		return names
	},
	"ASP.NET": func(line string) (names []string) {
		for _, key := range eachName(line, ";,", " \t") {
			names = append(names, strings.ToLower(key))
		}
		return names
	},
}

// pythonPair is about the pattern of http.cookies, for which white space divides cookies as well.
var pythonPair = regexp.MustCompile(`^\s*([\w!#$%&'*+\-.^|~:` + "`" + `]+)\s*=\s*("(?:[^\\"]|\\.)*"|[^\s;]*)\s*(?:\s+|;|$)`)

// eachName splits a line and cuts the names off.
func eachName(line, dividers, blanks string) (names []string) {
	for _, pair := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(dividers, r) }) {
		key, _, _ := strings.Cut(pair, "=")
		names = append(names, strings.Trim(key, blanks))
	}
	return names
}
