package valkeystore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"authgate/limits"
)

func (s *Store) recordKey(key string) string { return s.key(recordsKey + key) }

// manyRecords is from how many keys on a call may take as long as those that people make: an import, say.
const manyRecords = 32

// budgetFor is the budget of a call about that many records.
func (s *Store) budgetFor(n int) time.Duration {
	if n < manyRecords {
		return s.cfg.Timeout
	}
	return max(s.cfg.Timeout, adminTimeout)
}

// Load reads records; see [limits.Records].
func (s *Store) Load(ctx context.Context, keys ...string) ([]string, error) {
	texts := make([]string, 0, len(keys))
	for step := range slices.Chunk(keys, limits.MaxSwap) {
		full := make([]string, len(step))
		for i, key := range step {
			full[i] = s.recordKey(key)
		}
		reply, err := s.runWithin(s.budgetFor(len(step)), "load", loadScript, full, s.encodeLoad())
		if err != nil {
			return nil, err
		}
		values, err := reply.ToArray()
		if err != nil {
			return nil, s.failed("load", err)
		}
		for i := range values {
			text, err := values[i].ToString()
			if err != nil && !valkey.IsValkeyNil(err) {
				return nil, s.failed("load", err)
			}
			texts = append(texts, text)
		}
	}
	if len(texts) != len(keys) {
		return nil, s.failed("load", fmt.Errorf("reading the answer of load.lua: %d texts of %d", len(texts), len(keys)))
	}
	return texts, nil
}

// encodeLoad packs what load.lua needs besides the keys.
func (s *Store) encodeLoad() []string { return []string{valkey.BinaryString(append48(nil, s.now()))} }

// Swap changes records; see [limits.Records].
func (s *Store) Swap(ctx context.Context, was []limits.Kept, changes ...limits.Change) (bool, error) {
	if err := limits.CheckSwap(was, changes); err != nil {
		return false, err
	}
	if len(was)+len(changes) == 0 {
		return true, nil
	}
	budget := s.budgetFor(len(was) + len(changes))
	keys, args := s.encodeSwap(was, changes, budget)
	reply, err := s.runWithin(budget, "swap", swapScript, keys, args)
	if err != nil {
		return false, err
	}
	n, err := reply.AsInt64()
	if err == nil && n < 0 {
		s.health.resync()
		err = errors.New("the server ran the script after its deadline")
	}
	if err != nil {
		return false, s.failed("swap", err)
	}
	return n == 1, nil
}

// encodeSwap packs conditions and changes for swap.lua.
func (s *Store) encodeSwap(was []limits.Kept, changes []limits.Change, budget time.Duration) (keys, args []string) {
	keys = make([]string, 0, len(was)+len(changes)+1)
	places := make(map[string]uint32, len(was)+len(changes)+1)
	place := func(key string) uint32 { // from 1
		n := places[key]
		if n == 0 {
			keys = append(keys, key)
			n = uint32(len(keys))
			places[key] = n
		}
		return n
	}
	for i := range was {
		place(s.recordKey(was[i].Key))
	}
	for i := range changes {
		place(s.recordKey(changes[i].Key))
	}
	b := make([]byte, 0, 20+4*len(was)+14*len(changes))
	b = append48(b, s.now())
	b = append48(b, s.health.deadline(budget))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(was)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(changes)))
	args = make([]string, 1, 1+len(was)+len(changes))
	for i := range was {
		b = binary.LittleEndian.AppendUint32(b, places[s.recordKey(was[i].Key)])
		args = append(args, was[i].Text)
	}
	for i := range changes {
		c := &changes[i]
		list := uint32(0)
		if c.Index != "" {
			list = place(s.key(listsKey + c.Index))
		}
		b = binary.LittleEndian.AppendUint32(b, places[s.recordKey(c.Key)])
		b = binary.LittleEndian.AppendUint32(b, list)
		b = append48(b, c.TTL.Milliseconds())
		args = append(args, c.Text)
	}
	args[0] = valkey.BinaryString(b)
	return keys, args
}

// List pages through a list; see [limits.Records]. The cursor is "SCAN KEY": a page of the scan is given out in the order of
// its keys, so that one which is larger than the limit goes on after KEY.
func (s *Store) List(ctx context.Context, index, cursor string, limit int) ([]string, string, error) {
	at, after := uint64(0), ""
	if cursor != "" {
		scan, rest, ok := strings.Cut(cursor, " ")
		n, err := strconv.ParseUint(scan, 10, 64)
		if err != nil || !ok {
			return nil, "", fmt.Errorf("reading cursor %q: %w", cursor, limits.ErrCursor)
		}
		at, after = n, rest
	}
	if s.health.open() {
		return nil, "", s.unavailable("list", errNotAsked)
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	limit = min(max(limit, 1), limits.MaxSwap)
	for { // a page of the scan may hold nothing
		page, err := s.listPage(ctx, index, at, after, limit)
		if err != nil {
			return nil, "", s.failed("list", err)
		}
		next := ""
		if at, after = page.next, page.after; after != "" || at != 0 {
			next = fmt.Sprintf("%d %s", at, after)
		}
		if len(page.keys) > 0 || next == "" {
			return page.keys, next, nil
		}
	}
}

// listed is a part of a list, and where to go on: with the same page of the scan after a key, or with the next one; both 0
// at the end.
type listed struct {
	keys  []string
	next  uint64
	after string
}

// listPage reads the page of the scan at a cursor: the first keys after one, in order, of records that there are.
func (s *Store) listPage(ctx context.Context, index string, at uint64, after string, limit int) (listed, error) {
	now, err := s.clock(ctx)
	if err != nil {
		return listed{}, err
	}
	c := s.client
	scan, err := c.Do(ctx, c.B().Zscan().Key(s.key(listsKey+index)).Cursor(at).Count(int64(limit)).Build()).AsScanEntry()
	if err != nil {
		return listed{}, err
	}
	page := listed{next: scan.Cursor}
	var keys []string
	for i := 0; i+1 < len(scan.Elements); i += 2 { // members and scores in turn
		key := strings.TrimPrefix(scan.Elements[i], s.recordKey(""))
		ends, err := strconv.ParseFloat(scan.Elements[i+1], 64)
		if err == nil && limits.Millis(ends) > now && key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if keys = slices.Compact(keys); len(keys) > limit {
		keys = keys[:limit]
		page.next, page.after = at, keys[limit-1]
	}
	exist := make(valkey.Commands, len(keys))
	for i, key := range keys {
		exist[i] = c.B().Exists().Key(s.recordKey(key)).Build()
	}
	for i, reply := range c.DoMulti(ctx, exist...) {
		there, err := reply.AsInt64()
		if err != nil {
			return listed{}, err
		}
		if there == 1 {
			page.keys = append(page.keys, keys[i])
		}
	}
	return page, nil
}
