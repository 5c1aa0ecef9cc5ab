package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"authgate/internal/lookup"
)

// Webhook posts JSON to one URL. Use [NewWebhook]; it is safe for concurrent use, and keeps no connection open.
type Webhook struct {
	cfg    WebhookConfig
	client *http.Client
}

// WebhookConfig says where the JSON goes.
type WebhookConfig struct {
	URL       string            // http or https; it may hold a key, so no error shows it
	Secret    string            // signs what is posted, as [lookup.Sign] does; "": it is not signed
	Timeout   time.Duration     // of one post; 0: 10 s
	Transport http.RoundTripper // nil: one that follows the environment's proxy settings
}

// DeliveryHeader names what is delivered: posts of one delivery, one after another until one succeeds, have the same value, so
// that the receiver can tell a repetition.
const DeliveryHeader = "Gateway-Delivery"

const (
	hookTimeout    = 10 * time.Second
	maxReplyHeader = 16 << 10 // bytes of an answer's header; its body is not read
)

// Failure is why something was not delivered. Its text names neither secrets nor people.
type Failure struct {
	Cause  string
	Final  bool // trying again is no use
	Unsure bool // it may have arrived all the same
}

// Error is the cause.
func (f *Failure) Error() string { return f.Cause }

// NewWebhook makes a webhook. Nothing is posted yet.
func NewWebhook(cfg WebhookConfig) *Webhook {
	if cfg.Timeout <= 0 {
		cfg.Timeout = hookTimeout
	}
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DisableKeepAlives:      true, // posts are rare; nothing is left open between them
			MaxResponseHeaderBytes: maxReplyHeader,
		}
	}
	return &Webhook{cfg: cfg, client: &http.Client{
		Transport:     cfg.Transport,
		Timeout:       cfg.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a signed body goes nowhere else
	}}
}

// Post posts a body once. delivery goes into the header [DeliveryHeader]. Anything but a status of 2xx is a [*Failure], which is
// final for the 4xx that no repetition mends. It returns soon after ctx is done.
func (h *Webhook) Post(ctx context.Context, delivery string, body []byte) error {
	var begun atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { begun.Store(true) }})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return &Failure{Cause: "the URL cannot be used", Final: true}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "authgate")
	r.Header.Set(DeliveryHeader, delivery)
	if h.cfg.Secret != "" {
		r.Header.Set("Gateway-Signature", lookup.Sign(h.cfg.Secret, time.Now(), body))
	}
	res, err := h.client.Do(r)
	if err != nil {
		f := &Failure{Cause: "no answer", Unsure: begun.Load()}
		var timeout interface{ Timeout() bool }
		if errors.As(err, &timeout) && timeout.Timeout() {
			f.Cause = "no answer in time"
		}
		return f
	}
	_ = res.Body.Close() // nothing in it matters
	if res.StatusCode/100 == 2 {
		return nil
	}
	return &Failure{Cause: fmt.Sprintf("it answered %d", res.StatusCode), Final: isFinal(res.StatusCode)}
}

// isFinal reports whether a status says that the request itself is wrong, rather than the moment.
func isFinal(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status/100 == 4
}
