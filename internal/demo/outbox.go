package demo

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// outbox keeps the last mails that a real site would have sent.
type outbox struct {
	max int

	mu    sync.Mutex
	sent  int64
	mails []mail // oldest first
}

// mail is one message, as /outbox shows it.
type mail struct {
	To   string    `json:"to"`
	Code string    `json:"code"`
	At   time.Time `json:"at"`
}

// maxAddress is the longest address that fits into a mail envelope (RFC 5321, 4.5.3.1), in bytes.
const maxAddress = 254

// send records a code as sent.
func (o *outbox) send(to, code string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent++
	if len(o.mails) == o.max {
		copy(o.mails, o.mails[1:])
		o.mails = o.mails[:o.max-1]
	}
	o.mails = append(o.mails, mail{To: to, Code: code, At: time.Now().UTC()})
}

// list returns how many mails were sent, and those that are kept, newest first.
func (o *outbox) list() (sent int64, mails []mail) {
	o.mu.Lock()
	defer o.mu.Unlock()
	mails = make([]mail, 0, len(o.mails))
	for i := len(o.mails) - 1; i >= 0; i-- {
		mails = append(mails, o.mails[i])
	}
	return o.sent, mails
}

// mailCode sends a code to any address, known or not, and answers the same for all.
func (b *Backend) mailCode(w http.ResponseWriter, r *http.Request) {
	in, ok := readFields(w, r)
	if !ok {
		return
	}
	email := strings.TrimSpace(in.get("email"))
	if local, domain, found := strings.Cut(email, "@"); !found || local == "" || domain == "" || len(email) > maxAddress {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "invalid_email"})
		return
	}
	b.outbox.send(email, newCode())
	writeJSON(w, http.StatusAccepted, map[string]string{"status": "sent"})
}

func (b *Backend) showOutbox(w http.ResponseWriter, _ *http.Request) {
	sent, mails := b.outbox.list()
	writeJSON(w, http.StatusOK, struct {
		Sent  int64  `json:"sent"`
		Mails []mail `json:"mails"`
	}{sent, mails})
}
