package valkeystore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valkey-io/valkey-go"

	"authgate/internal/valkeytest"
	"authgate/limits"
)

// inMemory runs a test in virtual time on what an instance knows, with a subscription that was confirmed just now.
func inMemory(t *testing.T, test func(*testing.T, *known)) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{cfg: Config{Prefix: "p"}}
		k := newKnown(s)
		time.Sleep(time.Minute)
		k.confirm()
		test(t, k)
	})
}

func (k *known) confirm() { k.confirmed.Store(int64(k.now())) }

func ruleOf(policy string, d limits.Dimension, window time.Duration, form limits.Refuse) *limits.Rule {
	return &limits.Rule{Policy: policy, Dimension: d, Limit: 5, Window: window, Refuse: form}
}

func full(at int, wait time.Duration) limits.Refusal {
	return limits.Refusal{Charge: at, Cause: limits.Full, Wait: wait.Milliseconds()}
}

// Only what the server would answer as well is answered.
func TestKnownAnswers(t *testing.T) {
	const loud, uniform, silent = limits.Loud, limits.Uniform, limits.Silent
	minute := ruleOf("minute", limits.Source, time.Minute, loud)
	hour := ruleOf("hour", limits.Target, time.Hour, loud)
	quick := &limits.Rule{Policy: "tokens", Dimension: limits.Client, Limit: 60, Window: time.Minute, Burst: 5}
	uniformly := func(r *limits.Rule, form limits.Refuse) *limits.Rule { c := *r; c.Refuse = form; return &c }
	locks := *lockRule
	locks.Lockout = limits.Lockout{Base: time.Hour, Max: time.Hour}
	tests := []struct {
		name     string
		first    []*limits.Rule // refused by the server, as refusals say
		refusals []limits.Refusal
		after    time.Duration
		then     []*limits.Rule // nil: the same
		change   func(*limits.Attempt)
		told     string // by whom; "": the server is asked
		wait     time.Duration
	}{
		{name: "one full window", first: []*limits.Rule{minute}, refusals: []limits.Refusal{full(0, 40*time.Second)}, after: 300 * time.Millisecond, told: "minute", wait: 40*time.Second - 300*time.Millisecond},
		{name: "a lock", first: []*limits.Rule{lockRule}, refusals: []limits.Refusal{{Cause: limits.Locked, Wait: 9000}}, told: "l", wait: 9 * time.Second},
		{name: "a second later", first: []*limits.Rule{minute}, refusals: []limits.Refusal{full(0, 40*time.Second)}, after: time.Second},
		{name: "a moment before that", first: []*limits.Rule{minute}, refusals: []limits.Refusal{full(0, 40*time.Second)}, after: time.Second - 1, told: "minute", wait: 39*time.Second + time.Millisecond},
		{name: "until it ends", first: []*limits.Rule{minute}, refusals: []limits.Refusal{full(0, 400*time.Millisecond)}, after: 399 * time.Millisecond, told: "minute", wait: time.Millisecond},
		{name: "not when it ends", first: []*limits.Rule{minute}, refusals: []limits.Refusal{full(0, 400*time.Millisecond)}, after: 400 * time.Millisecond},
		{name: "another value", first: []*limits.Rule{minute}, refusals: []limits.Refusal{full(0, time.Minute)}, change: func(a *limits.Attempt) { a.Charges[0].Key += "y" }},
		{name: "held", first: []*limits.Rule{failRule}, refusals: []limits.Refusal{{Cause: limits.Held, Wait: 9000}}},
		{name: "tokens", first: []*limits.Rule{quick}, refusals: []limits.Refusal{full(0, 900*time.Millisecond)}},
		{name: "silent", first: []*limits.Rule{uniformly(minute, silent)}, refusals: []limits.Refusal{full(0, 40*time.Second)}},
		{name: "silent beside loud", first: []*limits.Rule{uniformly(minute, silent), hour}, refusals: []limits.Refusal{full(0, 40*time.Second), full(1, time.Second)}, told: "hour", wait: time.Second},
		{name: "only the silent one is met", first: []*limits.Rule{uniformly(minute, silent), hour}, refusals: []limits.Refusal{full(0, 40*time.Second), full(1, time.Second)}, then: []*limits.Rule{uniformly(minute, silent)}},
		{name: "the longer of two", first: []*limits.Rule{minute, hour}, refusals: []limits.Refusal{full(0, 40*time.Second), full(1, time.Hour)}, told: "hour", wait: time.Hour},
		{name: "log-only", first: []*limits.Rule{minute}, refusals: []limits.Refusal{full(0, 40*time.Second)}, change: func(a *limits.Attempt) { a.Charges[0].LogOnly = true }},
		{name: "one of two log-only", first: []*limits.Rule{hour, minute}, refusals: []limits.Refusal{full(0, time.Hour)}, change: func(a *limits.Attempt) { a.Charges[1].LogOnly = true }},
		{name: "lenient", first: []*limits.Rule{minute}, refusals: []limits.Refusal{full(0, 40*time.Second)}, change: func(a *limits.Attempt) { a.Lenient = true }},
		{name: "quotas", first: []*limits.Rule{minute}, refusals: []limits.Refusal{full(0, 40*time.Second)}, change: func(a *limits.Attempt) { a.Quotas = true }},
		{name: "facts", first: []*limits.Rule{minute}, refusals: []limits.Refusal{full(0, 40*time.Second)}, change: func(a *limits.Attempt) { a.Facts = []limits.Fact{"f"} }},
		{name: "a condition", first: []*limits.Rule{minute}, refusals: []limits.Refusal{full(0, 40*time.Second)}, change: func(a *limits.Attempt) { a.Charges[0].If = 1 }},
		{name: "another limit", first: []*limits.Rule{minute}, refusals: []limits.Refusal{full(0, 40*time.Second)}, change: func(a *limits.Attempt) {
			r := *minute
			r.Limit++
			a.Charges[0].Rule = &r
		}},
		{name: "another window", first: []*limits.Rule{minute}, refusals: []limits.Refusal{full(0, 40*time.Second)}, change: func(a *limits.Attempt) {
			r := *minute
			r.Window++
			a.Charges[0].Rule = &r
		}},
		{name: "room a moment ago", first: []*limits.Rule{minute, hour}, refusals: []limits.Refusal{full(0, 40*time.Second)}, after: 100*time.Millisecond - 1, told: "minute", wait: 40*time.Second - 99*time.Millisecond},
		{name: "a louder one that had room a moment ago", first: []*limits.Rule{uniformly(hour, uniform), minute}, refusals: []limits.Refusal{full(0, time.Hour)}, after: 100*time.Millisecond - 1, told: "hour", wait: time.Hour - 99*time.Millisecond},
		{name: "a louder one that had room some time ago", first: []*limits.Rule{uniformly(hour, uniform), minute}, refusals: []limits.Refusal{full(0, time.Hour)}, after: 100 * time.Millisecond},
		{name: "room some time ago", first: []*limits.Rule{minute, hour}, refusals: []limits.Refusal{full(0, 40*time.Second)}, after: 100 * time.Millisecond, told: "minute", wait: 39900 * time.Millisecond},
		{name: "one that may refuse for longer", first: []*limits.Rule{minute}, refusals: []limits.Refusal{full(0, 40*time.Second)}, then: []*limits.Rule{minute, hour}, told: "minute", wait: 40 * time.Second},
		{name: "a louder one", first: []*limits.Rule{uniformly(hour, uniform)}, refusals: []limits.Refusal{full(0, time.Hour)}, then: []*limits.Rule{uniformly(hour, uniform), minute}},
		{name: "a quieter one", first: []*limits.Rule{minute}, refusals: []limits.Refusal{full(0, time.Second)}, then: []*limits.Rule{minute, uniformly(hour, uniform)}, told: "minute", wait: time.Second},
		{name: "tokens that may refuse for longer", first: []*limits.Rule{minute}, refusals: []limits.Refusal{full(0, 999*time.Millisecond)}, then: []*limits.Rule{minute, quick}, told: "minute", wait: 999 * time.Millisecond},
		{name: "a lock that may last longer", first: []*limits.Rule{hour}, refusals: []limits.Refusal{full(0, 59*time.Minute)}, then: []*limits.Rule{hour, &locks}, told: "hour", wait: 59 * time.Minute},
		{name: "held beside full", first: []*limits.Rule{minute, hour}, refusals: []limits.Refusal{full(0, 40*time.Second), {Charge: 1, Cause: limits.Held, Wait: 1}}, told: "minute", wait: 40 * time.Second},
		{name: "a signal", first: []*limits.Rule{minute, signalRule}, refusals: []limits.Refusal{full(0, 40*time.Second)}, after: 500 * time.Millisecond, told: "minute", wait: 39500 * time.Millisecond},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, k *known) {
				k.learn(attempt("x", test.first...), &limits.Decision{Refusals: test.refusals}, k.ask())
				time.Sleep(test.after)
				k.confirm()
				rules := test.then
				if rules == nil {
					rules = test.first
				}
				a := attempt("x", rules...)
				if test.change != nil {
					test.change(a)
				}
				d, ok := k.answer(a)
				if ok != (test.told != "") {
					t.Fatalf("got %+v, %t", d, ok)
				}
				if !ok {
					return
				}
				worst, refused := d.Refused(a)
				if got := a.Charges[worst.Charge].Rule.Policy; d.Admitted || !refused || got != test.told || worst.Wait != test.wait.Milliseconds() {
					t.Errorf("got %+v told of %s, want %s for %s", d, got, test.told, test.wait)
				}
			})
		})
	}
}

// What cannot be remembered is not: an admission, or what facts decided.
func TestKnownLearnsOnlyItsOwn(t *testing.T) {
	rule := ruleOf("minute", limits.Source, time.Minute, limits.Loud)
	refusal := limits.Decision{Refusals: []limits.Refusal{full(0, 40*time.Second)}}
	for name, learn := range map[string]func(*known){
		"an admission": func(k *known) {
			k.learn(attempt("x", rule), &limits.Decision{Admitted: true}, k.ask())
		},
		"facts": func(k *known) {
			a := attempt("x", rule)
			a.Facts = []limits.Fact{"f"}
			k.learn(a, &refusal, k.ask())
		},
		"asked before a release": func(k *known) {
			asked := k.ask()
			k.forget()
			k.learn(attempt("x", rule), &refusal, asked)
		},
		"forgotten": func(k *known) {
			k.learn(attempt("x", rule), &refusal, k.ask())
			k.forget()
		},
		"not confirmed then": func(k *known) {
			time.Sleep(knownFor)
			k.learn(attempt("x", rule), &refusal, k.ask())
			k.confirm()
		},
		"not confirmed now": func(k *known) {
			time.Sleep(knownFor - time.Millisecond)
			k.learn(attempt("x", rule), &refusal, k.ask())
			time.Sleep(time.Millisecond)
		},
		"never confirmed": func(k *known) {
			k.learn(attempt("x", rule), &refusal, k.ask())
			k.confirmed.Store(0)
		},
		"older than another": func(k *known) {
			k.learn(attempt("x", rule), &refusal, k.ask())
			time.Sleep(knownFor / 2)
			k.confirm()
			k.learn(attempt("y", rule), &refusal, k.ask())
			time.Sleep(knownFor / 2)
		},
		"room since": func(k *known) {
			k.learn(attempt("x", rule), &refusal, k.ask())
			other := ruleOf("other", limits.Source, time.Minute, limits.Loud)
			k.learn(attempt("x", rule, other), &limits.Decision{Refusals: []limits.Refusal{full(1, time.Minute)}}, k.ask())
		},
		"held since": func(k *known) {
			k.learn(attempt("x", rule), &refusal, k.ask())
			k.learn(attempt("x", rule), &limits.Decision{Refusals: []limits.Refusal{{Cause: limits.Held, Wait: 1}}}, k.ask())
		},
		"held since, a generation ago": func(k *known) {
			k.learn(attempt("y", rule), &refusal, k.ask())
			time.Sleep(knownFor - 100*time.Millisecond)
			k.confirm()
			k.learn(attempt("x", rule), &refusal, k.ask())
			time.Sleep(200 * time.Millisecond)
			k.learn(attempt("x", rule), &limits.Decision{Refusals: []limits.Refusal{{Cause: limits.Held, Wait: 1}}}, k.ask())
		},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, k *known) {
				learn(k)
				if d, ok := k.answer(attempt("x", rule)); ok {
					t.Errorf("got %+v", d)
				}
			})
		})
	}
}

// A slow answer is right about both ends: it refuses no longer than is certain, and tells no shorter a wait.
func TestKnownAllowsForTheWay(t *testing.T) {
	rule := ruleOf("minute", limits.Source, time.Minute, limits.Loud)
	inMemory(t, func(t *testing.T, k *known) {
		asked := k.ask()
		time.Sleep(100 * time.Millisecond)
		k.learn(attempt("x", rule), &limits.Decision{Refusals: []limits.Refusal{full(0, 500*time.Millisecond)}}, asked)
		time.Sleep(399 * time.Millisecond)
		if d, ok := k.answer(attempt("x", rule)); !ok || d.Refusals[0].Wait != 101 {
			t.Errorf("got %+v %t, want a wait of 101 ms", d, ok)
		}
		time.Sleep(time.Millisecond)
		if d, ok := k.answer(attempt("x", rule)); ok {
			t.Errorf("got %+v, want the server to be asked", d)
		}
	})
}

func TestKnownIsBounded(t *testing.T) {
	rule := ruleOf("minute", limits.Source, time.Minute, limits.Loud)
	inMemory(t, func(t *testing.T, k *known) {
		for i := range 5 * maxKnown {
			k.learn(attempt(fmt.Sprint(i), rule), &limits.Decision{Refusals: []limits.Refusal{full(0, time.Minute)}}, k.ask())
		}
		if n := len(k.young) + len(k.old); n > 2*maxKnown {
			t.Errorf("got %d remembered, want at most %d", n, 2*maxKnown)
		}
		if _, ok := k.answer(attempt(fmt.Sprint(4*maxKnown+5), rule)); !ok {
			t.Error("what was learned lately is forgotten")
		}
	})
}

// knowing is a store that answers what it knows, counted.
type knowing struct {
	*watched
	local atomic.Int64
}

func openKnowing(t *testing.T, addr string, change func(*Config)) *knowing {
	k := &knowing{}
	k.watched = open(t, addr, func(c *Config) {
		c.Events.Known = func() { k.local.Add(1) }
		if change != nil {
			change(c)
		}
	})
	return k
}

// warm refuses an attempt until that is known.
func (k *knowing) warm(t *testing.T, value string, rules ...*limits.Rule) {
	t.Helper()
	before := k.local.Load()
	valkeytest.Eventually(t, "a refusal that is known", func() bool {
		d, err := k.Decide(context.Background(), attempt(value, rules...))
		if err != nil || d.Admitted {
			t.Fatalf("got %+v %v, want a refusal", d, err)
		}
		return k.local.Load() > before
	})
}

// lock locks the bucket of a value by one failure.
func (k *knowing) lock(t *testing.T, value string) {
	t.Helper()
	a := attempt(value, lockRule)
	k.admit(t, a)
	if e := k.settleAll(t, a, limits.Count).Effects[0]; e.Locked == 0 {
		t.Fatalf("got %+v, want a lock", e)
	}
}

func TestKnownRefusalsAreNotAsked(t *testing.T) {
	server := valkeytest.Start(t)
	k := openKnowing(t, server.Addr(), nil)
	one := *windowRule
	one.Limit = 1
	k.admit(t, attempt("x", &one))
	k.warm(t, "x", &one)
	server.Do("CONFIG", "RESETSTAT")
	const many = 5000
	start, last := time.Now(), limits.Forever
	for range many {
		d, err := k.Decide(context.Background(), attempt("x", &one))
		if err != nil || d.Admitted || len(d.Refusals) != 1 || d.Refusals[0].Cause != limits.Full {
			t.Fatalf("got %+v %v", d, err)
		}
		if wait := d.Refusals[0].Wait; wait > last+2*time.Since(start).Milliseconds()+5 || wait > one.Window.Milliseconds()+1000 {
			t.Fatalf("got a wait of %d after %d", wait, last)
		} else {
			last = wait
		}
	}
	if asked, most := server.Stats()["evalsha"].Calls, int64(time.Since(start)/knownFor)*3+many/10; asked > most {
		t.Errorf("the server was asked %d times, want at most %d", asked, most)
	}
	other := openKnowing(t, server.Addr(), nil)
	if d, err := other.Decide(context.Background(), attempt("x", &one)); err != nil || d.Refusals[0].Wait > last {
		t.Errorf("the server says %+v %v, and the wait told was shorter: %d", d, err, last)
	}
}

// Whoever waits as long as was said is let in, whether the server was asked or not.
func TestKnownRefusalsEnd(t *testing.T) {
	server := valkeytest.Start(t)
	k := openKnowing(t, server.Addr(), nil)
	short := *windowRule
	short.Limit, short.Window = 1, 3*time.Second
	k.admit(t, attempt("x", &short))
	k.warm(t, "x", &short)
	d, err := k.Decide(context.Background(), attempt("x", &short))
	if err != nil || d.Admitted {
		t.Fatalf("got %+v %v", d, err)
	}
	<-time.After(time.Duration(d.Refusals[0].Wait) * time.Millisecond)
	k.admit(t, attempt("x", &short))
}

// A release reaches every instance at once, in whatever way it is made.
func TestKnownRefusalsAreReleased(t *testing.T) {
	server := valkeytest.Start(t)
	here, there := openKnowing(t, server.Addr(), nil), openKnowing(t, server.Addr(), nil)
	ctx := context.Background()
	key := attempt("x", lockRule).Charges[0].Key
	for name, release := range map[string]func() error{
		"release": func() error { _, err := there.Release(ctx, key); return err },
		"clear":   func() error { _, err := there.Clear(ctx); return err },
		"here":    func() error { _, err := here.Release(ctx, key); return err },
	} {
		here.lock(t, "x")
		here.warm(t, "x", lockRule)
		before := here.known.turn.Load()
		if err := release(); err != nil {
			t.Fatal(err)
		}
		if name != "here" {
			valkeytest.Eventually(t, name, func() bool { return here.known.turn.Load() > before })
		}
		a := attempt("x", lockRule)
		here.admit(t, a)
		here.settleAll(t, a, limits.Free)
	}
	here.lock(t, "x")
	here.warm(t, "x", lockRule)
	before := here.known.turn.Load()
	if err := there.SetLogOnly(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	valkeytest.Eventually(t, "news of the kill switch", func() bool { return here.known.turn.Load() > before })
	valkeytest.Eventually(t, "the kill switch", func() bool { return here.LogOnlyFor() > 0 })
}

// Releases while others are refused all the time: nobody is refused any more who asks after the release was heard of.
func TestKnownRefusalsAreReleasedUnderLoad(t *testing.T) {
	server := valkeytest.Start(t)
	here, there := openKnowing(t, server.Addr(), nil), openKnowing(t, server.Addr(), nil)
	ctx := context.Background()
	stop := make(chan struct{})
	var all sync.WaitGroup
	var released atomic.Int64 // rounds
	for range 3 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				round := released.Load()
				a := attempt("x", lockRule)
				d, err := here.Decide(ctx, a)
				switch {
				case err != nil:
					t.Error(err)
					return
				case d.Admitted:
					_, _ = here.Settle(ctx, a.Release())
				case round%2 == 1 && released.Load() == round && d.Refusals[0].Cause == limits.Locked:
					t.Errorf("round %d: refused by a lock that was released", round)
					return
				}
			}
		})
	}
	for range 20 {
		valkeytest.Eventually(t, "a lock", func() bool {
			a := attempt("x", lockRule)
			d, err := there.Decide(ctx, a)
			return err == nil && d.Admitted && there.settleAll(t, a, limits.Count).Effects[0].Locked > 0
		})
		asked := here.local.Load()
		valkeytest.Eventually(t, "known refusals", func() bool { return here.local.Load() > asked })
		before := here.known.turn.Load()
		if _, err := there.Release(ctx, attempt("x", lockRule).Charges[0].Key); err != nil {
			t.Fatal(err)
		}
		valkeytest.Eventually(t, "a release", func() bool { return here.known.turn.Load() > before })
		released.Add(1)
		for range 50 {
			a := attempt("x", lockRule)
			if d, err := here.Decide(ctx, a); err != nil || !d.Admitted && d.Refusals[0].Cause == limits.Locked {
				t.Fatalf("got %+v %v after the release", d, err)
			} else if d.Admitted {
				_, _ = here.Settle(ctx, a.Release())
			}
		}
		released.Add(1)
	}
	close(stop)
	all.Wait()
}

// Without news of the others nothing is known for longer than a second.
func TestKnownRefusalsWithoutNews(t *testing.T) {
	for name, cut := range map[string]func(*valkeytest.Server, *slow) (mend func()){
		"held back": func(_ *valkeytest.Server, s *slow) func() { s.hold(); return s.release },
		"paused":    func(s *valkeytest.Server, _ *slow) func() { s.Pause(); return s.Resume },
	} {
		t.Run(name, func(t *testing.T) {
			server := valkeytest.Start(t)
			between := newSlow(t, server.Addr())
			k := openKnowing(t, between.addr(), func(c *Config) { c.Timeout = budget })
			k.lock(t, "x")
			k.warm(t, "x", lockRule)
			mend := cut(server, between)
			start := time.Now()
			valkeytest.Eventually(t, "a question that is not answered", func() bool {
				before := k.local.Load()
				_, err := k.Decide(context.Background(), attempt("x", lockRule))
				if k.local.Load() > before && time.Since(start) > knownFor+time.Second {
					t.Fatal("it is still known")
				}
				return errors.Is(err, limits.ErrUnavailable)
			})
			mend()
			k.warmAgain(t)
		})
	}
}

func (k *knowing) warmAgain(t *testing.T) {
	t.Helper()
	before := k.local.Load()
	valkeytest.Eventually(t, "a refusal that is known again", func() bool {
		_, _ = k.Decide(context.Background(), attempt("x", lockRule))
		return k.local.Load() > before
	})
}

// A connection that was lost takes with it what is known.
func TestKnownRefusalsAfterALostConnection(t *testing.T) {
	server := valkeytest.Start(t)
	k := openKnowing(t, server.Addr(), nil)
	k.lock(t, "x")
	k.warm(t, "x", lockRule)
	before := k.known.turn.Load()
	server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	server.Do("CLIENT", "KILL", "TYPE", "normal")
	valkeytest.Eventually(t, "the loss", func() bool { return k.known.turn.Load() > before })
	k.warmAgain(t)
}

// A user of the server that may not subscribe has every refusal asked for.
func TestKnownRefusalsNeedASubscription(t *testing.T) {
	server := valkeytest.Start(t)
	server.Do("ACL", "SETUSER", "gate", "on", ">secret", "~gateway:*", "+@all", "resetchannels")
	k := openKnowing(t, server.Addr(), func(c *Config) { c.Username, c.Password = "gate", "secret" })
	k.lock(t, "x")
	for range 100 {
		if d, err := k.Decide(context.Background(), attempt("x", lockRule)); err != nil || d.Admitted {
			t.Fatalf("got %+v %v", d, err)
		}
	}
	const warning = "store does not let its user subscribe, so every refusal is asked for: allow the channels of its prefix"
	valkeytest.Eventually(t, "a warning", func() bool { return k.log.count(warning) == 1 })
	if found, err := k.Release(context.Background(), attempt("x", lockRule).Charges[0].Key); err != nil || !found {
		t.Errorf("releasing: got %t %v", found, err)
	}
	if n := k.local.Load(); n != 0 {
		t.Errorf("%d refusals were answered unasked", n)
	}
}

// A message of its own confirms the subscription; that of another instance ends what is known, and has the kill switch read.
func TestKnownHears(t *testing.T) {
	inMemory(t, func(t *testing.T, k *known) {
		k.store.health = newHealth(k.store)
		k.confirmed.Store(0)
		sent := k.now() - 2*knownFor
		k.hear(valkey.PubSubMessage{Channel: k.echo, Message: fmt.Sprint(int64(sent))})
		if k.live(k.now()) || k.confirmed.Load() != int64(sent) {
			t.Error("a message that took too long has confirmed the subscription")
		}
		for _, message := range []string{fmt.Sprint(int64(k.now())), fmt.Sprint(int64(sent)), "nonsense"} { // out of order
			k.hear(valkey.PubSubMessage{Channel: k.echo, Message: message})
			if !k.live(k.now()) {
				t.Errorf("after %q the subscription is not confirmed", message)
			}
		}
		if k.turn.Load() != 0 || len(k.store.health.now) != 0 {
			t.Error("a message of its own was taken for one of others")
		}
		k.hear(valkey.PubSubMessage{Channel: "p:changed"})
		if k.turn.Load() != 1 || len(k.store.health.now) != 1 {
			t.Error("a message of others was not heard")
		}
	})
}

// An answer that was under way when something was released is told, but not remembered.
func TestKnownAskedBeforeARelease(t *testing.T) {
	server := valkeytest.Start(t)
	between := newSlow(t, server.Addr())
	k := openKnowing(t, between.addr(), nil)
	k.lock(t, "x")
	k.lock(t, "y")
	k.warm(t, "x", lockRule)
	asked := server.Stats()["evalsha"].Calls
	between.hold()
	var all sync.WaitGroup
	all.Go(func() {
		if d, err := k.Decide(context.Background(), attempt("y", lockRule)); err != nil || d.Admitted {
			t.Errorf("got %+v %v, want the lock", d, err)
		}
	})
	valkeytest.Eventually(t, "a question", func() bool { return server.Stats()["evalsha"].Calls > asked })
	server.Do("DEL", "gateway:"+attempt("y", lockRule).Charges[0].Key)
	k.known.forget()
	between.release()
	all.Wait()
	k.admit(t, attempt("y", lockRule))
}
