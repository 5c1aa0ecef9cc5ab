package hostile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// framingPolicies count every login, and refuse none.
const framingPolicies = `
policies:
  login:
    match: [{path: /login}]
    target: {from: ["json:/username", "form:username", "basic"], on_missing: share}
    requests: {target: {limit: 100000, window: 24h}}
    on_ambiguous: reject
`

// framing are the gateway's limits while messages are sent that never end: short, so that waiting for them is too. No
// honest request is sent meanwhile.
const framing = "read_header_timeout: 1s, read_body_timeout: 1s, max_header_bytes: 16KiB"

// silence is how long a message waits for an answer that may never come. A machine that is slower tries less, and
// reports nothing wrong.
const silence = 150 * time.Millisecond

// TestFraming: the backend sees exactly the requests that the gateway counted, each with the body that the gateway read,
// whatever bytes the client has sent. And every answer goes to who asked.
func TestFraming(t *testing.T) {
	tally := class("framing and smuggling")
	messages := framingMessages()
	for _, b := range backends.all(t) {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, b, framing, framingPolicies)
			list := messages
			if b.name == "php" { // it closes every connection, so there is no next request to mistake anything for
				list = list[:len(list)/4]
			}
			b.settle(t)
			answers := throwAll(t, tally, s, list)
			tally.try(len(list))
			if !eventually(func() bool { return int(s.metrics("gateway_requests_total")) == s.account.size() }) {
				tally.evasion(t, "%v requests by the metric, %d in the log", s.metrics("gateway_requests_total"), s.account.size())
			}
			s.stop() // waits for all that is under way
			s.wire.close()
			checkAccounts(t, tally, b, s, answers)
		})
	}
}

// throwAll sends every message on a connection of its own, many at once, and returns the ids of the requests that the backend has
// answered.
func throwAll(t *testing.T, tally *tally, s *site, messages []string) map[string]bool {
	var mu sync.Mutex
	answered := map[string]bool{}
	parallel(messages, 48, func(message string) {
		answers, err := throw(s.addr(), []byte(message), silence)
		if err != nil {
			// What cannot be read is not HTTP/1.1: the error of a client who spoke another version.
			return
		}
		for _, a := range answers {
			saw := a.backendSaw()
			if saw == nil {
				continue
			}
			id := a.header.Get("X-Request-Id")
			if saw.ID != id {
				tally.evasion(t, "the answer to request %q is that to %q: %q", id, saw.ID, head([]byte(message)))
			}
			mu.Lock()
			answered[id] = true
			mu.Unlock()
		}
	})
	return answered
}

// checkAccounts compares what the gateway counted, what stood on the wire, and what the backend saw.
func checkAccounts(t *testing.T, tally *tally, b *backend, s *site, answered map[string]bool) {
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	for _, id := range s.account.twice {
		tally.evasion(t, "two requests have the id %q", id)
	}
	said, err := s.wire.requests()
	if err != nil {
		tally.evasion(t, "the gateway said what not everybody reads alike: %v", err)
	}
	whole := map[string]*sent{}
	partial := map[string]bool{}
	for _, q := range said {
		id, err := q.get("X-Request-Id")
		if err != nil {
			tally.evasion(t, "%s %s: %v", q.method, q.target, err)
		}
		counted, ok := s.account.requests[id]
		switch {
		case id == "" && q.partial: // the connection broke within its header
			continue
		case !ok:
			tally.evasion(t, "the gateway did not count %s %s, which it sent", q.method, q.target)
		case whole[id] != nil || partial[id]:
			tally.evasion(t, "request %s %s was sent twice", q.method, q.target)
		}
		checkFields(t, tally, q)
		if q.partial {
			partial[id] = true
			continue
		}
		whole[id] = q
		checkName(t, tally, q, counted)
	}
	account := b.settle(t)
	checkBackend(t, tally, b, account, whole, partial)
	for id := range answered {
		if _, ok := s.account.requests[id]; !ok || whole[id] == nil {
			tally.evasion(t, "an answer to a request that was not counted, or not sent: %q", id)
		}
	}
	tally.also("requests at a backend", len(account))
	if len(account) < 30 {
		t.Errorf("the backend saw %d requests: the test shows little", len(account))
	}
}

// checkBackend holds the backend's account against the wire.
func checkBackend(t *testing.T, tally *tally, b *backend, account []seen, whole map[string]*sent, partial map[string]bool) {
	known := map[string]bool{}
	for _, a := range account {
		q := whole[a.ID]
		switch {
		case known[a.ID]:
			tally.evasion(t, "%s saw request %q twice, now as %s", b.name, a.ID, a.Target)
		case q == nil && !partial[a.ID]:
			tally.evasion(t, "%s saw %s %s, which was never sent as a request: %q, %d bytes", b.name, a.Method, a.Target, a.ID, a.Length)
		case q != nil && b.whole:
			sum := sha256.Sum256(q.body)
			if a.Length != len(q.body) || a.Sum != hex.EncodeToString(sum[:]) {
				tally.evasion(t, "%s read %d bytes as the body of %s, the gateway sent %d", b.name, a.Length, a.Target, len(q.body))
			}
		}
		known[a.ID] = true
	}
}

// checkName holds the name in a body against the one in the gateway's account.
func checkName(t *testing.T, tally *tally, q *sent, counted request) {
	if path, _, _ := strings.Cut(q.target, "?"); path != "/login" {
		return
	}
	var login struct{ Username string }
	if json.Unmarshal(q.body, &login) != nil || login.Username == "" {
		return
	}
	if counted.target != strings.ToLower(strings.Join(strings.Fields(login.Username), " ")) {
		tally.evasion(t, "the body names %q, and %q was charged: %s %s", login.Username, counted.target, q.method, q.target)
	}
}

// said are the fields about the sender that the gateway always says itself.
var said = map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Real-Ip": "127.0.0.1", "X-Forwarded-Proto": "http"}

// checkFields looks for what must not reach a backend, and for what must.
func checkFields(t *testing.T, tally *tally, q *sent) {
	for name, want := range said {
		if got, err := q.get(name); got != want || err != nil {
			tally.evasion(t, "%s is %q (%v), want %q: %s %s", name, got, err, want, q.method, q.target)
		}
	}
	for _, f := range q.fields {
		name := strings.NewReplacer("_", "-", ".", "-").Replace(http.CanonicalHeaderKey(strings.ToLower(strings.TrimPrefix(f.name, "trailer "))))
		if want, ok := said[http.CanonicalHeaderKey(strings.ToLower(name))]; ok && (f.value != want || strings.ContainsAny(f.name, "_. ")) {
			tally.evasion(t, "%q: %q reached the backend", f.name, f.value)
		}
		if strings.HasPrefix(f.value, "203.0.113.66") {
			tally.evasion(t, "%q: %q, which the client made up, reached the backend", f.name, f.value)
		}
		if strings.EqualFold(f.name, "Injected") || strings.HasPrefix(f.name, "trailer ") && slices.Contains([]string{"content-length", "transfer-encoding", "host", "cookie", "authorization"}, strings.ToLower(f.name[8:])) {
			tally.evasion(t, "%q: %q was injected into %s %s", f.name, f.value, q.method, q.target)
		}
	}
	for _, name := range []string{"Proxy-Connection", "Keep-Alive"} {
		if v, _ := q.get(name); v != "" {
			tally.evasion(t, "%s: %s reached the backend", name, v)
		}
	}
	upgrade, err := q.get("Upgrade")
	for protocol := range strings.SplitSeq(strings.ToLower(upgrade), ",") {
		protocol = strings.TrimSpace(protocol)
		if err != nil || protocol == "h2c" || protocol == "h2" || strings.HasPrefix(protocol, "http/") || strings.HasPrefix(protocol, "tls/") {
			tally.evasion(t, "Upgrade: %s reached the backend (%v)", upgrade, err)
		}
	}
}

// stowaway is a request that hides in the body, or behind the end, of another.
const stowaway = "POST /login?smuggled HTTP/1.1\r\nHost: login.test\r\nX-Smuggled: 1\r\nContent-Type: application/json\r\nContent-Length: 23\r\n\r\n{\"username\":\"smuggled\"}"

// last is a plain request by which a message ends: a gateway that is still within a body takes it for more of that.
const last = "GET /last HTTP/1.1\r\nHost: login.test\r\nConnection: close\r\n\r\n"

// begun is the head of a login up to where its framing fields go.
func begun(path string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: login.test\r\nContent-Type: application/json\r\n"
}

// body is what an honest login carries.
const loginBody = `{"username":"bob"}`

// chunkedBody is the same in one chunk.
var chunkedBody = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(loginBody), loginBody)
