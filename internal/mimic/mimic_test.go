package mimic

import (
	"iter"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// raw reads an answer as it would come over the wire; the Content-Length is added.
func raw(text string) Answer {
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	status, _ := strconv.Atoi(lines[0][:3])
	a := Answer{Status: status, Header: http.Header{"Content-Length": {strconv.Itoa(len(body))}}, Body: []byte(body)}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		a.Header.Add(name, value)
	}
	return a
}

// values yields what a request carries; `name=` before a text makes it a name.
func values(texts ...string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for _, text := range texts {
			name, is := strings.CutPrefix(text, "name=")
			if !yield(name, is) {
				return
			}
		}
	}
}

// login is a form as everybody sends it, from a person and a place of that number.
func login(a Answer, person, place uint64, more ...string) Sample {
	vv := append([]string{"name=username", "person" + strconv.Itoa(int(person)) + "x", "name=password", "hunter" + strconv.Itoa(int(place)) + "y"}, more...)
	return Sample{
		Answer: a, Target: person, Source: place, Host: "auth.acme.test", Path: "/login", Values: values(vv...),
		Header: http.Header{
			"Accept": {"text/html"}, "User-Agent": {"Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0"},
			"Origin": {"https://auth.acme.test"}, "Referer": {"https://auth.acme.test/login"}, "X-Forwarded-Proto": {"https"},
		},
	}
}

const jsonFailure = "401\nContent-Type: application/json\nCache-Control: no-store\n\n{\"error\":\"bad credentials\"}"

var key = Key{Realm: "acme", Policy: "login", Method: "POST", Form: Failure}

// learning is a book with one policy, `login`, which learns both forms.
func learning(t testing.TB, cfg Config) *Book {
	t.Helper()
	b := New(cfg)
	b.Configure([]Policy{{Name: "login", Uniform: &Answer{}, Silent: &Answer{}, Fields: []string{"username", "password"}}})
	return b
}

// shows checks what a refusal shows.
func shows(t testing.TB, b *Book, k Key, want Answer) {
	t.Helper()
	if differences := Compare(want, b.Answer(k)); differences != nil {
		t.Errorf("a refusal differs: %q", differences)
	}
}

// state is that of the one key that there is.
func state(t testing.TB, b *Book) State {
	t.Helper()
	states := b.Status()
	for _, s := range states {
		if s.Method != "" {
			return s
		}
	}
	t.Fatalf("got states %+v, want one of a key", states)
	return State{}
}
