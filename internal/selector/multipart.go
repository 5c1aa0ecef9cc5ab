package selector

import (
	"bytes"
	"strings"
)

// parseMultipart splits a multipart body as strictly as browsers and the usual clients write one; what parsers are known
// to read in different ways is a fault. The fields found before the fault are kept, for a reading that ignores it.
func (f *fields) parseMultipart(text []byte, boundary string) {
	if boundary == "" {
		f.fault = Syntax
		return
	}
	delimiter := []byte("--" + boundary)
	text = bytes.TrimPrefix(text, []byte("\r\n"))
	preamble := true
	for {
		at := bytes.Index(text, delimiter)
		if at < 0 {
			f.fail(Syntax) // no last boundary
			return
		}
		part := text[:at]
		text = text[at+len(delimiter):]
		if preamble {
			if at > 0 {
				f.fail(Trailing) // some read what stands before the first boundary
			}
			preamble = false
		} else if content, ok := bytes.CutSuffix(part, []byte("\r\n")); ok {
			f.addPart(content)
		} else {
			f.fail(Syntax) // a boundary that only some see
			f.addPart(part)
		}
		if rest, last := bytes.CutPrefix(text, []byte("--")); last {
			if len(rest) > 0 && string(rest) != "\r\n" {
				f.fail(Trailing)
			}
			return
		}
		var ok bool
		if text, ok = bytes.CutPrefix(text, []byte("\r\n")); !ok {
			f.fail(Syntax)
		}
	}
}

// fail keeps the first fault.
func (f *fields) fail(why Reason) {
	if f.fault == "" {
		f.fault = why
	}
}

// addPart adds one part: header lines, an empty line, the value.
func (f *fields) addPart(part []byte) {
	header, value, ok := bytes.Cut(part, []byte("\r\n\r\n"))
	if !ok {
		f.fail(Syntax)
		return
	}
	if len(f.list) >= maxFields {
		f.fail(Many)
		return
	}
	e := field{value: value, verbatim: true}
	var name []byte
	for line := range bytes.SplitSeq(header, []byte("\r\n")) {
		key, val, ok := bytes.Cut(line, []byte(":"))
		if !ok || !isToken(key) || bytes.ContainsAny(val, "\r\n\x00") {
			f.fail(Syntax) // continuation lines too
			continue
		}
		val = bytes.Trim(val, " \t")
		switch strings.ToLower(string(key)) {
		case "content-disposition":
			if name != nil {
				f.fail(Syntax)
			}
			var file bool
			if name, file, ok = disposition(val); !ok || len(name) == 0 {
				f.fail(Syntax)
			} else if file {
				e.bad = Type
			}
		case "content-type":
			if !isPlainText(string(val), value) && e.bad == "" {
				e.bad = Charset
			}
		case "content-transfer-encoding":
			if v := strings.ToLower(string(val)); v != "binary" && v != "8bit" && v != "7bit" {
				f.fail(Syntax)
			}
		}
	}
	if len(name) == 0 {
		f.fail(Syntax)
		return
	}
	f.addNamed(name, e)
	// Browsers write a quote in a name as %22, and some readers undo that.
	if decoded, other := unpercent(name, false); len(decoded) < len(name) || other != nil {
		e.odd = Escape
		f.addNamed(decoded, e)
		if other != nil {
			f.addNamed(other, e)
		}
	}
}

// isPlainText holds for the type of a part whose bytes are a plain value that every reader decodes alike.
func isPlainText(contentType string, value []byte) bool {
	essence, params, _ := strings.Cut(strings.ToLower(contentType), ";")
	latin, wide, err := charsetsOf(params)
	return strings.TrimSpace(essence) == "text/plain" && !wide && err == nil && (!latin || isASCII(value))
}

// disposition reads `form-data; name="user"; filename="x"`. It is not ok where parsers read it differently: a parameter
// twice, an extended one (name*), an escaped quote, and the word name= within another value.
func disposition(val []byte) (name []byte, file, ok bool) {
	kind, rest := cut(val, ';')
	if !equalFold(bytes.Trim(kind, " \t"), "form-data") {
		return nil, false, false
	}
	names, files := 0, 0
	for rest = bytes.TrimLeft(rest, " \t"); len(rest) > 0; {
		var key, value []byte
		if key, value, rest, ok = parameter(rest); !ok {
			return nil, false, false
		}
		switch {
		case equalFold(key, "name"):
			name = value
			names++
		case equalFold(key, "filename"):
			files++
		case equalFold(key, "filename*"):
			file = true
		default:
			return nil, false, false
		}
	}
	return name, file || files > 0, names == 1 && files <= 1 && bytes.IndexByte(name, '\\') < 0
}

// hidesName holds for a value in which a parser that ignores quotes would find another name.
func hidesName(value []byte) bool {
	lower := bytes.ToLower(value)
	for at := bytes.Index(lower, []byte("name")); at >= 0; at = bytes.Index(lower, []byte("name")) {
		lower = bytes.TrimLeft(lower[at+len("name"):], " \t")
		if len(lower) > 0 && (lower[0] == '=' || lower[0] == '*') {
			return true
		}
	}
	return false
}

// parameter reads key=value or key="value" and the semicolon behind it.
func parameter(b []byte) (key, value, rest []byte, ok bool) {
	key, value, ok = bytes.Cut(b, []byte("="))
	if !ok || !isToken(key) {
		return nil, nil, nil, false
	}
	if quoted, found := bytes.CutPrefix(value, []byte(`"`)); found {
		if value, rest, ok = bytes.Cut(quoted, []byte(`"`)); !ok || bytes.HasSuffix(value, []byte(`\`)) {
			return nil, nil, nil, false
		}
	} else {
		end := bytes.IndexByte(value, ';')
		if end < 0 {
			end = len(value)
		}
		if value, rest = bytes.TrimRight(value[:end], " \t"), value[end:]; !isToken(value) {
			return nil, nil, nil, false
		}
	}
	rest = bytes.TrimLeft(rest, " \t")
	if len(rest) > 0 && rest[0] != ';' || hidesName(value) {
		return nil, nil, nil, false
	}
	return key, value, bytes.TrimLeft(bytes.TrimPrefix(rest, []byte(";")), " \t"), true
}
