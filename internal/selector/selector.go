package selector

import (
	"fmt"
	"strconv"
	"strings"
)

// Selector says where in a request a value stands. The zero value stands nowhere. It is immutable.
type Selector struct {
	kind Kind
	text string
	// name is the field, header, cookie or path parameter, as written.
	name string
	// steps are the members or elements from the outermost in, and for a field its name split at brackets and dots.
	steps []segment
	// anywhere: the first step of an XML path may stand at any depth.
	anywhere bool
}

// Kind is where a selector looks.
type Kind uint8

// The kinds of selectors; the zero value is that of the zero Selector.
const (
	JSON Kind = iota + 1
	Form
	Multipart
	XML
	Query
	Header
	Cookie
	SetCookie
	Basic
	Path
)

var kindNames = [...]string{JSON: "json", Form: "form", Multipart: "multipart", XML: "xml", Query: "query", Header: "header", Cookie: "cookie", SetCookie: "set_cookie", Basic: "basic", Path: "path"}

const (
	// maxSelector bounds the text of one selector in bytes: nothing that a login page calls its fields comes near.
	maxSelector = 256
	// maxSteps bounds the steps of a pointer or path.
	maxSteps = 16
)

// Parse reads one selector of the configuration:
//
//	json:/user/email        a member, by RFC 6901
//	form:user[email]        a field of a form body; also looked for in the query
//	multipart:email         a field of a multipart body
//	xml:/login/name         an element by its local names, from the root; xml://name: anywhere; name[2]: the second of them
//	query:email             a field of the query
//	header:X-User           a header
//	cookie:session          a cookie, only ever as a keyed digest
//	set_cookie:session      the cookie that an answer set and a later request brings back; the same digest
//	basic                   the user part of Basic credentials
//	path:{name}             a segment of the path that the route names
//
// The error says what is wrong and what would be right.
func Parse(text string) (Selector, error) {
	s := Selector{text: text}
	if len(text) > maxSelector {
		return Selector{}, fmt.Errorf("parsing selector %q...: longer than %d bytes", text[:32], maxSelector)
	}
	prefix, rest, colon := strings.Cut(text, ":")
	for kind, name := range kindNames {
		if name != "" && name == prefix && colon == (Kind(kind) != Basic) {
			s.kind = Kind(kind)
		}
	}
	s.name = rest
	var err error
	switch s.kind {
	case JSON:
		err = s.parsePointer(rest)
	case XML:
		err = s.parseXMLPath(rest)
	case Form, Multipart, Query:
		err = s.parseField(rest)
	case Header:
		err = checkHeader(rest)
	case Cookie, SetCookie:
		if !isToken(rest) {
			err = fmt.Errorf("want the name of a cookie, as in %s:session", s.kind)
		}
	case Path:
		err = s.parseParam(rest)
	case Basic:
	default:
		err = unknownKind(text, prefix)
	}
	if err != nil {
		return Selector{}, fmt.Errorf("parsing selector %q: %w", text, err)
	}
	return s, nil
}

// String returns the text that was parsed.
func (s Selector) String() string { return s.text }

// Name returns the field, header, cookie or parameter that the selector looks for, or the last step of its pointer or path.
func (s Selector) Name() string {
	if n := len(s.steps); n > 0 && (s.kind == JSON || s.kind == XML) {
		return s.steps[n-1].name
	}
	return s.name
}

// Kind returns where the selector looks.
func (s Selector) Kind() Kind { return s.kind }

// String returns the word that opens a selector of this kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return ""
}

// NeedsBody reports whether the selector reads the body of a request.
func (s Selector) NeedsBody() bool { return s.kind.inBody() }

// inBody holds for the four forms of a body. A selector of one stands for the same name in the others.
func (k Kind) inBody() bool { return k >= JSON && k <= XML }

func unknownKind(text, prefix string) error {
	switch {
	case prefix == "basic":
		return fmt.Errorf(`want just "basic": it always reads the user part of the Authorization header`)
	case strings.HasPrefix(text, "/"):
		return fmt.Errorf("a pointer needs its form: json:%s", text)
	case !strings.Contains(text, ":"):
		return fmt.Errorf("want a form before the name, as in json:/%[1]s, form:%[1]s, query:%[1]s or header:%[1]s", text)
	}
	return fmt.Errorf("no form %q: want json, form, multipart, xml, query, header, cookie, set_cookie, basic or path", prefix)
}

func (s *Selector) parsePointer(pointer string) error {
	pointer, slash := strings.CutPrefix(pointer, "/")
	if !slash {
		return fmt.Errorf(`a pointer begins with "/": json:/%s`, strings.TrimLeft(pointer, "#$./"))
	}
	for token := range strings.SplitSeq(pointer, "/") {
		plain := strings.NewReplacer("~1", "", "~0", "").Replace(token)
		switch {
		case strings.Contains(plain, "~"):
			return fmt.Errorf(`"~" in a member is written ~0, and "/" is written ~1`)
		case nameForm.Apply(token) == "":
			return fmt.Errorf("a member without a name: want json:/name or json:/outer/name")
		}
		s.steps = append(s.steps, segment{name: nameForm.Apply(strings.NewReplacer("~1", "/", "~0", "~").Replace(token))})
	}
	return s.checkSteps()
}

func (s *Selector) parseXMLPath(path string) error {
	rest, slash := strings.CutPrefix(path, "/")
	if !slash {
		return fmt.Errorf(`a path begins with "/" (from the root) or "//" (anywhere): xml:/%s`, path)
	}
	rest, s.anywhere = strings.CutPrefix(rest, "/")
	for text := range strings.SplitSeq(rest, "/") {
		step := segment{name: text}
		if name, index, ok := strings.Cut(text, "["); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
			if err != nil || n < 1 || !strings.HasSuffix(index, "]") {
				return fmt.Errorf("an index counts from one, as in param[2]")
			}
			step = segment{name: name, nth: n}
		}
		step.name = nameForm.Apply(step.name[strings.IndexByte(step.name, ':')+1:])
		if step.name == "" || strings.ContainsAny(step.name, "@*[]() ") {
			return fmt.Errorf("want the local names of elements, as in xml:/login/name")
		}
		s.steps = append(s.steps, step)
	}
	return s.checkSteps()
}

func (s *Selector) parseField(name string) error {
	canon := canonicalField(name)
	switch {
	case canon.name == "":
		return fmt.Errorf("want the name of a field, as in %s:username", s.kind)
	case canon.list:
		return fmt.Errorf("a list is never a name: want %s:%s", s.kind, strings.TrimSuffix(name, "[]"))
	case strings.Contains(name, "%"):
		return fmt.Errorf("write the name as it is shown, not percent-encoded")
	}
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '[' || r == ']' || r == '.' }) {
		s.steps = append(s.steps, segment{name: nameForm.Apply(part)})
	}
	return s.checkSteps()
}

func (s *Selector) checkSteps() error {
	if len(s.steps) > maxSteps {
		return fmt.Errorf("deeper than %d steps", maxSteps)
	}
	return nil
}

func (s *Selector) parseParam(param string) error {
	name, open := strings.CutPrefix(param, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !open || !closed || !isToken(name) {
		return fmt.Errorf("want the name that a route gives to a segment, as in path:{%s}", strings.Trim(param, "{}/"))
	}
	s.name = name
	return nil
}

func checkHeader(name string) error {
	switch strings.ToLower(name) {
	case "authorization", "proxy-authorization":
		return fmt.Errorf("credentials never make a key: want basic for their user part")
	case "cookie", "set-cookie":
		return fmt.Errorf("want cookie:name for one cookie")
	case "host":
		return fmt.Errorf("the host names the realm: it is no selector")
	}
	if !isToken(name) {
		return fmt.Errorf("want the name of a header, as in header:X-User")
	}
	return nil
}

// isToken holds for a token of RFC 9110.
func isToken[T []byte | string](s T) bool {
	for i := 0; i < len(s); i++ {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return len(s) > 0
}

func isTokenByte(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}
