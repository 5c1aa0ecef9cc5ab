package valkeystore

import (
	"context"
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"authgate/limits"
)

// known is what this instance remembers of refusals, so that it can refuse again without asking [S7]. What it answers is what
// the server would, in the same form, but for another bucket that the caller would have to wait for longer. A memory lasts for
// a second at most, never longer than the refusal, and counts only while it is certain that a release elsewhere would be heard of.
//
// Attempts that ask for facts or quotas, or of which some policy only reports, are always the server's, and so are refusals in
// silent form, which charge.
type known struct {
	store *Store
	seed  maphash.Seed
	base  time.Time // all times here are spans since then, by the monotonic clock
	echo  string    // channel of this instance's own messages

	wanted    atomic.Int64 // when something was last worth remembering
	learned   atomic.Int64 // when something was last remembered; 0: never, or forgotten
	confirmed atomic.Int64 // when a message was sent that came back; 0: no subscription is known to work

	turn atomic.Uint64 // of forgetting: what was asked before the latest is not remembered any more

	mu         sync.RWMutex
	young, old map[bucketID]told
	began      time.Duration // when young was begun
}

// bucketID is a bucket under a rule that was not changed since.
type bucketID struct {
	key          uint64 // hash
	limit, burst int
	window       time.Duration
}

// told is what the server said of a bucket.
type told struct {
	seen  time.Duration // when it was asked
	until time.Duration // it refuses until then for certain; 0: it had room
	over  time.Duration // when it does not any more for certain
	cause limits.Cause
}

const (
	// knownFor is how long a refusal is remembered, and how old the proof may be that invalidations arrive.
	knownFor = time.Second
	// roomFor is how long a bucket is taken to have room that had: until then another one may speak for the attempt.
	roomFor = 100 * time.Millisecond
	// echoEvery is how often it is proved that invalidations arrive, while there is any use for that.
	echoEvery = 300 * time.Millisecond
	echoFor   = 10 * time.Second
	// maxKnown bounds the buckets of one generation; two are kept.
	maxKnown = 8192
	// maxKnownCharges is how many charges of an attempt are looked at.
	maxKnownCharges = 32
)

func newKnown(s *Store) *known {
	return &known{
		store: s, seed: maphash.MakeSeed(), base: time.Now(),
		echo: s.key("echo:" + strconv.FormatUint(rand.Uint64(), 36)),
	}
}

func (k *known) now() time.Duration { return time.Since(k.base) }

// live reports whether an invalidation would have arrived.
func (k *known) live(now time.Duration) bool {
	at := k.confirmed.Load()
	return at != 0 && now-time.Duration(at) < knownFor
}

func (k *known) id(c *limits.Charge) bucketID {
	return bucketID{maphash.String(k.seed, c.Key), c.Rule.Limit, c.Rule.Burst, c.Rule.Window}
}

// concerns reports whether refusals of the attempt can be remembered.
func concerns(a *limits.Attempt) bool {
	if a.Lenient || a.Quotas || len(a.Facts) > 0 || len(a.Charges) > maxKnownCharges {
		return false
	}
	for i := range a.Charges {
		if c := &a.Charges[i]; c.LogOnly || c.If|c.Unless != 0 {
			return false
		}
	}
	return true
}

// answer refuses the attempt if it is known that the server would, and how.
func (k *known) answer(a *limits.Attempt) (d limits.Decision, ok bool) {
	if k.learned.Load() == 0 {
		return d, false
	}
	now := k.now()
	if now-time.Duration(k.learned.Load()) >= knownFor || !k.live(now) || !concerns(a) {
		return d, false
	}
	var unknown uint32 // charges, by bits
	k.mu.RLock()
	for i := range a.Charges {
		c := &a.Charges[i]
		if c.Rule.Kind() == limits.KindSignal {
			continue
		}
		m, found := k.get(k.id(c))
		switch age := now - m.seen; {
		case found && m.until > now && age < knownFor:
			wait := (m.over - now + time.Millisecond - 1).Milliseconds()
			d.Refusals = append(d.Refusals, limits.Refusal{Charge: i, Cause: m.cause, Wait: wait})
		case found && m.until == 0 && age < roomFor:
		default:
			unknown |= 1 << i
		}
	}
	k.mu.RUnlock()
	worst, refused := d.Refused(a)
	if !refused || a.Charges[worst.Charge].Rule.Refuse == limits.Silent {
		return limits.Decision{}, false
	}
	for i := range a.Charges {
		if unknown>>i&1 == 1 && goesBefore(a, i, worst) {
			return limits.Decision{}, false
		}
	}
	if f := k.store.cfg.Events.Known; f != nil {
		f()
	}
	return d, true
}

func (k *known) get(id bucketID) (told, bool) {
	if m, ok := k.young[id]; ok {
		return m, true
	}
	m, ok := k.old[id]
	return m, ok
}

// goesBefore reports whether a charge of which nothing is known could refuse in a form that goes before that of a refusal. In the same
// form it could only ask for a longer wait: the caller is told of the one that is known, and of the other when that is over.
func goesBefore(a *limits.Attempt, charge int, worst limits.Refusal) bool {
	return a.Charges[charge].Rule.Refuse < a.Charges[worst.Charge].Rule.Refuse
}

// asking is when a question was sent.
type asking struct {
	at   time.Duration
	turn uint64
}

func (k *known) ask() asking { return asking{k.now(), k.turn.Load()} }

// learn remembers how the server refused an attempt, unless something was released since it was asked.
func (k *known) learn(a *limits.Attempt, d *limits.Decision, asked asking) {
	if d.Admitted || !concerns(a) {
		return
	}
	if worst, _ := d.Refused(a); a.Charges[worst.Charge].Rule.Refuse == limits.Silent {
		return
	}
	now := k.now()
	k.wanted.Store(int64(now))
	if !k.live(now) {
		return
	}
	var refused uint32
	for _, r := range d.Refusals {
		refused |= 1 << r.Charge
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.turn.Load() != asked.turn {
		return
	}
	if k.young == nil || len(k.young) >= maxKnown || asked.at-k.began >= knownFor {
		k.old, k.young, k.began = k.young, make(map[bucketID]told), asked.at
	}
	for i := range a.Charges {
		if c := &a.Charges[i]; refused>>i&1 == 0 && c.Rule.Kind() != limits.KindSignal {
			k.young[k.id(c)] = told{seen: asked.at}
		}
	}
	for _, r := range d.Refusals {
		c := &a.Charges[r.Charge]
		wait := time.Duration(r.Wait) * time.Millisecond
		if r.Cause == limits.Held || c.Rule.Kind() == limits.KindTokens { // these may have room at any moment
			delete(k.young, k.id(c))
			delete(k.old, k.id(c))
			continue
		}
		k.young[k.id(c)] = told{seen: asked.at, until: asked.at + wait, over: now + wait, cause: r.Cause}
	}
	k.learned.Store(int64(now))
}

// forget forgets everything: something was released.
func (k *known) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turn.Add(1)
	k.young, k.old = nil, nil
	k.learned.Store(0)
}

// changedKey is the channel on which instances tell each other of releases, and of the kill switch.
const changedKey = "changed"

// changed has all instances forget what they know, this one at once.
func (k *known) changed(ctx context.Context) {
	k.forget()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.store.cfg.Timeout)
	defer cancel()
	c := k.store.client
	heard, err := c.Do(ctx, c.B().Publish().Channel(k.store.key(changedKey)).Message("").Build()).AsInt64()
	if err == nil && heard > 1 { // without it they forget within a second
		time.Sleep(hearing)
	}
}

// hearing is how long whoever released something waits before it says so: by then the other instances have heard of it, and the next
// request finds it released wherever it goes.
const hearing = 100 * time.Millisecond

// run listens to what other instances release until ctx is done.
func (k *known) run(ctx context.Context) {
	warned := false
	for ctx.Err() == nil {
		c := k.store.client
		err := c.Receive(ctx, c.B().Subscribe().Channel(k.store.key(changedKey), k.echo).Build(), k.hear)
		k.confirmed.Store(0)
		k.forget()
		if e, ok := valkey.IsValkeyErr(err); ok && strings.HasPrefix(e.Error(), "NOPERM") && !warned {
			warned = true
			k.store.cfg.Logger.Warn("store does not let its user subscribe, so every refusal is asked for: allow the channels of its prefix", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(echoEvery):
		}
	}
}

// hear takes a message of the subscription.
func (k *known) hear(m valkey.PubSubMessage) {
	if m.Channel != k.echo {
		k.forget()
		k.store.health.resync() // it may have been the kill switch
		return
	}
	if at, err := strconv.ParseInt(m.Message, 10, 64); err == nil && at > k.confirmed.Load() {
		k.confirmed.Store(at)
	}
}

// prove sends itself a message now and then, while there is any use for it.
func (k *known) prove(ctx context.Context) {
	tick := time.NewTicker(echoEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, wanted := k.now(), time.Duration(k.wanted.Load())
		if wanted == 0 || now-wanted > echoFor || k.store.health.open() {
			continue
		}
		k.send(ctx, now)
	}
}

func (k *known) send(ctx context.Context, now time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, knownFor)
	defer cancel()
	c := k.store.client
	_ = c.Do(ctx, c.B().Publish().Channel(k.echo).Message(strconv.FormatInt(int64(now), 10)).Build()).Error() // then nothing is confirmed
}
