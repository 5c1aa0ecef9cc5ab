package mimic

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Answer is an answer as a client sees it. It is shared: whoever gets one only reads it. The zero value is none.
type Answer struct {
	Status int
	// Header has canonical names. Without Content-Length the body is sent in chunks, as the backend sent it.
	Header http.Header
	Body   []byte
}

// Form is what a refusal looks like.
type Form uint8

const (
	Failure Form = iota // like a wrong password: `uniform`
	Success             // like a success: `silent`
)

// String is the word of the configuration.
func (f Form) String() string {
	if f == Success {
		return "silent"
	}
	return "uniform"
}

// MaxBody bounds the body of a learned answer, in bytes.
const MaxBody = 64 << 10

// NewAnswer makes an answer of what the configuration says; form is what it is for. A status of 0 is 401 for a failure and 200
// for a success. Without a Content-Type the body tells it. All errors are returned, joined.
func NewAnswer(form Form, status int, headers map[string]string, body string) (Answer, error) {
	var errs []error
	if status == 0 {
		status = plain(form).Status
	}
	switch {
	case status < 200 || status > 599:
		errs = append(errs, fmt.Errorf("status: %d is no status of an answer; use 200 to 599", status))
	case bodyless(status) && body != "":
		errs = append(errs, fmt.Errorf("body: an answer of status %d has none", status))
	}
	a := Answer{Status: status, Header: make(http.Header, len(headers)+2), Body: []byte(body)}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			errs = append(errs, fmt.Errorf("headers: %q is no header name", name))
		case !httpguts.ValidHeaderFieldValue(headers[name]):
			errs = append(errs, fmt.Errorf("headers: the value of %s cannot stand in a header", canonical))
		case a.Header[canonical] != nil:
			errs = append(errs, fmt.Errorf("headers: %s is there twice", canonical))
		case !settable(canonical):
			errs = append(errs, fmt.Errorf("headers: %s cannot be the same in every answer", canonical))
		}
		a.Header[canonical] = []string{headers[name]}
	}
	if len(errs) > 0 {
		return Answer{}, errors.Join(errs...)
	}
	if a.Header["Content-Type"] == nil && body != "" {
		a.Header["Content-Type"] = []string{contentType(body)}
	}
	if !bodyless(status) {
		a.Header["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	return a, nil
}

// settable says that a header may be configured: not what the connection is framed by, not what changes from answer to
// answer, and not Retry-After, which no wrong password brings along [R2].
func settable(canonical string) bool {
	switch canonical {
	case "Content-Encoding", "Content-Length", "Retry-After", "Set-Cookie":
		return false
	}
	return !hopByHop(canonical) && !volatile(canonical)
}

func bodyless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusNotModified
}

// contentType is what a configured body is, by the way it begins.
func contentType(body string) string {
	body = strings.TrimLeft(body, " \t\r\n")
	switch {
	case strings.HasPrefix(body, "{"), strings.HasPrefix(body, "["):
		return "application/json"
	case strings.HasPrefix(body, "<"):
		return "text/html; charset=utf-8"
	}
	return "text/plain; charset=utf-8"
}

// plain is what is shown when nothing is known of the backend. The success says nothing, since what a success of this backend
// would say is anybody's guess, and an empty object is JSON to whoever expects some.
func plain(form Form) Answer {
	status, body := http.StatusUnauthorized, `{"error":"invalid_credentials"}`
	if form == Success {
		status, body = http.StatusOK, `{}`
	}
	return Answer{
		Status: status,
		Header: http.Header{
			"Cache-Control":  {"no-store"},
			"Content-Length": {strconv.Itoa(len(body))},
			"Content-Type":   {"application/json"},
		},
		Body: []byte(body),
	}
}

// Send writes the answer the way a proxy passes on the backend's: with a length or in chunks, as that came, and with no header
// of its own making. method is that of the request. Headers that are set already stay, unless the answer has them too. The
// error is that of the connection.
func (a Answer) Send(w http.ResponseWriter, method string) error {
	h := w.Header()
	maps.Copy(h, a.Header)
	if _, ok := a.Header["Content-Type"]; !ok {
		h["Content-Type"] = nil // or the server would guess one
	}
	w.WriteHeader(a.Status)
	if method == http.MethodHead || bodyless(a.Status) {
		return nil
	}
	if _, ok := a.Header["Content-Length"]; !ok {
		// The server counts a short body unless it has been told to send before it knows the end.
		if err := http.NewResponseController(w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return fmt.Errorf("sending an answer: %w", err)
		}
	}
	if _, err := w.Write(a.Body); err != nil {
		return fmt.Errorf("sending an answer: %w", err)
	}
	return nil
}

// size is about what the answer weighs in memory, in bytes.
func (a *Answer) size() int {
	n := len(a.Body)
	for name, lines := range a.Header {
		n += len(name) + 64
		for _, line := range lines {
			n += len(line) + 16
		}
	}
	return n
}
