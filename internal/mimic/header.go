package mimic

import (
	"net/http"
	"net/textproto"
	"strings"
)

// stable are the headers of an answer that a copy of it shows too: neither of this connection nor volatile. The lines are
// shared with h. telltale is a volatile header that the backend sends and a copy lacks, or "".
func stable(h http.Header) (out http.Header, telltale string) {
	out = make(http.Header, len(h))
	for name, lines := range h {
		switch {
		case hopByHop(name):
		case !volatile(name):
			out[name] = lines
		case !given(name) && (telltale == "" || name < telltale):
			telltale = name
		}
	}
	for _, line := range h["Connection"] {
		for token := range strings.SplitSeq(line, ",") {
			delete(out, textproto.CanonicalMIMEHeaderKey(textproto.TrimString(token)))
		}
	}
	return out, telltale
}

func hopByHop(canonical string) bool {
	switch canonical {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Proxy-Authenticate", "Proxy-Authorization":
		return true
	}
	return false
}

// given says that every answer has this volatile header, a copy too: the server and the gateway set it [R5].
func given(canonical string) bool { return canonical == "Date" || canonical == "X-Request-Id" }

// volatile says that a header has another value in every answer, by its nature: times, and names of the request.
func volatile(canonical string) bool {
	switch canonical {
	case "Age", "Date", "Server-Timing", "X-Runtime", "X-Response-Time", "X-Process-Time", "X-Timer",
		"X-Envoy-Upstream-Service-Time", "X-Kong-Proxy-Latency", "X-Kong-Upstream-Latency", "X-Nextcloud-Bruteforce-Throttled",
		"X-Request-Id", "Request-Id", "X-Requestid", "X-Correlation-Id", "Correlation-Id", "X-Trace-Id", "Traceparent", "Tracestate",
		"Traceresponse", "X-Amz-Cf-Id", "X-Amz-Request-Id", "X-Amzn-Requestid", "X-Amzn-Trace-Id", "X-Azure-Ref", "X-Cloud-Trace-Context",
		"X-Debug-Token", "X-Debug-Token-Link", "X-Kong-Request-Id", "X-Ms-Request-Id", "X-Varnish", "Cf-Ray":
		return true
	}
	return strings.HasPrefix(canonical, "X-B3-")
}

// negotiates says that a request header speaks of formats and connections: its values stand in answers of their own right and
// tell nothing.
func negotiates(canonical string) bool {
	switch canonical {
	case "Cache-Control", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Dnt", "Expect", "Host", "Pragma", "Priority",
		"Save-Data", "Te", "Trailer", "Transfer-Encoding", "Upgrade-Insecure-Requests",
		"X-Forwarded-Port", "X-Forwarded-Proto", "X-Requested-With":
		return true
	}
	return strings.HasPrefix(canonical, "Accept") || strings.HasPrefix(canonical, "Sec-")
}
