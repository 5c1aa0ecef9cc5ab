package unlock

import (
	"context"
	"encoding/base64"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/limits/memstore"
)

// token makes a live token for a user by way of a notice.
func (d *desk) token(t *testing.T, realm, target string) string {
	t.Helper()
	d.Filled(realm, "login", target, window)
	synctest.Wait()
	d.outbox.mu.Lock()
	defer d.outbox.mu.Unlock()
	if len(d.sent) == 0 {
		t.Fatal("no notice was sent")
	}
	_, token, ok := strings.Cut(d.sent[len(d.sent)-1].link, "?token=")
	if !ok {
		t.Fatal("the notice has no link")
	}
	return token
}

// A link works once, in its realm, in its time; of many that use it at once one succeeds.
func TestRedeem(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		ctx := context.Background()
		d := open(t, store, &outbox{}, nil)
		token := d.token(t, "acme", user(1))
		if len(token) != 43 {
			t.Errorf("got a token of %d characters, want 43", len(token))
		}
		for range 3 {
			if _, text, err := d.look(ctx, "acme", token); text == "" || err != nil {
				t.Errorf("got %q, %v; want looking to change nothing", text, err)
			}
		}
		if _, ok, err := d.redeem(ctx, "other", token); ok || err != nil {
			t.Errorf("got %v, %v in another realm", ok, err)
		}
		l := &line{Records: store}
		var ready sync.WaitGroup // all have seen the live link before the first uses it
		ready.Add(20)
		hook := func(call string) {
			if call == "swap" {
				ready.Done()
				ready.Wait()
			}
		}
		l.hook.Store(&hook)
		d.cfg.Records = l
		var won atomic.Int64
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if c, ok, err := d.redeem(ctx, "acme", token); err != nil {
					t.Error(err)
				} else if ok {
					won.Add(1)
					if c.Claim != (Claim{"acme", "login", user(1)}) {
						t.Errorf("got %+v", c)
					}
				}
			})
		}
		all.Wait()
		d.cfg.Records = store
		if won.Load() != 1 {
			t.Errorf("%d redeemed one token, want 1", won.Load())
		}
		late := d.token(t, "acme", user(2))
		pass(window - time.Millisecond)
		if _, text, _ := d.look(ctx, "acme", late); text == "" {
			t.Error("the link ends too soon")
		}
		pass(time.Millisecond)
		if _, ok, err := d.redeem(ctx, "acme", late); ok || err != nil {
			t.Errorf("got %v, %v after its time", ok, err)
		}
	})
}

// What cannot be a token is not looked up, and no two spellings are one token.
func TestTokens(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		d := open(t, store, &outbox{}, nil)
		token := d.token(t, "acme", user(1))
		l := &line{Records: store}
		asked := 0
		hook := func(string) { asked++ }
		l.hook.Store(&hook)
		d.cfg.Records = l
		raw, _ := base64.RawURLEncoding.DecodeString(token)
		last := map[byte]byte{'A': 'B', 'E': 'F', 'I': 'J', 'M': 'N', 'Q': 'R', 'U': 'V', 'Y': 'Z', 'c': 'd', 'g': 'h', 'k': 'l', 'o': 'p', 's': 't', 'w': 'x', '0': '1', '4': '5', '8': '9'}
		for _, bad := range []string{
			"", "x", token[1:], token + "A", token + "=", token + "\n", " " + token, strings.Repeat("A", 10000), strings.Repeat("%", 43),
			token[:42] + string(last[token[42]]), base64.StdEncoding.EncodeToString(raw), "\n" + token[:42],
		} {
			if _, text, err := d.look(context.Background(), "acme", bad); text != "" || err != nil {
				t.Errorf("%q: got %q, %v", bad, text, err)
			}
		}
		if asked != 0 {
			t.Errorf("the store was asked %d times", asked)
		}
		if _, text, _ := d.look(context.Background(), "acme", newToken()); text != "" || asked != 1 {
			t.Errorf("got %q for a token that nobody has, %d questions", text, asked)
		}
		seen := map[string]bool{}
		for range 100 {
			seen[newToken()] = true
		}
		if len(seen) != 100 {
			t.Error("tokens repeat")
		}
	})
}
