package notify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
)

// Mail sends letters through the operator's SMTP server, on a connection for each. Use [NewMail]; it is safe for concurrent use.
type Mail struct {
	cfg    MailConfig
	from   string
	domain string // of from, for message ids
	tls    *tls.Config
}

// MailConfig says which server, and who sends.
type MailConfig struct {
	Host     string
	Port     int // 1..65535
	Username string
	Password string // goes over an encrypted connection only, or to this very machine
	From     string // a mailbox, as in "Sign-in <no-reply@example.org>"
	Security MailSecurity
	Timeout  time.Duration  // of one letter, from the first packet to the last; 0: 20 s
	RootCAs  *x509.CertPool // nil: the system's
}

// MailSecurity is how the connection is encrypted.
type MailSecurity uint8

// The ways. A server that does not offer what is asked for gets no letter.
const (
	StartTLS    MailSecurity = iota // by the STARTTLS command
	ImplicitTLS                     // from the first byte
	Unencrypted                     // not at all
)

// Letter is what one mailbox gets: a plain text, and the same as HTML.
type Letter struct {
	ID      string // becomes the message id; the same letter has the same one at each try
	To      string // a mailbox without a name
	Subject string
	Text    string
	HTML    string
}

const (
	mailTimeout = 20 * time.Second
	quitWithin  = 2 * time.Second // once the letter is taken
	// maxReplies bounds what is read from the server for one letter, so that none can fill the memory.
	maxReplies = 256 << 10
)

// NewMail makes a sender. Nothing is connected yet.
func NewMail(cfg MailConfig) (*Mail, error) {
	from, err := mail.ParseAddress(cfg.From)
	if err != nil {
		return nil, errors.New("preparing mail: the sender is no mailbox")
	}
	if cfg.Host == "" || cfg.Port < 1 || cfg.Port > 65535 {
		return nil, errors.New("preparing mail: the server needs a host and a port")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = mailTimeout
	}
	return &Mail{
		cfg: cfg, from: from.String(), domain: from.Address[strings.LastIndexByte(from.Address, '@')+1:],
		tls: &tls.Config{ServerName: cfg.Host, MinVersion: tls.VersionTLS12, RootCAs: cfg.RootCAs},
	}, nil
}

// Send hands a letter to the server. What goes wrong is a [*Failure]: unsure if the server had all of the letter and its answer
// was lost, final if the server said no for good. It returns soon after ctx is done.
func (m *Mail) Send(ctx context.Context, l Letter) error {
	msg, err := m.compose(l)
	if err != nil {
		return &Failure{Cause: "the letter cannot be composed", Final: true}
	}
	ctx, end := context.WithTimeout(ctx, m.cfg.Timeout)
	defer end() // closes the connection, too
	client, err := m.client(func(dialing context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(dialing, network, address)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { _ = conn.Close() }) // the library looks at ctx no more
		if m.cfg.Security == ImplicitTLS {
			return tls.Client(&bounded{Conn: conn, left: maxReplies}, m.tls), nil
		}
		return &bounded{Conn: conn, left: maxReplies}, nil
	})
	if err != nil {
		return &Failure{Cause: "the settings cannot be used", Final: true}
	}
	session, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return refusal("the server could not be reached or did not let us in", err)
	}
	if err := client.SendWithSMTPClient(session, msg); err != nil {
		return undelivered(err)
	}
	_ = session.UpdateDeadline(quitWithin)
	_ = session.Quit() // the letter is the server's now, whatever becomes of the farewell
	return nil
}

// undelivered says why the server did not take the letter.
func undelivered(err error) *Failure {
	f := refusal("the server did not take the letter", err)
	var at *gomail.SendError
	if errors.As(err, &at) {
		switch at.Reason {
		case gomail.ErrSMTPRcptTo:
			f = refusal("the server refused the recipient", err)
		case gomail.ErrSMTPDataClose:
			f.Unsure = at.ErrorCode() == 0
		}
	}
	return f
}

// refusal says what failed, with the server's code but not its words, which may hold the mailbox.
func refusal(cause string, err error) *Failure {
	code := 0
	var at *gomail.SendError
	var said *textproto.Error
	switch {
	case errors.As(err, &at):
		code = at.ErrorCode()
	case errors.As(err, &said):
		code = said.Code
	}
	if code == 0 {
		return &Failure{Cause: cause}
	}
	return &Failure{Cause: fmt.Sprintf("%s (%d)", cause, code), Final: code/100 == 5}
}

func (m *Mail) compose(l Letter) (*gomail.Msg, error) {
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	if err := msg.From(m.from); err != nil {
		return nil, err
	}
	if err := msg.To(l.To); err != nil {
		return nil, err
	}
	msg.SetDate()
	msg.SetMessageIDWithValue(l.ID + "@" + m.domain)
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no holiday notes, please
	msg.Subject(l.Subject)
	msg.SetBodyString(gomail.TypeTextPlain, l.Text)
	msg.AddAlternativeString(gomail.TypeTextHTML, l.HTML)
	return msg, nil
}

// client is a client for one letter: the library's remembers what it learns of a server.
func (m *Mail) client(dial gomail.DialContextFunc) (*gomail.Client, error) {
	opts := []gomail.Option{
		gomail.WithPort(m.cfg.Port), gomail.WithTimeout(m.cfg.Timeout), gomail.WithTLSConfig(m.tls),
		gomail.WithDialContextFunc(dial),
		gomail.WithoutNoop(), gomail.WithoutRset(), // nothing that may fail once the letter is taken
	}
	switch m.cfg.Security {
	case StartTLS:
		opts = append(opts, gomail.WithTLSPolicy(gomail.TLSMandatory))
	case ImplicitTLS:
		opts = append(opts, gomail.WithSSL())
	case Unencrypted:
		opts = append(opts, gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		return nil, errors.New("no such security: " + strconv.Itoa(int(m.cfg.Security)))
	}
	if m.cfg.Username != "" {
		opts = append(opts, gomail.WithUsername(m.cfg.Username), gomail.WithPassword(m.cfg.Password),
			gomail.WithOpportunisticSMTPAuth(gomail.SMTPAuthSCRAMSHA256, gomail.SMTPAuthPlain, gomail.SMTPAuthLogin, gomail.SMTPAuthCramMD5))
	}
	return gomail.NewClient(m.cfg.Host, opts...)
}

// bounded is a connection that ends after so many bytes from the other side.
type bounded struct {
	net.Conn
	left int
}

// Read reads, as long as not too much has come.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("reading from the mail server: it says too much")
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
