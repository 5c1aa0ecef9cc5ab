package unlock

import (
	"context"
	"encoding/json"
	"errors"
	htmltemplate "html/template"
	"net/url"
	"strings"
	"text/template"
	"time"

	"authgate/internal/notify"
)

// Way is how notices reach people. The zero value is none; make one with [ByWebhook], [ByMail] or [ByBackend].
type Way struct {
	name    string
	mailbox bool // needs one
	link    bool // carries ours
	repeats bool // a notice that may have arrived is sent again: the receiver can tell
	send    func(context.Context, notice) error
}

// notice is what is sent once. Failures are of [notify.Failure].
type notice struct {
	id      string // the same at each try
	claim   Claim
	mailbox string
	link    string
	expires time.Time
}

// ByWebhook posts {"event": "login_unlock", "realm", "target", "link", "expires"} to a service that then tells the user.
func ByWebhook(hook *notify.Webhook) Way {
	return Way{name: "webhook", link: true, repeats: true, send: func(ctx context.Context, n notice) error {
		return post(ctx, hook, n.id, map[string]string{
			"event": "login_unlock", "realm": n.claim.Realm, "target": n.claim.Target,
			"link": n.link, "expires": n.expires.UTC().Format(time.RFC3339),
		})
	}}
}

// ByBackend posts {"email", "realm"} to the backend's own endpoint for magic links. What the user then gets is the backend's.
func ByBackend(hook *notify.Webhook) Way {
	return Way{name: "backend", mailbox: true, send: func(ctx context.Context, n notice) error {
		return post(ctx, hook, n.id, map[string]string{"email": n.mailbox, "realm": n.claim.Realm})
	}}
}

// ByMail writes to the user.
func ByMail(mail *notify.Mail) Way {
	return Way{name: "smtp", mailbox: true, link: true, send: func(ctx context.Context, n notice) error {
		l, err := letter(n)
		if err != nil {
			return &notify.Failure{Cause: err.Error(), Final: true}
		}
		return mail.Send(ctx, l)
	}}
}

func post(ctx context.Context, hook *notify.Webhook, id string, body map[string]string) error {
	text, err := json.Marshal(body)
	if err != nil {
		return &notify.Failure{Cause: "the JSON cannot be written", Final: true}
	}
	return hook.Post(ctx, id, text)
}

const subject = "Too many failed sign-ins to your account"

var plainText = template.Must(template.New("text").Parse(`Hello,

wrong passwords have been entered too often for your account at {{.Site}}.
To protect it, browsers that have not signed in to it before are refused for
a while.

If you want to sign in now, open this page in the browser that you want to use,
and press the button there:

{{.Link}}

The link works once, until {{.Expires}}. It does not sign you
in: you still need your password.

If you do not want to sign in now, you need not do anything. Give the link to
nobody.
`))

var htmlText = htmltemplate.Must(htmltemplate.New("html").Parse(`<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Too many failed sign-ins</title></head>
<body style="font: 16px/1.5 sans-serif; color: #1a1a1a; background: #fff">
<p>Hello,</p>
<p>wrong passwords have been entered too often for your account at {{.Site}}. To protect it, browsers that have not signed in
to it before are refused for a while.</p>
<p>If you want to sign in now, open this page in the browser that you want to use, and press the button there:</p>
<p><a href="{{.Link}}">{{.Link}}</a></p>
<p>The link works once, until {{.Expires}}. It does not sign you in: you still need your password.</p>
<p>If you do not want to sign in now, you need not do anything. Give the link to nobody.</p>
</body>
</html>
`))

// letter writes the mail.
func letter(n notice) (notify.Letter, error) {
	link, err := url.Parse(n.link)
	if err != nil || link.Host == "" {
		return notify.Letter{}, errors.New("the link has no host")
	}
	values := map[string]string{"Site": link.Host, "Link": n.link, "Expires": n.expires.UTC().Format("15:04 UTC on 2 January 2006")}
	var text, html strings.Builder
	if err := plainText.Execute(&text, values); err != nil {
		return notify.Letter{}, errors.New("the text cannot be written")
	}
	if err := htmlText.Execute(&html, values); err != nil {
		return notify.Letter{}, errors.New("the HTML cannot be written")
	}
	return notify.Letter{ID: n.id, To: n.mailbox, Subject: subject, Text: text.String(), HTML: html.String()}, nil
}
