package demo

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	formType = "application/x-www-form-urlencoded"
	jsonType = "application/json"
)

func newBackend(t testing.TB, cfg Config) *Backend {
	t.Helper()
	b, err := New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return b
}

// ask sends one request with pairs of header names and values.
func ask(b *Backend, method, target, body string, header ...string) *http.Response {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w.Result()
}

func form(b *Backend, target string, pairs ...string) *http.Response {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return ask(b, "POST", target, values.Encode(), "Content-Type", formType)
}

func text(t testing.TB, res *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	return string(body)
}

func cookieOf(res *http.Response, name string) string {
	for _, c := range res.Cookies() {
		if c.Name == name {
			return c.Name + "=" + c.Value
		}
	}
	return ""
}

func lastCode(t testing.TB, b *Backend, to string) string {
	t.Helper()
	_, mails := b.outbox.list()
	if len(mails) == 0 || mails[0].To != to || len(mails[0].Code) != 6 {
		t.Fatalf("outbox: got %+v, want a code for %s", mails, to)
	}
	return mails[0].Code
}

func TestLoginForm(t *testing.T) {
	for _, tc := range []struct {
		name, user, password string
		ok                   bool
	}{
		{"alice", "alice", "wonderland", true},
		{"bob", "bob", "builder", true},
		{"other spelling of the name", " ALICE ", "wonderland", true},
		{"wrong password", "alice", "builder", false},
		{"other spelling of the password", "alice", "Wonderland", false},
		{"password with blank", "alice", "wonderland ", false},
		{"no such user", "mallory", "wonderland", false},
		{"nothing", "", "", false},
	} {
		b := newBackend(t, Config{})
		res := form(b, "/login", "username", tc.user, "password", tc.password)
		body := text(t, res)
		session := cookieOf(res, "session")
		if tc.ok {
			if res.StatusCode != 302 || res.Header.Get("Location") != "/welcome" || session == "" {
				t.Errorf("%s: got %d, Location %q, cookie %q, want 302 to /welcome with a session", tc.name, res.StatusCode, res.Header.Get("Location"), session)
			}
			if page := text(t, ask(b, "GET", "/welcome", "", "Cookie", session)); !strings.Contains(page, `id="user">`+strings.ToLower(strings.TrimSpace(tc.user))) {
				t.Errorf("%s: the welcome page does not name the user:\n%s", tc.name, page)
			}
			continue
		}
		if res.StatusCode != 200 || !strings.Contains(body, `id="login_error"`) || len(res.Cookies()) != 0 {
			t.Errorf("%s: got %d, cookies %v, want 200 with login_error and without cookies:\n%s", tc.name, res.StatusCode, res.Cookies(), body)
		}
	}
}

func TestLoginPage(t *testing.T) {
	b := newBackend(t, Config{})
	res := ask(b, "GET", "/login", "")
	page := text(t, res)
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/html; charset=utf-8" || strings.Contains(page, "login_error") {
		t.Errorf("got %d, %s:\n%s", res.StatusCode, res.Header.Get("Content-Type"), page)
	}
	for _, want := range []string{
		`<html lang="en">`, "<title>Sign in", `<label for="username">`, `<label for="password">`, `autocomplete="current-password"`,
		`action="/login"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	page = text(t, form(b, "/login", "username", `"><script>`, "password", "x"))
	if strings.Contains(page, "<script>") || !strings.Contains(page, `value="&#34;&gt;&lt;script&gt;"`) {
		t.Errorf("the name is not escaped:\n%s", page)
	}
}

func TestLoginJSON(t *testing.T) {
	b := newBackend(t, Config{})
	for _, tc := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"right", `{"username":"alice","password":"wonderland"}`, 200, `"token_type":"Bearer"`},
		{"wrong", `{"username":"alice","password":"x"}`, 401, `{"error":"invalid_credentials"}`},
		{"no member", `{}`, 401, `{"error":"invalid_credentials"}`},
		{"number", `{"username":"alice","password":1}`, 401, `{"error":"invalid_credentials"}`},
		{"broken", `{"username":`, 400, `{"error":"invalid_request"}`},
		{"trailing", `{} {}`, 400, `{"error":"invalid_request"}`},
		{"array", `[]`, 400, `{"error":"invalid_request"}`},
		{"large", `{"username":"` + strings.Repeat("a", maxFields) + `"}`, 413, `{"error":"body_too_large"}`},
	} {
		res := ask(b, "POST", "/login", tc.body, "Content-Type", "application/json; charset=utf-8")
		if body := text(t, res); res.StatusCode != tc.status || !strings.Contains(body, tc.want) {
			t.Errorf("%s: got %d %s, want %d %s", tc.name, res.StatusCode, body, tc.status, tc.want)
		}
	}
	for _, kind := range []string{"", "text/plain", "multipart/form-data; boundary=x", ";"} {
		if res := ask(b, "POST", "/login", "username=alice&password=wonderland", "Content-Type", kind); res.StatusCode != 415 {
			t.Errorf("type %q: got %d, want 415", kind, res.StatusCode)
		}
	}
	if res := ask(b, "POST", "/login", "username=%zz", "Content-Type", formType); res.StatusCode != 400 {
		t.Errorf("broken form: got %d, want 400", res.StatusCode)
	}
}

func TestTwoSteps(t *testing.T) {
	b := newBackend(t, Config{})
	res := form(b, "/login", "username", "carol", "password", "singing")
	pending := cookieOf(res, "pending")
	if res.StatusCode != 302 || res.Header.Get("Location") != "/user/two_factor" || pending == "" || cookieOf(res, "session") != "" {
		t.Fatalf("password: got %d, Location %q, cookies %v", res.StatusCode, res.Header.Get("Location"), res.Cookies())
	}
	if page := text(t, ask(b, "GET", "/user/two_factor", "", "Cookie", pending)); !strings.Contains(page, `name="code"`) || strings.Contains(page, "code_error") {
		t.Errorf("the page for the code:\n%s", page)
	}
	try := func(code, cookie string) *http.Response {
		return ask(b, "POST", "/login/two_factor", "code="+code, "Content-Type", formType, "Cookie", cookie)
	}
	code := lastCode(t, b, "carol@example.org")
	wrong := try("x"+code[1:], pending)
	if body := text(t, wrong); wrong.StatusCode != 200 || !strings.Contains(body, `id="code_error"`) || len(wrong.Cookies()) != 0 {
		t.Errorf("wrong code: got %d, cookies %v:\n%s", wrong.StatusCode, wrong.Cookies(), body)
	}
	if res := try(code, "pending=guess"); res.StatusCode != 302 || res.Header.Get("Location") != "/login" {
		t.Errorf("another login: got %d, Location %q, want 302 to /login", res.StatusCode, res.Header.Get("Location"))
	}
	right := try(code, pending)
	session := cookieOf(right, "session")
	if right.StatusCode != 302 || right.Header.Get("Location") != "/welcome" || session == "" {
		t.Errorf("right code: got %d, Location %q, cookies %v", right.StatusCode, right.Header.Get("Location"), right.Cookies())
	}
	if again := try(code, pending); again.Header.Get("Location") != "/login" {
		t.Errorf("the code again: Location %q, want /login", again.Header.Get("Location"))
	}
	if res := ask(b, "GET", "/user/two_factor", "", "Cookie", pending); res.Header.Get("Location") != "/login" {
		t.Errorf("the page for the code, afterwards: Location %q, want /login", res.Header.Get("Location"))
	}
	if page := text(t, ask(b, "GET", "/welcome", "", "Cookie", session)); !strings.Contains(page, "carol") {
		t.Errorf("welcome:\n%s", page)
	}
	res = ask(b, "POST", "/login", `{"username":"carol","password":"singing"}`, "Content-Type", jsonType)
	if body := text(t, res); res.StatusCode != 202 || cookieOf(res, "pending") == "" || body != `{"status":"two_factor_required"}`+"\n" {
		t.Errorf("JSON: got %d %s", res.StatusCode, body)
	}
}

func TestTicketsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t, Config{MaxSessions: 3})
		session := cookieOf(form(b, "/login", "username", "bob", "password", "builder"), "session")
		signedIn := func() bool { return ask(b, "GET", "/welcome", "", "Cookie", session).StatusCode == 200 }
		time.Sleep(sessionTTL - time.Nanosecond)
		if !signedIn() {
			t.Error("the session ended early")
		}
		time.Sleep(time.Nanosecond)
		if signedIn() {
			t.Error("the session did not end")
		}
		session = cookieOf(form(b, "/login", "username", "bob", "password", "builder"), "session")
		for range 2 {
			form(b, "/login", "username", "alice", "password", "wonderland")
		}
		if !signedIn() {
			t.Error("the session ended while there was room")
		}
		form(b, "/login", "username", "alice", "password", "wonderland")
		if signedIn() {
			t.Error("the oldest session did not make room")
		}
		if got := len(b.sessions.byID); got != 3 {
			t.Errorf("%d sessions are kept, want 3", got)
		}
		session = cookieOf(form(b, "/login", "username", "bob", "password", "builder"), "session")
		if res := ask(b, "POST", "/logout", "", "Cookie", session); res.StatusCode != 302 || signedIn() {
			t.Errorf("logout: got %d, still signed in: %v", res.StatusCode, signedIn())
		}
	})
}

func TestCookieAttributes(t *testing.T) {
	b := newBackend(t, Config{})
	for proto, secure := range map[string]bool{"http": false, "https": true} {
		res := ask(b, "POST", "/login", "username=bob&password=builder", "Content-Type", formType, "X-Forwarded-Proto", proto)
		c := res.Cookies()[0]
		if !c.HttpOnly || c.Path != "/" || c.SameSite != http.SameSiteLaxMode || c.Secure != secure {
			t.Errorf("%s: got %+v", proto, c)
		}
	}
}

func TestToken(t *testing.T) {
	b := newBackend(t, Config{})
	basic := func(user, password string) string {
		r := httptest.NewRequest("GET", "/", nil)
		r.SetBasicAuth(user, password)
		return r.Header.Get("Authorization")
	}
	for _, tc := range []struct {
		name, body, authorization string
		status                    int
		want                      string
	}{
		{"password", "grant_type=password&username=alice&password=wonderland", "", 200, `"token_type":"Bearer","expires_in":3600}`},
		{"wrong password", "grant_type=password&username=alice&password=x", "", 400, `{"error":"invalid_grant"}`},
		{"second factor due", "grant_type=password&username=carol&password=singing", "", 400, `{"error":"mfa_required"}`},
		{"password and client", "grant_type=password&username=bob&password=builder", basic("demo-client", "demo-secret"), 200, `"access_token":"`},
		{"password and wrong client", "grant_type=password&username=bob&password=builder", basic("demo-client", "x"), 401, `{"error":"invalid_client"}`},
		{"client by Basic", "grant_type=client_credentials", basic("demo-client", "demo-secret"), 200, `"access_token":"`},
		{"client by Basic, encoded", "grant_type=client_credentials", basic("demo%2Dclient", "demo%2Dsecret"), 200, `"access_token":"`},
		{"client by form", "grant_type=client_credentials&client_id=demo-client&client_secret=demo-secret", "", 200, `"access_token":"`},
		{"wrong client", "grant_type=client_credentials&client_id=demo-client&client_secret=x", "", 401, `{"error":"invalid_client"}`},
		{"client without secret", "grant_type=client_credentials&client_id=demo-client", "", 401, `{"error":"invalid_client"}`},
		{"client with a user's secret", "grant_type=client_credentials&client_id=alice&client_secret=wonderland", "", 401, `{"error":"invalid_client"}`},
		{"another grant", "grant_type=refresh_token&refresh_token=x", "", 400, `{"error":"unsupported_grant_type"}`},
		{"no grant", "", "", 400, `{"error":"invalid_request"}`},
	} {
		res := ask(b, "POST", "/oauth/token", tc.body, "Content-Type", formType, "Authorization", tc.authorization)
		body := text(t, res)
		if res.StatusCode != tc.status || !strings.Contains(body, tc.want) {
			t.Errorf("%s: got %d %s, want %d %s", tc.name, res.StatusCode, body, tc.status, tc.want)
		}
		if asks := res.Header.Get("WWW-Authenticate") != ""; asks != (tc.status == 401) {
			t.Errorf("%s: WWW-Authenticate %q", tc.name, res.Header.Get("WWW-Authenticate"))
		}
		if got := res.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control %q, want no-store", tc.name, got)
		}
	}
	if res := ask(b, "POST", "/oauth/token", "{}", "Content-Type", jsonType); res.StatusCode != 400 {
		t.Errorf("JSON: got %d, want 400", res.StatusCode)
	}
}

func TestMailCode(t *testing.T) {
	b := newBackend(t, Config{MaxMails: 3})
	for _, tc := range []struct {
		name, kind, body string
		status           int
		to               string
	}{
		{"form", formType, "email=a%40example.org", 202, "a@example.org"},
		{"JSON", jsonType, `{"email":" b@example.org "}`, 202, "b@example.org"},
		{"no address", formType, "", 400, ""},
		{"no mailbox", formType, "email=%40example.org", 400, ""},
		{"no domain", formType, "email=a%40", 400, ""},
		{"long", formType, "email=a%40" + strings.Repeat("a", maxAddress-1), 400, ""},
		{"longest", formType, "email=a%40" + strings.Repeat("a", maxAddress-2), 202, "a@" + strings.Repeat("a", maxAddress-2)},
		{"fourth", formType, "email=d%40example.org", 202, "d@example.org"},
	} {
		before, _ := b.outbox.list()
		res := ask(b, "POST", "/mail-code", tc.body, "Content-Type", tc.kind)
		if res.StatusCode != tc.status {
			t.Errorf("%s: got %d, want %d", tc.name, res.StatusCode, tc.status)
		}
		after, _ := b.outbox.list()
		if sent := after - before; sent == 1 != (tc.to != "") {
			t.Errorf("%s: %d mails sent", tc.name, sent)
		}
		if tc.to != "" {
			lastCode(t, b, tc.to)
		}
	}
	var got struct {
		Sent  int
		Mails []struct{ To, Code string }
	}
	if err := json.Unmarshal([]byte(text(t, ask(b, "GET", "/outbox", ""))), &got); err != nil {
		t.Fatal(err)
	}
	if got.Sent != 4 || len(got.Mails) != 3 || got.Mails[0].To != "d@example.org" || got.Mails[2].To != "b@example.org" {
		t.Errorf("outbox: got %+v, want 4 sent and the last 3, newest first", got)
	}
}

func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t, Config{})
		for _, tc := range []struct {
			query  string
			status int
			want   time.Duration
		}{
			{"", 200, time.Second},
			{"?ms=0", 200, 0},
			{"?ms=250", 200, 250 * time.Millisecond},
			{"?ms=99999999", 200, maxWait},
			{"?ms=-1", 400, 0},
			{"?ms=x", 400, 0},
		} {
			start := time.Now()
			res := ask(b, "GET", "/slow"+tc.query, "")
			if got := time.Since(start); res.StatusCode != tc.status || got != tc.want {
				t.Errorf("%q: got %d after %v, want %d after %v", tc.query, res.StatusCode, got, tc.status, tc.want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := httptest.NewRecorder()
		b.ServeHTTP(w, httptest.NewRequest("GET", "/slow", nil).WithContext(ctx))
		if w.Code != 503 {
			t.Errorf("stopping: got %d, want 503", w.Code)
		}
	})
}

func TestEcho(t *testing.T) {
	b := newBackend(t, Config{})
	var got struct {
		Method, Target, Path, Query, Host, Body string
		Headers                                 http.Header
		Bytes                                   []byte `json:"body_base64"`
		Length                                  int    `json:"body_length"`
	}
	body := text(t, ask(b, "PATCH", "/echo/a%2Fb?c=d", "héllo", "X-Test", "1", "X-Test", "2"))
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if got.Method != "PATCH" || got.Target != "/echo/a%2Fb?c=d" || got.Path != "/echo/a/b" || got.Query != "c=d" || got.Host != "example.com" ||
		got.Body != "héllo" || got.Bytes != nil || got.Length != 6 || len(got.Headers["X-Test"]) != 2 {
		t.Errorf("got %s", body)
	}
	body = text(t, ask(b, "POST", "/echo", "\xff\x00"))
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if got.Body != "" || string(got.Bytes) != "\xff\x00" || got.Length != 2 {
		t.Errorf("bytes: got %s", body)
	}
	if res := ask(b, "POST", "/echo", strings.Repeat("a", maxEcho+1)); res.StatusCode != 413 {
		t.Errorf("large body: got %d, want 413", res.StatusCode)
	}
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t, Config{})
		start := time.Now()
		res := ask(b, "GET", "/events?n=3&ms=500", "")
		want := "id: 1\nevent: tick\ndata: {\"n\":1}\n\nid: 2\nevent: tick\ndata: {\"n\":2}\n\nid: 3\nevent: tick\ndata: {\"n\":3}\n\n"
		if body := text(t, res); body != want || res.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("got %s %q, want %q", res.Header.Get("Content-Type"), body, want)
		}
		if got := time.Since(start); got != time.Second {
			t.Errorf("took %v, want two pauses of half a second", got)
		}
		if got := strings.Count(text(t, ask(b, "GET", "/events?n=5000&ms=1", "")), "data:"); got != maxEvents {
			t.Errorf("got %d events, want %d", got, maxEvents)
		}
		for _, query := range []string{"?n=x", "?ms=x"} {
			if res := ask(b, "GET", "/events"+query, ""); res.StatusCode != 400 {
				t.Errorf("%s: got %d, want 400", query, res.StatusCode)
			}
		}
	})
}

func TestUpload(t *testing.T) {
	b := newBackend(t, Config{})
	data := strings.Repeat("abc", 1<<20)
	digest := sha256.Sum256([]byte(data))
	want := `{"bytes":3145728,"sha256":"` + hex.EncodeToString(digest[:]) + "\"}\n"
	if got := text(t, ask(b, "PUT", "/upload", data)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r := httptest.NewRequest("POST", "/upload", io.MultiReader(strings.NewReader("a"), errReader{}))
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	if w.Code != 400 {
		t.Errorf("broken body: got %d, want 400", w.Code)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("gone") }

func TestOtherPaths(t *testing.T) {
	b := newBackend(t, Config{})
	for _, tc := range []struct {
		method, target string
		status         int
		location       string
	}{
		{"GET", "/", 302, "/login"},
		{"GET", "/welcome", 302, "/login"},
		{"GET", "/user/two_factor", 302, "/login"},
		{"HEAD", "/login", 200, ""},
		{"PUT", "/login", 405, ""},
		{"GET", "/nothing", 404, ""},
	} {
		res := ask(b, tc.method, tc.target, "")
		if res.StatusCode != tc.status || res.Header.Get("Location") != tc.location {
			t.Errorf("%s %s: got %d, Location %q, want %d, %q", tc.method, tc.target, res.StatusCode, res.Header.Get("Location"), tc.status, tc.location)
		}
	}
}

func TestNewRefusesNegativeBounds(t *testing.T) {
	for _, cfg := range []Config{{MaxMails: -1}, {MaxSessions: -1}} {
		if _, err := New(cfg); err == nil || !strings.HasPrefix(err.Error(), "building the demo backend: Max") {
			t.Errorf("%+v: got %v, want an error", cfg, err)
		}
	}
}

// TestServeStopsGracefully stops the server while one request is being answered, one is a stream, and one is a
// connection that says nothing.
func TestServeStopsGracefully(t *testing.T) {
	b := newBackend(t, Config{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- b.Serve(ctx, ln) }()

	stream, err := http.Get("http://" + ln.Addr().String() + "/events?n=1000&ms=10000")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if line, err := bufio.NewReader(stream.Body).ReadString('\n'); err != nil || line != "id: 1\n" {
		t.Fatalf("the first event: got %q, %v", line, err)
	}
	pipe, pipeWriter := io.Pipe()
	type answer struct {
		body string
		err  error
	}
	uploaded, underWay := make(chan answer, 1), make(chan struct{})
	go func() {
		// The server asks for the body when the handler begins to read it.
		trace := &httptrace.ClientTrace{Got100Continue: func() { close(underWay) }}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "POST", "http://"+ln.Addr().String()+"/upload", pipe)
		if err != nil {
			uploaded <- answer{err: err}
			return
		}
		req.Header.Set("Expect", "100-continue")
		transport := &http.Transport{ExpectContinueTimeout: time.Minute}
		defer transport.CloseIdleConnections()
		res, err := transport.RoundTrip(req)
		if err != nil {
			uploaded <- answer{err: err}
			return
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		uploaded <- answer{string(body), err}
	}()
	select {
	case <-underWay:
	case got := <-uploaded:
		t.Fatalf("the upload ended early: %+v", got)
	}
	stop()
	// The stream ends at once, and the upload may still be finished.
	if _, err := io.Copy(io.Discard, stream.Body); err != nil {
		t.Errorf("the stream: %v", err)
	}
	if _, err := pipeWriter.Write([]byte("abc")); err != nil {
		t.Error(err)
	}
	pipeWriter.Close()
	if got := <-uploaded; got.err != nil || !strings.HasPrefix(got.body, `{"bytes":3,`) {
		t.Errorf("the upload: got %q, %v", got.body, got.err)
	}
	if err := <-done; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		t.Error("the listener is still open")
	}
}

func TestServeReportsABrokenListener(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := newBackend(t, Config{}).Serve(t.Context(), ln); err == nil || !strings.HasPrefix(err.Error(), "serving the demo backend: ") {
		t.Errorf("got %v, want an error", err)
	}
}

func TestConcurrentUse(t *testing.T) {
	b := newBackend(t, Config{MaxMails: 5, MaxSessions: 5})
	done := make(chan struct{})
	for range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 50 {
				session := cookieOf(form(b, "/login", "username", "bob", "password", "builder"), "session")
				ask(b, "GET", "/welcome", "", "Cookie", session)
				form(b, "/mail-code", "email", "a@example.org")
				ask(b, "GET", "/outbox", "")
				ask(b, "POST", "/logout", "", "Cookie", session)
			}
		}()
	}
	for range 8 {
		<-done
	}
	if sent, mails := b.outbox.list(); sent != 400 || len(mails) != 5 {
		t.Errorf("got %d sent and %d kept, want 400 and 5", sent, len(mails))
	}
	if got := len(b.sessions.byID); got > 5 {
		t.Errorf("%d sessions kept, want at most 5", got)
	}
}
