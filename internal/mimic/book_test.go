package mimic

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// What one key has learned is nothing to another.
func TestKeys(t *testing.T) {
	b := learning(t, Config{})
	for i := range uint64(2) {
		b.Observe(key, login(raw(jsonFailure), 1+i, 1))
	}
	for _, tc := range []struct {
		name   string
		change func(k *Key)
		want   Answer
	}{
		{"the same", func(*Key) {}, raw(jsonFailure)},
		{"realm", func(k *Key) { k.Realm = "other" }, plain(Failure)},
		{"policy", func(k *Key) { k.Policy = "other" }, plain(Failure)},
		{"method", func(k *Key) { k.Method = "PUT" }, raw(jsonFailure)}, // nobody gets a plain answer by asking oddly
		{"unknown method", func(k *Key) { k.Method = "BREW" }, raw(jsonFailure)},
		{"kind", func(k *Key) { k.Kind = 1 }, raw(jsonFailure)},
		{"form", func(k *Key) { k.Form = Success }, plain(Success)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := key
			tc.change(&k)
			shows(t, b, k, tc.want)
		})
	}
}

func TestPlain(t *testing.T) {
	b := New(Config{})
	for _, tc := range []struct {
		form Form
		want Answer
	}{
		{Failure, raw("401\nContent-Type: application/json\nCache-Control: no-store\n\n{\"error\":\"invalid_credentials\"}")},
		{Success, raw("200\nContent-Type: application/json\nCache-Control: no-store\n\n{}")},
	} {
		shows(t, b, Key{Policy: "login", Form: tc.form}, tc.want)
	}
}

func TestSilent(t *testing.T) {
	b := learning(t, Config{})
	k := Key{Realm: "acme", Policy: "login", Method: "POST", Form: Success}
	sent := raw("200\nContent-Type: application/json\n\n{\"status\":\"code sent\"}")
	for i := range uint64(2) {
		b.Observe(k, login(sent, 1+i, 1))
	}
	shows(t, b, k, sent)
	shows(t, b, key, plain(Failure))
}

func TestConfigure(t *testing.T) {
	configured, err := NewAnswer(Failure, 403, map[string]string{"x-frame-options": "DENY"}, "<p>no</p>")
	if err != nil {
		t.Fatal(err)
	}
	b := learning(t, Config{})
	for i := range uint64(2) {
		b.Observe(key, login(raw(jsonFailure), 1+i, 1))
	}
	shows(t, b, key, raw(jsonFailure))

	b.Configure([]Policy{{Name: "login", Uniform: &configured}})
	shows(t, b, key, raw("403\nX-Frame-Options: DENY\nContent-Type: text/html; charset=utf-8\n\n<p>no</p>"))
	if b.Wants("login", Success) || !b.Wants("login", Failure) || b.Wants("other", Failure) || b.Wants("login", Success+1) {
		t.Error("wants something else than failures of login")
	}

	b.Configure([]Policy{{Name: "login", Uniform: &Answer{}}})
	shows(t, b, key, raw(jsonFailure)) // a reload forgets nothing that still holds

	b.Configure([]Policy{{Name: "login"}})
	shows(t, b, key, plain(Failure))
	if len(b.entries) != 0 || len(b.timings) != 0 || b.bytes != 0 {
		t.Errorf("got %d entries, %d timings, %d bytes of a policy that is gone, want none", len(b.entries), len(b.timings), b.bytes)
	}
	b.Observe(key, login(raw(jsonFailure), 1, 1))
	if len(b.entries) != 0 {
		t.Error("an answer of a policy that does not refuse so was noted")
	}
}

func TestStatus(t *testing.T) {
	configured, err := NewAnswer(Failure, 0, nil, `{"error":"no"}`)
	if err != nil {
		t.Fatal(err)
	}
	never := New(Config{})
	never.Configure([]Policy{{Name: "b", Uniform: &configured, Silent: &Answer{}}, {Name: "a", Uniform: &Answer{}}, {Name: "c"}})
	want := "[{a uniform    plain unseen [] 0 0 0} {b uniform    configured  [] 0 0 0} {b silent    plain unseen [] 0 0 0}]"
	if got := fmt.Sprint(never.Status()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	runtime := "401\nX-Runtime: 0.01\nX-Amzn-Trace-Id: Root=1\n\nno"
	versions := func(n ...string) (out []string) {
		for _, v := range n {
			out = append(out, "401\n\nversion "+v)
		}
		return out
	}
	for _, tc := range []struct {
		name   string
		look   Answer
		serves []string
		want   string // Shows Reason Odd/Of Differences
	}{
		{"one answer", Answer{}, []string{jsonFailure}, "plain only_one 1/1 []"},
		{"learned", Answer{}, []string{jsonFailure, jsonFailure, jsonFailure}, "learned  0/2 []"},
		{"a header that cannot be copied", Answer{}, []string{runtime, runtime}, "learned volatile_header 0/1 []"},
		{"two answers in turn", Answer{}, versions("a", "a", "b", "a", "b"), "learned varies 2/4 []"},
		{"a new one, not yet for sure", Answer{}, versions("a", "a", "a", "a", "a", "a", "a", "a", "a", "b"), "learned  1/9 []"},
		{"and then one that cannot be learned", Answer{}, []string{"401\n\na", "401\n\na", "401\nSet-Cookie: s=1\n\na"}, "learned cookie 1/2 []"},
		{"configured rightly", configured, []string{"401\nContent-Type: application/json\n\n{\"error\":\"no\"}"}, "configured  0/0 []"},
		{
			"configured wrongly", configured,
			[]string{"200\nContent-Type: application/json\nSet-Cookie: s=1\n\n{\"error\":\"no\"}"},
			"configured differs 0/0 [status: really 200, refused 401 cookies: really s, refused none]",
		},
		{
			"configured wrongly, and then put right", configured,
			[]string{"200\n\n", "401\nContent-Type: application/json\n\n{\"error\":\"no\"}"},
			"configured  0/0 []",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := New(Config{})
			b.Configure([]Policy{{Name: "login", Uniform: &tc.look}})
			for i, text := range tc.serves {
				b.Observe(key, login(raw(text), uint64(i+1), 1))
			}
			s := state(t, b)
			if got := fmt.Sprintf("%s %s %d/%d %v", s.Shows, s.Reason, s.Odd, s.Of, s.Differences); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}

	t.Run("configured, and the body is not known", func(t *testing.T) {
		b := New(Config{})
		b.Configure([]Policy{{Name: "login", Uniform: &configured}})
		s := login(raw("401\nContent-Type: application/json\nContent-Encoding: gzip\n\n"), 1, 1)
		s.Cut = true
		b.Observe(key, s)
		if got, want := fmt.Sprint(state(t, b).Differences), "[header Content-Encoding: only the real answer has it]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// The number of keys is bounded, and what is in use stays.
func TestBoundedKeys(t *testing.T) {
	b := learning(t, Config{MaxKeys: 16})
	teach := func(k Key) {
		for i := range uint64(2) {
			b.Observe(k, login(raw(jsonFailure), 1+i, 1))
		}
	}
	teach(key)
	for i := range 1000 {
		k := key
		k.Realm = fmt.Sprint("realm", i)
		teach(k)
		shows(t, b, key, raw(jsonFailure))
	}
	if got := len(b.entries); got != 16 || b.recent.Len() != got {
		t.Errorf("got %d entries, %d of them in order, want 16", got, b.recent.Len())
	}

	odd := learning(t, Config{})
	for i := range 1000 {
		odd.Observe(Key{Policy: "login", Method: fmt.Sprint("BREW", i), Kind: Kind(i)}, login(raw(jsonFailure), 1, 1))
	}
	if got := len(odd.entries); got != kinds {
		t.Errorf("got %d entries for invented methods, want %d", got, kinds)
	}
}

func TestBoundedBytes(t *testing.T) {
	b := learning(t, Config{})
	for i := range 2 * maxBytes / MaxBody {
		k := key
		k.Realm = fmt.Sprint("realm", i)
		s := Sample{Answer: Answer{Status: 401, Body: make([]byte, MaxBody-i)}}
		b.judge(k, &s, http.Header{}, observation{print: 1, source: 1})
		b.judge(k, &s, http.Header{}, observation{print: 1, source: 2})
		if got := len(b.Answer(k).Body); got != MaxBody-i {
			t.Fatalf("got a body of %d bytes, want it learned", got)
		}
	}
	total := 0
	for _, element := range b.entries {
		total += element.Value.(*entry).learned.size()
	}
	if b.bytes != total || total > maxBytes || total < maxBytes-2*MaxBody {
		t.Errorf("got %d bytes counted and %d kept, want the same, and a little less than %d", b.bytes, total, maxBytes)
	}
}

// Nothing of a sample is kept: its buffers serve other requests.
func TestCopies(t *testing.T) {
	b := learning(t, Config{})
	a := raw(jsonFailure)
	b.Observe(key, login(a, 1, 1))
	b.Observe(key, login(a, 2, 1))
	clear(a.Body)
	a.Header["Content-Type"][0] = "text/evil"
	shows(t, b, key, raw(jsonFailure))
}

func TestConcurrentUse(t *testing.T) {
	b := learning(t, Config{MaxKeys: 4})
	var wg sync.WaitGroup
	for worker := range uint64(8) {
		wg.Go(func() {
			for i := range uint64(50) {
				k := key
				k.Kind = Kind(i % 6)
				s := login(raw(fmt.Sprint("401\n\nversion ", i/10)), i, worker+1)
				s.Took = time.Millisecond
				b.Observe(k, s)
				if a := b.Answer(k); a.Status != http.StatusUnauthorized {
					t.Errorf("got status %d, want 401", a.Status)
				}
				_ = b.Delay(k)
				_ = b.Status()
				if i%10 == worker {
					b.Configure([]Policy{{Name: "login", Uniform: &Answer{}}})
				}
			}
		})
	}
	wg.Wait()
}
