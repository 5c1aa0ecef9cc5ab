package demo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"
)

const (
	// maxWait bounds a pause that a request asks for.
	maxWait = 10 * time.Second
	// maxEvents bounds a stream.
	maxEvents = 1000
	// maxEcho bounds the body that echo repeats, in bytes.
	maxEcho = 1 << 20
	// maxUpload bounds the body that upload reads, in bytes.
	maxUpload = 1 << 30
)

// slow answers after a pause.
func slow(w http.ResponseWriter, r *http.Request) {
	wait, ok := number(w, r, "ms", 1000, int(maxWait/time.Millisecond))
	if !ok {
		return
	}
	if !pause(r, time.Duration(wait)*time.Millisecond) {
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "stopping"})
		return
	}
	writeJSON(w, http.StatusOK, map[string]int{"waited_ms": wait})
}

// echo repeats what arrived.
func echo(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r, maxEcho)
	if !ok {
		return
	}
	answer := struct {
		Method     string      `json:"method"`
		Target     string      `json:"target"`
		Path       string      `json:"path"`
		Query      string      `json:"query"`
		Proto      string      `json:"proto"`
		Host       string      `json:"host"`
		RemoteAddr string      `json:"remote_addr"`
		Headers    http.Header `json:"headers"`
		Trailers   http.Header `json:"trailers,omitempty"`
		Body       string      `json:"body"`
		BodyBytes  []byte      `json:"body_base64,omitempty"`
		Length     int         `json:"body_length"`
	}{
		r.Method, r.RequestURI, r.URL.Path, r.URL.RawQuery, r.Proto, r.Host, r.RemoteAddr, r.Header, r.Trailer,
		string(body), nil, len(body),
	}
	if !utf8.Valid(body) { // which JSON cannot carry as text
		answer.Body, answer.BodyBytes = "", body
	}
	writeJSON(w, http.StatusOK, answer)
}

// events streams server-sent events, each sent as soon as it is there.
func events(w http.ResponseWriter, r *http.Request) {
	count, ok := number(w, r, "n", 5, maxEvents)
	if !ok {
		return
	}
	wait, ok := number(w, r, "ms", 200, int(maxWait/time.Millisecond))
	if !ok {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	stream := http.NewResponseController(w)
	for i := 1; i <= count; i++ {
		fmt.Fprintf(w, "id: %d\nevent: tick\ndata: {\"n\":%d}\n\n", i, i)
		if stream.Flush() != nil || i < count && !pause(r, time.Duration(wait)*time.Millisecond) {
			return
		}
	}
}

// upload tells the size and digest of the body, which it does not keep.
func upload(w http.ResponseWriter, r *http.Request) {
	digest := sha256.New()
	n, err := io.Copy(digest, http.MaxBytesReader(w, r.Body, maxUpload))
	if err != nil {
		writeBodyError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, struct {
		Bytes  int64  `json:"bytes"`
		SHA256 string `json:"sha256"`
	}{n, hex.EncodeToString(digest.Sum(nil))})
}

// number reads a number from the query, limited to most, or answers the request and reports false.
func number(w http.ResponseWriter, r *http.Request, name string, otherwise, most int) (int, bool) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "invalid_request"})
		return 0, false
	}
	return min(n, most), true
}

// pause waits, and reports false if the client went away or the backend stops meanwhile.
func pause(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}
