package valkeystore

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valkey-io/valkey-go"

	"authgate/internal/valkeytest"
	"authgate/limits"
	"authgate/limits/memstore"
	"authgate/limits/storetest"
)

//go:embed testdata/virtual.lua
var virtualLua string

// scripts are all scripts of the store, with their text.
var scripts = map[string]struct {
	script **valkey.Lua
	text   *string
}{
	"decide":  {&decideScript, &decideLua},
	"settle":  {&settleScript, &settleLua},
	"renew":   {&renewScript, &renewLua},
	"release": {&releaseScript, &releaseLua},
	"load":    {&loadScript, &loadLua},
	"swap":    {&swapScript, &swapLua},
	"merge":   {&mergeScript, &mergeLua},
}

// virtualTime puts virtual.lua in front of every script until the test ends.
func virtualTime(t *testing.T) {
	for _, s := range scripts {
		real := *s.script
		*s.script = valkey.NewLuaScript(virtualLua + failuresLua + *s.text)
		t.Cleanup(func() { *s.script = real })
	}
}

// virtual is a store in virtual time, with the hands that a test lays on it.
type virtual struct {
	t      *testing.T
	store  *Store
	prefix string
	clock  atomic.Int64
}

// epoch is where virtual time begins: where it does in a bubble of testing/synctest, too.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// harness makes stores on one server, each with keys of its own. The scripts must be in virtual time.
func harness(server *valkeytest.Server) storetest.Harness {
	n := 0
	return func(t *testing.T, test func(*testing.T, *storetest.Env)) {
		n++
		server.Do("FLUSHALL")
		v := &virtual{t: t, prefix: fmt.Sprintf("t%d", n)}
		v.clock.Store(limits.ToMillis(epoch))
		s, err := New(Config{Addresses: []string{server.Addr()}, Prefix: v.prefix, Timeout: 5 * time.Second, Now: v.clock.Load}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		<-s.Probed()
		v.store = s
		test(t, &storetest.Env{
			Store:    s,
			Advance:  func(d time.Duration) { v.clock.Add(d.Milliseconds()) },
			SetBack:  func(d time.Duration) { v.clock.Add(-d.Milliseconds()) },
			Level:    v.setLevel,
			Snapshot: v.snapshot,
			Check:    v.check,
		})
	}
}

// do sends a command on the store's own connection.
func (v *virtual) do(args ...string) valkey.ValkeyResult {
	return v.store.client.Do(context.Background(), v.store.client.B().Arbitrary(args...).Build())
}

// setLevel writes a failure bucket as failures.lua would.
func (v *virtual) setLevel(r *limits.Rule, key string, level int64) {
	now := v.clock.Load()
	b := []byte{byte(limits.KindFailures)}
	b = binary.LittleEndian.AppendUint32(b, uint32(r.Window.Milliseconds()))
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = append48(b, 0)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(level))
	b = append48(b, now)
	b = append(b, make([]byte, 6+4+6+4)...)
	full := v.store.key(key)
	if err := v.do("SET", full, valkey.BinaryString(b)).Error(); err != nil {
		v.t.Fatal(err)
	}
	if err := v.do("HSET", "ends:"+v.prefix, full, fmt.Sprintf("%013d", now+r.Window.Milliseconds())).Error(); err != nil {
		v.t.Fatal(err)
	}
}

// snapshot is every key's value, and when it ends.
func (v *virtual) snapshot() map[string]string {
	all, err := v.do("HGETALL", "ends:"+v.prefix).AsStrMap()
	if err != nil {
		v.t.Fatal(err)
	}
	if len(all) == 0 {
		return all
	}
	index := v.store.key(indexKey)
	if end, ok := all[index]; ok {
		members, err := v.do("ZRANGE", index, "0", "-1", "WITHSCORES").AsZScores()
		if err != nil {
			v.t.Fatal(err)
		}
		all[index] = fmt.Sprint(end, members)
	}
	for key, value := range v.values(all) {
		all[key] += " " + value
	}
	return all
}

// values are those of the given keys, the index aside.
func (v *virtual) values(keys map[string]string) map[string]string {
	get := []string{"MGET"}
	for key := range maps.Keys(keys) {
		if key != v.store.key(indexKey) {
			get = append(get, key)
		}
	}
	values := map[string]string{}
	if len(get) == 1 {
		return values
	}
	replies, err := v.do(get...).ToArray()
	if err != nil {
		v.t.Fatal(err)
	}
	for i, r := range replies {
		values[get[i+1]], _ = r.ToString()
	}
	return values
}

// check reports keys that would stay for ever.
func (v *virtual) check() error {
	const immortal = `local out = {}
		for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ':*')) do
			if redis.call('PTTL', key) < 0 and redis.call('HEXISTS', 'ends:' .. ARGV[1], key) == 0 then out[#out + 1] = key end
		end
		return out`
	keys, err := v.do("EVAL", immortal, "0", v.prefix).AsStrSlice()
	if err != nil {
		return err
	}
	if len(keys) > 0 {
		return fmt.Errorf("no end is set for %s", strings.Join(keys, ", "))
	}
	return nil
}

func TestConformance(t *testing.T) {
	virtualTime(t)
	storetest.Run(t, harness(valkeytest.Start(t)))
}

// The arithmetic in Go and the one in Lua are the same: what one store answers, the other does.
func TestSameAsMemory(t *testing.T) {
	virtualTime(t)
	storetest.Same(t, memory, harness(valkeytest.Start(t)))
}

// memory makes stores in this process, in a bubble where time passes by sleeping.
func memory(t *testing.T, test func(*testing.T, *storetest.Env)) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		s := memstore.New(memstore.Config{
			MaxEntries: 16 * memstore.MinEntries,
			Now:        func() limits.Millis { return limits.ToMillis(time.Now()) - back.Load() },
		})
		defer s.Close()
		test(t, &storetest.Env{
			Store: s,
			Advance: func(d time.Duration) {
				time.Sleep(d)
				synctest.Wait() // for a sweep of that very moment
			},
			SetBack: func(d time.Duration) {
				synctest.Wait() // a sweep under way has read the clock before
				back.Add(d.Milliseconds())
			},
			Check: func() error { return nil },
		})
	})
}

// An id may turn up where none begins: across the end of another one and the time beside it.
func TestIdsAreFoundAtTheirPlaces(t *testing.T) {
	virtualTime(t)
	harness(valkeytest.Start(t))(t, func(t *testing.T, e *storetest.Env) {
		ctx := context.Background()
		end := uint64(limits.ToMillis(epoch) + failRule.Lease().Milliseconds())
		first, across := attempt("x", failRule), attempt("x", failRule)
		first.ID = 0x8877665544332211
		across.ID = first.ID>>8 | end<<56 // as stored: 22 33 44 55 66 77 88, and the first byte of the time
		for _, a := range []*limits.Attempt{first, across} {
			if d, err := e.Store.Decide(ctx, a); err != nil || !d.Admitted {
				t.Fatalf("got %+v %v, want it admitted", d, err)
			}
		}
		for _, a := range []*limits.Attempt{across, first} {
			for n, want := range []bool{true, false} {
				out, err := e.Store.Settle(ctx, a.Release())
				if err != nil || out.Effects[0].Done != want {
					t.Errorf("%x, settlement %d: got %+v %v, want it done: %t", a.ID, n+1, out, err, want)
				}
			}
		}
	})
}

// A rule whose window was made shorter has shorter leases: those that are under way keep theirs, and the first to end frees its slot.
func TestShorterLeases(t *testing.T) {
	virtualTime(t)
	harness(valkeytest.Start(t))(t, func(t *testing.T, e *storetest.Env) {
		ctx := context.Background()
		ask := func(window time.Duration) (*limits.Attempt, limits.Decision) {
			t.Helper()
			r := *failRule
			r.Limit, r.Window = 3, window
			a := attempt("x", &r)
			d, err := e.Store.Decide(ctx, a)
			if err != nil {
				t.Fatal(err)
			}
			return a, d
		}
		settled := func(a *limits.Attempt, want bool) {
			t.Helper()
			out, err := e.Store.Settle(ctx, a.Release())
			if err != nil || out.Effects[0].Done != want {
				t.Errorf("got %+v %v, want it done: %t", out, err, want)
			}
		}
		first, _ := ask(time.Minute)
		second, _ := ask(10 * time.Second)
		e.Advance(time.Second)
		third, _ := ask(5 * time.Second)
		if _, d := ask(5 * time.Second); d.Admitted || d.Refusals[0] != (limits.Refusal{Cause: limits.Held, Wait: 5000}) {
			t.Errorf("got %+v, want it held for 5 s", d)
		}
		e.Advance(5 * time.Second)
		settled(third, false)
		if _, d := ask(5 * time.Second); !d.Admitted {
			t.Errorf("got %+v, want the slot of the one that ended", d)
		}
		if err := e.Store.Renew(ctx, second); err != nil {
			t.Fatal(err)
		}
		e.Advance(6 * time.Second)
		settled(second, true)
		e.Advance(20 * time.Second)
		settled(first, true)
		if left := e.Snapshot(); len(left) != 0 {
			t.Errorf("got %q, want nothing left", left)
		}
	})
}
