package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a configuration, or, among [Warnings], one that looks wrong.
type Problem struct {
	File    string // as given to Load or Parse; "preset NAME" for a line of a preset
	Line    int    // from 1
	Path    string // such as policies.login.requests.target.limit; empty: the file itself
	Message string // what is wrong, and what would be right
}

// String is `file:line: path: message`.
func (p Problem) String() string {
	if p.Path == "" {
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
	}
	return fmt.Sprintf("%s:%d: %s: %s", p.File, p.Line, p.Path, p.Message)
}

// Problems is the error of a configuration that cannot be used: everything that is wrong with it, sorted
// by line. It never holds the value of a secret.
type Problems []Problem

// Error is all problems, one a line.
func (p Problems) Error() string { return joinLines(p) }

// Warnings are what a configuration may well mean but probably should not, sorted like [Problems].
type Warnings []Problem

// String is all warnings, one a line.
func (w Warnings) String() string { return joinLines(w) }

func joinLines(problems []Problem) string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Origin says where an effective value was written. The zero value means that it is a default.
type Origin struct {
	File   string // empty in a preset
	Preset string // name of the preset, or empty
	Line   int    // from 1; 0: a default
	Via    string // the reference that gave the value, such as env:NAME, or empty
}

// String is `default`, `preset NAME` or `file:line`.
func (o Origin) String() string {
	switch {
	case o.Line == 0:
		return "default"
	case o.Preset != "":
		return "preset " + o.Preset
	default:
		return fmt.Sprintf("%s:%d", o.File, o.Line)
	}
}

// file is the name that a problem gets.
func (o Origin) file() string {
	if o.Preset != "" {
		return "preset " + o.Preset
	}
	return o.File
}

// maxProblems bounds what is collected of either kind: a file of garbage need not be listed to its last line.
const maxProblems = 500

// report collects what is wrong, and where each value came from.
type report struct {
	name     string            // of the main file
	origins  map[string]Origin // by path
	problems []Problem
	warnings []Problem
	dropped  int // problems beyond maxProblems
}

func newReport(name string) *report {
	return &report{name: name, origins: map[string]Origin{}}
}

// place is where the value at the path, or else the nearest one around it, was written. What nobody wrote is
// missing from the first line of the main file.
func (r *report) place(path string) Origin {
	for {
		if o, ok := r.origins[path]; ok {
			return o
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return Origin{File: r.name, Line: 1}
		}
		path = path[:i]
	}
}

func (r *report) errorAt(o Origin, path, format string, args ...any) {
	if r.full() {
		r.dropped++
		return
	}
	r.problems = append(r.problems, Problem{o.file(), o.Line, path, fmt.Sprintf(format, args...)})
}

func (r *report) errorf(path, format string, args ...any) {
	r.errorAt(r.place(path), path, format, args...)
}

// full reports whether no more problems are collected, so that a hint need not be worked out.
func (r *report) full() bool { return len(r.problems) >= maxProblems }

func (r *report) warnf(path, format string, args ...any) {
	if len(r.warnings) == maxProblems {
		return
	}
	o := r.place(path)
	r.warnings = append(r.warnings, Problem{o.file(), o.Line, path, fmt.Sprintf(format, args...)})
}

// err is the collected problems, or nil.
func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	out := r.sorted(r.problems)
	if r.dropped > 0 {
		last := out[len(out)-1]
		out = append(out, Problem{last.File, last.Line, "", fmt.Sprintf("and %d more problems", r.dropped)})
	}
	return Problems(out)
}

// sorted is by line, the main file before presets; problems of one line stay in the order in which they were found.
func (r *report) sorted(problems []Problem) []Problem {
	out := slices.Clone(problems)
	slices.SortStableFunc(out, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(b2i(a.File != r.name), b2i(b.File != r.name)),
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
		)
	})
	return out
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
