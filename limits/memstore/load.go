package memstore

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"

	"go.etcd.io/bbolt"

	"authgate/limits"
)

// Open makes a store that keeps records, and failure buckets with a lock or a level, in a file besides, and begins with what
// is there. The file is made if there is none, readable by its owner only. Errors name it and say what to do: another process
// uses it, or it is damaged. While it cannot be written the store works on without; see [Stats].
func Open(path string, cfg Config) (*Store, error) {
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f, err := openFile(path, log)
	if err != nil {
		return nil, err
	}
	s := newStore(cfg)
	f.store = s
	for i := range s.shards {
		s.shards[i].file = f // what finds no place is taken out of the file
	}
	if err = s.load(f); err != nil {
		if !errors.Is(err, errDamaged) { // or it may still hold its locks
			_ = f.db.Close()
		}
		return nil, explained(path, err)
	}
	if err := f.compact(); err != nil { // a full disk, say: the old one will do
		log.Warn("store file cannot be compacted", "file", path, "error", err)
	}
	s.file, s.records.file = f, f
	s.start()
	go f.run(s.done)
	return s, nil
}

// load fills the store from its file. What has ended there, or finds no place, is taken out by the first write: a full disk
// keeps nobody from starting.
func (s *Store) load(f *file) (err error) {
	defer recovered(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	fresh := false
	if err := f.db.View(func(tx *bbolt.Tx) error {
		key, _ := tx.Cursor().First()
		fresh = key == nil
		return nil
	}); err != nil {
		return err
	}
	if fresh {
		return f.db.Update(initialize)
	}
	now := s.now()
	return f.db.View(func(tx *bbolt.Tx) error {
		meta, records, failures := tx.Bucket(metaName), tx.Bucket(recordsName), tx.Bucket(failuresName)
		if meta == nil || records == nil || failures == nil {
			return fmt.Errorf("%w: it holds something else", errDamaged)
		}
		if got := meta.Get(formatKey); !bytes.Equal(got, format) {
			return fmt.Errorf("%w: its format is %q, and this program reads %q", errDamaged, got, format)
		}
		if err := s.loadRecords(records, f, now); err != nil {
			return err
		}
		return failures.ForEach(func(key, value []byte) error {
			r, log, err := decodeFailure(key, value)
			if err == nil && (r == nil || !lasting(&log, r, now) || !s.loadFailure(string(key), r, log, now)) {
				f.markFailure(string(key))
			}
			return err
		})
	})
}

// initialize makes what a new file lacks.
func initialize(tx *bbolt.Tx) error {
	for _, name := range [][]byte{metaName, recordsName, failuresName} {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	return tx.Bucket(metaName).Put(formatKey, format)
}

// loadRecords fills an empty store: what ends last was most likely changed last.
func (s *Store) loadRecords(b *bbolt.Bucket, f *file, now limits.Millis) error {
	var all []limits.Change
	err := b.ForEach(func(key, value []byte) error {
		c, err := decodeRecord(key, value, now)
		if err == nil && c.TTL > 0 {
			all = append(all, c)
		} else if err == nil {
			f.markRecord(c.Key)
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b limits.Change) int { return cmp.Compare(a.TTL, b.TTL) })
	for i := range all {
		s.records.change(&all[i], now)
	}
	s.records.trim(0)
	for i := range all {
		if s.records.at[all[i].Key] == nil {
			f.markRecord(all[i].Key)
		}
	}
	return nil
}

// loadFailure puts a bucket into the store; false if it holds nothing but locks already. The rule is a stand-in until
// the next attempt brings the real one.
func (s *Store) loadFailure(key string, r *limits.Rule, log limits.FailureLog, now limits.Millis) bool {
	p := s.spot(key)
	sh := p.shard
	if sh.place(s, &p, key, now); p.coarse {
		return false
	}
	e := sh.claim(s, &p, key, limits.KindFailures, now)
	f := sh.failures.at(e.more)
	f.rule, f.log, f.saved = r, log, true
	sh.weigh(f)
	sh.list(e.more)
	sh.touch(e, now)
	sh.trim(p.id, now)
	return true
}

// compact writes a file anew that is mostly empty. The new one takes the old one's name only when it is complete.
func (f *file) compact() (err error) {
	defer recovered(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	size := int64(0)
	if err := f.db.View(func(tx *bbolt.Tx) error { size = tx.Size(); return nil }); err != nil {
		return err
	}
	stats := f.db.Stats()
	if free := int64(stats.FreePageN+stats.PendingPageN) * int64(f.db.Info().PageSize); size < compactFrom || free < size/2 {
		return nil
	}
	fresh := f.path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) { // left by a crash
		return err
	}
	db, _, err := openBolt(fresh, f.log)
	if err != nil {
		return err
	}
	const step = 1 << 20 // bytes of one transaction
	if err = bbolt.Compact(db, f.db, step); err == nil {
		err = os.Rename(fresh, f.path)
	}
	if err != nil {
		return errors.Join(err, db.Close(), os.Remove(fresh))
	}
	old := f.db
	f.db = db
	return old.Close()
}
