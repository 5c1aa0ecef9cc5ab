package admin

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"authgate/limits"
)

// Devices lists and revokes the browsers that are trusted for users [D7]. Errors may wrap [limits.ErrUnavailable] and
// [limits.ErrCursor].
type Devices interface {
	// List gives the devices of at most limit users, of a realm and of a target unless those are empty; next is "" at the end, and
	// a page before that may be empty.
	List(ctx context.Context, realm, target, cursor string, limit int) (list []Device, next string, err error)
	// Revoke ends the trust of one device for all its users, whose targets it returns; none if there is no such device.
	Revoke(ctx context.Context, realm, device string) (targets []string, err error)
	// RevokeUser ends the trust of all devices of a user, and reports how many there were.
	RevokeUser(ctx context.Context, realm, target string) (int, error)
}

// Device is one browser that is trusted for one user. Nothing in it identifies the browser beyond a random id.
type Device struct {
	Realm       string
	Target      string
	Device      string    // public id; not what the cookie holds
	Since       time.Time // of the first login
	LastSuccess time.Time
	Expires     time.Time
	Failures    int // wrong passwords since the last success
}

// deviceView is a device in JSON.
type deviceView struct {
	ID          string `json:"id"`
	Device      string `json:"device"`
	Realm       string `json:"realm"`
	Target      string `json:"target"`
	Since       string `json:"trusted_since"`
	LastSuccess string `json:"last_success"`
	Expires     string `json:"expires"`
	Failures    int    `json:"failures_since"`
}

// deviceListing is the answer of GET /meta/devices.
type deviceListing struct {
	Devices []deviceView `json:"devices"`
	Next    string       `json:"next_cursor,omitempty"`
}

// deviceQuery is what a request about devices asks for.
type deviceQuery struct {
	realm, target, cursor string
	limit                 int
}

func badRequest(message string) error { return fault{http.StatusBadRequest, "bad_request", message} }

var errCursor = badRequest("cursor: use next_cursor of the page before")

// parseDevices reads the parameters; only those of the names in allowed may be there.
func parseDevices(r *http.Request, allowed string) (q deviceQuery, err error) {
	q.limit = defaultPage
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, badRequest("the query cannot be read")
	}
	for name, values := range query {
		if !strings.Contains(" "+allowed+" ", " "+name+" ") {
			return q, badRequest(name + ": no such parameter; use " + strings.ReplaceAll(allowed, " ", ", "))
		}
		if len(values) != 1 {
			return q, badRequest(name + ": give it once")
		}
		switch v := values[0]; name {
		case "realm":
			q.realm = v
		case "target":
			q.target = v
		case "cursor":
			text, err := base64.RawURLEncoding.DecodeString(v)
			if err != nil {
				return q, errCursor
			}
			q.cursor = string(text)
		case "limit":
			if q.limit, err = strconv.Atoi(v); err != nil || q.limit < 1 || q.limit > maxPage {
				return q, badRequest("limit: use 1.." + strconv.Itoa(maxPage))
			}
		}
	}
	return q, nil
}

// listDevices shows trusted devices.
func (h *Handler) listDevices(r *http.Request, _ caller) (any, error) {
	q, err := parseDevices(r, "realm target limit cursor")
	if err != nil {
		return nil, err
	}
	list, next, err := h.state.Devices().List(r.Context(), q.realm, q.target, q.cursor, q.limit)
	if errors.Is(err, limits.ErrCursor) {
		return nil, errCursor
	}
	if err != nil {
		return nil, err
	}
	out := deviceListing{Devices: []deviceView{}, Next: base64.RawURLEncoding.EncodeToString([]byte(next))}
	for i := range list {
		out.Devices = append(out.Devices, viewOf(&list[i]))
	}
	return out, nil
}

func viewOf(d *Device) deviceView {
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	return deviceView{
		ID: deviceID(d.Realm, d.Device), Device: d.Device, Realm: d.Realm, Target: d.Target,
		Since: stamp(d.Since), LastSuccess: stamp(d.LastSuccess), Expires: stamp(d.Expires), Failures: d.Failures,
	}
}

// deviceID names a device. No realm holds a NUL.
func deviceID(realm, device string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(realm + "\x00" + device))
}

// revokeDevice ends the trust of one device, for all its users.
func (h *Handler) revokeDevice(r *http.Request, who caller) (any, error) {
	text, err := base64.RawURLEncoding.DecodeString(r.PathValue("id"))
	realm, device, ok := strings.Cut(string(text), "\x00")
	if err != nil || !ok {
		return nil, badRequest("id: use the id of a listed device")
	}
	targets, err := h.state.Devices().Revoke(r.Context(), realm, device)
	if err != nil {
		return nil, err
	}
	if len(targets) == 0 {
		return nil, fault{http.StatusNotFound, "not_found", "there is no such device"}
	}
	for _, target := range targets {
		h.audit("device_revoked", who.name, slog.String("realm", realm), slog.String("identity", target), slog.String("device", device),
			slog.String("reason", "operator"))
	}
	return map[string]bool{"revoked": true}, nil
}

// revokeDevices ends the trust of all devices of one user.
func (h *Handler) revokeDevices(r *http.Request, who caller) (any, error) {
	q, err := parseDevices(r, "realm target")
	if err != nil {
		return nil, err
	}
	if q.realm == "" || q.target == "" {
		return nil, badRequest("realm, target: name the user, as listed")
	}
	n, err := h.state.Devices().RevokeUser(r.Context(), q.realm, q.target)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, fault{http.StatusNotFound, "not_found", "no device is trusted for that user; name it as it is listed"}
	}
	h.audit("device_revoked", who.name, slog.String("realm", q.realm), slog.String("identity", q.target), slog.Int("devices", n),
		slog.String("reason", "operator"))
	return map[string]int{"revoked": n}, nil
}
