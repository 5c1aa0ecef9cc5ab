package proxy

import (
	"net/http"
	"path"
	"strings"

	"authgate/internal/outcome"

	"authgate/internal/selector"
)

// view is what the rules of a policy's outcome may ask about the request.
type view cover

var _ outcome.RequestView = (*view)(nil)

func (v *view) Method() string { return strings.ToUpper(v.x.r.Method) }

func (v *view) Path() string { return path.Clean("/" + v.x.r.URL.Path) }

func (v *view) Header() http.Header { return v.x.r.Header }

func (v *view) Query(name string) []string   { return v.read("query:" + name) }
func (v *view) Form(name string) []string    { return v.read("form:" + name) }
func (v *view) JSON(pointer string) []string { return v.read("json:" + pointer) }

// read looks a value up with the selector that the plan has compiled for it.
func (v *view) read(text string) []string {
	spec := v.policy.Views[text]
	if spec == nil {
		return nil
	}
	return spec.Read(&v.x.in).Values
}

// Values yields what the request may have put into the answer.
func (v *view) Values(yield func(string) bool) {
	for _, p := range v.hit.Params {
		if !yield(p.Value) {
			return
		}
	}
	v.x.in.Each(func(text string, _ bool) bool { return yield(text) })
}

// Views compiles what the rules ask about requests, by the text of its selector.
func Views(rules []outcome.Rule) (map[string]*selector.Spec, error) {
	views := make(map[string]*selector.Spec)
	for i := range rules {
		r := &rules[i]
		for _, ask := range []struct {
			prefix string
			names  map[string]string
		}{{"query:", r.Request.Query}, {"form:", r.Request.Form}, {"json:", r.Request.JSON}, {"query:", r.LocationQuery}} {
			for name := range ask.names {
				s, err := selector.Parse(ask.prefix + name)
				if err != nil {
					return nil, err
				}
				if views[s.String()], err = selector.Compile(selector.Config{From: []selector.Selector{s}}); err != nil {
					return nil, err
				}
			}
		}
	}
	return views, nil
}
