package valkeystore

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"authgate/internal/valkeytest"
	"authgate/limits"
)

// record is a part of a script's argument: what its header comment says and what its code reads.
type record struct {
	said, read []string // units: B, I4, I6, 8 (bytes)
}

func (r record) size() int {
	n := 0
	for _, unit := range r.said {
		n += map[string]int{"B": 1, "I4": 4, "I6": 6, "8": 8}[unit]
	}
	return n
}

var (
	unit     = regexp.MustCompile(`\b(?:(B|I4|I6)|(8) bytes) `)
	repeated = regexp.MustCompile(`(?:then )?for each [a-z ]+(?:, right after it)?:|, n \* `)
	unpacked = regexp.MustCompile(`sunpack\('<([BIc0-9]+)', ARGV\[1\](, pos)?\)`)
	packed   = regexp.MustCompile(`B|I4|I6|c8`)
)

// header is what the comment at the top of a script says under a word: KEYS, ARGV[1], reply or holds.
func header(text, word string) string {
	var out []string
	in := false
	for line := range strings.Lines(text) {
		body, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "--")
		if !ok {
			break
		}
		if strings.HasPrefix(body, " "+word+" ") {
			in = true
			body = strings.TrimPrefix(body, " "+word)
		} else if len(body) > 2 && body[1] != ' ' {
			in = false
		}
		if in {
			out = append(out, strings.TrimSpace(body))
		}
	}
	return strings.Join(out, " ")
}

// records takes a script's argument apart, as its header tells it and as its code reads it.
func records(t *testing.T, text string) []record {
	t.Helper()
	var out []record
	for _, part := range repeated.Split(header(text, "ARGV[1]"), -1) {
		var r record
		for _, m := range unit.FindAllStringSubmatch(part+" ", -1) {
			r.said = append(r.said, m[1]+m[2])
		}
		out = append(out, r)
	}
	reads := unpacked.FindAllStringSubmatch(text, -1)
	for i, m := range reads {
		if i < len(out) {
			for _, u := range packed.FindAllString(m[1], -1) {
				out[i].read = append(out[i].read, strings.TrimPrefix(u, "c"))
			}
		}
	}
	if len(reads) != len(out) {
		t.Errorf("the header tells of %d records, the code reads %d", len(out), len(reads))
	}
	return out
}

// The header of a script, its code, and the Go that calls it agree on the argument.
func TestHeadersDescribeArguments(t *testing.T) {
	s := &Store{cfg: Config{Prefix: "p", Now: func() limits.Millis { return 1 }}}
	s.health = newHealth(s)
	rules := func(n int) []*limits.Rule { return slices.Repeat([]*limits.Rule{failRule}, n) }
	settlement := func(closings, repeats int) *limits.Settlement {
		st := attempt("x", rules(closings)...).Release()
		st.Repeats = make([]limits.RepeatCheck, repeats)
		return st
	}
	for name, args := range map[string]func(n ...int) []string{ // an argument with n[0] of the first list, n[1] of the second
		"decide": func(n ...int) []string {
			a := attempt("x", rules(n[0]+n[1])...)
			for i := range n[1] {
				a.Charges[i].Unless = 1
			}
			_, args := s.encodeDecide(a)
			return args
		},
		"settle": func(n ...int) []string { _, args := s.encodeSettle(settlement(n[1], n[0])); return args },
		"renew":  func(n ...int) []string { _, args := s.encodeRenew(attempt("x", rules(n[0])...)); return args },
		"merge": func(n ...int) []string {
			_, args := s.encodeMerge(&limits.Record{Rule: failRule, Ages: make([]int64, n[0])})
			return args
		},
		"release": func(n ...int) []string { _, args := s.encodeRelease(make([]string, n[0])); return args },
		"load":    func(...int) []string { return s.encodeLoad() },
		"swap": func(n ...int) []string {
			_, args := s.encodeSwap(make([]limits.Kept, n[0]), make([]limits.Change, n[1]), time.Second)
			return args
		},
	} {
		t.Run(name, func(t *testing.T) {
			parts := records(t, *scripts[name].text)
			for i, r := range parts {
				if !slices.Equal(r.said, r.read) || len(r.said) == 0 {
					t.Errorf("record %d: the header says %v, the code reads %v", i, r.said, r.read)
				}
			}
			parts = append(parts, record{}, record{})
			for _, n := range [][]int{{0, 0}, {1, 0}, {0, 1}, {3, 2}} {
				want := parts[0].size() + n[0]*parts[1].size() + n[1]*parts[2].size()
				if name == "decide" { // a conditional charge is one as well
					want += n[1] * parts[1].size()
				}
				if got := args(n...); len(got[0]) != want {
					t.Errorf("with %v: got %d bytes, want %d", n, len(got[0]), want)
				}
			}
		})
	}
}

func TestHeadersAreComplete(t *testing.T) {
	for name, s := range scripts {
		for _, word := range []string{"KEYS", "ARGV[1]", "reply", "holds"} {
			if header(*s.text, word) == "" {
				t.Errorf("%s.lua: its header does not tell of %s", name, word)
			}
		}
	}
}

// The watch over keys and times to live, under which all cases run, sees what it is for.
func TestVirtualTimeSees(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), nil)
	for name, tt := range map[string]struct{ script, want string }{
		"nothing":              {`redis.call('SET', KEYS[1], 'v', 'PX', 5) return redis.call('GET', KEYS[1])`, ""},
		"read undeclared":      {`return redis.call('GET', 'p:other')`, "not declared: p:other"},
		"many undeclared":      {`return redis.call('MGET', KEYS[1], 'p:other')`, "not declared: p:other"},
		"write undeclared":     {`redis.call('SET', KEYS[1] .. 'x', 'v', 'PX', 5)`, "not declared: p:ax"},
		"delete undeclared":    {`redis.call('DEL', 'p:other')`, "not declared: p:other"},
		"set undeclared":       {`redis.call('ZADD', 'p:other', 1, 'm')`, "not declared: p:other"},
		"without time to live": {`redis.call('SET', KEYS[1], 'v')`, "SET without a time to live"},
		"no time to live":      {`redis.call('SET', KEYS[1], 'v', 'PX', 0)`, "no time to live: 0"},
		"half a millisecond":   {`redis.call('SET', KEYS[1], 'v', 'PX', 1.5)`, "no time to live: 1.5"},
		"the server's clock":   {`redis.call('TIME')`, "the clock of the server"},
		"another command":      {`redis.call('FLUSHALL')`, "no such command in virtual time: FLUSHALL"},
	} {
		t.Run(name, func(t *testing.T) {
			script := valkey.NewLuaScript(virtualLua + failuresLua + tt.script)
			now := valkey.BinaryString(append48(nil, 1_000_000))
			err := script.Exec(context.Background(), w.client, []string{"p:a"}, []string{now}).Error()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	twice := valkey.NewLuaScript(virtualLua + `return 1`)
	err := twice.Exec(context.Background(), w.client, []string{"p:a", "p:a"}, []string{valkey.BinaryString(append48(nil, 1))}).Error()
	if err == nil || !strings.Contains(err.Error(), "declared twice: p:a") {
		t.Errorf("got %v, want a key that was declared twice", err)
	}
}

func TestVirtualTimeEndsKeys(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server.Addr(), nil)
	run := func(now limits.Millis, text string) string {
		t.Helper()
		reply, err := valkey.NewLuaScript(virtualLua+text).Exec(
			context.Background(), w.client, []string{"p:a"}, []string{valkey.BinaryString(append48(nil, now))}).ToString()
		if err != nil && !valkey.IsValkeyNil(err) {
			t.Fatal(err)
		}
		return reply
	}
	run(1000, `redis.call('SET', KEYS[1], 'v', 'PX', 500)`)
	for now, want := range map[limits.Millis]string{1000: "v 500", 1499: "v 1", 1500: "false -2", 9999: "false -2"} {
		if got := run(now, `return tostring(redis.call('GET', KEYS[1])) .. ' ' .. redis.call('PTTL', KEYS[1])`); got != want {
			t.Errorf("at %d: got %q, want %q", now, got, want)
		}
	}
}

func TestDecodeDecisionRefusesNonsense(t *testing.T) {
	a := attempt("x", windowRule, tokenRule)
	a.Quotas = true
	for name, reply := range map[string][]int64{
		"nothing":          {},
		"no count":         {1},
		"no facts":         {1, 0},
		"too few refusals": {0, 1, 0, 1, 1},
		"below no refusal": {0, -1, 0, 0, 0, 0, 0},
		"a foreign charge": {0, 1, 0, 3, 1, 1, 0, 0, 0, 0},
		"charge 0":         {0, 1, 0, 0, 1, 1, 0, 0, 0, 0},
		"no quotas":        {1, 0, 0},
		"half the quotas":  {1, 0, 0, 4, 5},
		"a quota too few":  {1, 0, 0, 4, 5, 6},
		"too many refused": {0, 1 << 40, 0, 1, 1, 1},
	} {
		if d, err := decodeDecision(reply, a); err == nil {
			t.Errorf("%s: got %+v, want an error", name, d)
		}
	}
	d, err := decodeDecision([]int64{0, 1, 5, 2, 1, 900, 4, 5, 6, 7}, a)
	if err != nil || d.Admitted || !d.Knew(0) || d.Knew(1) || !d.Knew(2) || len(d.Refusals) != 1 || d.Refusals[0] != (limits.Refusal{Charge: 1, Cause: limits.Full, Wait: 900}) ||
		len(d.Quotas) != 2 || d.Quotas[1] != (limits.Quota{Charge: 1, Remaining: 6, Reset: 7}) {
		t.Errorf("got %+v %v", d, err)
	}
}

func TestDecodeSettledRefusesNonsense(t *testing.T) {
	st := attempt("x", failRule).Release()
	st.Repeats = make([]limits.RepeatCheck, 1)
	for _, reply := range [][]int64{{}, {1, 0, 0}, {1, 0, 0, 0, 0}} {
		if out, err := decodeSettled(reply, st); err == nil {
			t.Errorf("%v: got %+v, want an error", reply, out)
		}
	}
	out, err := decodeSettled([]int64{7, 300, 2, 1}, st)
	if want := (limits.Effect{Done: true, Counted: true, Filled: true, Locked: 300, Level: 2}); err != nil || out.Effects[0] != want || !out.Repeated[0] {
		t.Errorf("got %+v %v, want %+v", out, err, want)
	}
}

func TestUnpackSettledRefusesNonsense(t *testing.T) {
	st := attempt("x", failRule, lockRule).Release()
	for _, n := range []int64{-1, 1 << 8, 1 << 62} {
		if out, err := unpackSettled(n, st); err == nil {
			t.Errorf("%d: got %+v, want an error", n, out)
		}
	}
	if out, err := unpackSettled(0, attempt("x", slices.Repeat([]*limits.Rule{failRule}, maxBits+1)...).Release()); err == nil {
		t.Errorf("got %+v for more closings than a number tells of, want an error", out)
	}
	out, err := unpackSettled(0x7b, st)
	want := []limits.Effect{{Done: true, Counted: true, Crossed: true}, {Done: true, Counted: true, Filled: true}}
	if err != nil || !slices.Equal(out.Effects, want) || len(out.Repeated) != 0 {
		t.Errorf("got %+v %v, want %+v", out, err, want)
	}
}

// manyRules are more rules than settle.lua answers for with one number.
func manyRules() []*limits.Rule {
	var rules []*limits.Rule
	for i := range maxBits + 1 {
		r := *failRule
		r.Policy = fmt.Sprintf("f%d", i)
		rules = append(rules, &r)
	}
	return rules
}

func TestManyClosings(t *testing.T) {
	w := open(t, valkeytest.Start(t).Addr(), nil)
	a := attempt("x", manyRules()...)
	w.admit(t, a)
	for _, want := range []limits.Effect{{Done: true, Counted: true}, {}} {
		out := w.settleAll(t, a, limits.Count)
		if len(out.Effects) != maxBits+1 || out.Effects[0] != want || out.Effects[maxBits] != want {
			t.Errorf("got %+v, want %+v everywhere", out.Effects, want)
		}
	}
}

// FuzzDecodeFailures: what a key holds may be anything; what reads it must not fall over, nor ask for memory without end.
func FuzzDecodeFailures(f *testing.F) {
	f.Add("")
	for _, head := range []string{"\x06", "\x03"} {
		f.Add(head + strings.Repeat("\x00", 48))
		f.Add(head + strings.Repeat("\xff", 48))
		f.Add(head + strings.Repeat("\x00", 4) + "\x02" + strings.Repeat("\x00", 43) + strings.Repeat("\x01", 12))
		f.Add(head + "\x01\x01\x01\x01\x02\x00\x00\x00" + strings.Repeat("\x01", 12))
	}
	f.Fuzz(func(t *testing.T, state string) {
		log, window, ok := decodeFailures(state)
		if !ok {
			return
		}
		if len(log.Log) > len(state)/6 || window < 0 {
			t.Errorf("got %d failures and a window of %d from %d bytes", len(log.Log), window, len(state))
		}
		log.Entry("k", window, limits.ToMillis(time.Now()))
	})
}

func TestRenewTellsHowMany(t *testing.T) {
	w := open(t, valkeytest.Start(t).Addr(), nil)
	a := attempt("x", failRule, lockRule)
	w.admit(t, a)
	if _, err := w.Release(context.Background(), a.Charges[1].Key); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{1, 0} {
		keys, args := w.encodeRenew(a)
		if got, err := renewScript.Exec(context.Background(), w.client, keys, args).AsInt64(); err != nil || got != want {
			t.Errorf("got %d %v, want %d", got, err, want)
		}
		w.settleAll(t, a, limits.Free)
	}
}
