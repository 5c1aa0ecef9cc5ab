package storetest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"authgate/limits"
	"authgate/limits/memstore"
)

// onMemory runs test with an Env whose store may be replaced by one that breaks the contract.
func onMemory(t *testing.T, wrap func(limits.Store) limits.Store, test func(*Env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		s := memstore.New(memstore.Config{
			MaxEntries: 1 << 14,
			Now:        func() limits.Millis { return limits.ToMillis(time.Now()) - back.Load() },
		})
		defer s.Close()
		test(&Env{
			Store: wrap(s),
			Advance: func(d time.Duration) {
				time.Sleep(d)
				synctest.Wait() // for a sweep of that very moment
			},
			SetBack: func(d time.Duration) {
				synctest.Wait() // a sweep under way has read the clock before
				back.Add(d.Milliseconds())
			},
			Level:    func(*limits.Rule, string, int64) {},
			Snapshot: func() map[string]string { return nil },
			Check:    func() error { return nil },
		})
	})
}

func asItIs(s limits.Store) limits.Store { return s }

func one(t *testing.T, text string) testCase {
	t.Helper()
	cases, err := parseCases("test.txt", "case c\n"+text)
	if err != nil {
		t.Fatal(err)
	}
	return cases[0]
}

// A line that says something else than what happens must fail.
func TestPlayFailsWhereTheLineIsWrong(t *testing.T) {
	const rules = "rule w requests source 1/1m\nrule f failures target_source 2/1m lock 1m 1h\nrule s failures source 1/1m signal\nuse w\n"
	for name, text := range map[string]string{
		"refused":              "try\ntry",
		"admitted":             "try -> refused, w full 1m",
		"another wait":         "try\ntry -> refused, w full 59s",
		"another cause":        "try\ntry -> refused, w locked 1m",
		"another bucket":       "try\nuse w@y\ntry -> refused, w full 1m",
		"the third time":       "rule w requests source 2/1m\ntry x3",
		"told":                 "try\ntry -> refused, w full 1m\ntold -> w 59",
		"held":                 "try\ntry -> refused, w full 1m\nheld -> yes",
		"effect":               "use f\nfail -> f filled",
		"settled twice":        "use f\nbegin a\nend a fail\nend a fail",
		"no lock yet":          "use f\nfail -> f locked 1m level 1",
		"level":                "use f\nfail\nfail -> f locked 1m level 2",
		"crossed":              "use s\nfail -> s crossed",
		"list":                 "use f\nfail\nlist -> none",
		"list of others":       "use f@a\nfail\nlist -> f@b 1",
		"release":              "release f -> yes",
		"clear":                "use f\nfail\nclear -> 0",
		"refused and settled":  "use w f\ntry\nfail",
		"nothing was decided":  "told -> nobody",
		"unknown bucket":       "use x",
		"unknown attempt":      "end a fail -> f counted",
		"unknown verdict":      "use f\nbegin a\nend a shrug",
		"unknown action":       "use f\nbegin a\nend a f=shrug",
		"action forgotten":     "use f\nbegin a\nend a g=count",
		"unknown option":       "try twice",
		"no time":              "after",
		"bad time":             "after a while",
		"bad rule":             "rule w requests source 0/1m",
		"bad class":            "rule w request source 1/1m",
		"bad dimension":        "rule w requests sauce 1/1m",
		"bad option":           "rule w requests source 1/1m fast",
		"option without value": "rule w requests source 1/1m burst",
		"secret nowhere":       "use s\nfail secret old",
		"no cycle":             "use w f\ncycle",
		"bad level":            "level f many",
	} {
		t.Run(name, func(t *testing.T) {
			c := one(t, rules+text)
			onMemory(t, asItIs, func(e *Env) {
				err := play(e, c)
				if err == nil {
					t.Error("it passed")
				} else if want := "test.txt:"; !strings.HasPrefix(err.Error(), want) {
					t.Errorf("got %q, want the line in it", err)
				}
			})
		})
	}
}

func TestParseCasesRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"try":                        "stands before the first case",
		"case c\njump":               `unknown word "jump"`,
		"case c\ntry ->":             "nothing after the arrow",
		"case c\n-> admitted":        "nothing before the arrow",
		"case c\ntry x0":             "use x1..x100000",
		"case c\ntry x100001":        "use x1..x100000",
		"case c\ntry x9999999999999": "use x1..x100000",
	} {
		if _, err := parseCases("dir/f.txt", text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "dir/f.txt:") {
			t.Errorf("%q: got %v, want %q with the place", text, err, want)
		}
	}
}

func TestLoadCasesTellsWhichFileIsWrong(t *testing.T) {
	_, err := loadCases(fstest.MapFS{
		"testdata/a.txt": {Data: []byte("case c\n")},
		"testdata/b.txt": {Data: []byte("case c\n\n# so far so good\nhop")},
	})
	if want := `reading testdata/b.txt:4: "hop": unknown word "hop"`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// The table is what the product is judged by, so it must not shrink unseen.
func TestCasesAreThere(t *testing.T) {
	cases, err := loadCases(files)
	if err != nil {
		t.Fatal(err)
	}
	rows, names := map[string]int{}, map[string]bool{}
	for _, c := range cases {
		if names[c.file+"/"+c.name] {
			t.Errorf("%s.txt: two cases are called %q", c.file, c.name)
		}
		names[c.file+"/"+c.name] = true
		for _, s := range c.steps {
			switch s.verb {
			case "rule", "use", "after", "back", "level":
			default:
				rows[c.file]++
			}
		}
	}
	for file, least := range map[string]int{"requests": 150, "lockout": 180, "inflight": 220} {
		if rows[file] < least {
			t.Errorf("%s.txt: %d rows, want at least %d", file, rows[file], least)
		}
	}
}

func FuzzParseCases(f *testing.F) {
	f.Add("case c\nrule w requests source 3/5m burst 2\nuse w (w@y)\ntry x3 quotas -> admitted; w left 2 whole 5m")
	f.Add("case c\nrule f failures target_source 5/5m lock 5m 24h\nuse f\nbegin a\nend a f=count secret s -> f counted")
	f.Fuzz(func(t *testing.T, text string) {
		cases, err := parseCases("f.txt", text)
		if err != nil {
			return
		}
		for _, c := range cases {
			for _, s := range c.steps {
				if s.times < 1 || s.times > maxTimes || verbs[s.verb] == nil {
					t.Errorf("got %+v", s)
				}
				if s.want != normal(s.want) {
					t.Errorf("%q is not normal", s.want)
				}
				if s.verb == "rule" && len(s.args) > 0 {
					if r, err := parseRule(s.args[0], s.args[1:]); err == nil && r.Validate() != nil {
						t.Errorf("%q: got a rule that is not valid", s.text)
					}
				}
			}
		}
	})
}

func TestNormal(t *testing.T) {
	for text, want := range map[string]string{
		" refused,  w full 5m ": "refused, w full 5m0s",
		"60s, 1h; 90m":          "1m0s, 1h0m0s; 1h30m0s",
		"w@10m 3 0 x h m":       "w@10m 3 0 x h m",
		"1.5s":                  "1.5s",
		"":                      "",
	} {
		if got := normal(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// breaking is a store that breaks one promise.
type breaking struct {
	limits.Store
	decide func(limits.Decision) limits.Decision
	settle func(limits.Settled) limits.Settled
}

func (b *breaking) Decide(ctx context.Context, a *limits.Attempt) (limits.Decision, error) {
	d, err := b.Store.Decide(ctx, a)
	if b.decide != nil {
		d = b.decide(d)
	}
	return d, err
}

func (b *breaking) Settle(ctx context.Context, s *limits.Settlement) (limits.Settled, error) {
	out, err := b.Store.Settle(ctx, s)
	if b.settle != nil {
		out = b.settle(out)
	}
	return out, err
}

func TestSequenceFindsBrokenStores(t *testing.T) {
	for name, b := range map[string]breaking{
		"nothing":                 {},
		"admits although refused": {decide: func(d limits.Decision) limits.Decision { d.Admitted = true; return d }},
		"waits too long": {decide: func(d limits.Decision) limits.Decision {
			for i := range d.Refusals {
				d.Refusals[i].Wait++
			}
			return d
		}},
		"waits too short": {decide: func(d limits.Decision) limits.Decision {
			for i := range d.Refusals {
				d.Refusals[i].Wait--
			}
			return d
		}},
		"says that it closed what was gone": {settle: func(s limits.Settled) limits.Settled {
			for i := range s.Effects {
				s.Effects[i].Done = true
			}
			return s
		}},
		"says nothing of what it closed": {settle: func(s limits.Settled) limits.Settled {
			clear(s.Effects)
			return s
		}},
	} {
		t.Run(name, func(t *testing.T) {
			found := false
			for seed := uint64(1); seed <= 5 && !found; seed++ {
				onMemory(t, func(s limits.Store) limits.Store { b.Store = s; return &b }, func(e *Env) {
					found = newSequence(e, seed).run(700) != nil
				})
			}
			if want := name != "nothing"; found != want {
				t.Errorf("broken: %t, but found: %t", want, found)
			}
		})
	}
}
