package valkeystore

import (
	"context"
	_ "embed"
	"encoding/binary"

	"github.com/valkey-io/valkey-go"

	"authgate/limits"
)

//go:embed lua/merge.lua
var mergeLua string

var mergeScript = valkey.NewLuaScript(failuresLua + mergeLua)

// Merge brings in what an instance recorded during an outage, one call for each bucket; see
// [limits.Shared]. It asks the server even while the breaker is open, since it is called when that is about to close.
func (s *Store) Merge(ctx context.Context, records []limits.Record) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	for i := range records {
		keys, args := s.encodeMerge(&records[i])
		if err := mergeScript.Exec(ctx, s.client, keys, args).Error(); err != nil {
			return s.failed("merge", err)
		}
	}
	return nil
}

func (s *Store) encodeMerge(r *limits.Record) (keys, args []string) {
	b := append48(nil, s.now())
	for _, n := range []int64{
		int64(r.Rule.Limit), r.Rule.Window.Milliseconds(), r.Rule.Lockout.Base.Milliseconds(), r.Rule.Lockout.Max.Milliseconds(),
		r.LockedFor, r.LockAge, r.LockCount, r.Level, int64(len(r.Ages)),
	} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	for _, age := range r.Ages {
		b = binary.LittleEndian.AppendUint32(b, uint32(age))
	}
	keys = []string{s.key(r.Key), s.key(releasedKey + r.Key), s.key(indexKey)}
	return keys, []string{valkey.BinaryString(b)}
}
