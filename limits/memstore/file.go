package memstore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"authgate/limits"
)

// file keeps, besides memory, what must survive a restart: records, and failure buckets that have a lock or a level. Whoever
// changes one marks its key; a goroutine writes what the store then holds under it, many keys in one transaction. So nothing
// waits for the disk, and a crash loses what the last writeEvery brought.
type file struct {
	store *Store
	db    *bbolt.DB
	path  string
	log   *slog.Logger

	writing sync.Mutex // held by the one who writes

	mu       sync.Mutex          // guards the next three
	records  map[string]struct{} // keys to be written
	failures map[string]struct{}
	all      bool // too many for that: everything is to be written

	failing atomic.Bool
	failed  atomic.Int64
	broken  bool          // the library must not be called any more; the writer's
	done    chan struct{} // closed when the writer has ended
}

const (
	writeEvery = 250 * time.Millisecond
	// retryEvery is how soon a write that failed is tried again.
	retryEvery = time.Second
	// maxMarked bounds the keys that wait, of each kind, when the disk does not keep up.
	maxMarked = 1 << 16
	// lockPatience is how long to wait for another process to let go of the file: one that is just ending.
	lockPatience = time.Second
	// A file of more than compactFrom bytes of which more than half is free is written anew when it is opened.
	compactFrom = 8 << 20
)

var (
	metaName     = []byte("meta")
	recordsName  = []byte("records")
	failuresName = []byte("failures")
	formatKey    = []byte("format")
	format       = []byte("1")
)

// markRecord notes that a record has changed. The lock of the records is held, so that those of one swap are written together.
func (f *file) markRecord(key string) {
	if f != nil {
		f.mark(&f.records, key)
	}
}

// markFailure notes that a failure bucket has changed.
func (f *file) markFailure(key string) {
	if f != nil {
		f.mark(&f.failures, key)
	}
}

func (f *file) mark(keys *map[string]struct{}, key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all {
		return
	}
	if len(*keys) >= maxMarked {
		f.all, f.records, f.failures = true, nil, nil
		return
	}
	if *keys == nil {
		*keys = make(map[string]struct{})
	}
	(*keys)[key] = struct{}{}
}

// marks are keys that wait to be written.
type marks struct {
	records, failures map[string]struct{}
	all               bool
}

// add has more records written.
func (m *marks) add(records map[string]struct{}) {
	if m.records == nil {
		m.records = make(map[string]struct{}, len(records))
	}
	maps.Copy(m.records, records)
}

func (m *marks) none() bool { return !m.all && len(m.records)+len(m.failures) == 0 }

// take is all that waits.
func (f *file) take() marks {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := marks{f.records, f.failures, f.all}
	f.records, f.failures, f.all = nil, nil, false
	return m
}

// takeRecords is what waits of records only.
func (f *file) takeRecords() map[string]struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	records := f.records
	f.records = nil
	return records
}

// putBack has marks wait again that were not written after all.
func (f *file) putBack(m marks) {
	for key := range m.records {
		f.markRecord(key)
	}
	for key := range m.failures {
		f.markFailure(key)
	}
	if m.all {
		f.mu.Lock()
		f.all, f.records, f.failures = true, nil, nil
		f.mu.Unlock()
	}
}

// waiting is how many keys are still to be written; all of them count as one more than is bounded.
func (f *file) waiting() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all {
		return maxMarked + 1
	}
	return int64(len(f.records) + len(f.failures))
}

// Flush writes what waits to the file, so that nothing of it is undone by a crash; without a file it does nothing.
func (s *Store) Flush() error {
	if s.file == nil {
		return nil
	}
	return s.file.write()
}

// run writes until stop is closed, and then once more.
func (f *file) run(stop <-chan struct{}) {
	defer close(f.done)
	timer := time.NewTimer(writeEvery)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		wait := writeEvery
		if f.write() != nil {
			wait = retryEvery
		}
		timer.Reset(wait)
	}
}

// write writes what waits, and tells of the first failure and of the end of failing.
func (f *file) write() error {
	f.writing.Lock()
	defer f.writing.Unlock()
	m := f.take()
	if m.none() {
		return nil
	}
	err := f.save(&m)
	if err != nil {
		f.putBack(m)
		f.failed.Add(1)
		if !f.failing.Swap(true) {
			f.log.Error("store file cannot be written: a restart would forget what happens from now on", "file", f.path, "error", err)
		}
		return fmt.Errorf("writing store file %s: %w", f.path, err)
	}
	if f.failing.Swap(false) {
		f.log.Warn("store file is written again", "file", f.path)
	}
	return nil
}

// save writes the marked keys in one transaction, in order: the library is slow at anything else.
func (f *file) save(m *marks) (err error) {
	if f.broken {
		return errDamaged
	}
	defer func() { f.broken = errors.Is(err, errDamaged) }() // it may still hold its locks
	defer recovered(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a file that was cut off under its map is an error like any other
	now := f.store.now()
	return f.db.Update(func(tx *bbolt.Tx) error {
		if m.all {
			return f.saveAll(tx, now)
		}
		records, failures := tx.Bucket(recordsName), tx.Bucket(failuresName)
		for _, r := range inOrder(f.store.records.marked(m, f)) {
			if err := put(records, r.key, r.encode(nil)); err != nil {
				return err
			}
		}
		for _, key := range slices.Sorted(maps.Keys(m.failures)) {
			if err := put(failures, key, f.store.encodeFailure(key, now)); err != nil {
				return err
			}
		}
		return nil
	})
}

// put stores a value, or takes the key out if there is none.
func put(b *bbolt.Bucket, key string, value []byte) error {
	if value == nil {
		return b.Delete([]byte(key))
	}
	return b.Put([]byte(key), value)
}

// saveAll writes everything anew.
func (f *file) saveAll(tx *bbolt.Tx, now limits.Millis) error {
	for _, name := range [][]byte{recordsName, failuresName} {
		if err := tx.DeleteBucket(name); err != nil {
			return err
		}
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	records, failures := tx.Bucket(recordsName), tx.Bucket(failuresName)
	for _, r := range inOrder(f.store.records.every()) {
		if err := put(records, r.key, r.encode(nil)); err != nil {
			return err
		}
	}
	locked := make(map[string][]byte)
	for i := range f.store.shards {
		maps.Copy(locked, f.store.shards[i].encodeFailures(now))
	}
	for _, key := range slices.Sorted(maps.Keys(locked)) {
		if err := put(failures, key, locked[key]); err != nil {
			return err
		}
	}
	return nil
}

// close writes what waits, and closes the file. The writer has ended.
func (f *file) close() error {
	err := f.write()
	if f.broken {
		return err
	}
	return errors.Join(err, f.db.Close())
}

// recovered turns a panic into an error: the library panics where a file does not make sense.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", errDamaged, p)
	}
}

var errDamaged = errors.New("it is damaged")

// openFile opens or makes a store file, locked against other processes.
func openFile(path string, log *slog.Logger) (*file, error) {
	const tries = 3 // the one who had it may have written it anew under the same name
	for range tries {
		db, same, err := openBolt(path, log)
		if err != nil {
			if db != nil {
				_ = db.Close()
			}
			return nil, explained(path, err)
		}
		if !same {
			_ = db.Close()
			continue
		}
		return &file{db: db, path: path, log: log, done: make(chan struct{})}, nil
	}
	return nil, explained(path, bolterrors.ErrTimeout)
}

// openBolt opens the database; same is false if the name stands for another file by now.
func openBolt(path string, log *slog.Logger) (db *bbolt.DB, same bool, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recovered(&err)
	var opened *os.File
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:      lockPatience,
		FreelistType: bbolt.FreelistMapType,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			var err error
			opened, err = os.OpenFile(name, flag, mode)
			return opened, err
		},
	})
	if err != nil {
		return nil, false, err
	}
	info, err := opened.Stat()
	if err != nil {
		return db, false, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := opened.Chmod(0o600); err != nil { // there are secrets in it
			log.Warn("store file can be read by others", "file", path, "error", err)
		}
	}
	named, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return db, false, err
	}
	return db, err == nil && os.SameFile(info, named), nil
}

// explained says what to do about a file that cannot be opened.
func explained(path string, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("opening store file %s: another process uses it; only one may, so stop that or give this one a file of its own", path)
	case errors.Is(err, errDamaged), errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum),
		errors.Is(err, bolterrors.ErrVersionMismatch), errors.Is(err, bolterrors.ErrInvalidMapping):
		return fmt.Errorf("opening store file %s: it is damaged, or none of this program's: move it away to begin with an empty one, or restore a copy: %w", path, err)
	}
	return fmt.Errorf("opening store file %s: %w", path, err)
}
