package mimic

import (
	"container/list"
	"hash/maphash"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Book knows what refusals show, and how long real answers took. Make it with [New]; it lives as long as the program, and
// [Book.Configure] tells it of each new configuration. It is safe for concurrent use. Its memory is bounded, whatever clients
// send: by the number of keys, and by the size of all learned answers together.
type Book struct {
	seed     maphash.Seed
	random   func() float64
	maxKeys  int
	plain    [2]Answer // by form
	policies atomic.Pointer[policies]

	mu      sync.Mutex
	entries map[Key]*list.Element // of *entry
	recent  list.List             // the same, the one last asked for or told of in front
	bytes   int                   // of learned answers
	timings map[timing]*delays    // of all keys of a policy, for keys of which nothing is known
}

// Config bounds a book. The zero value is ready for use.
type Config struct {
	// MaxKeys bounds for how many keys something is remembered; beyond, the one longest out of use is forgotten. Each weighs up to
	// 8 KiB and its answer. 0: 1024.
	MaxKeys int
	// Random is a source of numbers of [0, 1), safe for concurrent use. nil: math/rand/v2's own.
	Random func() float64
}

// Key is what an answer is learned by.
type Key struct {
	Realm, Policy string
	Method        string // of the request; unusual ones share one entry
	Kind          Kind
	Form          Form
}

// Policy is what a configuration says of one policy.
type Policy struct {
	Name string
	// Uniform and Silent are what refusals of that form show. nil: no rule of the policy refuses so, and nothing is remembered.
	// An answer of status 0: it is learned.
	Uniform, Silent *Answer
	// Template is what uniform refusals show until an answer was learned: what a preset knows of its server. nil: nothing.
	Template *Answer
	// Fields are the names of fields and members by which the configuration itself finds its way in a request, such as
	// `username` and `password`. That an answer speaks of them shows nothing.
	Fields []string
	// Constants are the values that the configuration demands of every request of the policy (`grant_type: password`), each as
	// often as it does. That an answer holds one of them shows nothing, unless the request has it once more.
	Constants []string
}

// maxBytes bounds all learned answers together.
const maxBytes = 16 << 20

// policy is a Policy as it is used.
type policy struct {
	looks             [2]*Answer // by form
	template          *Answer
	fields, constants []string
}

// policies are those that refuse in one of the forms, by name.
type policies map[string]*policy

// look is what a refusal shows by the configuration, or nil.
func (ps policies) look(name string, form Form) *Answer {
	if p := ps[name]; p != nil {
		return p.looks[form]
	}
	return nil
}

// template is what a refusal shows until an answer was learned, or nil.
func (ps policies) template(name string, form Form) *Answer {
	if p := ps[name]; p != nil && form == Failure {
		return p.template
	}
	return nil
}

type timing struct {
	policy string
	form   Form
}

// New makes a book in which nothing is written yet and no policy is known.
func New(cfg Config) *Book {
	b := &Book{
		seed: maphash.MakeSeed(), random: cfg.Random, maxKeys: cfg.MaxKeys, plain: [2]Answer{plain(Failure), plain(Success)},
		entries: make(map[Key]*list.Element), timings: make(map[timing]*delays),
	}
	if b.random == nil {
		b.random = rand.Float64
	}
	if b.maxKeys <= 0 {
		b.maxKeys = 1024
	}
	b.policies.Store(&policies{})
	return b
}

// Configure replaces what is known of the policies. What was learned for those that are still there stays.
func (b *Book) Configure(ps []Policy) {
	known := make(policies, len(ps))
	for _, p := range ps {
		if p.Uniform != nil || p.Silent != nil {
			known[p.Name] = &policy{looks: [2]*Answer{p.Uniform, p.Silent}, template: p.Template, fields: slices.Clone(p.Fields), constants: slices.Clone(p.Constants)}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.policies.Store(&known)
	for k, element := range b.entries {
		if known.look(k.Policy, k.Form) == nil {
			b.forget(element)
		}
	}
	for t := range b.timings {
		if known.look(t.policy, t.form) == nil {
			delete(b.timings, t)
		}
	}
}

// Wants reports whether samples of the policy and form are of use, so that nobody needs to collect others.
func (b *Book) Wants(policyName string, form Form) bool {
	return form <= Success && b.policies.Load().look(policyName, form) != nil
}

// Answer is what a refusal shows: what is configured, what was learned, the template, or a plain answer. It is never the zero
// value.
func (b *Book) Answer(k Key) Answer {
	k = k.bounded()
	look := b.policies.Load().look(k.Policy, k.Form)
	switch {
	case look == nil:
		return b.plain[k.Form]
	case look.Status != 0:
		return *look
	}
	unlearned := b.plain[k.Form]
	if t := b.policies.Load().template(k.Policy, k.Form); t != nil {
		unlearned = *t
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.find(k); e != nil && e.learned.Status != 0 {
		return e.learned
	}
	return b.kin(k, unlearned)
}

// kin is what was learned in the realm for another kind of request to the same policy, one of the same method first, else
// best: a client must not get that by asking in a way in which nobody has asked.
func (b *Book) kin(k Key, best Answer) Answer {
	for element := b.recent.Front(); element != nil; element = element.Next() {
		e := element.Value.(*entry)
		if e.learned.Status == 0 || e.key.Realm != k.Realm || e.key.Policy != k.Policy || e.key.Form != k.Form {
			continue
		}
		if best = e.learned; e.key.Method == k.Method {
			break
		}
	}
	return best
}

// Delay is how long a refusal should take in all, drawn from what the latest real answers of its kind took, else of its
// policy; if nothing is known, a time in which a password might have been hashed. It is at most 30 s.
func (b *Book) Delay(k Key) time.Duration {
	k = k.bounded()
	u, v := b.random(), b.random()
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.find(k); e != nil && len(e.delays.recent) >= fewDelays {
		return e.delays.draw(u, v)
	}
	if all := b.timings[timing{k.Policy, k.Form}]; all != nil {
		return all.draw(u, v)
	}
	return unknownDelay(u)
}

// Observe tells the book of a real answer. It costs tens of microseconds, and some milliseconds for a long page that is not
// known yet: call it when the client has its answer.
func (b *Book) Observe(k Key, s Sample) {
	k = k.bounded()
	p := (*b.policies.Load())[k.Policy]
	if p == nil || p.looks[k.Form] == nil {
		return
	}
	head, telltale := stable(s.Answer.Header)
	seen := observation{
		print: b.print(s.Answer.Status, head, s.Answer.Body), target: s.Target, source: s.Source,
		session: b.session(s.Header), telltale: telltale,
	}
	if configured := p.looks[k.Form]; configured.Status != 0 {
		b.compare(k, &s, seen.print, configured)
		return
	}
	if !b.note(k, &s, seen.print) {
		return
	}
	seen.reason = s.unlearnable(k.Method, head, p) // outside of the lock, since it may take a while
	b.judge(k, &s, head, seen)
}

// note remembers the time of an answer, and reports whether it is worth a closer look.
func (b *Book) note(k Key, s *Sample, print uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.open(k)
	b.time(e, s.Took)
	if e.learned.Status != 0 && e.print == print {
		e.again()
		return false
	}
	return e.worthALook()
}

// judge takes the result of that look.
func (b *Book) judge(k Key, s *Sample, head http.Header, seen observation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.open(k)
	if !e.judge(seen) {
		return
	}
	b.bytes -= e.learned.size()
	e.learn(seen, Answer{Status: s.Answer.Status, Header: head.Clone(), Body: slices.Clone(s.Answer.Body)})
	b.bytes += e.learned.size()
	for b.bytes > maxBytes && b.recent.Len() > 1 {
		b.forget(b.recent.Back())
	}
}

// compare notes in what real answers differ from the configured one. Only one that was not seen just before is looked at; of
// one whose body is not known, the head.
func (b *Book) compare(k Key, s *Sample, print uint64, configured *Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.open(k)
	b.time(e, s.Took)
	if e.compared == configured && e.comparedPrint == print {
		return
	}
	real := s.Answer
	if s.Cut {
		real.Body = configured.Body
	}
	e.compared, e.comparedPrint, e.differences = configured, print, Compare(real, *configured)
}

func (b *Book) time(e *entry, took time.Duration) {
	if took <= 0 {
		return
	}
	e.delays.add(took)
	t := timing{e.key.Policy, e.key.Form}
	all := b.timings[t]
	if all == nil {
		all = &delays{}
		b.timings[t] = all
	}
	all.add(took)
}

// find returns the entry of a key, or nil.
func (b *Book) find(k Key) *entry {
	element := b.entries[k]
	if element == nil {
		return nil
	}
	b.recent.MoveToFront(element)
	return element.Value.(*entry)
}

// open returns the entry of a key, a new one if there is none.
func (b *Book) open(k Key) *entry {
	if e := b.find(k); e != nil {
		return e
	}
	for len(b.entries) >= b.maxKeys {
		b.forget(b.recent.Back())
	}
	// The strings may be parts of a request, which would be kept whole.
	k.Realm, k.Policy = strings.Clone(k.Realm), strings.Clone(k.Policy)
	e := &entry{key: k}
	b.entries[k] = b.recent.PushFront(e)
	return e
}

func (b *Book) forget(element *list.Element) {
	e := b.recent.Remove(element).(*entry)
	b.bytes -= e.learned.size()
	delete(b.entries, e.key)
}

// print is a digest of an answer, by a key that nobody else knows.
func (b *Book) print(status int, head http.Header, body []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(b.seed)
	maphash.WriteComparable(&h, status)
	for _, name := range sortedNames(head) {
		h.WriteString(name)
		maphash.WriteComparable(&h, len(head[name]))
		for _, line := range head[name] {
			maphash.WriteComparable(&h, line)
		}
	}
	_, _ = h.Write(body) // never fails
	return h.Sum64()
}

// session is a digest of the cookies of a request; 0: it has none.
func (b *Book) session(header http.Header) uint64 {
	lines := header["Cookie"]
	if len(lines) == 0 {
		return 0
	}
	return maphash.String(b.seed, strings.Join(lines, ";")) | 1
}

// bounded keeps a key to what there can be few of.
func (k Key) bounded() Key {
	k.Method = methodOf(k.Method)
	if k.Kind >= kinds {
		k.Kind = 0
	}
	if k.Form > Success {
		k.Form = Failure
	}
	return k
}
