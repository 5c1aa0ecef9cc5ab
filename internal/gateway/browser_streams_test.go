package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
)

// streamsPage talks over a WebSocket, listens to events, each of which it confirms, and shows what came when both are over.
const streamsPage = `<!DOCTYPE html><title>streams</title><script>
const heard = [], told = [], show = () => {
	if (!chatOver || !eventsOver) return;
	const p = document.createElement('p');
	p.id = 'result';
	p.textContent = heard.join(',') + ' ' + told.join(',');
	document.body.append(p);
};
let chatOver = false, eventsOver = false;
const say = ['hello', 'x'.repeat(100000), 'goodbye'];
const chat = new WebSocket(location.origin.replace('http', 'ws') + '/chat');
chat.onopen = () => chat.send(say[0]);
chat.onmessage = e => {
	heard.push(e.data.length > 10 ? e.data.length : e.data);
	heard.length < say.length ? chat.send(say[heard.length]) : chat.close(1000);
};
chat.onclose = e => { heard.push(e.code); chatOver = true; show(); };
const events = new EventSource('/events');
events.onmessage = async e => {
	told.push(e.lastEventId + ':' + e.data);
	await fetch('/seen', {method: 'POST', body: e.lastEventId});
};
events.addEventListener('end', () => { events.close(); eventsOver = true; show(); });
events.onerror = () => told.push('error');
</script><body></body>`

// streamsBackend has the page. It sends an event only when the page has confirmed the one before.
func streamsBackend() http.Handler {
	seen := make(chan string)
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, streamsPage)
	})
	mux.HandleFunc("/chat", func(w http.ResponseWriter, r *http.Request) {
		c, _, _, err := ws.UpgradeHTTP(r, w)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			text, op, err := wsutil.ReadClientData(c) // answers a close as well
			if err != nil || wsutil.WriteServerMessage(c, op, []byte(strings.ToUpper(string(text)))) != nil {
				return
			}
		}
	})
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			_, _ = fmt.Fprintf(w, "id: %d\ndata: event\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case id := <-seen:
				if id != fmt.Sprint(i) {
					return
				}
			case <-r.Context().Done():
				return
			}
		}
		_, _ = io.WriteString(w, "event: end\ndata: none\n\n")
	})
	mux.HandleFunc("/seen", func(_ http.ResponseWriter, r *http.Request) {
		id, _ := io.ReadAll(r.Body)
		select {
		case seen <- string(id):
		case <-r.Context().Done():
		}
	})
	return mux
}

// A page talks over a WebSocket and gets events one by one, in a real browser, with and without TLS, while policies judge the
// answers that both begin with.
func TestStreamsInABrowser(t *testing.T) {
	path := chromium(t)
	dir := t.TempDir()
	pair(t, dir, "a", "127.0.0.1")
	yaml := settings(backend(t, streamsBackend()), `
policies:
  chat:
    match: [{path: /chat}]
    failures: {source: {limit: 2, window: 1h}}
    outcome: [{is: success, status: 101}, {is: failure, status: 401}]
  events:
    match: [{path: /events}]
    failures: {source: {limit: 2, window: 1h}}
    outcome: [{is: failure, status: 200, body: "access denied"}, {is: success, status: 200, header: {Content-Type: "text/event-stream*"}}]
`)
	browser := profile(t, path, chromedp.Flag("ignore-certificate-errors", true))
	for scheme, s := range map[string]*site{"http": start(t, yaml), "https": start(t, secured(yaml, dir, "", "a"))} {
		var result string
		err := chromedp.Run(browser,
			chromedp.Navigate(scheme+"://"+s.g.Addr().String()+"/page"),
			chromedp.Text(`#result`, &result, chromedp.NodeVisible),
			chromedp.Navigate("about:blank"),
		)
		if err != nil {
			t.Fatalf("%s: the page does not come to its end: %v", scheme, err)
		}
		expect(t, scheme, result, "HELLO,100000,GOODBYE,1000 0:event,1:event,2:event,3:event,4:event")
		for _, policy := range []string{"chat", "events"} {
			name := fmt.Sprintf("gateway_verdicts_total{policy=%q,verdict=\"success\"}", policy)
			eventually(t, scheme+", the verdict on "+policy, func() bool { return s.metric(name) == "1" })
		}
	}
}
