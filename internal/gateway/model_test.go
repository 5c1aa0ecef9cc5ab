package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"authgate/internal/config"
	"authgate/internal/gateway"
	"authgate/internal/valkeytest"
)

// TestModel runs testdata/model.txt, the multi-dimensional model as rows, on both stores. See there for the language.
func TestModel(t *testing.T) {
	text, err := os.ReadFile("testdata/model.txt")
	if err != nil {
		t.Fatal(err)
	}
	yaml, err := os.ReadFile("testdata/model.yaml")
	if err != nil {
		t.Fatal(err)
	}
	server := valkeytest.Start(t)
	rows := 0
	for n, line := range strings.Split(string(text), "\n") {
		name, steps, ok := strings.Cut(line, ":")
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' || !ok {
			continue
		}
		rows++
		for _, store := range []string{"memory", "valkey"} {
			t.Run(store+"/"+strings.TrimSpace(name), func(t *testing.T) {
				extra := "store: {backend: memory}\n"
				if store == "valkey" {
					extra = fmt.Sprintf("store: {backend: valkey, valkey: {addresses: [%q], prefix: row%d, timeout: 5s}}\n", server.Addr(), n)
				}
				newModel(t, string(yaml)+extra).play(steps)
			})
		}
	}
	if rows < 90 {
		t.Errorf("the table has %d rows, want at least 90", rows)
	}
}

// model is one gateway with a clock and a backend of its own.
type model struct {
	t    *testing.T
	g    *gateway.Gateway
	now  atomic.Int64
	sent int // requests that reached the backend
	next int // source of invented names and addresses
}

func newModel(t *testing.T, yaml string) *model {
	t.Helper()
	cfg, _, err := config.Parse("model.yaml", []byte(yaml), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := &model{t: t}
	m.now.Store(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).UnixMilli())
	m.g, err = gateway.New(cfg, gateway.Options{Transport: m, Now: m.now.Load})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.g.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// RoundTrip is a Modgud-shaped backend: a password is right if it is "right", and everything else succeeds.
func (m *model) RoundTrip(r *http.Request) (*http.Response, error) {
	m.sent++
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.Header.Get("Gateway-Forwarded-For") != "" {
		m.t.Error("the forwarder header went upstream")
	}
	status, h, body := http.StatusOK, http.Header{"Content-Type": {"application/json"}}, `{"status":"ok"}`
	if r.URL.Path == "/api/account/login" {
		if strings.Contains(string(b), `"right"`) {
			h.Set("Set-Cookie", "auth=1")
		} else {
			status, body = http.StatusUnauthorized, `{"error":"Invalid credentials"}`
		}
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r}, nil
}

// routes are the policies' endpoints, by the policy's name, with the member that names the target.
var routes = map[string][2]string{
	"native-otp":         {"/api/account/native/otp/request", "Email"},
	"native-register":    {"/api/account/native/register", "Email"},
	"passwordless":       {"/api/account/passwordless-otp/request", "Email"},
	"self-registration":  {"/api/account/register", "Email"},
	"magic-link":         {"/api/account/magic-link/request", "Email"},
	"password-reset":     {"/api/account/forgot-password", "UserName"},
	"email-verification": {"/api/account/email/send-verification", "Email"},
	"email-otp":          {"/api/account/passwordless-otp/login", "Email"},
	"email-otp-2":        {"/api/account/email-otp/login", "Email"},
	"passkey-begin":      {"/connect/passkey/begin", "UserName"},
	"staffing":           {"/connect/staffing/42/step-up", "UserName"},
	"activation":         {"/connect/activation-token/42/register", "UserName"},
	"oauth-token":        {"/connect/token", ""},
	"bootstrap":          {"/api/account/bootstrap-admin", ""},
	"install":            {"/api/install/validate", ""},
	"login":              {"/api/account/login", "UserName"},
}

// play runs the steps of a row.
func (m *model) play(steps string) {
	m.t.Helper()
	for step := range strings.SplitSeq(steps, ";") {
		request, want, ok := strings.Cut(step, "=>")
		if words := strings.Fields(step); !ok {
			m.command(words)
			continue
		}
		m.requests(strings.Fields(request), strings.Fields(want))
	}
}

func (m *model) command(words []string) {
	m.t.Helper()
	switch {
	case len(words) == 0:
	case words[0] == "after":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			m.t.Fatal(err)
		}
		m.now.Add(d.Milliseconds())
	case words[0] == "sent":
		if got := strconv.Itoa(m.sent); got != words[1] {
			m.t.Fatalf("%s requests reached the backend, want %s", got, words[1])
		}
	default:
		m.t.Fatalf("%q is no command", words[0])
	}
}

func (m *model) requests(request, want []string) {
	m.t.Helper()
	n := 1
	if last := request[len(request)-1]; strings.HasPrefix(last, "x") {
		var err error
		if n, err = strconv.Atoi(last[1:]); err != nil {
			m.t.Fatal(err)
		}
		request = request[:len(request)-1]
	}
	for i := range n {
		w := m.send(request)
		got := []string{strconv.Itoa(w.Code)}
		var answer struct {
			Error, Policy, Dimension string
			RetryAfterSeconds        int
		}
		_ = json.Unmarshal(w.Body.Bytes(), &answer) // not every answer is JSON
		switch {
		case w.Code == http.StatusTooManyRequests:
			got = append(got, answer.Policy, answer.Dimension, strconv.Itoa(answer.RetryAfterSeconds))
			if w.Header().Get("Retry-After") != strconv.Itoa(answer.RetryAfterSeconds) {
				m.t.Fatalf("Retry-After %s, body %d", w.Header().Get("Retry-After"), answer.RetryAfterSeconds)
			}
		case answer.Error != "" && w.Code != http.StatusUnauthorized:
			got = append(got, answer.Error)
		}
		if strings.Join(got[:min(len(got), len(want))], " ") != strings.Join(want, " ") {
			m.t.Fatalf("%v, number %d: got %v, want %v", request, i+1, got, want)
		}
	}
}

// send makes one request out of words. "?" in a name or an address is a new one each time.
func (m *model) send(words []string) *httptest.ResponseRecorder {
	m.t.Helper()
	m.next++
	route, ok := routes[words[0]]
	if !ok {
		m.t.Fatalf("%q is no route", words[0])
	}
	body, form, host, from, header := map[string]string{}, url.Values{}, "unnamed.test", "198.51.100.7", http.Header{}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		value = strings.ReplaceAll(value, "?", strconv.Itoa(m.next))
		switch key {
		case "to":
			body[route[1]] = value
		case "from":
			if value == strconv.Itoa(m.next) {
				value = fmt.Sprintf("10.%d.%d.%d", m.next>>16&255, m.next>>8&255, m.next&255)
			}
			from = value
		case "pw":
			body["Password"] = value
		case "client":
			body["client_id"] = value
			form.Set("client_id", value)
		case "basic":
			id, secret, _ := strings.Cut(value, "/")
			r := &http.Request{Header: header}
			r.SetBasicAuth(id, secret)
		case "host":
			host = value
		case "fwd":
			header.Add("Gateway-Forwarded-For", value)
		default:
			m.t.Fatalf("%q is no part of a request", w)
		}
	}
	b, err := json.Marshal(body)
	if err != nil {
		m.t.Fatal(err)
	}
	kind := "application/json"
	if words[0] == "oauth-token" {
		b, kind = []byte(form.Encode()), "application/x-www-form-urlencoded"
	}
	r := httptest.NewRequest(http.MethodPost, route[0], strings.NewReader(string(b)))
	r.Host, r.Header = host, header
	r.Header.Set("Content-Type", kind)
	r.RemoteAddr = "[" + from + "]:4000"
	if !strings.Contains(from, ":") {
		r.RemoteAddr = from + ":4000"
	}
	w := httptest.NewRecorder()
	m.g.Handler().ServeHTTP(w, r)
	if err := m.g.Wait(context.Background()); err != nil {
		m.t.Fatal(err)
	}
	return w
}
