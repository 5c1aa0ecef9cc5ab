package outcome

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

var watched = Config{InspectBytes: 64, Rules: []Rule{
	{Is: "success", Status: []string{"302"}},
	{Is: "failure", Status: []string{"200"}, Body: []string{"wrong"}},
	{Is: "locked", Status: []string{"200"}, Body: []string{"locked"}},
	{Is: "failure", Status: []string{"400"}, JSON: map[string]string{"/error": "bad"}},
}}

var (
	undecided = Result{}
	unknown   = Result{Unknown, Neutral, -1, false}
	broken    = Result{Neutral, Neutral, -1, false}
	failure   = Result{Failure, Failure, 1, false}
	locked    = Result{Locked, Locked, 2, false}
)

// Each case feeds chunks and tells after which of them, counted from 1, the verdict is there; 0 means with the head, one more
// than there are chunks: with the end.
func TestWatch(t *testing.T) {
	long := strings.Repeat(".", 100)
	for _, tc := range []struct {
		name   string
		status int
		header http.Header
		chunks []string
		end    error
		want   Result
		after  int
	}{
		{"by the head", 302, nil, nil, nil, Result{Success, Success, 0, false}, 0},
		{"no body declared", 200, http.Header{"Content-Length": {"0"}}, nil, nil, unknown, 0},
		{"at once", 200, nil, []string{"you are wrong", "!"}, nil, failure, 1},
		{"across chunks, at the end", 200, nil, []string{"it is wr", "ong"}, nil, failure, 3},
		{"across chunks, as declared", 200, http.Header{"Content-Length": {"11"}}, []string{"it is wr", "ong"}, nil, failure, 2},
		{"when doubled", 200, nil, []string{"it", "is wrong", "!", "!"}, nil, failure, 2},
		{"a later rule waits for an earlier one", 200, nil, []string{"locked", "", "1234567 wrong"}, nil, failure, 3},
		{"a later rule at the end", 200, nil, []string{"locked", "out"}, io.EOF, locked, 3},
		{"nothing", 200, nil, []string{"hello"}, nil, unknown, 2},
		{"nothing within the prefix", 200, nil, []string{long, "wrong"}, nil, unknown, 1},
		{"at the end of the prefix", 200, nil, []string{long[:59] + "wrong"}, nil, failure, 1},
		{"across the end of the prefix", 200, nil, []string{long[:60] + "wrong"}, nil, unknown, 1},
		{"length beyond the prefix", 200, http.Header{"Content-Length": {"100"}}, []string{long[:64], "wrong"}, nil, unknown, 1},
		{"length that is none", 200, http.Header{"Content-Length": {"x"}}, []string{"wrong"}, nil, failure, 1},
		{"broken off", 200, nil, []string{"hello"}, io.ErrUnexpectedEOF, broken, 2},
		{"broken off behind the evidence", 200, nil, []string{"a", "wrong"}, io.ErrUnexpectedEOF, failure, 2},
		{"nothing at all", 200, nil, nil, errors.New("reset"), broken, 1},
		{"json waits for the end", 400, nil, []string{`{"error":"bad"}`}, nil, Result{Failure, Failure, 3, false}, 2},
		{"json, as declared", 400, http.Header{"Content-Length": {"15"}}, []string{`{"error":`, `"bad"}`}, nil, Result{Failure, Failure, 3, false}, 2},
		{"json, cut off", 400, nil, []string{`{"error":"bad","more":"` + long}, nil, Result{Failure, Failure, 3, false}, 1},
		{"compressed waits for the end", 200, http.Header{"Content-Encoding": {"gzip"}}, []string{string(compress(t, "gzip", []byte("wrong")))}, nil, failure, 2},
	} {
		w := compiled(t, watched).Watch(tc.status, tc.header, &attempt{})
		after := -1
		check := func(i int) {
			got, ok := w.Result()
			if ok && after < 0 {
				after = i
			}
			if !ok && got != undecided {
				t.Errorf("%s: %+v before the verdict is there", tc.name, got)
			}
		}
		check(0)
		for i, chunk := range tc.chunks {
			told := w.Feed([]byte(chunk))
			if _, ok := w.Result(); told != ok {
				t.Errorf("%s: Feed says %v, Result %v", tc.name, told, ok)
			}
			check(i + 1)
		}
		got := w.End(tc.end)
		check(len(tc.chunks) + 1)
		if got != tc.want || after != tc.after {
			t.Errorf("%s: %+v after %d, want %+v after %d", tc.name, got, after, tc.want, tc.after)
		}
		if w.buf != nil || w.req != nil || w.End(errors.New("again")) != tc.want || !w.Feed([]byte("wrong")) {
			t.Errorf("%s: the watch goes on behind the verdict", tc.name)
		}
	}
}

func TestWatchKeepsNoMoreThanThePrefix(t *testing.T) {
	w := compiled(t, watched).Watch(200, nil, &attempt{})
	for range 1000 {
		w.Feed([]byte("."))
		if len(w.buf) > watched.InspectBytes {
			t.Fatalf("%d bytes are kept, want at most %d", len(w.buf), watched.InspectBytes)
		}
	}
}

// stream hands out its chunks one Read at a time and counts.
type stream struct {
	chunks []string
	err    error
	reads  int
	closed int
}

func (s *stream) Read(p []byte) (int, error) {
	s.reads++
	if len(s.chunks) == 0 {
		return 0, s.err
	}
	n := copy(p, s.chunks[0])
	if s.chunks[0] = s.chunks[0][n:]; s.chunks[0] == "" {
		s.chunks = s.chunks[1:]
	}
	return n, nil
}

func (s *stream) Close() error { s.closed++; return nil }

func TestHold(t *testing.T) {
	reset := errors.New("reset")
	for _, tc := range []struct {
		name   string
		status int
		header http.Header
		body   stream
		want   Result
		prefix string
		err    error
		reads  int
	}{
		{"by the head", 302, nil, stream{chunks: []string{"body"}, err: io.EOF}, Result{Success, Success, 0, false}, "", nil, 0},
		{"first chunk", 200, nil, stream{chunks: []string{"wrong", "rest"}, err: io.EOF}, failure, "wrong", nil, 1},
		{"to the end", 200, nil, stream{chunks: []string{"a", "b", "c"}, err: io.EOF}, unknown, "abc", nil, 4},
		{"to the declared end", 200, http.Header{"Content-Length": {"3"}}, stream{chunks: []string{"a", "bc"}, err: io.EOF}, unknown, "abc", nil, 2},
		{"to the end of the prefix", 200, nil, stream{chunks: []string{strings.Repeat(".", 50), strings.Repeat(".", 50)}, err: io.EOF}, unknown, strings.Repeat(".", 64), nil, 2},
		{"length beyond the prefix", 200, http.Header{"Content-Length": {"9000000000"}}, stream{chunks: []string{strings.Repeat(".", 100)}, err: io.EOF}, unknown, strings.Repeat(".", 64), nil, 1},
		{"longer than declared", 200, http.Header{"Content-Length": {"2"}}, stream{chunks: []string{"abc"}, err: io.EOF}, unknown, "ab", nil, 1},
		{"broken", 200, nil, stream{chunks: []string{"a"}, err: reset}, broken, "a", reset, 2},
	} {
		body, sent := tc.body, strings.Join(tc.body.chunks, "")
		got, prefix, err := compiled(t, watched).Hold(&body, tc.status, tc.header, &attempt{})
		if got != tc.want || string(prefix) != tc.prefix || err != tc.err || body.reads != tc.reads {
			t.Errorf("%s: %+v, %q, %v by %d reads, want %+v, %q, %v by %d", tc.name, got, prefix, err, body.reads, tc.want, tc.prefix, tc.err, tc.reads)
		}
		rest, _ := io.ReadAll(&body)
		if all := string(prefix) + string(rest); all != sent {
			t.Errorf("%s: %q in all, want %q", tc.name, all, sent)
		}
	}
}

func TestHoldGrowsItsBuffer(t *testing.T) {
	page := strings.Repeat("0123456789", 900) + "wrong"
	c := compiled(t, Config{Rules: watched.Rules})
	got, prefix, err := c.Hold(iotest.OneByteReader(strings.NewReader(page)), 200, nil, &attempt{})
	if got.Verdict != Failure || err != nil || string(prefix) != page {
		t.Errorf("%+v, %d bytes, %v, want a failure and all %d", got, len(prefix), err, len(page))
	}
}

func TestObserve(t *testing.T) {
	c := compiled(t, watched)
	for _, tc := range []struct {
		name   string
		status int
		body   stream
		reads  int // how many reads are made before Close; -1: to the end
		want   Result
		before bool // the verdict is there before Close
	}{
		{"by the head", 302, stream{chunks: []string{"x"}, err: io.EOF}, 0, Result{Success, Success, 0, false}, true},
		{"while reading", 200, stream{chunks: []string{"wrong", "x"}, err: io.EOF}, 1, failure, true},
		{"at the end", 200, stream{chunks: []string{"x", "y"}, err: io.EOF}, -1, unknown, true},
		{"at an error", 200, stream{chunks: []string{"x"}, err: io.ErrUnexpectedEOF}, -1, broken, true},
		{"by Close", 200, stream{chunks: []string{"x", "y"}, err: io.EOF}, 1, broken, false},
		{"by Close, unread", 200, stream{chunks: []string{"x"}, err: io.EOF}, 0, broken, false},
	} {
		body, sent := tc.body, strings.Join(tc.body.chunks, "")
		var got []Result
		r := c.Observe(&body, tc.status, nil, &attempt{}, func(r Result) { got = append(got, r) })
		if tc.reads < 0 {
			if passed, _ := io.ReadAll(r); string(passed) != sent {
				t.Errorf("%s: passes on %q, want %q", tc.name, passed, sent)
			}
		}
		for range tc.reads {
			if n, err := r.Read(make([]byte, 10)); n == 0 || err != nil {
				t.Errorf("%s: Read = %d, %v", tc.name, n, err)
			}
		}
		if (len(got) == 1) != tc.before {
			t.Errorf("%s: %v before Close, want a verdict: %v", tc.name, got, tc.before)
		}
		r.Close()
		r.Close()
		if len(got) != 1 || got[0] != tc.want || body.closed != 2 {
			t.Errorf("%s: %v, closed %d times, want once %+v", tc.name, got, body.closed, tc.want)
		}
	}
}

func TestObserveIsClosedFromElsewhere(t *testing.T) {
	c := compiled(t, Config{Rules: watched.Rules})
	for range 50 {
		var mu sync.Mutex
		calls := 0
		r := c.Observe(io.NopCloser(iotest.OneByteReader(bytes.NewReader(make([]byte, 2000)))), 200, nil, &attempt{}, func(Result) {
			mu.Lock()
			calls++
			mu.Unlock()
		})
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = io.ReadAll(r) })
		wg.Go(func() { r.Close() })
		wg.Wait()
		if calls != 1 {
			t.Fatalf("%d calls, want 1", calls)
		}
	}
}

// However an answer is cut into chunks, it means the same.
func FuzzWatch(f *testing.F) {
	f.Add(200, "it is wrong", "next=wrong", 3, true)
	f.Add(400, `{"error":"bad","error":"x"}`, "bad", 1, false)
	f.Add(200, "locked", "", 64, true)
	rules := append([]Rule{{Is: "pending", Status: []string{"2xx"}, Body: []string{"code"}}}, watched.Rules...)
	c := compiled(f, Config{Rules: rules, InspectBytes: 64})
	f.Fuzz(func(t *testing.T, status int, body, value string, size int, declared bool) {
		if size < 1 || status < 100 {
			return
		}
		header := http.Header{}
		if declared {
			header.Set("Content-Length", strconv.Itoa(len(body)))
		}
		req := typed("user", value)
		want := c.Classify(Answer{Status: status, Header: header, Prefix: []byte(body), Truncated: false}, req)
		w := c.Watch(status, header, req)
		for rest := body; rest != ""; {
			n := min(size, len(rest))
			w.Feed([]byte(rest[:n]))
			rest = rest[n:]
		}
		if got := w.End(nil); got != want {
			t.Errorf("%d %q in chunks of %d: %+v, in one piece %+v", status, body, size, got, want)
		}
	})
}
