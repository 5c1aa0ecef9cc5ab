package admin

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"authgate/limits"
)

// Throttle is the failure rules of one policy, in the words of /meta/login-rate-limit. A count of 0: no such rule.
type Throttle struct {
	Enabled              bool   `json:"enabled"`
	Backend              string `json:"backend"`
	MaxAttempts          int    `json:"max_attempts"`
	MaxAttemptsPerIP     int    `json:"max_attempts_per_ip"`
	MaxAttemptsPerSubnet int    `json:"max_attempts_per_subnet"`
	WindowSeconds        int64  `json:"window_seconds"`
	BackoffBaseSeconds   int64  `json:"backoff_base_seconds"`
	BackoffMaxSeconds    int64  `json:"backoff_max_seconds"`
	SubnetPrefixV4       int    `json:"subnet_prefix_v4"`
	SubnetPrefixV6       int    `json:"subnet_prefix_v6"`
}

// listing is the answer of GET /meta/login-rate-limit.
type listing struct {
	Config   Throttle `json:"config"`
	Tracked  int      `json:"tracked_entries"`
	Locked   int      `json:"locked_entries"`
	Returned int      `json:"returned_entries"`
	Entries  []lock   `json:"entries"`
	Next     string   `json:"next_cursor,omitempty"`
	// Truncated: there were more buckets than one answer looks at; the counts are of those that were.
	Truncated bool `json:"truncated,omitempty"`
}

// lock is one failure bucket.
type lock struct {
	ID         string `json:"id"`
	Scope      string `json:"scope"`
	Identifier string `json:"identifier"`
	Attempts   int64  `json:"attempts"`
	Locked     bool   `json:"locked"`
	LockedFor  *int64 `json:"locked_for_seconds"` // null when open
	Level      int64  `json:"lockout_level"`
	Policy     string `json:"policy"`
	Realm      string `json:"realm"`
}

// Bounds of a listing.
const (
	defaultPage = 1000
	maxPage     = 10_000
	maxRead     = 200_000 // buckets that are looked at for one answer
	readStep    = 512     // buckets asked of the store at once
	readTime    = 10 * time.Second
)

// filter is what a listing is asked for.
type filter struct {
	all    bool
	scope  string
	policy string
	q      string
	limit  int
	after  string // key of the last entry of the page before
}

var scopes = []string{"user_ip", "ip", "subnet", "user", "device", "client"}

// scopeOf names a bucket's dimension as the model does, and ours in the same manner.
func scopeOf(d limits.Dimension) string {
	switch d {
	case limits.TargetSource:
		return "user_ip"
	case limits.Source:
		return "ip"
	case limits.Subnet:
		return "subnet"
	case limits.Target:
		return "user"
	case limits.Device:
		return "device"
	case limits.Client:
		return "client"
	}
	return d.String()
}

func (h *Handler) parseFilter(r *http.Request) (filter, error) {
	bad := func(message string) (filter, error) {
		return filter{}, fault{http.StatusBadRequest, "bad_request", message}
	}
	f := filter{limit: defaultPage}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return bad("the query cannot be read")
	}
	for name, values := range query {
		if len(values) != 1 {
			return bad(name + ": give it once")
		}
		v := values[0]
		switch name {
		case "include":
			if v != "locked" && v != "all" {
				return bad("include: use locked or all")
			}
			f.all = v == "all"
		case "scope":
			if !slices.Contains(scopes, v) {
				return bad("scope: use one of " + strings.Join(scopes, ", "))
			}
			f.scope = v
		case "policy":
			if _, ok := h.state.Throttle(v); !ok || v == "" {
				return bad("policy: there is no policy of that name with failure rules")
			}
			f.policy = v
		case "q":
			f.q = strings.ToLower(v)
		case "limit":
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 || n > maxPage {
				return bad("limit: use 1.." + strconv.Itoa(maxPage))
			}
			f.limit = n
		case "cursor":
			key, err := base64.RawURLEncoding.DecodeString(v)
			if _, ok := limits.ParseKey(string(key)); err != nil || !ok {
				return bad("cursor: use next_cursor of the page before")
			}
			f.after = string(key)
		default:
			return bad(name + ": no such parameter; use include, scope, policy, q, limit, cursor")
		}
	}
	return f, nil
}

// listLocks shows failure buckets [A2].
func (h *Handler) listLocks(r *http.Request, _ caller) (any, error) {
	f, err := h.parseFilter(r)
	if err != nil {
		return nil, err
	}
	out := listing{Entries: []lock{}}
	out.Config, _ = h.state.Throttle(f.policy)
	ctx, cancel := context.WithTimeout(r.Context(), readTime)
	defer cancel()
	entries, truncated, err := readAll(ctx, h.state.Locks())
	if err != nil {
		return nil, err
	}
	out.Truncated = truncated
	out.Tracked = len(entries)
	for _, e := range entries {
		if e.LockedFor > 0 {
			out.Locked++
		}
		l, ok := f.entry(e)
		if !ok {
			continue
		}
		out.Returned++
		switch {
		case e.Key <= f.after: // on a page before; no key is empty
		case len(out.Entries) < f.limit:
			out.Entries = append(out.Entries, l)
		default:
			out.Next = out.Entries[f.limit-1].ID
		}
	}
	return out, nil
}

// readAll reads the index of failure buckets, sorted by key and each bucket once: a store may name one twice
// while it moves.
func readAll(ctx context.Context, from limits.Locks) (all []limits.Entry, truncated bool, err error) {
	for cursor := ""; ; {
		page, next, err := from.Entries(ctx, cursor, readStep)
		if err != nil {
			return nil, false, err
		}
		all = append(all, page...)
		if next == "" {
			break
		}
		if len(all) >= maxRead {
			truncated = true
			break
		}
		cursor = next
	}
	slices.SortFunc(all, func(a, b limits.Entry) int { return strings.Compare(a.Key, b.Key) })
	return slices.CompactFunc(all, func(a, b limits.Entry) bool { return a.Key == b.Key }), truncated, nil
}

// entry is e as it is shown; ok is false if it is not asked for.
func (f *filter) entry(e limits.Entry) (l lock, ok bool) {
	parts, ok := limits.ParseKey(e.Key)
	if !ok || (!f.all && e.LockedFor <= 0) || (f.policy != "" && parts.Policy != f.policy) {
		return l, false
	}
	l = lock{
		ID: base64.RawURLEncoding.EncodeToString([]byte(e.Key)), Scope: scopeOf(parts.Dimension),
		Identifier: strings.Replace(parts.Value, "\x00missing", "(missing)", 1),
		Attempts:   e.Attempts, Locked: e.LockedFor > 0, Level: e.Level, Policy: parts.Policy, Realm: parts.Realm,
	}
	if f.scope != "" && f.scope != l.Scope {
		return l, false
	}
	if f.q != "" && !strings.Contains(strings.ToLower(l.Identifier), f.q) {
		return l, false
	}
	if l.Locked {
		seconds := (e.LockedFor + 999) / 1000
		l.LockedFor = &seconds
	}
	return l, true
}

// releaseLock forgets one failure bucket.
func (h *Handler) releaseLock(r *http.Request, who caller) (any, error) {
	gone := fault{http.StatusNotFound, "not_found", "there is no such entry; it may have expired"}
	key, err := base64.RawURLEncoding.DecodeString(r.PathValue("id"))
	if err != nil {
		return nil, gone
	}
	parts, ok := limits.ParseKey(string(key))
	if !ok || parts.Class == limits.Requests {
		return nil, gone
	}
	found, err := h.state.Locks().Release(r.Context(), string(key))
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, gone
	}
	h.audit("release", who.name, slog.String("policy", parts.Policy), slog.String("scope", scopeOf(parts.Dimension)),
		slog.String("realm", parts.Realm), slog.String("identity", parts.Value))
	return map[string]bool{"released": true}, nil
}

// clearLocks forgets all of them.
func (h *Handler) clearLocks(r *http.Request, who caller) (any, error) {
	if r.URL.RawQuery != "" {
		return nil, fault{http.StatusBadRequest, "bad_request", "clearing takes no filter; release single entries by id"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTime)
	defer cancel()
	n, err := h.state.Locks().Clear(ctx)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fault{http.StatusServiceUnavailable, "store_unavailable", "not all entries were cleared in time; ask again"}
		}
		return nil, err
	}
	h.audit("clear", who.name, slog.Int("cleared", n))
	return map[string]int{"cleared": n}, nil
}
