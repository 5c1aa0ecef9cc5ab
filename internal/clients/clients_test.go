package clients

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"
)

func basic(id, secret string) http.Header {
	return http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(id+":"+secret))}}
}

func mustHash(t testing.TB, text string) Hash {
	t.Helper()
	h, err := ParseHash(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// The digest of "saltsalt" + "till".
const shaTill = "sha256:saltsalt:c0309c0282ee9c2fb381c10a5594eeeffedf37263654b3cbad70ebc3b108fa8e"

func TestHashes(t *testing.T) {
	crypted, err := bcrypt.GenerateFromPassword([]byte("till"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, text string }{
		{"argon2id", NewHash("till", [16]byte{1, 2, 3})},
		{"bcrypt", string(crypted)},
		{"salted SHA-256", shaTill},
	}
	for _, tt := range tests {
		h := mustHash(t, tt.text)
		if !h.Matches("till") {
			t.Errorf("%s: the right secret does not match", tt.name)
		}
		for _, wrong := range []string{"", "Till", "till ", "tillx"} {
			if h.Matches(wrong) {
				t.Errorf("%s: %q matches", tt.name, wrong)
			}
		}
	}
	if (Hash{}).Matches("") {
		t.Error("the zero hash matches")
	}
}

func TestBadHashes(t *testing.T) {
	for _, text := range []string{
		"", "till", "md5:aa:bb", "sha256:aa", "sha256:short:" + strings.Repeat("0", 64), "sha256:saltsalt:zz", "sha256:saltsalt:00",
		"$argon2id$v=18$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAA",
		"$argon2id$v=19$m=65536,t=3$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAA",
		"$argon2id$v=19$m=99999999,t=3,p=4$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAA",
		"$argon2id$v=19$m=65536,t=0,p=4$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAA",
		"$argon2id$v=19$m=65536,t=3,p=4$c2Fs$AAAAAAAAAAAAAAAAAAAAAA",
		"$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$AAAA",
		"$2a$31$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy", "$2a$10$short",
	} {
		if _, err := ParseHash(text); err == nil {
			t.Errorf("ParseHash(%q) takes it", text)
		} else if text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("ParseHash(%q) repeats the text: %v", text, err)
		}
	}
}

func TestBasic(t *testing.T) {
	enc := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	tests := []struct {
		name       string
		lines      []string
		id, secret string
		ok         bool
	}{
		{"plain", []string{"Basic " + enc("shop:till")}, "shop", "till", true},
		{"any case, more blanks", []string{"bAsIc   " + enc("shop:till")}, "shop", "till", true},
		{"colon in the secret", []string{"Basic " + enc("shop:a:b")}, "shop", "a:b", true},
		{"percent-encoded", []string{"Basic " + enc("sh%3Aop:t%20i+ll")}, "sh:op", "t i ll", true},
		{"empty secret", []string{"Basic " + enc("shop:")}, "shop", "", true},
		{"no colon", []string{"Basic " + enc("shop")}, "", "", false},
		{"no id", []string{"Basic " + enc(":till")}, "", "", false},
		{"bad base64", []string{"Basic ???"}, "", "", false},
		{"bad escape", []string{"Basic " + enc("shop:%zz")}, "", "", false},
		{"bearer", []string{"Bearer x"}, "", "", false},
		{"two lines", []string{"Basic " + enc("a:b"), "Basic " + enc("c:d")}, "", "", false},
		{"none", nil, "", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, secret, ok := Basic(http.Header{"Authorization": tt.lines})
			if id != tt.id && ok || secret != tt.secret && ok || ok != tt.ok {
				t.Errorf("got %q, %q, %v; want %q, %q, %v", id, secret, ok, tt.id, tt.secret, tt.ok)
			}
		})
	}
}

// counting is a hash that counts how often it was computed.
func counting(n *int, secret string) Hash {
	return Hash{text: "counting", check: func(s string) bool { *n++; return s == secret }}
}

func TestAuthenticate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r, err := New([]Client{
			{ID: "shop", Realm: "acme", Secret: counting(&n, "till"), Forwarder: true},
			{ID: "shop", Realm: "other", Secret: counting(&n, "else")},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, home, away := context.Background(), netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("198.51.100.8")
		ask := func(realm, id, secret string, from netip.Addr) bool {
			return r.Authenticate(ctx, realm, basic(id, secret), from) != nil
		}
		for range 3 {
			if !ask("acme", "shop", "till", home) {
				t.Fatal("the right secret is not taken")
			}
		}
		if n != 1 {
			t.Errorf("the hash was computed %d times, want once", n)
		}
		if ask("acme", "nobody", "till", home) || ask("nowhere", "shop", "till", home) || ask("other", "shop", "till", away) {
			t.Error("another client's secret is taken")
		}
		n = 0
		for i := range 20 {
			if ask("acme", "shop", fmt.Sprint("wrong", i), home) {
				t.Fatal("a wrong secret is taken")
			}
		}
		if n != maxWrong {
			t.Errorf("wrong secrets of one source were computed %d times in a minute, want %d", n, maxWrong)
		}
		if !ask("acme", "shop", "till", home) {
			t.Error("a secret that is known to be right is not taken after wrong ones")
		}
		if !ask("other", "shop", "else", away) {
			t.Error("another source is held back")
		}
		time.Sleep(time.Minute)
		n = 0
		ask("acme", "shop", "wrong again", home)
		if n != 1 {
			t.Errorf("after a minute the hash was computed %d times, want once", n)
		}
	})
}

func TestTwoOfOneName(t *testing.T) {
	if _, err := New([]Client{{ID: "a", Realm: "r"}, {ID: "a", Realm: "r"}}); err == nil {
		t.Error("two clients of one name are taken")
	}
}

func TestNobody(t *testing.T) {
	var r *Registry
	if r.Authenticate(context.Background(), "r", basic("a", "b"), netip.Addr{}) != nil {
		t.Error("the nil registry knows somebody")
	}
}

func FuzzParseHash(f *testing.F) {
	f.Add(shaTill)
	f.Add("$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := ParseHash(text); err != nil && len(text) > 20 && strings.Contains(err.Error(), text) {
			t.Errorf("the error repeats the text: %v", err)
		}
	})
}

func FuzzBasic(f *testing.F) {
	f.Add("Basic c2hvcDp0aWxs")
	f.Fuzz(func(t *testing.T, line string) {
		id, _, ok := Basic(http.Header{"Authorization": {line}})
		if ok && id == "" {
			t.Error("an empty id is taken")
		}
	})
}
