// Package lookup asks the operator's own service whether a mailbox or a name is known [M6].
package lookup

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Hook is the service. Both of its answers are remembered for a while, in bounds. Use [New]; it is safe for concurrent use.
type Hook struct {
	cfg    Config
	client *http.Client

	mu    sync.Mutex
	cache map[question]answer
}

// Config says where the service is.
type Config struct {
	URL     string
	Secret  string        // signs the questions
	Timeout time.Duration // of one question
	Failed  func(error)   // told of each failure; nil: nobody is
}

type question struct{ realm, target string }

type answer struct {
	known bool
	until time.Time
}

const (
	// keepAnswer is how long an answer holds: a mailbox that signs up is known soon after.
	keepAnswer = 5 * time.Minute
	maxAnswers = 10_000
	maxReply   = 4 << 10 // bytes
)

// New makes a hook. Nothing is asked yet.
func New(cfg Config) *Hook {
	if cfg.Failed == nil {
		cfg.Failed = func(error) {}
	}
	return &Hook{
		cfg: cfg, cache: make(map[question]answer),
		client: &http.Client{
			Timeout:       cfg.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Known asks whether a target exists in a realm. An error means that the service has not said.
func (h *Hook) Known(ctx context.Context, realm, target string) (bool, error) {
	q := question{realm, target}
	h.mu.Lock()
	a, ok := h.cache[q]
	h.mu.Unlock()
	if ok && time.Now().Before(a.until) {
		return a.known, nil
	}
	known, err := h.ask(ctx, q)
	if err != nil {
		err = fmt.Errorf("asking whether a target is known: %w", err)
		h.cfg.Failed(err)
		return false, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.cache) >= maxAnswers {
		clear(h.cache) // each costs its question once more
	}
	h.cache[q] = answer{known, time.Now().Add(keepAnswer)}
	return known, nil
}

func (h *Hook) ask(ctx context.Context, q question) (known bool, err error) {
	body, err := json.Marshal(map[string]string{"realm": q.realm, "target": q.target})
	if err != nil {
		return false, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the URL cannot be used") // the cause would show it, and it may hold a key
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Gateway-Signature", Sign(h.cfg.Secret, time.Now(), body))
	res, err := h.client.Do(r)
	if err != nil {
		var timeout interface{ Timeout() bool }
		if errors.As(err, &timeout) && timeout.Timeout() {
			return false, errors.New("no answer in time")
		}
		return false, errors.New("no answer")
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return false, fmt.Errorf("it answered %s", res.Status)
	}
	var out struct{ Known *bool }
	b, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	if err != nil {
		return false, errors.New("its answer broke off")
	}
	if json.Unmarshal(b, &out) != nil || out.Known == nil {
		return false, errors.New(`its answer is not {"known": true} or {"known": false}`)
	}
	return *out.Known, nil
}

// Sign is the signature of a body that is sent at a time: t=UNIX,v1=HEX, an HMAC-SHA-256 over UNIX.BODY.
func Sign(secret string, at time.Time, body []byte) string {
	unix := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(unix + "."))
	mac.Write(body)
	return "t=" + unix + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
