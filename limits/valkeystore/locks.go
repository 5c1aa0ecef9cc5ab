package valkeystore

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"authgate/limits"
)

// Names of keys that are no buckets. None can be the key of a bucket, which begins with its class.
const (
	indexKey    = "index:failures"
	modeKey     = "mode"
	probeKey    = "probe"
	releasedKey = "released:" // + key of a bucket
	recordsKey  = "record:"   // + key of a record
	listsKey    = "list:"     // + name of a list of records
)

// keepReleased is how long it is remembered that a bucket was released: as long as an instance that was cut off
// may bring failures from before [S5].
const keepReleased = 24 * time.Hour

// Entries lists failure buckets from the index, a scan's cursor at a time; see [limits.Locks].
func (s *Store) Entries(ctx context.Context, cursor string, limit int) ([]limits.Entry, string, error) {
	at := uint64(0)
	if cursor != "" {
		n, err := strconv.ParseUint(cursor, 10, 64)
		if err != nil {
			return nil, "", fmt.Errorf("reading cursor %q: %w", cursor, limits.ErrCursor)
		}
		at = n
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	scan, err := s.client.Do(ctx, s.client.B().Zscan().Key(s.key(indexKey)).Cursor(at).Count(int64(limit)).Build()).AsScanEntry()
	if err != nil {
		return nil, "", s.failed("entries", err)
	}
	next := ""
	if scan.Cursor != 0 {
		next = strconv.FormatUint(scan.Cursor, 10)
	}
	var keys []string
	for i := 0; i < len(scan.Elements); i += 2 { // members and scores in turn
		keys = append(keys, scan.Elements[i])
	}
	entries, err := s.entries(ctx, keys)
	return entries, next, err
}

// adminTimeout bounds the calls that people make; a list may take longer than one decision.
const adminTimeout = 2 * time.Second

// entries reads the buckets of the given full keys.
func (s *Store) entries(ctx context.Context, keys []string) ([]limits.Entry, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	now, err := s.clock(ctx)
	if err != nil {
		return nil, s.failed("entries", err)
	}
	states, err := s.client.Do(ctx, s.client.B().Mget().Key(keys...).Build()).ToArray()
	if err != nil {
		return nil, s.failed("entries", err)
	}
	var out []limits.Entry
	for i, m := range states {
		text, err := m.ToString()
		if err != nil {
			continue // gone meanwhile
		}
		log, window, ok := decodeFailures(text)
		if !ok {
			continue
		}
		if e, ok := log.Entry(strings.TrimPrefix(keys[i], s.cfg.Prefix+":"), window, now); ok {
			out = append(out, e)
		}
	}
	return out, nil
}

func (s *Store) clock(ctx context.Context) (limits.Millis, error) {
	if s.cfg.Now != nil {
		return s.cfg.Now(), nil
	}
	return serverTime(s.client.Do(ctx, s.client.B().Time().Build()))
}

// decodeFailures reads what failures.lua wrote: failures, lock and level; reservations are left aside.
func decodeFailures(s string) (f limits.FailureLog, window limits.Millis, ok bool) {
	const kindShort, short, long = 6, 9, 49 // bytes before the failures
	b := []byte(s)
	u32 := func(at int) int64 { return int64(binary.LittleEndian.Uint32(b[at:])) }
	u48 := func(at int) int64 { return u32(at) | int64(binary.LittleEndian.Uint16(b[at+4:]))<<32 }
	head := short
	switch {
	case len(b) >= short && b[0] == kindShort:
	case len(b) >= long && b[0] == byte(limits.KindFailures):
		head = long
		f.LockedUntil, f.LockCount, f.Level, f.Quiet = u48(9), u32(15), u32(19), u48(23)
	default:
		return f, 0, false
	}
	window = u32(1)
	n := int(u32(5))
	if len(b) < head+6*n {
		return f, 0, false
	}
	for i := range n {
		f.Log = append(f.Log, u48(head+6*i))
	}
	return f, window, true
}

// Release forgets one failure bucket; see [limits.Locks].
func (s *Store) Release(ctx context.Context, key string) (bool, error) {
	defer s.tell(ctx)
	n, err := s.release("release", []string{s.key(key)})
	return n > 0, err
}

// Clear forgets every failure bucket; see [limits.Locks]. Those of the index come first, since they are what people wait
// for; then the keyspace is walked for those that hold only reservations or shadows. It works in steps, so that it never
// holds up the server.
func (s *Store) Clear(ctx context.Context) (int, error) {
	defer s.tell(ctx)
	total := 0
	for {
		keys, err := s.firstListed(ctx)
		if err != nil || len(keys) == 0 {
			if err == nil {
				err = s.clearRest(ctx, &total)
			}
			return total, err
		}
		n, err := s.release("clear", keys)
		if err != nil {
			return total, err
		}
		total += n
	}
}

// tell has all instances notice now what was changed: an error does not mean that nothing was.
func (s *Store) tell(ctx context.Context) {
	if s.known != nil && !s.health.open() {
		s.known.changed(ctx)
	}
}

// clearStep is how many keys are looked at in one command.
const clearStep = 256

func (s *Store) firstListed(ctx context.Context) ([]string, error) {
	if s.health.open() {
		return nil, s.unavailable("clear", errNotAsked)
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	last := strconv.Itoa(clearStep - 1)
	keys, err := s.client.Do(ctx, s.client.B().Zrange().Key(s.key(indexKey)).Min("0").Max(last).Build()).AsStrSlice()
	if err != nil {
		return nil, s.failed("clear", err)
	}
	return keys, nil
}

// clearRest releases the failure buckets that are not listed.
func (s *Store) clearRest(ctx context.Context, total *int) error {
	literal := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s.cfg.Prefix)
	pattern := literal + ":[fk]:*"
	for cursor := uint64(0); ; {
		page, err := s.scan(ctx, cursor, pattern)
		if err != nil {
			return err
		}
		slices.Sort(page.Elements)
		if keys := slices.Compact(page.Elements); len(keys) > 0 {
			n, err := s.release("clear", keys)
			if err != nil {
				return err
			}
			*total += n
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}

func (s *Store) scan(ctx context.Context, cursor uint64, pattern string) (valkey.ScanEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	page, err := s.client.Do(ctx, s.client.B().Scan().Cursor(cursor).Match(pattern).Count(clearStep).Build()).AsScanEntry()
	if err != nil {
		return page, s.failed("clear", err)
	}
	return page, nil
}

func (s *Store) release(operation string, full []string) (int, error) {
	keys, args := s.encodeRelease(full)
	reply, err := s.run(operation, releaseScript, keys, args)
	if err != nil {
		return 0, err
	}
	n, err := reply.AsInt64()
	if err != nil {
		return 0, s.failed(operation, err)
	}
	return int(n), nil
}

// SetLogOnly turns every instance to log-only for a while, or back with 0 [A3].
func (s *Store) SetLogOnly(ctx context.Context, d time.Duration) error {
	if s.health.open() {
		return s.unavailable("mode", errNotAsked)
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	now, err := s.clock(ctx)
	if err != nil {
		return s.failed("mode", err)
	}
	cmd := s.client.B().Del().Key(s.key(modeKey)).Build()
	until := limits.Millis(0)
	if ms := d.Milliseconds(); ms > 0 {
		until = now + ms
		cmd = s.client.B().Set().Key(s.key(modeKey)).Value(strconv.FormatInt(until, 10)).PxMilliseconds(ms).Build()
	}
	if err := s.client.Do(ctx, cmd).Error(); err != nil {
		return s.failed("mode", err)
	}
	s.health.until.Store(until)
	s.tell(ctx)
	return nil
}

// LogOnlyFor is how much longer the kill switch lasts; 0: it is off. Other instances learn of a change at once, or
// within a second.
func (s *Store) LogOnlyFor() time.Duration {
	until := s.health.until.Load()
	if until == 0 {
		return 0
	}
	now, ok := s.health.serverNow()
	if !ok {
		return 0
	}
	return max(0, time.Duration(until-now)*time.Millisecond)
}
