package valkeystore

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/valkey-io/valkey-go"

	"authgate/limits"
)

//go:embed lua/failures.lua
var failuresLua string

//go:embed lua/decide.lua
var decideLua string

//go:embed lua/settle.lua
var settleLua string

//go:embed lua/renew.lua
var renewLua string

//go:embed lua/release.lua
var releaseLua string

//go:embed lua/load.lua
var loadLua string

//go:embed lua/swap.lua
var swapLua string

// The scripts. They hold no state but their own text.
var (
	decideScript  = valkey.NewLuaScript(failuresLua + decideLua)
	settleScript  = valkey.NewLuaScript(failuresLua + settleLua)
	renewScript   = valkey.NewLuaScript(failuresLua + renewLua)
	releaseScript = valkey.NewLuaScript(failuresLua + releaseLua)
	loadScript    = valkey.NewLuaScript(failuresLua + loadLua)
	swapScript    = valkey.NewLuaScript(failuresLua + swapLua)
)

// Bits of a charge's flags, as decide.lua reads them.
const (
	flagOnSilent = 1
	flagShadowed = 2
	flagQuota    = 4
	flagFacts    = 8 // it takes part only as the facts say
)

// encodeDecide packs an attempt for decide.lua. Signals take no part, so asked maps the script's charges back.
func (s *Store) encodeDecide(a *limits.Attempt) (keys, args []string, asked []int) {
	keys = make([]string, 0, len(a.Charges)+len(a.Facts))
	asked = make([]int, 0, len(a.Charges))
	b := make([]byte, 0, 21+20*len(a.Charges))
	b = append48(b, s.now())
	b = append48(b, s.health.deadline(s.cfg.Timeout))
	b = binary.LittleEndian.AppendUint64(b, a.ID)
	b = append(b, byte(len(a.Facts)))
	for i := range a.Charges {
		c := &a.Charges[i]
		kind := c.Rule.Kind()
		if kind == limits.KindSignal {
			continue
		}
		keys = append(keys, s.key(c.Key))
		asked = append(asked, i)
		conditional := c.If|c.Unless != 0
		b = append(b, byte(kind), flag(a.Lenient || c.LogOnly, 1), byte(c.Rule.Refuse),
			flag(c.OnSilent(), flagOnSilent)|flag(c.Rule.Shadowed(), flagShadowed)|flag(a.Quotas && c.HasQuota(), flagQuota)|flag(conditional, flagFacts))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Limit))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Window.Milliseconds()))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Burst))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Lease().Milliseconds()))
		if conditional {
			b = binary.LittleEndian.AppendUint32(b, c.If)
			b = binary.LittleEndian.AppendUint32(b, c.Unless)
		}
	}
	for _, fact := range a.Facts {
		keys = append(keys, s.recordKey(string(fact)))
	}
	return keys, []string{valkey.BinaryString(b)}, asked
}

func decodeDecision(n []int64, a *limits.Attempt, asked []int) (limits.Decision, error) {
	if len(n) < 3 || n[1] < 0 || len(n) < 3+3*int(n[1]) {
		return limits.Decision{}, fmt.Errorf("reading the answer of decide.lua: %d numbers", len(n))
	}
	d := limits.Decision{Admitted: n[0] == 1, Known: uint32(n[2])}
	rest := n[3:]
	for range n[1] {
		if rest[0] < 1 || int(rest[0]) > len(asked) {
			return limits.Decision{}, fmt.Errorf("reading the answer of decide.lua: charge %d of %d", rest[0], len(asked))
		}
		d.Refusals = append(d.Refusals, limits.Refusal{Charge: asked[rest[0]-1], Cause: limits.Cause(rest[1]), Wait: rest[2]})
		rest = rest[3:]
	}
	if !a.Quotas {
		return d, nil
	}
	for i := range a.Charges {
		if !a.Charges[i].HasQuota() {
			continue
		}
		if len(rest) < 2 {
			return limits.Decision{}, fmt.Errorf("reading the answer of decide.lua: %d numbers", len(n))
		}
		if a.Charges[i].Applies(d.Known) { // else it had no part
			d.Quotas = append(d.Quotas, limits.Quota{Charge: i, Remaining: rest[0], Reset: rest[1]})
		}
		rest = rest[2:]
	}
	return d, nil
}

// encodeSettle packs a settlement for settle.lua.
func (s *Store) encodeSettle(st *limits.Settlement) (keys, args []string) {
	keys = make([]string, 0, len(st.Closings)+len(st.Repeats)+1)
	reserves, counts := false, false
	for i := range st.Closings {
		c := &st.Closings[i]
		keys = append(keys, s.key(c.Key))
		reserves = reserves || c.Rule.Kind() == limits.KindFailures
		counts = counts || c.Do == limits.Count
	}
	b := make([]byte, 0, 17+19*len(st.Closings)+12*len(st.Repeats))
	b = append48(b, s.now())
	b = binary.LittleEndian.AppendUint64(b, st.ID)
	b = append(b, byte(len(st.Closings)), byte(len(st.Repeats)), flag(reserves, 1))
	for i := range st.Repeats {
		r := &st.Repeats[i]
		keys = append(keys, s.key(r.Key))
		b = binary.LittleEndian.AppendUint64(b, r.Sum)
		b = binary.LittleEndian.AppendUint32(b, uint32(r.Window.Milliseconds()))
	}
	for i := range st.Closings {
		c := &st.Closings[i]
		b = append(b, byte(c.Rule.Kind()), byte(c.Do), byte(c.Repeat))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Limit))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Window.Milliseconds()))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Lockout.Base.Milliseconds()))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Lockout.Max.Milliseconds()))
	}
	if counts {
		keys = append(keys, s.key(indexKey))
	}
	return keys, []string{valkey.BinaryString(b)}
}

// readSettled reads the answer of settle.lua.
func readSettled(reply *valkey.ValkeyMessage, st *limits.Settlement) (limits.Settled, error) {
	if reply.IsInt64() {
		n, _ := reply.AsInt64()
		return unpackSettled(n, st)
	}
	numbers, err := reply.AsIntSlice()
	if err != nil {
		return limits.Settled{}, err
	}
	return decodeSettled(numbers, st)
}

// maxBits is for how many closings settle.lua may answer with one number.
const maxBits = 12

// unpackSettled reads that number.
func unpackSettled(n int64, st *limits.Settlement) (limits.Settled, error) {
	if n < 0 || len(st.Closings) > maxBits || n>>(4*len(st.Closings)) != 0 {
		return limits.Settled{}, fmt.Errorf("reading the answer of settle.lua: %d for %d closings", n, len(st.Closings))
	}
	out := newSettled(st)
	for i := range out.Effects {
		out.Effects[i] = effect(n >> (4 * i))
	}
	return out, nil
}

func newSettled(st *limits.Settlement) limits.Settled {
	return limits.Settled{Effects: make([]limits.Effect, len(st.Closings)), Repeated: make([]bool, len(st.Repeats))}
}

func effect(bits int64) limits.Effect {
	return limits.Effect{Done: bits&1 != 0, Counted: bits&2 != 0, Filled: bits&4 != 0, Crossed: bits&8 != 0}
}

func decodeSettled(n []int64, st *limits.Settlement) (limits.Settled, error) {
	if len(n) != 3*len(st.Closings)+len(st.Repeats) {
		return limits.Settled{}, fmt.Errorf("reading the answer of settle.lua: %d numbers", len(n))
	}
	out := newSettled(st)
	for i := range out.Effects {
		out.Effects[i] = effect(n[0])
		out.Effects[i].Locked, out.Effects[i].Level = n[1], n[2]
		n = n[3:]
	}
	for i := range out.Repeated {
		out.Repeated[i] = n[i] == 1
	}
	return out, nil
}

// encodeRenew packs the failure buckets of an attempt for renew.lua.
func (s *Store) encodeRenew(a *limits.Attempt) (keys, args []string) {
	b := append48(nil, s.now())
	b = binary.LittleEndian.AppendUint64(b, a.ID)
	for i := range a.Charges {
		c := &a.Charges[i]
		if c.Rule.Kind() != limits.KindFailures {
			continue
		}
		keys = append(keys, s.key(c.Key))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Window.Milliseconds()))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Lease().Milliseconds()))
	}
	return keys, []string{valkey.BinaryString(b)}
}

// encodeRelease packs the full keys of buckets for release.lua.
func (s *Store) encodeRelease(full []string) (keys, args []string) {
	keys = append(keys, full...)
	for _, k := range full {
		keys = append(keys, s.key(releasedKey+strings.TrimPrefix(k, s.cfg.Prefix+":")))
	}
	b := append48(nil, s.now())
	b = binary.LittleEndian.AppendUint32(b, uint32(keepReleased.Milliseconds()))
	return append(keys, s.key(indexKey)), []string{valkey.BinaryString(b)}
}

// append48 appends a time in six bytes, as the scripts read it: enough until the year 10889.
func append48(b []byte, t limits.Millis) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(t))
	return binary.LittleEndian.AppendUint16(b, uint16(t>>32))
}

func flag(on bool, bit byte) byte {
	if on {
		return bit
	}
	return 0
}
