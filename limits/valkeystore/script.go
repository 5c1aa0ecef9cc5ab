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

// call is what a script is given, packed into two allocations: the text of all keys and of the argument, and the list of both.
type call struct {
	text  []byte
	words []string
}

// newCall has room for so many keys, whose names have so many bytes, and for an argument of so many.
func (s *Store) newCall(keys, names, argument int) call {
	return call{
		text:  make([]byte, 0, keys*(len(s.cfg.Prefix)+1)+names+argument),
		words: make([]string, 0, keys+1),
	}
}

// key adds a key; kind is a part of its name.
func (c *call) key(prefix, kind, name string) {
	start := len(c.text)
	c.text = append(c.text, prefix...)
	c.text = append(c.text, ':')
	c.text = append(c.text, kind...)
	c.text = append(c.text, name...)
	c.words = append(c.words, valkey.BinaryString(c.text[start:]))
}

// end takes the text from start on for the argument.
func (c *call) end(start int) (keys, args []string) {
	n := len(c.words)
	c.words = append(c.words, valkey.BinaryString(c.text[start:]))
	return c.words[:n:n], c.words[n:]
}

// encodeDecide packs an attempt for decide.lua. Signals take no part.
func (s *Store) encodeDecide(a *limits.Attempt) (keys, args []string) {
	names := 0
	for i := range a.Charges {
		names += len(a.Charges[i].Key)
	}
	for _, fact := range a.Facts {
		names += len(recordsKey) + len(fact)
	}
	c := s.newCall(len(a.Charges)+len(a.Facts), names, 21+28*len(a.Charges))
	for i := range a.Charges {
		if a.Charges[i].Rule.Kind() != limits.KindSignal {
			c.key(s.cfg.Prefix, "", a.Charges[i].Key)
		}
	}
	for _, fact := range a.Facts {
		c.key(s.cfg.Prefix, recordsKey, string(fact))
	}
	start := len(c.text)
	b := append48(c.text, s.now())
	b = append48(b, s.health.deadline(s.cfg.Timeout))
	b = binary.LittleEndian.AppendUint64(b, a.ID)
	b = append(b, byte(len(a.Facts)))
	for i := range a.Charges {
		if a.Charges[i].Rule.Kind() != limits.KindSignal {
			b = appendCharge(b, a, &a.Charges[i])
		}
	}
	c.text = b
	return c.end(start)
}

func appendCharge(b []byte, a *limits.Attempt, c *limits.Charge) []byte {
	conditional := c.If|c.Unless != 0
	b = append(b, byte(c.Rule.Kind()), flag(a.Lenient || c.LogOnly, 1), byte(c.Rule.Refuse),
		flag(c.OnSilent(), flagOnSilent)|flag(c.Rule.Shadowed(), flagShadowed)|flag(a.Quotas && c.HasQuota(), flagQuota)|flag(conditional, flagFacts))
	b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Limit))
	b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Window.Milliseconds()))
	b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Burst))
	b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Lease().Milliseconds()))
	if conditional {
		b = binary.LittleEndian.AppendUint32(b, c.If)
		b = binary.LittleEndian.AppendUint32(b, c.Unless)
	}
	return b
}

// asked is the index of the charge that decide.lua takes for its nth, from 1; false if there are not so many.
func asked(a *limits.Attempt, n int64) (int, bool) {
	for i := range a.Charges {
		if a.Charges[i].Rule.Kind() == limits.KindSignal {
			continue
		}
		if n--; n == 0 {
			return i, true
		}
	}
	return 0, false
}

func decodeDecision(n []int64, a *limits.Attempt) (limits.Decision, error) {
	if len(n) < 3 || n[1] < 0 || len(n) < 3+3*int(n[1]) {
		return limits.Decision{}, fmt.Errorf("reading the answer of decide.lua: %d numbers", len(n))
	}
	d := limits.Decision{Admitted: n[0] == 1, Known: uint32(n[2])}
	rest := n[3:]
	for range n[1] {
		charge, ok := asked(a, rest[0])
		if !ok {
			return limits.Decision{}, fmt.Errorf("reading the answer of decide.lua: charge %d of %d", rest[0], len(a.Charges))
		}
		d.Refusals = append(d.Refusals, limits.Refusal{Charge: charge, Cause: limits.Cause(rest[1]), Wait: rest[2]})
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
	names, reserves, counts := len(indexKey), false, false
	for i := range st.Closings {
		c := &st.Closings[i]
		names += len(c.Key)
		reserves = reserves || c.Rule.Kind() == limits.KindFailures
		counts = counts || c.Do == limits.Count
	}
	for i := range st.Repeats {
		names += len(st.Repeats[i].Key)
	}
	c := s.newCall(len(st.Closings)+len(st.Repeats)+1, names, 17+19*len(st.Closings)+12*len(st.Repeats))
	for i := range st.Closings {
		c.key(s.cfg.Prefix, "", st.Closings[i].Key)
	}
	for i := range st.Repeats {
		c.key(s.cfg.Prefix, "", st.Repeats[i].Key)
	}
	if counts {
		c.key(s.cfg.Prefix, "", indexKey)
	}
	start := len(c.text)
	b := append48(c.text, s.now())
	b = binary.LittleEndian.AppendUint64(b, st.ID)
	b = append(b, byte(len(st.Closings)), byte(len(st.Repeats)), flag(reserves, 1))
	for i := range st.Repeats {
		b = binary.LittleEndian.AppendUint64(b, st.Repeats[i].Sum)
		b = binary.LittleEndian.AppendUint32(b, uint32(st.Repeats[i].Window.Milliseconds()))
	}
	for i := range st.Closings {
		c := &st.Closings[i]
		b = append(b, byte(c.Rule.Kind()), byte(c.Do), byte(c.Repeat))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Limit))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Window.Milliseconds()))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Lockout.Base.Milliseconds()))
		b = binary.LittleEndian.AppendUint32(b, uint32(c.Rule.Lockout.Max.Milliseconds()))
	}
	c.text = b
	return c.end(start)
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
