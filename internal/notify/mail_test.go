package notify_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"authgate/internal/notify"
)

// mailServer is a real SMTP server, and what came to it.
type mailServer struct {
	port  int
	roots *x509.CertPool
	tls   *tls.Config

	username, password string // "": anybody may send
	rcpt               func() error
	data               func(*smtp.Conn) error // after the letter has come whole

	mu        sync.Mutex
	letters   [][]byte
	from, to  []string
	encrypted []bool
	user      string
}

// startMail runs a server. implicit: it speaks TLS from the first byte; starttls: it offers STARTTLS.
func startMail(t *testing.T, implicit, starttls bool) *mailServer {
	t.Helper()
	return startMailAt(t, "127.0.0.1", implicit, starttls)
}

func startMailAt(t *testing.T, address string, implicit, starttls bool) *mailServer {
	t.Helper()
	pki := httptest.NewTLSServer(nil) // for its certificate
	pki.Close()
	m := &mailServer{roots: x509.NewCertPool(), tls: &tls.Config{Certificates: pki.TLS.Certificates}}
	m.roots.AddCert(pki.Certificate())
	l, err := net.Listen("tcp", address+":0")
	if err != nil {
		t.Fatal(err)
	}
	m.port = l.Addr().(*net.TCPAddr).Port
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return &mailSession{m: m, conn: c}, nil }))
	server.Domain = "mx.test"
	server.AllowInsecureAuth = true
	server.ErrorLog = quiet{}
	server.EnableSMTPUTF8 = true
	if starttls {
		server.TLSConfig = m.tls
	}
	if implicit {
		l = tls.NewListener(l, m.tls)
	}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Close(); done.Wait() })
	return m
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

type mailSession struct {
	m    *mailServer
	conn *smtp.Conn
	user string
}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		if username != s.m.username || password != s.m.password {
			return smtp.ErrAuthFailed
		}
		s.user = username
		return nil
	}), nil
}

func (s *mailSession) Reset() {}

func (s *mailSession) Logout() error { return nil }

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	if s.m.username != s.user {
		return smtp.ErrAuthRequired
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.from = append(s.m.from, from)
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.m.rcpt != nil {
		if err := s.m.rcpt(); err != nil {
			return err
		}
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.to = append(s.m.to, to)
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	letter, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	_, encrypted := s.conn.TLSConnectionState()
	s.m.mu.Lock()
	s.m.letters = append(s.m.letters, letter)
	s.m.encrypted = append(s.m.encrypted, encrypted)
	s.m.user = s.user
	s.m.mu.Unlock()
	if s.m.data != nil {
		return s.m.data(s.conn)
	}
	return nil
}

func (m *mailServer) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.letters)
}

// sender sends through the server; change adapts its settings.
func (m *mailServer) sender(t *testing.T, change func(*notify.MailConfig)) *notify.Mail {
	t.Helper()
	cfg := notify.MailConfig{
		Host: "127.0.0.1", Port: m.port, From: "Sign-in <no-reply@gate.test>", RootCAs: m.roots, Timeout: 10 * time.Second,
		Username: m.username, Password: m.password,
	}
	if change != nil {
		change(&cfg)
	}
	s, err := notify.NewMail(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var letter = notify.Letter{
	ID: "L1", To: "bob@example.org", Subject: "Grüße",
	Text: "Hello,\n.\nhttps://gate.test/?token=" + strings.Repeat("x", 100) + "\n", HTML: "<p>Hello ü</p>",
}

// A letter arrives whole, once, over the connection that was asked for, from whom was asked for.
func TestSend(t *testing.T) {
	for _, test := range []struct {
		name               string
		implicit, starttls bool
		security           notify.MailSecurity
		username           string
	}{
		{"STARTTLS", false, true, notify.StartTLS, ""},
		{"STARTTLS, signed in", false, true, notify.StartTLS, "gate"},
		{"TLS", true, false, notify.ImplicitTLS, ""},
		{"TLS, signed in", true, false, notify.ImplicitTLS, "gate"},
		{"no encryption", false, true, notify.Unencrypted, ""},
		{"no encryption, signed in on this machine", false, false, notify.Unencrypted, "gate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := startMail(t, test.implicit, test.starttls)
			m.username, m.password = test.username, "right"
			if err := m.sender(t, func(c *notify.MailConfig) { c.Security = test.security }).Send(context.Background(), letter); err != nil {
				t.Fatal(err)
			}
			if len(m.letters) != 1 || m.from[0] != "no-reply@gate.test" || len(m.to) != 1 || m.to[0] != "bob@example.org" ||
				m.user != test.username || m.encrypted[0] != (test.security != notify.Unencrypted) {
				t.Fatalf("got %d letters from %v to %v by %q, encrypted %v", len(m.letters), m.from, m.to, m.user, m.encrypted)
			}
			checkLetter(t, m.letters[0])
		})
	}
}

// checkLetter checks header and both bodies.
func checkLetter(t *testing.T, raw []byte) {
	t.Helper()
	msg, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	subject, _ := new(mime.WordDecoder).DecodeHeader(msg.Header.Get("Subject"))
	for got, want := range map[string]string{
		msg.Header.Get("From"): `"Sign-in" <no-reply@gate.test>`, msg.Header.Get("To"): "<bob@example.org>", subject: letter.Subject,
		msg.Header.Get("Message-Id"): "<L1@gate.test>", msg.Header.Get("Auto-Submitted"): "auto-generated",
		msg.Header.Get("Bcc") + msg.Header.Get("Cc") + msg.Header.Get("X-Mailer") + msg.Header.Get("User-Agent"): "",
	} {
		if got != want {
			t.Errorf("got %q in the header, want %q", got, want)
		}
	}
	if date, err := msg.Header.Date(); err != nil || time.Since(date).Abs() > time.Minute {
		t.Errorf("got date %v, %v; want now", date, err)
	}
	kind, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("got %s, %v", kind, err)
	}
	parts := multipart.NewReader(msg.Body, params["boundary"])
	for _, want := range []struct{ kind, text string }{{"text/plain", letter.Text}, {"text/html", letter.HTML}} {
		part, err := parts.NextRawPart()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(quotedprintable.NewReader(part))
		got := strings.ReplaceAll(string(text), "\r\n", "\n")
		if err != nil || !strings.HasPrefix(part.Header.Get("Content-Type"), want.kind) || got != want.text {
			t.Errorf("got %s %q, %v; want %s %q", part.Header.Get("Content-Type"), got, err, want.kind, want.text)
		}
	}
}

// What a server says no to fails, for good or for now, without a word of whom it was about.
func TestRefusals(t *testing.T) {
	no := func(code int) func() error {
		return func() error { return &smtp.SMTPError{Code: code, Message: "no <bob@example.org> here"} }
	}
	for _, test := range []struct {
		name    string
		server  func(*mailServer)
		change  func(*notify.MailConfig)
		want    notify.Failure
		offered bool // STARTTLS
	}{
		{
			"wrong password", func(m *mailServer) { m.username, m.password = "gate", "right" },
			func(c *notify.MailConfig) { c.Password = "wr0ng" },
			notify.Failure{Cause: "the server could not be reached or did not let us in (535)", Final: true},
			true,
		},
		{
			"no such recipient", func(m *mailServer) { m.rcpt = no(550) }, nil,
			notify.Failure{Cause: "the server refused the recipient (550)", Final: true},
			true,
		},
		{
			"recipient not now", func(m *mailServer) { m.rcpt = no(450) }, nil,
			notify.Failure{Cause: "the server refused the recipient (450)"},
			true,
		},
		{
			"spam", func(m *mailServer) { m.data = func(*smtp.Conn) error { return no(554)() } }, nil,
			notify.Failure{Cause: "the server did not take the letter (554)", Final: true},
			true,
		},
		{
			"full", func(m *mailServer) { m.data = func(*smtp.Conn) error { return no(452)() } }, nil,
			notify.Failure{Cause: "the server did not take the letter (452)"},
			true,
		},
		{
			"nobody signed in", func(m *mailServer) { m.username = "gate" }, func(c *notify.MailConfig) { c.Username = "" },
			notify.Failure{Cause: "the server did not take the letter (502)", Final: true},
			true,
		},
		{
			"STARTTLS is not offered", nil, nil,
			notify.Failure{Cause: "the server could not be reached or did not let us in"},
			false,
		},
		{
			"a certificate of somebody else", nil, func(c *notify.MailConfig) { c.RootCAs = x509.NewCertPool() },
			notify.Failure{Cause: "the server could not be reached or did not let us in"},
			true,
		},
		{
			"TLS where there is none", nil, func(c *notify.MailConfig) { c.Security = notify.ImplicitTLS },
			notify.Failure{Cause: "the server could not be reached or did not let us in"},
			true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := startMail(t, false, test.offered)
			if test.server != nil {
				test.server(m)
			}
			got := failure(t, m.sender(t, test.change).Send(context.Background(), letter))
			if *got != test.want {
				t.Errorf("got %+v, want %+v", *got, test.want)
			}
			if m.data == nil && m.count() != 0 {
				t.Error("a letter was taken")
			}
		})
	}
}

// A connection that is lost before the letter is all there leaves nothing behind; after that, nobody knows; and once the server
// has said that it has it, nothing undoes that.
func TestLostConnections(t *testing.T) {
	cut := func(c *smtp.Conn) error { _ = c.Conn().Close(); return nil }
	greeting := []string{"220 mx\r\n", "250 mx\r\n", "250 ok\r\n", "250 ok\r\n"}
	send := func(t *testing.T, answers ...string) error {
		port, done := scripted(t, append(greeting, answers...)...)
		s, err := notify.NewMail(notify.MailConfig{Host: "127.0.0.1", Port: port, From: "a@gate.test", Security: notify.Unencrypted})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { <-done }()
		return s.Send(context.Background(), letter)
	}
	t.Run("before", func(t *testing.T) {
		if got := failure(t, send(t)); got.Unsure || got.Final {
			t.Errorf("got %+v, want to try again", *got)
		}
	})
	t.Run("before the answer", func(t *testing.T) {
		m := startMail(t, false, true)
		m.data = cut
		if got := failure(t, m.sender(t, nil).Send(context.Background(), letter)); !got.Unsure || got.Final || m.count() != 1 {
			t.Errorf("got %+v and %d letters, want it unsure", *got, m.count())
		}
	})
	t.Run("no farewell", func(t *testing.T) {
		begin := time.Now()
		if err := send(t, "354 go\r\n", "250 taken\r\n", silence); err != nil || time.Since(begin) > 8*time.Second {
			t.Errorf("got %v after %s, want success soon", err, time.Since(begin))
		}
	})
	t.Run("after the answer", func(t *testing.T) {
		if err := send(t, "354 go\r\n", "250 taken\r\n"); err != nil {
			t.Errorf("got %v, want success: the server has the letter", err)
		}
	})
}

// silence is the answer of a server that says no more, but stays.
const silence = ""

// scripted is a server that gives one answer for each command, the letter being one, and then hangs up. done tells whether all
// answers could be given.
func scripted(t *testing.T, answers ...string) (port int, done chan bool) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	done = make(chan bool, 1)
	go func() {
		all := false
		defer func() { done <- all }()
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		buffer := make([]byte, 64<<10)
		for i, a := range answers {
			if i > 0 {
				text := ""
				for end := "\r\n"; !strings.HasSuffix(text, end); {
					n, err := conn.Read(buffer)
					if err != nil {
						return
					}
					if text += string(buffer[:n]); strings.HasPrefix(answers[i-1], "354") {
						end = "\r\n.\r\n"
					}
				}
			}
			if a == silence {
				_, _ = io.Copy(io.Discard, conn)
			}
			if _, err := io.WriteString(conn, a); err != nil {
				return
			}
		}
		all = true
	}()
	return l.Addr().(*net.TCPAddr).Port, done
}

// However slow or talkative a server is, sending ends in time, and leaves nothing running.
func TestSlowServers(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("all", func(t *testing.T) {
		hold := make(chan struct{})
		slow := startMail(t, false, true)
		slow.data = func(*smtp.Conn) error { <-hold; return nil }
		t.Cleanup(func() { close(hold) })
		silent, _ := scripted(t)                                                                                    // hangs up
		talking, said := scripted(t, "220 mx\r\n", strings.Repeat("250-"+strings.Repeat("x", 1000)+"\r\n", 50_000)) // more than fits into sockets
		deaf, err := net.Listen("tcp", "127.0.0.1:0")                                                               // accepts in the kernel alone
		if err != nil {
			t.Fatal(err)
		}
		defer deaf.Close()
		for _, test := range []struct {
			name    string
			port    int
			timeout time.Duration
			caller  time.Duration
			unsure  bool
		}{
			{"slow to take the letter", slow.port, 300 * time.Millisecond, time.Hour, true},
			{"hangs up", silent, time.Hour, time.Hour, false},
			{"talks without end", talking, time.Hour, time.Hour, false},
			{"says nothing", deaf.Addr().(*net.TCPAddr).Port, 50 * time.Millisecond, time.Hour, false},
			{"says nothing, and the caller gives up", deaf.Addr().(*net.TCPAddr).Port, time.Hour, 50 * time.Millisecond, false},
		} {
			ctx, cancel := context.WithTimeout(context.Background(), test.caller)
			got := failure(t, slow.sender(t, func(c *notify.MailConfig) { c.Port, c.Timeout = test.port, test.timeout }).Send(ctx, letter))
			cancel()
			if got.Unsure != test.unsure || got.Final {
				t.Errorf("%s: got %+v, want unsure %v", test.name, *got, test.unsure)
			}
		}
		if <-said {
			t.Error("50 MB of answers were read")
		}
	})
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines are left, %d were there before", n, before)
	}
}

// A password goes over no open line but to this very machine.
func TestPasswordStaysHome(t *testing.T) {
	m := startMailAt(t, "127.0.0.2", false, false)
	s := m.sender(t, func(c *notify.MailConfig) { c.Host, c.Security = "127.0.0.2", notify.Unencrypted })
	if err := s.Send(context.Background(), letter); err != nil {
		t.Fatal(err)
	}
	m.username, m.password = "gate", "right"
	s = m.sender(t, func(c *notify.MailConfig) { c.Host, c.Security = "127.0.0.2", notify.Unencrypted })
	if got := failure(t, s.Send(context.Background(), letter)); got.Unsure || m.count() != 1 {
		t.Errorf("got %+v and %d letters, want none after the first", *got, m.count())
	}
}

func TestInjection(t *testing.T) {
	m := startMail(t, false, true)
	s := m.sender(t, nil)
	for _, to := range []string{
		"bob@example.org\r\nBcc: eve@example.org", "bob@example.org>\r\nRCPT TO:<eve@example.org", "bob@example.org, eve@example.org", "", "bob",
	} {
		l := letter
		l.To = to
		if got := failure(t, s.Send(context.Background(), l)); !got.Final {
			t.Errorf("%q: got %+v, want it refused for good", to, *got)
		}
	}
	l := letter
	l.Subject = "Hello\r\nBcc: eve@example.org"
	l.ID = "L1\r\nBcc: eve@example.org"
	l.Text = "Hello\r\n.\r\nMAIL FROM:<eve@example.org>\r\n"
	if err := s.Send(context.Background(), l); err == nil {
		msg, err := mail.ReadMessage(bytes.NewReader(m.letters[0]))
		if err != nil || msg.Header.Get("Bcc") != "" {
			t.Errorf("got %v, %v", msg, err)
		}
	}
	if len(m.to) > 1 || len(m.from) > 1 {
		t.Errorf("got recipients %v, senders %v; want one", m.to, m.from)
	}
}

func TestNewMail(t *testing.T) {
	for _, test := range []struct {
		cfg  notify.MailConfig
		want string
	}{
		{notify.MailConfig{Host: "mx.test", Port: 25, From: "nobody"}, "preparing mail: the sender is no mailbox"},
		{notify.MailConfig{Port: 25, From: "a@b.test"}, "preparing mail: the server needs a host and a port"},
		{notify.MailConfig{Host: "mx.test", Port: 65536, From: "a@b.test"}, "preparing mail: the server needs a host and a port"},
	} {
		if _, err := notify.NewMail(test.cfg); err == nil || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
	s, err := notify.NewMail(notify.MailConfig{Host: "mx.test", Port: 25, From: "a@b.test", Security: 9})
	if err != nil {
		t.Fatal(err)
	}
	if got := failure(t, s.Send(context.Background(), letter)); !got.Final {
		t.Errorf("got %+v for a security that there is not", *got)
	}
}
