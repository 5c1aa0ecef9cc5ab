package certs

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	mrand "math/rand/v2"
	"net"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/valkey-io/valkey-go"

	"authgate/limits/valkeystore"
)

// Valkey keeps certificates, keys and the account in a Valkey that all instances share, and has the locks by which only one of
// them orders a certificate. All values are fields of one hash, PREFIX:certs; a lock is the key PREFIX:certlock:NAME,
// which expires unless its holder lives. All methods may be used by any number of goroutines.
type Valkey struct {
	cfg    ValkeyConfig
	client valkey.Client
	ctx    context.Context // of the holders of locks
	stop   context.CancelFunc

	mu    sync.Mutex
	locks map[string]*lease
	held  sync.WaitGroup
}

var _ certmagic.Storage = (*Valkey)(nil)

// ValkeyConfig says where the server is.
type ValkeyConfig struct {
	Addresses []string // host:port or /path of a unix socket; the first one that can be reached is used
	Username  string
	Password  string
	Database  int
	TLS       *tls.Config // nil: plain
	Prefix    string      // of every key
	Log       *slog.Logger

	LockTTL time.Duration // how long a lock outlives its holder; default 30 s
}

const (
	// callTime is the budget of one call. Nothing that a client waits for depends on it, but a challenge that another
	// instance has begun, and an authority waits for at least that long.
	callTime = 5 * time.Second
	// lockTTL is longer than any pause of a process that is still alive and well.
	lockTTL = 30 * time.Second
	// lockPoll is how often a lock that somebody holds is asked for again. Orders take seconds.
	lockPoll = 500 * time.Millisecond
)

// NewValkey makes a storage. It does not wait for the server; calls fail while it is down, and work once it is back.
func NewValkey(cfg ValkeyConfig) (*Valkey, error) {
	if cfg.LockTTL <= 0 {
		cfg.LockTTL = lockTTL
	}
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: cfg.Addresses, DialCtxFn: valkeystore.Dial(cfg.Addresses), Username: cfg.Username, Password: cfg.Password, SelectDB: cfg.Database,
		TLSConfig: cfg.TLS, Dialer: net.Dialer{Timeout: time.Second}, ClientName: "authgate-certs",
		ForceSingleClient: true, DisableCache: true,
	})
	if client == nil { // with ForceSingleClient the client is usable even while the server is down
		return nil, fmt.Errorf("making the certificate store's client: %w", err)
	}
	v := &Valkey{cfg: cfg, client: client, locks: map[string]*lease{}}
	v.ctx, v.stop = context.WithCancel(context.Background())
	return v, nil
}

// Close gives back the locks that are still held, and ends the connections.
func (v *Valkey) Close() {
	v.mu.Lock()
	var names []string
	for name := range v.locks {
		names = append(names, name)
	}
	v.mu.Unlock()
	for _, name := range names {
		_ = v.Unlock(context.Background(), name) // otherwise it expires
	}
	v.stop()
	v.held.Wait()
	v.client.Close()
}

func (v *Valkey) hash() string { return v.cfg.Prefix + ":certs" }

func (v *Valkey) lockKey(name string) string { return v.cfg.Prefix + ":certlock:" + name }

// do makes one call within its budget.
func (v *Valkey) do(ctx context.Context, what string, cmd valkey.Completed) (valkey.ValkeyResult, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	res := v.client.Do(ctx, cmd)
	if err := res.Error(); err != nil && !valkey.IsValkeyNil(err) {
		return res, fmt.Errorf("%s: %w", what, err)
	}
	return res, nil
}

// Store keeps a value, which is written with the time in milliseconds before it.
func (v *Valkey) Store(ctx context.Context, key string, value []byte) error {
	kept := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(value)), uint64(time.Now().UnixMilli()))
	kept = append(kept, value...)
	_, err := v.do(ctx, "storing certificate data", v.client.B().Hset().Key(v.hash()).FieldValue().FieldValue(key, valkey.BinaryString(kept)).Build())
	return err
}

// Load gives a value back, or [fs.ErrNotExist].
func (v *Valkey) Load(ctx context.Context, key string) ([]byte, error) {
	value, _, err := v.load(ctx, key)
	return value, err
}

func (v *Valkey) load(ctx context.Context, key string) (value []byte, stored time.Time, err error) {
	res, err := v.do(ctx, "loading certificate data", v.client.B().Hget().Key(v.hash()).Field(key).Build())
	if err != nil {
		return nil, time.Time{}, err
	}
	kept, err := res.AsBytes()
	if valkey.IsValkeyNil(err) {
		return nil, time.Time{}, fs.ErrNotExist
	}
	if err == nil && len(kept) < 8 {
		err = errors.New("the value is torn")
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("loading certificate data: %w", err)
	}
	return kept[8:], time.UnixMilli(int64(binary.BigEndian.Uint64(kept))), nil
}

// keys are the keys of all values that are below a folder, or are it.
func (v *Valkey) keys(ctx context.Context, folder string) ([]string, error) {
	res, err := v.do(ctx, "listing certificate data", v.client.B().Hkeys().Key(v.hash()).Build())
	if err != nil {
		return nil, err
	}
	all, err := res.AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("listing certificate data: %w", err)
	}
	folder = strings.Trim(folder, "/")
	var out []string
	for _, key := range all {
		if folder == "" || key == folder || strings.HasPrefix(key, folder+"/") {
			out = append(out, key)
		}
	}
	return out, nil
}

// Delete removes a value, or all values of a folder. What is not there is no error.
func (v *Valkey) Delete(ctx context.Context, key string) error {
	keys, err := v.keys(ctx, key)
	if err != nil || len(keys) == 0 {
		return err
	}
	_, err = v.do(ctx, "deleting certificate data", v.client.B().Hdel().Key(v.hash()).Field(keys...).Build())
	return err
}

// Exists reports whether there is a value, or a folder.
func (v *Valkey) Exists(ctx context.Context, key string) bool {
	keys, err := v.keys(ctx, key)
	return err == nil && len(keys) > 0
}

// List gives the keys below a folder: all of them, or values and folders of the first level.
func (v *Valkey) List(ctx context.Context, folder string, recursive bool) ([]string, error) {
	keys, err := v.keys(ctx, folder)
	if err != nil {
		return nil, err
	}
	folder = strings.Trim(folder, "/")
	var out []string
	seen := map[string]bool{}
	for _, key := range keys {
		if key == folder {
			continue
		}
		if !recursive {
			first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(key, folder), "/"), "/")
			key = path.Join(folder, first)
		}
		if !seen[key] {
			out = append(out, key)
		}
		seen[key] = true
	}
	if len(out) == 0 {
		return nil, fs.ErrNotExist
	}
	return out, nil
}

// Stat describes a value, or a folder.
func (v *Valkey) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	value, stored, err := v.load(ctx, key)
	switch {
	case err == nil:
		return certmagic.KeyInfo{Key: key, Modified: stored, Size: int64(len(value)), IsTerminal: true}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return certmagic.KeyInfo{}, err
	}
	keys, err := v.keys(ctx, key)
	if err == nil && len(keys) == 0 {
		err = fs.ErrNotExist
	}
	return certmagic.KeyInfo{Key: key}, err
}

// lease is a lock that this process holds.
type lease struct {
	token string
	stop  context.CancelFunc
}

// Lock waits until the lock is this caller's. It is kept alive until Unlock, and expires when this process dies.
func (v *Valkey) Lock(ctx context.Context, name string) error {
	token := rand.Text()
	for {
		res, err := v.do(ctx, "locking", v.client.B().Set().Key(v.lockKey(name)).Value(token).Nx().Px(v.cfg.LockTTL).Build())
		if err != nil {
			return err
		}
		if _, err := res.ToString(); err == nil { // nil: somebody holds it
			break
		}
		pause := time.NewTimer(lockPoll/2 + mrand.N(lockPoll))
		select {
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		case <-pause.C:
		}
	}
	keep, stop := context.WithCancel(v.ctx)
	v.mu.Lock()
	v.locks[name] = &lease{token: token, stop: stop}
	v.mu.Unlock()
	v.held.Go(func() { v.keep(keep, name, token) })
	return nil
}

var (
	renewLock = valkey.NewLuaScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`)
	freeLock  = valkey.NewLuaScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
)

// keep renews a lock until it is given back. One that was lost, as after an outage of the server, may be another's by now:
// the worst that comes of it is a second order for the same name.
func (v *Valkey) keep(ctx context.Context, name, token string) {
	tick := time.NewTicker(v.cfg.LockTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		call, cancel := context.WithTimeout(ctx, callTime)
		n, err := renewLock.Exec(call, v.client, []string{v.lockKey(name)}, []string{token, fmt.Sprint(v.cfg.LockTTL.Milliseconds())}).AsInt64()
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			v.cfg.Log.Warn("certificate lock not renewed", "lock", name, "error", err)
		case n == 0:
			v.cfg.Log.Warn("certificate lock lost", "lock", name)
			return
		}
	}
}

// Unlock gives a lock back. One that has meanwhile become another's stays theirs.
func (v *Valkey) Unlock(ctx context.Context, name string) error {
	v.mu.Lock()
	l := v.locks[name]
	delete(v.locks, name)
	v.mu.Unlock()
	if l == nil {
		return nil // given back by Close
	}
	l.stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	if err := freeLock.Exec(ctx, v.client, []string{v.lockKey(name)}, []string{l.token}).Error(); err != nil {
		return fmt.Errorf("unlocking: %w", err)
	}
	return nil
}
