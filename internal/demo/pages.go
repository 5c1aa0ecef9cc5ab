package demo

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
)

//go:embed pages.html
var pagesHTML string

// pages are the templates of the site.
type pages struct {
	template *template.Template
}

type (
	loginPage struct {
		Username string
		Failed   bool
	}
	codePage    struct{ Failed bool }
	welcomePage struct{ User string }
)

func parsePages() (pages, error) {
	t, err := template.New("pages").Parse(pagesHTML)
	if err != nil {
		return pages{}, fmt.Errorf("parsing the pages: %w", err)
	}
	return pages{t}, nil
}

// write answers 200 with a page, that of a failed login included.
func (p pages) write(w http.ResponseWriter, name string, data any) {
	var page bytes.Buffer
	if err := p.template.ExecuteTemplate(&page, name, data); err != nil {
		http.Error(w, "rendering the page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	w.Write(page.Bytes())
}
