package selector

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// xmlDoc is one XML document as a flat list of its elements and attributes, each before what it holds.
type xmlDoc struct {
	nodes []xmlNode
	latin bool // a Latin code page was declared
	fault Reason
}

type xmlNode struct {
	name     string // local name, folded
	text     string // the one run of text that is not blank
	texts    int    // how many such runs there are: parsers differ in which they return
	noted    bool   // a comment or an instruction stands within
	attr     bool
	children int // elements
	after    int // index of the node behind this one and all that it holds
}

// maxNodes bounds the elements and attributes of a document. A signed SOAP login has some hundreds.
const maxNodes = 2000

// parse reads the document and returns what is wrong with it, if anything. There is no document type, so entities expand
// to nothing but single characters, and nothing is fetched.
func (d *xmlDoc) parse(text []byte, latin bool) Reason {
	d.latin = latin
	p := xmlParser{doc: d}
	// What follows a byte order mark, or blanks that no document may begin with, is read all the same: parsers differ.
	dec := xml.NewDecoder(bytes.NewReader(trimStart(text)))
	dec.CharsetReader = p.charset
	for d.fault == "" {
		token, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			d.fail(Syntax)
			break
		}
		if p.token(token); len(d.nodes) > maxNodes {
			d.fail(Many)
		}
	}
	if len(d.nodes) == 0 {
		d.fail(Syntax)
	}
	return d.fault
}

func (d *xmlDoc) fail(why Reason) {
	if d.fault == "" {
		d.fault = why
	}
}

// xmlParser builds a document out of tokens.
type xmlParser struct {
	doc  *xmlDoc
	open []int // the elements that are open, outermost first
}

// charset passes bytes through: UTF-16 and UTF-32 have been transcoded already, and Latin text is sorted out value by value.
func (p *xmlParser) charset(name string, r io.Reader) (io.Reader, error) {
	switch charsetFamily(strings.ToLower(name)) {
	case charsetLatin:
		p.doc.latin = true
	case charsetUnread:
		p.doc.fail(Charset)
		return nil, fmt.Errorf("character set %q", name)
	}
	return r, nil
}

func (p *xmlParser) token(token xml.Token) {
	d := p.doc
	switch t := token.(type) {
	case xml.StartElement:
		if len(p.open) > maxDepth {
			d.fail(Depth)
			return
		}
		if len(p.open) == 0 && len(d.nodes) > 0 {
			d.fail(Trailing)
			return
		}
		if len(p.open) > 0 {
			d.nodes[p.open[len(p.open)-1]].children++
		}
		p.open = append(p.open, len(d.nodes))
		d.nodes = append(d.nodes, xmlNode{name: nameForm.Apply(t.Name.Local)})
		for _, a := range t.Attr {
			if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
				d.nodes = append(d.nodes, xmlNode{name: nameForm.Apply(a.Name.Local), text: a.Value, texts: 1, attr: true, after: len(d.nodes) + 1})
			}
		}
	case xml.EndElement:
		d.nodes[p.open[len(p.open)-1]].after = len(d.nodes)
		p.open = p.open[:len(p.open)-1]
	case xml.CharData:
		p.text(t)
	case xml.Directive:
		d.fail(DTD)
	case xml.Comment, xml.ProcInst:
		for _, at := range p.open {
			d.nodes[at].noted = true
		}
	}
}

func (p *xmlParser) text(t []byte) {
	if len(bytes.TrimFunc(t, isBlank)) == 0 {
		return
	}
	if len(p.open) == 0 {
		p.doc.fail(Trailing)
		return
	}
	n := &p.doc.nodes[p.open[len(p.open)-1]]
	n.text = string(t)
	n.texts++
}

// read looks for one selector.
func (d *xmlDoc) read(w *wanted, g *gather) {
	if d.fault != "" {
		return
	}
	r := xmlReader{doc: d, w: w, g: g}
	r.siblings(0, len(d.nodes), w.elements)
	if w.anywhere {
		for at := range d.nodes {
			r.siblings(at+1, d.nodes[at].after, w.elements)
		}
	}
}

// xmlReader is the search for one selector in one document.
type xmlReader struct {
	doc *xmlDoc
	w   *wanted
	g   *gather
}

// siblings follows the steps through the elements and attributes that stand side by side in nodes[from:to].
func (r *xmlReader) siblings(from, to int, steps []segment) {
	nth := 0
	for at := from; at < to; at = r.doc.nodes[at].after {
		n := &r.doc.nodes[at]
		if n.name != steps[0].name {
			continue
		}
		if nth++; steps[0].nth != 0 && steps[0].nth != nth {
			continue
		}
		if len(steps) > 1 {
			r.siblings(at+1, n.after, steps[1:])
		} else {
			r.value(at)
		}
	}
}

// value takes the text of an element, or of the only element within it (XML-RPC: <value><string>bob</string></value>).
func (r *xmlReader) value(at int) {
	n := &r.doc.nodes[at]
	for n.children == 1 && n.texts == 0 {
		for at++; r.doc.nodes[at].attr; at++ {
		}
		n = &r.doc.nodes[at]
	}
	switch {
	case n.children > 0 && r.w.inner && n.texts == 0:
	case n.children > 0 || n.texts > 1:
		r.g.refuse(Type)
	case n.texts == 0:
		r.g.void(Empty)
	default:
		odd := Reason("")
		if n.noted {
			odd = Spelling // some return the text up to a comment, some what stands around it
		}
		r.g.text([]byte(n.text), r.doc.latin, odd)
	}
}

// multicall returns how many calls a system.multicall of XML-RPC holds.
func (d *xmlDoc) multicall() (n int, ok bool) {
	for i := range d.nodes {
		switch e := &d.nodes[i]; e.name {
		case "methodname":
			ok = ok || strings.EqualFold(strings.TrimFunc(e.text, isBlank), "system.multicall")
			if e.texts > 1 || e.noted {
				ok = true // in doubt
			}
		case "name":
			if nameForm.Apply(e.text) == "methodname" {
				n++
			}
		}
	}
	return n, ok
}
