package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/emersion/go-smtp"

	"authgate/internal/demo"
)

// mailServer is a real SMTP server on a loopback address, which keeps what it gets.
type mailServer struct {
	letters chan string
}

func (m *mailServer) NewSession(*smtp.Conn) (smtp.Session, error) { return m, nil }
func (m *mailServer) Mail(string, *smtp.MailOptions) error        { return nil }
func (m *mailServer) Reset()                                      {}
func (m *mailServer) Logout() error                               { return nil }

func (m *mailServer) Rcpt(to string, _ *smtp.RcptOptions) error {
	if to != "alice@example.org" {
		return errors.New("nobody of that name here")
	}
	return nil
}

func (m *mailServer) Data(r io.Reader) error {
	letter, err := io.ReadAll(r)
	m.letters <- string(letter)
	return err
}

func startMail(t *testing.T) (*mailServer, string) {
	t.Helper()
	m := &mailServer{letters: make(chan string, 10)}
	s := smtp.NewServer(m)
	s.Domain = "mail.test"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return m, port
}

// chromium finds the browser. Where it is missing the test is skipped, but for CI.
func chromium(t *testing.T) string {
	t.Helper()
	name := os.Getenv("CHROMIUM")
	if name == "" {
		name = "chromium"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v; run scripts/install-chromium", err)
		}
		t.Skipf("%v; run scripts/install-chromium to include this test", err)
	}
	return path
}

// profile starts a browser with a profile of its own.
func profile(t *testing.T, path string, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	dir, err := os.MkdirTemp("", "profile")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // its last processes may still be writing
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(dir), chromedp.WSURLReadTimeout(time.Minute))
	ctx, end := chromedp.NewExecAllocator(context.Background(), append(options, more...)...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end)
	ctx, end = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(end)
	return ctx
}

// signIn fills the demo's form in, and returns the path of the page that it leads to and its text.
func signIn(t *testing.T, ctx context.Context, site, user, password string) (path, text string) {
	t.Helper()
	var at string
	err := chromedp.Run(ctx,
		chromedp.Navigate(site+"/login"),
		chromedp.WaitVisible(`input[name="username"]`),
		chromedp.SetValue(`input[name="username"]`, user),
		chromedp.SetValue(`input[name="password"]`, password),
		submit(`form`),
		chromedp.Location(&at),
		chromedp.Text(`body`, &text),
	)
	if err != nil {
		t.Fatalf("signing in with the browser: %v", err)
	}
	u, _ := url.Parse(at)
	return u.Path, text
}

// submit presses the button of a form and waits for the next page.
func submit(form string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := chromedp.RunResponse(ctx, chromedp.Click(form+` button`, chromedp.NodeVisible))
		return err
	})
}

// With real browsers and a real mail server: sign in at a legacy page, be shut out elsewhere, follow the mailed link, sign in.
func TestUnlockInABrowser(t *testing.T) {
	path := chromium(t)
	post, port := startMail(t)
	site, err := demo.New(demo.Config{})
	if err != nil {
		t.Fatal(err)
	}
	legacy := httptest.NewServer(site)
	t.Cleanup(legacy.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	_ = listener.Close()
	yaml := strings.Replace(settings(legacy.URL, fmt.Sprintf(`
policies:
  login:
    match: [{methods: [POST], path: /login}]
    target: {from: ["form:username"]}
    failures:
      target: {limit: 5, window: 15m, refuse: uniform}
      device: {limit: 10, window: 15m, refuse: uniform}
    uniform: {status: 200, headers: {Content-Type: "text/html; charset=utf-8"}, body: '<p id="login_error">That was wrong.</p>'}
    outcome:
      - {is: success, status: 302, cookie_set: session}
      - {is: failure, status: 200, body: 'id="login_error"'}
unlock:
  via: smtp
  public_url: "http://%s"
  mailbox_domain: example.org
  smtp: {host: 127.0.0.1, port: %s, from: "Sign-in <no-reply@example.org>", tls: none}
`, addr, port)), `server: {listen: "127.0.0.1:0"}`, fmt.Sprintf("server: {listen: %q}", addr), 1)
	s := start(t, yaml)
	page := "http://" + addr

	home := profile(t, path)
	if at, text := signIn(t, home, page, "alice", "wonderland"); at != "/welcome" {
		t.Fatalf("signing in led to %s: %s", at, text)
	}
	jar, _ := cookiejar.New(nil)
	stranger := &http.Client{Jar: jar}
	for i := range 6 {
		res, err := stranger.PostForm(page+"/login", url.Values{"username": {"alice"}, "password": {fmt.Sprint("guess", i)}})
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != 200 || !bytes.Contains(body, []byte("login_error")) {
			t.Fatalf("guess %d: got %d %s", i, res.StatusCode, body)
		}
	}
	away := profile(t, path)
	if at, _ := signIn(t, away, page, "alice", "wonderland"); at != "/login" {
		t.Fatalf("a browser that nobody knows got to %s", at)
	}

	var letter string
	select {
	case letter = <-post.letters:
	case <-time.After(20 * time.Second):
		t.Fatalf("no mail came; %s", s.log)
	}
	link := regexp.MustCompile(`http://\S+/\.gateway/unlock\?token=3?D?[\w-]+`).FindString(strings.ReplaceAll(letter, "=\r\n", ""))
	link = strings.Replace(link, "token=3D", "token=", 1)
	if link == "" {
		t.Fatalf("there is no link in %s", letter)
	}
	var at string
	if err := chromedp.Run(away, chromedp.Navigate(link), submit(`form`), chromedp.Location(&at)); err != nil {
		t.Fatalf("following the link: %v", err)
	}
	if at != page+"/login" {
		t.Errorf("the link led to %s, want the login page", at)
	}
	if at, text := signIn(t, away, page, "alice", "wonderland"); at != "/welcome" {
		t.Errorf("after the link signing in led to %s: %s", at, text)
	}
	if at, text := signIn(t, home, page, "alice", "wonderland"); at != "/welcome" {
		t.Errorf("at home signing in led to %s: %s", at, text)
	}
}
