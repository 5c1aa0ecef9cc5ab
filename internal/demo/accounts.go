package demo

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"
)

// accounts are the fixed users and clients, by digest so that all comparisons take the same time.
type accounts struct {
	users   []account
	clients []account
}

type account struct {
	name         string
	email        string
	needsCode    bool
	nameDigest   [sha256.Size]byte
	secretDigest [sha256.Size]byte
}

func newAccounts() accounts {
	fixed := func(name, secret string, needsCode bool) account {
		return account{
			name: name, email: name + "@example.org", needsCode: needsCode,
			nameDigest: sha256.Sum256([]byte(name)), secretDigest: sha256.Sum256([]byte(secret)),
		}
	}
	return accounts{
		users: []account{
			fixed("alice", "wonderland", false),
			fixed("bob", "builder", false),
			fixed("carol", "singing", true),
		},
		clients: []account{fixed("demo-client", "demo-secret", false)},
	}
}

// user finds the user with that name and password.
func (a *accounts) user(name, password string) (account, bool) {
	return find(a.users, strings.ToLower(strings.TrimSpace(name)), password)
}

// client finds the OAuth client with that identifier and secret.
func (a *accounts) client(id, secret string) (account, bool) {
	return find(a.clients, id, secret)
}

// find compares with every account, whatever it finds, so that the time tells nothing.
func find(list []account, name, secret string) (account, bool) {
	nameDigest, secretDigest := sha256.Sum256([]byte(name)), sha256.Sum256([]byte(secret))
	found := -1
	for i := range list {
		same := subtle.ConstantTimeCompare(nameDigest[:], list[i].nameDigest[:]) &
			subtle.ConstantTimeCompare(secretDigest[:], list[i].secretDigest[:])
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	if found < 0 {
		return account{}, false
	}
	return list[found], true
}

// tickets map random identifiers to values, for a while, and not more than so many.
type tickets[T any] struct {
	ttl time.Duration

	mu   sync.Mutex
	byID map[string]ticket[T]
	// slots holds the identifiers in the order in which they were given out; next is the oldest.
	slots []string
	next  int
}

type ticket[T any] struct {
	value   T
	expires time.Time
}

func newTickets[T any](most int, ttl time.Duration) *tickets[T] {
	return &tickets[T]{ttl: ttl, byID: make(map[string]ticket[T]), slots: make([]string, most)}
}

// issue gives out an identifier for a value. The oldest one ends if there is no room.
func (t *tickets[T]) issue(value T) (id string) {
	id = rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, t.slots[t.next])
	t.slots[t.next] = id
	t.next = (t.next + 1) % len(t.slots)
	t.byID[id] = ticket[T]{value, time.Now().Add(t.ttl)}
	return id
}

func (t *tickets[T]) find(id string) (value T, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, ok := t.byID[id]
	if !ok || !time.Now().Before(found.expires) {
		return value, false
	}
	return found.value, true
}

func (t *tickets[T]) end(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, id)
}

// newCode returns six random digits.
func newCode() string {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		// crypto/rand's reader never fails: it ends the program instead.
		return ""
	}
	return fmt.Sprintf("%06d", n)
}
