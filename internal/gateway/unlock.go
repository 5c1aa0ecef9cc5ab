package gateway

import (
	"context"
	"fmt"
	"log/slog"

	"authgate/internal/config"
	"authgate/internal/notify"
	"authgate/internal/telemetry"
	"authgate/internal/unlock"
	"authgate/proxy"
)

// newUnlock starts what tells owners that strangers have filled their bucket; nil if nobody is to be told [D3].
func (g *Gateway) newUnlock(cfg *config.Config) (*unlock.Service, error) {
	u := &cfg.Unlock
	if u.Via == "none" {
		return nil, nil
	}
	way, err := wayOf(u)
	if err != nil {
		return nil, fmt.Errorf("preparing unlock: %w", err)
	}
	return unlock.New(unlock.Config{
		Records: g.stores.limits, Way: way, Known: g.isKnown,
		Link:          func(realm string) string { return publicURL(g.cfg.Load(), realm) },
		MailboxDomain: u.MailboxDomain, PerDay: u.PerDay, LinkTTL: u.LinkTTL,
		Log: g.log, Names: g.names(cfg), Audit: g.auditEvent,
		Count: func(r unlock.Result) { g.metrics.Notice(string(r)) },
	})
}

// wayOf is how notices reach people.
func wayOf(u *config.Unlock) (unlock.Way, error) {
	if u.Via != "smtp" {
		hook := notify.NewWebhook(notify.WebhookConfig{URL: u.URL.Reveal(), Secret: u.Secret.Reveal()})
		if u.Via == "backend" {
			return unlock.ByBackend(hook), nil
		}
		return unlock.ByWebhook(hook), nil
	}
	security := map[string]notify.MailSecurity{"starttls": notify.StartTLS, "tls": notify.ImplicitTLS, "none": notify.Unencrypted}
	mail, err := notify.NewMail(notify.MailConfig{
		Host: u.SMTP.Host, Port: u.SMTP.Port, Username: u.SMTP.Username, Password: u.SMTP.Password.Reveal(),
		From: u.SMTP.From, Security: security[u.SMTP.TLS],
	})
	if err != nil {
		return unlock.Way{}, err
	}
	return unlock.ByMail(mail), nil
}

// isKnown reports whether the gateway has seen a target prove itself, by the very spelling that it would be written to.
func (g *Gateway) isKnown(ctx context.Context, realm, target string) (bool, error) {
	texts, err := g.stores.limits.Load(ctx, string(proxy.Reachable(g.keys.known, realm, target)))
	if err != nil {
		return false, err
	}
	return texts[0] != "", nil
}

// newTracer makes what tells a collector of requests; nil if there is none.
func newTracer(cfg *config.Config, opts Options) (*telemetry.Tracer, error) {
	if cfg.Telemetry.OTLPEndpoint == "" {
		return nil, nil
	}
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return telemetry.New(cfg.Telemetry.OTLPEndpoint, opts.Build["version"], log)
}

// startNotices starts what tells people and other systems of events.
func (g *Gateway) startNotices(cfg *config.Config) (err error) {
	if g.audit, err = notify.NewAudit(g.log, g.names(cfg), cfg.Audit.File); err != nil {
		return err
	}
	if cfg.Audit.Webhook != "" {
		hook := notify.NewWebhook(notify.WebhookConfig{URL: cfg.Audit.Webhook.Reveal(), Secret: cfg.Audit.Secret.Reveal()})
		g.audit.Post(hook, g.metrics.AuditLost)
	}
	if g.unlock, err = g.newUnlock(cfg); err != nil || g.unlock == nil {
		return err
	}
	plan, err := g.plan(cfg) // one that knows whom to tell
	if err != nil {
		return err
	}
	g.handler.Swap(plan)
	return nil
}

// stopNotices ends that, within some seconds. What is left of unlock notices stays in the store.
func (g *Gateway) stopNotices() error {
	if g.unlock != nil {
		g.unlock.Close()
	}
	if g.tracer != nil {
		g.tracer.Close()
	}
	return g.audit.Close()
}
