// Package clients knows the confidential clients: who they are, and whether a request's Basic credentials are theirs.
package clients

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Client is one confidential client.
type Client struct {
	ID        string
	Realm     string
	App       string // "" is none
	Secret    Hash
	Forwarder bool // may state the end user's address [M5]
}

// Registry authenticates clients. Use [New]; it is safe for concurrent use, and its memory is bounded. It belongs to the
// program rather than to a plan where the cost of verifying is to survive a reload.
type Registry struct {
	clients map[name]*Client
	key     [32]byte // of the digests of verified credentials; made anew in each process
	busy    chan struct{}

	mu       sync.Mutex
	verified map[[32]byte]*Client
	wrong    map[netip.Prefix]attempts
}

type name struct{ realm, id string }

// attempts are the wrong secrets of one source in the current minute.
type attempts struct {
	minute int64
	n      int
}

const (
	// maxVerifying bounds the slow hashes computed at once, so that they leave processors to everybody else; [M5] allows two.
	maxVerifying = 1
	// maxWrong bounds the wrong secrets of one source that are computed in a minute; beyond it none is.
	maxWrong = 5
	// maxRemembered bounds the credentials, and maxSources the sources, that are remembered.
	maxRemembered = 10_000
	maxSources    = 10_000
)

// New makes a registry. Two clients of one realm with the same id are an error.
func New(list []Client) (*Registry, error) {
	r := &Registry{
		clients:  make(map[name]*Client, len(list)),
		busy:     make(chan struct{}, maxVerifying),
		verified: make(map[[32]byte]*Client),
		wrong:    make(map[netip.Prefix]attempts),
	}
	_, _ = rand.Read(r.key[:]) // never fails
	for i := range list {
		c := list[i]
		n := name{c.Realm, c.ID}
		if r.clients[n] != nil {
			return nil, fmt.Errorf("preparing clients: %q is there twice in realm %q", c.ID, c.Realm)
		}
		r.clients[n] = &c
	}
	return r, nil
}

// Authenticate is the client of the realm whose credentials the request carries, or nil: there are none, they are wrong, or
// the source has been wrong too often to be looked at. It takes the time of a slow hash once for each right secret, and
// waits for others that verify until ctx is done.
func (r *Registry) Authenticate(ctx context.Context, realm string, header http.Header, source netip.Addr) *Client {
	if r == nil || len(r.clients) == 0 {
		return nil
	}
	id, secret, ok := Basic(header)
	if !ok {
		return nil
	}
	c := r.clients[name{realm, id}]
	if c == nil {
		return nil
	}
	digest := r.digest(c, secret)
	if r.known(digest) == c {
		return c
	}
	from := sourceOf(source)
	if !r.mayTry(from) {
		return nil
	}
	select {
	case r.busy <- struct{}{}:
		defer func() { <-r.busy }()
	case <-ctx.Done():
		return nil
	}
	if !c.Secret.Matches(secret) {
		r.failed(from)
		return nil
	}
	r.remember(digest, c)
	return c
}

// digest stands for verified credentials, so that no secret is kept.
func (r *Registry) digest(c *Client, secret string) (d [32]byte) {
	mac := hmac.New(sha256.New, r.key[:])
	for _, part := range []string{c.Realm, c.ID, string(c.Secret.text), secret} {
		fmt.Fprintf(mac, "%d:", len(part))
		mac.Write([]byte(part))
	}
	mac.Sum(d[:0])
	return d
}

func (r *Registry) known(digest [32]byte) *Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.verified[digest]
}

func (r *Registry) remember(digest [32]byte, c *Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.verified) >= maxRemembered {
		clear(r.verified) // each costs its hash once more
	}
	r.verified[digest] = c
}

// sourceOf is the unit in which wrong secrets are counted.
func sourceOf(a netip.Addr) netip.Prefix {
	bits := 64
	if a = a.Unmap(); a.Is4() {
		bits = 32
	}
	p, _ := a.Prefix(bits) // no address: the zero prefix, which all such requests share
	return p
}

func (r *Registry) mayTry(from netip.Prefix) bool {
	minute := time.Now().Unix() / 60
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.wrong[from]
	return a.minute != minute || a.n < maxWrong
}

func (r *Registry) failed(from netip.Prefix) {
	minute := time.Now().Unix() / 60
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.wrong[from]
	if a.minute != minute {
		a = attempts{minute: minute}
		if len(r.wrong) >= maxSources {
			clear(r.wrong)
		}
	}
	a.n++
	r.wrong[from] = a
}
