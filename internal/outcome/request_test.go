package outcome

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// attempt is a request as a test states it.
type attempt struct {
	method  string // default POST
	path    string // default /login
	header  http.Header
	query   url.Values
	form    url.Values
	json    map[string]string
	touched bool // Values was called
}

func (a *attempt) Method() string {
	if a.method == "" {
		return "POST"
	}
	return a.method
}

func (a *attempt) Path() string {
	if a.path == "" {
		return "/login"
	}
	return a.path
}

func (a *attempt) Header() http.Header        { return a.header }
func (a *attempt) Query(name string) []string { return a.query[name] }
func (a *attempt) Form(name string) []string  { return a.form[name] }

func (a *attempt) JSON(pointer string) []string {
	if v, ok := a.json[pointer]; ok {
		return []string{v}
	}
	return nil
}

func (a *attempt) Values(yield func(string) bool) {
	a.touched = true
	for _, part := range []url.Values{a.query, a.form} {
		for _, values := range part {
			for _, v := range values {
				if !yield(v) {
					return
				}
			}
		}
	}
	for _, v := range a.json {
		if !yield(v) {
			return
		}
	}
}

// typed is a form login as a browser sends it.
func typed(name, user string, more ...string) *attempt {
	form := url.Values{name: {user}, "password": {"correct horse"}}
	for i := 0; i < len(more); i += 2 {
		form.Add(more[i], more[i+1])
	}
	return &attempt{form: form, header: http.Header{
		"User-Agent": {"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"},
		"Accept":     {"text/html,application/xhtml+xml"},
		"Origin":     {"https://sign.example"},
		"Referer":    {"https://sign.example/login"},
		"Cookie":     {"lang=en; visit=8a6f0c"},
	}}
}

// with is the request at another path, with that path as Referer.
func (a *attempt) with(path string) *attempt {
	a.path = path
	if a.header != nil {
		a.header.Set("Referer", "https://sign.example"+path)
	}
	return a
}

// received is an answer written as on the wire.
func received(t testing.TB, raw string) Answer {
	t.Helper()
	head, body, _ := strings.Cut(raw, "\n\n")
	wire := "HTTP/1.1 " + strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n"
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(wire+body)), nil)
	if err != nil {
		t.Fatalf("reading the sample %q: %v", raw, err)
	}
	prefix, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the body of the sample %q: %v", raw, err)
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Prefix: prefix}
}

func compiled(t testing.TB, cfg Config) *Classifier {
	t.Helper()
	c, problems := Compile(cfg)
	if len(problems) > 0 {
		t.Fatalf("Compile: %v", problems)
	}
	return c
}

// sample is an answer of a server and what it means.
type sample struct {
	name string
	req  *attempt
	raw  string
	want Verdict
}

// server is a login server: its rules, and what it answers.
type server struct {
	name      string
	unknownAs Verdict
	rules     []Rule
	warnings  int // of Lint, all of them inherent in how the server answers
	samples   []sample
}

// check holds a server's rules against its answers, in one piece and while they stream.
func (s server) check(t *testing.T) {
	cfg := Config{Rules: s.rules, UnknownAs: s.unknownAs, Required: true}
	c := compiled(t, cfg)
	if warnings := Lint(cfg); len(warnings) != s.warnings {
		t.Errorf("Lint: %d warnings, want %d: %v", len(warnings), s.warnings, warnings)
	}
	for _, sample := range s.samples {
		t.Run(sample.name, func(t *testing.T) {
			a := received(t, sample.raw)
			var req RequestView = sample.req
			if sample.req == nil {
				req = typed("username", "alice")
			}
			result := c.Classify(a, req)
			if result.Verdict != sample.want {
				t.Errorf("Classify = %v (rule %d, reflected %v), want %v", result.Verdict, result.Rule, result.Reflected, sample.want)
			}
			var streamed []Result
			body := c.Observe(io.NopCloser(strings.NewReader(string(a.Prefix))), a.Status, a.Header, req, func(r Result) { streamed = append(streamed, r) })
			if got, err := io.ReadAll(body); err != nil || string(got) != string(a.Prefix) {
				t.Errorf("the observed body is %q, %v, want it unchanged", got, err)
			}
			if len(streamed) != 1 || streamed[0] != result {
				t.Errorf("Observe reports %v, want once %v", streamed, result)
			}
		})
	}
}
