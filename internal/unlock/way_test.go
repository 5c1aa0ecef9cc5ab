package unlock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"authgate/internal/lookup"
	"authgate/internal/notify"
)

var sample = notice{
	id: "N1", claim: Claim{"acme", "login", `bob"<x>`}, mailbox: "bob@example.org",
	link: "https://acme.test:8443/.gateway/unlock?token=TTT", expires: time.Date(2026, 3, 2, 14, 5, 6, 0, time.FixedZone("", 3600)),
}

// The JSON is exactly what the contract says.
func TestPosts(t *testing.T) {
	for _, test := range []struct {
		name    string
		way     func(*notify.Webhook) Way
		secret  string
		mailbox bool
		link    bool
		repeats bool
		want    map[string]any
	}{
		{"webhook", ByWebhook, "s3cret", false, true, true, map[string]any{
			"event": "login_unlock", "realm": "acme", "target": `bob"<x>`, "link": sample.link, "expires": "2026-03-02T13:05:06Z",
		}},
		{"backend", ByBackend, "", true, false, false, map[string]any{"email": "bob@example.org", "realm": "acme"}},
	} {
		var header http.Header
		var body []byte
		status := http.StatusOK
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			header = r.Header
			body, _ = io.ReadAll(r.Body)
			w.WriteHeader(status)
		}))
		way := test.way(notify.NewWebhook(notify.WebhookConfig{URL: server.URL, Secret: test.secret}))
		if way.name != test.name || way.mailbox != test.mailbox || way.link != test.link || way.repeats != test.repeats {
			t.Errorf("%s: got %+v", test.name, way)
		}
		if err := way.send(context.Background(), sample); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		var got map[string]any
		if err := json.Unmarshal(body, &got); err != nil || !reflect.DeepEqual(got, test.want) || header.Get(notify.DeliveryHeader) != "N1" {
			t.Errorf("%s: got %s, %v with %v; want %v", test.name, body, err, header, test.want)
		}
		signature := header.Get("Gateway-Signature")
		now := time.Now()
		if test.secret == "" && signature != "" ||
			test.secret != "" && signature != lookup.Sign(test.secret, now, body) && signature != lookup.Sign(test.secret, now.Add(-time.Second), body) {
			t.Errorf("%s: got signature %q", test.name, signature)
		}
		status = http.StatusNotFound
		var f *notify.Failure
		if err := way.send(context.Background(), sample); !errors.As(err, &f) || !f.Final {
			t.Errorf("%s: got %v, want a failure for good", test.name, err)
		}
		server.Close()
	}
}

func TestLetter(t *testing.T) {
	l, err := letter(sample)
	if err != nil {
		t.Fatal(err)
	}
	if l.ID != "N1" || l.To != "bob@example.org" || l.Subject != subject {
		t.Errorf("got %+v", l)
	}
	for _, text := range []string{l.Text, strings.ReplaceAll(l.HTML, "\n", " ")} {
		for _, want := range []string{sample.link, "acme.test:8443", "until 13:05 UTC on 2 March 2026"} {
			if !strings.Contains(strings.ReplaceAll(text, "\n", " "), want) {
				t.Errorf("%q is missing in %s", want, text)
			}
		}
	}
	if !strings.Contains(l.HTML, `<a href="`+sample.link+`">`) {
		t.Errorf("no link in %s", l.HTML)
	}
	evil := sample
	evil.link = `https://x.test/?a="><script>alert(1)</script>`
	if l, err := letter(evil); err != nil || strings.Contains(l.HTML, "<script>") {
		t.Errorf("got %v, %s", err, l.HTML)
	}
	for _, link := range []string{"/.gateway/unlock?token=TTT", "http://[::1/"} {
		bad := sample
		bad.link = link
		var f *notify.Failure
		if err := ByMail(nil).send(context.Background(), bad); !errors.As(err, &f) || !f.Final {
			t.Errorf("%s: got %v, want a failure for good", link, err)
		}
	}
}

// postbox is a real mail server.
type postbox struct {
	port int
	mu   sync.Mutex
	got  map[string][][]byte // by recipient
}

func startPostbox(t *testing.T) *postbox {
	t.Helper()
	p := &postbox{got: map[string][][]byte{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.port = l.Addr().(*net.TCPAddr).Port
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &delivery{p: p}, nil }))
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Close(); done.Wait() })
	return p
}

type delivery struct {
	p  *postbox
	to string
}

func (d *delivery) Reset()                                    {}
func (d *delivery) Logout() error                             { return nil }
func (d *delivery) Mail(string, *smtp.MailOptions) error      { return nil }
func (d *delivery) Rcpt(to string, _ *smtp.RcptOptions) error { d.to = to; return nil }

func (d *delivery) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	d.p.got[d.to] = append(d.p.got[d.to], raw)
	return err
}

func (p *postbox) way(t *testing.T) Way {
	t.Helper()
	m, err := notify.NewMail(notify.MailConfig{Host: "127.0.0.1", Port: p.port, From: "gate@acme.test", Security: notify.Unencrypted})
	if err != nil {
		t.Fatal(err)
	}
	return ByMail(m)
}

// letters is how many came for a mailbox, and the text of the first.
func (p *postbox) letters(t *testing.T, to string) (n int, text string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.got[to]
	if len(all) == 0 {
		return 0, ""
	}
	msg, err := mail.ReadMessage(bytes.NewReader(all[0]))
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	part, err := multipart.NewReader(msg.Body, params["boundary"]).NextRawPart()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(quotedprintable.NewReader(part))
	if err != nil {
		t.Fatal(err)
	}
	return len(all), string(b)
}
