package unlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/logtest"
	"authgate/internal/notify"
	"authgate/internal/redact"
	"authgate/limits"
	"authgate/limits/memstore"
)

const window = 15 * time.Minute

// outbox is a way to send that keeps what was sent.
type outbox struct {
	mu      sync.Mutex
	sent    []notice // that arrived
	tried   []notice
	at      []time.Time
	running int
	most    int                                    // tries at a time
	answer  func(ctx context.Context, n int) error // of the nth try; nil: all arrive
	arrived func(n notice)                         // nil: nothing happens
}

func (o *outbox) way() Way {
	return Way{name: "outbox", mailbox: true, link: true, send: func(ctx context.Context, n notice) error {
		o.mu.Lock()
		number := len(o.tried)
		o.tried, o.at = append(o.tried, n), append(o.at, time.Now())
		o.running++
		o.most = max(o.most, o.running)
		answer := o.answer
		o.mu.Unlock()
		var err error
		if answer != nil {
			err = answer(ctx, number)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.running--
		if err == nil {
			o.sent = append(o.sent, n)
			if o.arrived != nil {
				o.arrived(n)
			}
		}
		return err
	}}
}

func (o *outbox) respond(answer func(ctx context.Context, n int) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer = answer
}

func (o *outbox) counts() (sent, tried int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.sent), len(o.tried)
}

// never is an answer that does not come.
func never(ctx context.Context, _ int) error {
	<-ctx.Done()
	return &notify.Failure{Cause: "no answer in time"}
}

func failing(f notify.Failure) func(context.Context, int) error {
	return func(context.Context, int) error { return &f }
}

// desk is a service with its surroundings.
type desk struct {
	*Service
	*outbox
	log     *logbook
	results map[Result]int
	audited []string
	mu      sync.Mutex
}

type logbook struct{ logtest.Buffer }

func (d *desk) counted(r Result) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.results[r]
}

// open makes a service on a store; everybody but nobody@... and doubt@... is known.
func open(t *testing.T, records limits.Records, o *outbox, change func(*Config)) *desk {
	t.Helper()
	d := &desk{outbox: o, log: &logbook{}, results: map[Result]int{}}
	cfg := Config{
		Records: records, Way: o.way(), PerDay: 3, LinkTTL: window,
		Known: func(_ context.Context, _, target string) (bool, error) {
			if strings.HasPrefix(target, "doubt") {
				return false, errors.New("no answer")
			}
			return !strings.HasPrefix(target, "nobody"), nil
		},
		Link:  func(realm string) string { return "https://" + realm + ".test/" },
		Log:   slog.New(slog.NewJSONHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Names: redact.New(redact.Hashed, []byte("a key of these tests, long enough")),
		Audit: func(event, who string, details ...slog.Attr) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.audited = append(d.audited, fmt.Sprint(event, " ", who, " ", details))
		},
		Count: func(r Result) { d.mu.Lock(); d.results[r]++; d.mu.Unlock() },
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if d.Service, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// virtual runs a test in virtual time with a store in memory.
func virtual(t *testing.T, f func(t *testing.T, store *memstore.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{MaxEntries: 100_000})
		t.Cleanup(func() { store.Close() })
		f(t, store)
	})
}

// pass lets so much time go by.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// listed are the keys of all jobs.
func listed(t *testing.T, r limits.Records) (all []string) {
	t.Helper()
	for cursor := ""; ; {
		keys, next, err := r.List(context.Background(), jobsIndex, cursor, 100)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, keys...)
		if cursor = next; cursor == "" {
			return all
		}
	}
}

// The owner of a known account gets a notice, with a link to the realm that is good for as long as it says.
func TestNotice(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		d := open(t, store, &outbox{}, nil)
		d.Filled("acme", "login", "bob@example.org", window)
		synctest.Wait()
		if len(d.sent) != 1 {
			t.Fatalf("got %d notices, want 1", len(d.sent))
		}
		n := d.sent[0]
		base, token, _ := strings.Cut(n.link, "?token=")
		if n.claim != (Claim{"acme", "login", "bob@example.org"}) || n.mailbox != "bob@example.org" || base != "https://acme.test/.gateway/unlock" ||
			!n.expires.Equal(time.Now().Add(window)) || n.id == "" {
			t.Errorf("got %+v", n)
		}
		if _, text, err := d.look(context.Background(), "acme", token); err != nil || text == "" || strings.Contains(text, token) {
			t.Errorf("got %q, %v; want a live link of which the store knows no token", text, err)
		}
		if len(listed(t, store)) != 0 || d.counted(Sent) != 1 {
			t.Errorf("got jobs %v, %v", listed(t, store), d.results)
		}
		if len(d.audited) != 1 || d.audited[0] != "unlock_sent gateway [realm=acme policy=login via=outbox identity=bob@example.org]" {
			t.Errorf("got %v audited", d.audited)
		}
		if text := d.log.String(); strings.Contains(text, "bob") || strings.Contains(text, token) {
			t.Errorf("the log tells too much: %s", text)
		}
	})
}

func TestNoNotice(t *testing.T) {
	for _, test := range []struct {
		name, target string
		change       func(*Config)
		want         Result
	}{
		{"not known", "nobody@example.org", nil, ""},
		{"nobody can say", "doubt@example.org", nil, Dropped},
		{"no mailbox", "bob", nil, ""},
		{"two mailboxes", "bob@example.org,eve@example.org", nil, ""},
		{"no name", "", nil, ""},
		{"a long name", strings.Repeat("x", 5000), func(c *Config) { c.Way.mailbox = false }, ""},
		{"no address of the gateway", "bob@example.org", func(c *Config) { c.Link = func(string) string { return "" } }, Failed},
	} {
		t.Run(test.name, func(t *testing.T) {
			virtual(t, func(t *testing.T, store *memstore.Store) {
				d := open(t, store, &outbox{}, test.change)
				d.Filled("acme", "login", test.target, window)
				pass(time.Hour)
				if sent, tried := d.counts(); sent+tried != 0 || len(listed(t, store)) != 0 {
					t.Errorf("got %d sent, %d tried", sent, tried)
				}
				for _, r := range []Result{Sent, Failed, Dropped} {
					if got, want := d.counted(r) > 0, r == test.want; got != want {
						t.Errorf("%s counted: %v, want %v", r, got, want)
					}
				}
				if strings.Contains(d.log.String(), "example.org") {
					t.Errorf("the log tells too much: %s", d.log)
				}
			})
		})
	}
}

// A target that is a name gets its mail at the configured domain; a way that needs no mailbox takes any name.
func TestMailboxes(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		d := open(t, store, &outbox{}, func(c *Config) { c.MailboxDomain = "staff.test" })
		d.Filled("acme", "login", "bob", window)
		synctest.Wait()
		if len(d.sent) != 1 || d.sent[0].mailbox != "bob@staff.test" || d.sent[0].claim.Target != "bob" {
			t.Errorf("got %+v", d.sent)
		}
		other := open(t, store, &outbox{}, func(c *Config) { c.Way.mailbox = false })
		other.Filled("acme", "login", "ann lee", window)
		synctest.Wait()
		if len(other.sent) != 1 || other.sent[0].mailbox != "" {
			t.Errorf("got %+v", other.sent)
		}
	})
}

// One notice a window and user, and three a day, in each realm; the day goes by.
func TestHowOften(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		d := open(t, store, &outbox{}, nil)
		fill := func(realm, policy string) { d.Filled(realm, policy, "bob@example.org", window); synctest.Wait() }
		expect := func(want int, why string) {
			t.Helper()
			if sent, _ := d.counts(); sent != want {
				t.Errorf("got %d notices %s, want %d", sent, why, want)
			}
		}
		fill("acme", "login")
		fill("acme", "login")
		fill("acme", "otp")
		expect(1, "in a window, whatever the policy")
		fill("other", "login")
		expect(2, "in two realms")
		pass(window - time.Millisecond)
		fill("acme", "login")
		expect(2, "before the window's end")
		pass(time.Millisecond)
		fill("acme", "login")
		expect(3, "in the second window")
		pass(window)
		fill("acme", "login")
		expect(4, "in the third window")
		for range 4 * 23 {
			pass(window)
			fill("acme", "login")
		}
		expect(4, "on the first day")
		pass(day - 3*window - 4*23*window + window)
		fill("acme", "login")
		expect(5, "when the first is a day old")
		fill("acme", "login")
		expect(5, "in the same window")
	})
}

// A notice that was not sent does not count.
func TestFailuresDoNotCount(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		d := open(t, store, &outbox{answer: failing(notify.Failure{Cause: "no such user", Final: true})}, nil)
		for range 5 {
			d.Filled("acme", "login", "bob@example.org", window)
			synctest.Wait()
		}
		if _, tried := d.counts(); tried != 5 || d.counted(Failed) != 5 || len(listed(t, store)) != 0 {
			t.Errorf("got %d tries, %v", tried, d.results)
		}
		_, token, _ := strings.Cut(d.tried[0].link, "?token=")
		if _, text, _ := d.look(context.Background(), "acme", token); text != "" {
			t.Error("the link of a notice that was refused is alive")
		}
		d.respond(nil)
		d.Filled("acme", "login", "bob@example.org", window)
		synctest.Wait()
		if sent, _ := d.counts(); sent != 1 {
			t.Error("a notice that failed counts")
		}
		if text := d.log.String(); !strings.Contains(text, `"cause":"no such user"`) || strings.Contains(text, "bob") {
			t.Errorf("got %s in the log", text)
		}
	})
}

// What fails for now is tried again, ever more seldom, as the same delivery with another link, until it is too late.
func TestRetries(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		d := open(t, store, &outbox{answer: failing(notify.Failure{Cause: "not now"})}, nil)
		begin := time.Now()
		d.Filled("acme", "login", "bob@example.org", window)
		pass(time.Minute)
		d.Filled("acme", "login", "bob@example.org", window) // one is under way
		pass(2 * window)
		if n := len(d.at); n < 9 || n > 14 {
			t.Errorf("got %d tries, want about 11", n)
		}
		for i := range d.at[1:] {
			longest := min(time.Second<<i, 5*time.Minute)
			if pause := d.at[i+1].Sub(d.at[i]); pause > longest || pause < longest/2 {
				t.Errorf("pause %d is %s, want up to %s", i, pause, longest)
			}
			if d.tried[i+1].id != d.tried[i].id || d.tried[i+1].link == d.tried[i].link {
				t.Errorf("try %d: got %+v after %+v", i+1, d.tried[i+1], d.tried[i])
			}
		}
		if last := d.at[len(d.at)-1].Sub(begin); last > window || d.counted(Failed) != 1 || len(listed(t, store)) != 0 {
			t.Errorf("last try after %s, %v", last, d.results)
		}
	})
}

// Mail that may have arrived is not sent again; a webhook that can tell repetitions gets one.
func TestUnsure(t *testing.T) {
	for _, repeats := range []bool{false, true} {
		virtual(t, func(t *testing.T, store *memstore.Store) {
			o := &outbox{answer: func(_ context.Context, n int) error {
				if n == 0 {
					return &notify.Failure{Cause: "no answer in time", Unsure: true}
				}
				return nil
			}}
			d := open(t, store, o, func(c *Config) { c.Way.repeats = repeats })
			d.Filled("acme", "login", "bob@example.org", window)
			pass(10 * time.Second)
			want := 1
			if repeats {
				want = 2
			}
			if _, tried := d.counts(); tried != want || d.counted(Sent) != 1 {
				t.Errorf("repeats %v: got %d tries, %v", repeats, tried, d.results)
			}
			d.Filled("acme", "login", "bob@example.org", window)
			pass(time.Minute)
			if _, tried := d.counts(); tried != want {
				t.Errorf("repeats %v: what may have arrived does not count", repeats)
			}
		})
	}
}

func TestNew(t *testing.T) {
	virtual(t, func(t *testing.T, store *memstore.Store) {
		full := open(t, store, &outbox{}, nil).cfg
		for name, change := range map[string]func(*Config){
			"way": func(c *Config) { c.Way = Way{} }, "records": func(c *Config) { c.Records = nil }, "known": func(c *Config) { c.Known = nil },
			"link": func(c *Config) { c.Link = nil }, "log": func(c *Config) { c.Log = nil }, "audit": func(c *Config) { c.Audit = nil },
			"per day": func(c *Config) { c.PerDay = 0 }, "ttl": func(c *Config) { c.LinkTTL = 0 },
		} {
			cfg := full
			change(&cfg)
			if s, err := New(cfg); err == nil || !strings.HasPrefix(err.Error(), "making the unlock service: ") {
				t.Errorf("without %s: got %v", name, err)
				if s != nil {
					s.Close()
				}
			}
		}
	})
}
