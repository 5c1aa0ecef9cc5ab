package hostile

import (
	"fmt"
	"strings"
)

// framingMessages are all messages of the class.
func framingMessages() []string {
	var all []string
	for _, family := range [][]string{
		transferEncodings(), contentLengths(), disagreements(), chunkings(), lineEnds(), controlCharacters(), requestLines(), hosts(), versions(), hopByHop(), upgrades(), trailers(), injections(),
	} {
		all = append(all, family...)
	}
	// Spread, so that a part of the list has some of every family.
	spread := make([]string, 0, len(all))
	for start := range 4 {
		for i := start; i < len(all); i += 4 {
			spread = append(spread, all[i])
		}
	}
	return spread
}

// everywhere are a message for a policy's route, where the body is read first, and for another, where it streams.
func everywhere(message func(path string) string) []string {
	return []string{message("/login"), message("/open")}
}

// transferEncodings are the published ways to have one side see a Transfer-Encoding where the other sees none.
func transferEncodings() []string {
	var out []string
	for _, te := range []string{
		"Transfer-Encoding: chunked", "Transfer-Encoding : chunked", "Transfer-Encoding:chunked", "Transfer-Encoding: xchunked", "Transfer-Encoding: chunkedx", "Transfer-Encoding: x, chunked", "Transfer-Encoding: chunked, x",
		"Transfer-Encoding: chunked, chunked", "Transfer-Encoding: identity", "Transfer-Encoding: chunked, identity", "Transfer-Encoding: identity, chunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, gzip",
		"Transfer-Encoding: \"chunked\"", "Transfer-Encoding: 'chunked'", "Transfer-Encoding: CHUNKED", "Transfer-Encoding: Chunked", "transfer-encoding: chunked", "TRANSFER-ENCODING: chunked", "Transfer-Encoding:\tchunked",
		"Transfer-Encoding:\vchunked", "Transfer-Encoding:\fchunked", "Transfer-Encoding: \x00chunked", "Transfer-Encoding: chunked\x00", "Transfer-Encoding: \x0bchunked", "Transfer-Encoding: \xa0chunked", "Transfer-Encoding: chunked\t",
		"Transfer-Encoding: chunked ;x", "Transfer-Encoding: chunked;q=1", "Transfer-Encoding: chunked;", "Transfer-Encoding: ,chunked", "Transfer-Encoding: chunked,", "Transfer-Encoding: , chunked ,", "Transfer-Encoding:", "Transfer-Encoding: ",
		"Transfer-Encoding: \r\n chunked", "Transfer-Encoding:\r\n\tchunked", "Transfer-Encoding\r\n : chunked", "Transfer-Encoding: chunked\r\n x", "X: y\r\n Transfer-Encoding: chunked", " Transfer-Encoding: chunked", "\tTransfer-Encoding: chunked",
		"X: y\nTransfer-Encoding: chunked", "X: y\rTransfer-Encoding: chunked", "X: y\n\rTransfer-Encoding: chunked", "X: y\r\rTransfer-Encoding: chunked", "Transfer-Encoding: chunked\nX: y", "Transfer-Encoding\x00: chunked", "Transfer_Encoding: chunked",
		"Transfer.Encoding: chunked", "Transfer Encoding: chunked", "Transfer-Encoding\t: chunked", "Transfer-Encoding\xa0: chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: x\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\ntransfer-encoding: x", "Transfer-Encoding;: chunked", "Transfer-Encodıng: chunked",
		"Transfer-Encoding: chunKed", "Transfer-Encoding: chun\u212aed", "Foo: bar\r\n\rTransfer-Encoding: chunked", "TE: chunked", "Content-Encoding: chunked", "X-Transfer-Encoding: chunked", ":Transfer-Encoding: chunked", "(Transfer-Encoding: chunked",
		"Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked", "Connection: close, Transfer-Encoding\r\nTransfer-Encoding: chunked", "Transfer-Encoding: ch\r\n unked", "Transfer-Encoding: chunked\x7f", "Transfer-Encoding: chunked#", "Transfer-Encoding: \\chunked",
	} {
		// CL.TE: the length covers all, the chunks end before the stowaway. TE.CL: the length ends within a chunk.
		out = append(out, everywhere(func(path string) string {
			body := "0\r\n\r\n" + stowaway
			return begun(path) + fmt.Sprintf("Content-Length: %d\r\n", len(body)) + te + "\r\n\r\n" + body + last
		})...)
		out = append(out, everywhere(func(path string) string {
			body := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(stowaway), stowaway)
			return begun(path) + te + "\r\nContent-Length: 4\r\n\r\n" + body + last
		})...)
		out = append(out, everywhere(func(path string) string { return begun(path) + te + "\r\n\r\n" + chunkedBody + last })...)
	}
	return out
}

// contentLengths are lengths that not everybody reads alike.
func contentLengths() []string {
	n := len(loginBody)
	var out []string
	for _, cl := range []string{
		fmt.Sprintf("Content-Length: %d\r\nContent-Length: %d", n, n), fmt.Sprintf("Content-Length: %d\r\nContent-Length: 0", n), fmt.Sprintf("Content-Length: 0\r\nContent-Length: %d", n), fmt.Sprintf("Content-Length: %d, %d", n, n),
		fmt.Sprintf("Content-Length: %d, 0", n), fmt.Sprintf("Content-Length: 0, %d", n), fmt.Sprintf("Content-Length: +%d", n), fmt.Sprintf("Content-Length: -%d", n), fmt.Sprintf("Content-Length: 0x%x", n), fmt.Sprintf("Content-Length: 0%d", n),
		fmt.Sprintf("Content-Length: 000000000000000000000%d", n), fmt.Sprintf("Content-Length: %d.0", n), fmt.Sprintf("Content-Length: %de0", n), fmt.Sprintf("Content-Length: %d ", n), fmt.Sprintf("Content-Length: %d\t", n), fmt.Sprintf("Content-Length:\t%d", n),
		fmt.Sprintf("Content-Length: %d x", n), fmt.Sprintf("Content-Length: %d;", n), fmt.Sprintf("Content-Length : %d", n), fmt.Sprintf("Content-Length\t: %d", n), fmt.Sprintf("Content_Length: %d", n), fmt.Sprintf("Content-Length: \r\n %d", n),
		fmt.Sprintf("Content-Length: 1\r\n %d", n), fmt.Sprintf("Content-Length: \"%d\"", n), "Content-Length:", "Content-Length: ", "Content-Length: x", "Content-Length: 1_8", "Content-Length: 99999999999999999999", "Content-Length: 9223372036854775807",
		"Content-Length: 9223372036854775808", "Content-Length: 18446744073709551634", "Content-Length: -1", "Content-Length: ٣", "Content-Length: １８", fmt.Sprintf("Content-Length: %d\x00", n), fmt.Sprintf("Content-Length: \x00%d", n),
		fmt.Sprintf("Content-Length: %d\v", n), fmt.Sprintf("X: y\nContent-Length: %d", n), fmt.Sprintf("X: y\rContent-Length: %d", n), fmt.Sprintf("Connection: Content-Length\r\nContent-Length: %d", n), fmt.Sprintf("Connection: close, content-length\r\nContent-Length: %d", n),
		fmt.Sprintf("content-length: %d\r\nContent-Length: %d", n, n), fmt.Sprintf("content-length: 0\r\nCONTENT-LENGTH: %d", n), fmt.Sprintf(" Content-Length: %d", n), fmt.Sprintf("Content-Length: %d\r\nContent_Length: 0", n), fmt.Sprintf("Content-Length: %d\r\nContent.Length: 3", n),
		fmt.Sprintf("Content-Length: %d\r\nX-Content-Length: 0", n), "X: y", fmt.Sprintf("Content-Length: %d\r\nConnection: keep-alive, Content-Length", n),
	} {
		out = append(out, everywhere(func(path string) string { return begun(path) + cl + "\r\n\r\n" + loginBody + stowaway + last })...)
	}
	return out
}

// disagreements are CL.0, 0.CL and bodies where some servers expect none.
func disagreements() []string {
	var out []string
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "DELETE", "TRACE", "PUT", "PATCH", "QUERY", "FOO", "CONNECT", "PRI"} {
		for _, path := range []string{"/login", "/open", "/login.css", "/", "*"} {
			head := method + " " + path + " HTTP/1.1\r\nHost: login.test\r\n"
			out = append(out,
				head+fmt.Sprintf("Content-Length: %d\r\n\r\n", len(stowaway))+stowaway+last,
				head+fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(stowaway), stowaway)+last,
				head+"Content-Length: 0\r\n\r\n"+last,
			)
		}
	}
	for _, expect := range []string{"100-continue", "100-Continue", "x", "100-continue, x", " 100-continue", "\r\n 100-continue", "100-continue\r\nExpect: x", "y 100-continue", ""} {
		out = append(out, everywhere(func(path string) string {
			return begun(path) + "Expect: " + expect + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n", len(stowaway)) + stowaway + last
		})...)
	}
	return out
}

// chunkings are chunked bodies that not everybody reads alike.
func chunkings() []string {
	n := len(loginBody)
	var out []string
	for _, body := range []string{
		chunkedBody, fmt.Sprintf("%x;\r\n%s\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf("%x;a=b\r\n%s\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf("%x ; a=b\r\n%s\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf("%x;a=\"\r\n%s\r\n0\r\n\r\n", n, loginBody),
		fmt.Sprintf("%x;a\nb\r\n%s\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf("%x;a\rb\r\n%s\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf("%x;\x00\r\n%s\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf("%x\n%s\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf("%x\r\n%s\n0\r\n\r\n", n, loginBody),
		fmt.Sprintf("%x\r\n%s\r\n0\n\r\n", n, loginBody), fmt.Sprintf("%x\r\n%s\r\n0\r\n\n", n, loginBody), fmt.Sprintf("%x\r\n%s\r\n0\n\n", n, loginBody), fmt.Sprintf("%x\n%s\n0\n\n", n, loginBody), fmt.Sprintf("%x\r%s\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf(" %x\r\n%s\r\n0\r\n\r\n", n, loginBody),
		fmt.Sprintf("%x \r\n%s\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf("\t%x\r\n%s\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf("0x%x\r\n%s\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf("+%x\r\n%s\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf("-%x\r\n%s\r\n0\r\n\r\n", n, loginBody),
		fmt.Sprintf("0000000000000%x\r\n%s\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf("00000000000000000000000%x\r\n%s\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf("1%016x\r\n%s\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf("%X\r\n%s\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf("%x_\r\n%s\r\n0\r\n\r\n", n, loginBody),
		fmt.Sprintf("%d.0\r\n%s\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf("%x\r\n%sXX0\r\n\r\n", n, loginBody), fmt.Sprintf("%x\r\n%s0\r\n\r\n", n, loginBody), fmt.Sprintf("%x\r\n%s\r\n\r\n0\r\n\r\n", n, loginBody), fmt.Sprintf("%x\r\n%s\r\n00000\r\n\r\n", n, loginBody),
		fmt.Sprintf("%x\r\n%s\r\n0;x\r\n\r\n", n, loginBody), fmt.Sprintf("%x\r\n%s\r\n0\r\nX: y\r\n\r\n", n, loginBody), fmt.Sprintf("%x\r\n%s\r\n0\r\n", n, loginBody), fmt.Sprintf("%x\r\n%s\r\n", n, loginBody), fmt.Sprintf("\r\n%x\r\n%s\r\n0\r\n\r\n", n, loginBody),
		"\r\n\r\n", "0\r\n\r\n", "0\r\n", "\n0\n\n", "g\r\n\r\n", "ffffffffffffffff\r\n" + loginBody, "fffffffffffffffff\r\n" + loginBody, "7fffffffffffffff\r\n" + loginBody, "8000000000000000\r\n" + loginBody, ";\r\n" + loginBody + "\r\n0\r\n\r\n",
		fmt.Sprintf("%x%s\r\n%s\r\n0\r\n\r\n", n, ";"+strings.Repeat("x", 9000), loginBody), fmt.Sprintf("%x\r\n%s\r\n0\r\n%s\r\n\r\n", n, loginBody, "X: "+strings.Repeat("y", 9000)), strings.Repeat("1;x=y\r\n \r\n", 500) + chunkedBody,
		strings.Repeat("1;"+strings.Repeat("x", 90)+"\r\n \r\n", 300) + chunkedBody, fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", n+2, loginBody), fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", n-2, loginBody),
	} {
		out = append(out, everywhere(func(path string) string {
			return begun(path) + "Transfer-Encoding: chunked\r\n\r\n" + body + stowaway + last
		})...)
	}
	return out
}

// lineEnds are messages whose lines end in other ways, or seem to.
func lineEnds() []string {
	honest := begun("/login") + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(loginBody)) + loginBody
	var out []string
	for _, end := range []string{"\n", "\r", "\n\r", "\r\r\n", "\r\n ", "\r\n\t", "\x00\r\n", "\r\n\x00", " \r\n", "\v\r\n", "\x85", "\u2028", "\r\n\r", "\r\x00\n"} {
		lines := strings.SplitAfter(honest, "\r\n")
		for i := range lines[:len(lines)-1] {
			changed := append([]string(nil), lines...)
			changed[i] = strings.TrimSuffix(changed[i], "\r\n") + end
			out = append(out, strings.Join(changed, "")+stowaway+last)
		}
		out = append(out, strings.ReplaceAll(honest, "\r\n", end)+last)
	}
	for _, before := range []string{"\r\n", "\n", "\r", " ", "\r\n\r\n", "\x00", "\t\r\n", strings.Repeat("\r\n", 100)} {
		out = append(out, before+honest+last, honest+before+honest+last)
	}
	return out
}

// controlCharacters puts every control character, and some others, where it does harm.
func controlCharacters() []string {
	var out []string
	frame := fmt.Sprintf("Content-Length: %d\r\n\r\n", len(loginBody)) + loginBody + last
	for c := range 0x21 {
		ch := string(rune(c))
		out = append(out,
			begun("/login")+"X-A"+ch+"B: c\r\n"+frame, begun("/login")+"X-A: b"+ch+"c\r\n"+frame, begun("/login"+ch+"x")+frame, begun("/open?a"+ch+"b")+frame, "PO"+ch+begun("/login")[2:]+frame,
			begun("/login")+"Cookie: a=b"+ch+"Plain: 1\r\n"+frame, begun("/login")+"Authorization: Basic Ym9i"+ch+"Plain: 1\r\n"+frame,
		)
	}
	for _, ch := range []string{"\x7f", "\x80", "\xa0", "\xff", "\xc0\x8d\xc0\x8a", "\u560d\u560a", "\u010d\u010a", "%0d%0a", "\\r\\n"} {
		out = append(out, begun("/login")+"X-A"+ch+"B: c\r\n"+frame, begun("/login")+"X-A: b"+ch+"Plain: c\r\n"+frame, begun("/login"+ch+"Plain:1")+frame, begun("/open?a="+ch+"Plain:1")+frame)
	}
	return out
}

// requestLines are targets of every form.
func requestLines() []string {
	var out []string
	frame := fmt.Sprintf("Content-Length: %d\r\n\r\n", len(loginBody)) + loginBody + last
	for _, target := range []string{
		"http://login.test/login", "http://other.test/login", "https://login.test/login", "http://user:password@login.test/login", "http://login.test:80/login", "http://login.test", "http:///login", "http://", "http:/login", "//login.test/login", "login",
		"/login /x", "/login\tHTTP/1.1", "/login HTTP/1.1\r\nPlain: 1\r\nX: ", "http://login.test\r\nPlain: 1/login", "http://[::1]/login", "http://[fe80::1%25eth0]/login", "http://[x/login", "http://login.test\\@other.test/login", "http://other.test#@login.test/login",
		"*", "**", "/*", "?login", "#login", "", "  /login", "/login  ", "/../login", "/login?a b", "/login#x", "javascript:x", "file:///login", "login.test:443", "http://login.test /login", "HTTP://login.test/login", "h2c://login.test/login", "/\xe2\x80\xae/login", "/%zz",
		"/" + strings.Repeat("a", 4000), "/" + strings.Repeat("a", 20000), "/login?" + strings.Repeat("a=b&", 3000),
	} {
		out = append(out, begun(target)+frame, strings.Replace(begun(target), "POST", "GET", 1)+"\r\n"+last)
	}
	for _, line := range []string{
		"POST  /login HTTP/1.1", "POST /login  HTTP/1.1", " POST /login HTTP/1.1", "POST /login HTTP/1.1 ", "POST\t/login\tHTTP/1.1", "POST /login HTTP/1.1 x", "POST /login", "POST", "", "POST /login HTTP", "POST /login FTP/1.1", "GET /first HTTP/1.1\r\nHost: a\r\n\r\nPOST /login HTTP/1.1",
		"POST /login HTTP/1.1\x00", "POST /login\x00 HTTP/1.1", "P\xc3\x96ST /login HTTP/1.1", "\"POST\" /login HTTP/1.1", "POST:/login HTTP/1.1", "POST /login HTTP/1.1\r\nPOST /login HTTP/1.1",
	} {
		out = append(out, line+"\r\nHost: login.test\r\nContent-Type: application/json\r\n"+frame)
	}
	return out
}

// hosts are Host fields that not everybody reads alike.
func hosts() []string {
	var out []string
	frame := fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(loginBody)) + loginBody + last
	for _, host := range []string{
		"", "Host:", "Host: ", "Host: a\r\nHost: b", "Host: a\r\nhost: a", "Host: a\r\nHost:", "Host: a, b", "Host: a b", "Host: a\tb", "Host: a/b", "Host: a?b", "Host: a#b", "Host: a@b", "Host: a:b", "Host: a:99999", "Host: a:80:80", "Host: [::1]", "Host: [::1", "Host: [fe80::1%eth0]",
		"Host: a\r\n b", " Host: a", "Host : a", "Host\t: a", "Host\x00: a", "Ho\x00st: a", "Host: a\x00b", "Host: a\x01", "Host: \xff", "Host: ä", "Host: %0d%0a", "Host: a%0d%0aPlain:1", "Host: \"a\"", "Host: <a>", "Host: a\\b", "Host: ..", "Host: .", "Host: -", "Host: " + strings.Repeat("a", 300),
		"X: y\r\nHost: a", "Host: a\r\nX-Forwarded-Host: 203.0.113.66", "Host: a\r\nX_Forwarded_Host: 203.0.113.66", "Host: a\r\nForwarded: host=203.0.113.66", "Host: a\r\nX-Original-Host: 203.0.113.66", "Host: a\r\nX.Forwarded.Host: 203.0.113.66", "Host: a;b", "Host: {a}", "Host: a|b", "Host: a^b", "Host: a`b",
	} {
		line := host
		if line != "" {
			line += "\r\n"
		}
		out = append(out, "POST /login HTTP/1.1\r\n"+line+frame, "POST http://login.test/login HTTP/1.1\r\n"+line+frame, "POST /login HTTP/1.0\r\n"+line+frame)
	}
	return out
}

// versions are other versions of HTTP, and what is not HTTP at all.
func versions() []string {
	var out []string
	rest := "\r\nHost: login.test\r\nContent-Type: application/json\r\n"
	frame := fmt.Sprintf("Content-Length: %d\r\n\r\n", len(loginBody)) + loginBody + stowaway
	for _, version := range []string{
		"HTTP/0.9", "HTTP/1.0", "HTTP/1.1", "HTTP/1.2", "HTTP/1.9", "HTTP/2", "HTTP/2.0", "HTTP/3.0", "HTTP/1", "HTTP/1.", "HTTP/.1", "HTTP/11", "HTTP/1.10", "HTTP/01.1", "HTTP/1.01", "HTTP/1.1.1", "HTTP/-1.1", "HTTP/+1.1", "http/1.1", "Http/1.1", "HTTP /1.1", "HTTP/ 1.1", "HTTP/1 .1", "HTTP/1,1", "HTTPS/1.1", "ICAP/1.0", "RTSP/1.0", "HTTP/１.1", "",
	} {
		for _, connection := range []string{"", "Connection: keep-alive\r\n", "Connection: close\r\n"} {
			out = append(out, "POST /login "+version+rest+connection+frame, "POST /open "+version+rest+connection+"Transfer-Encoding: chunked\r\n\r\n"+chunkedBody+stowaway)
		}
	}
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	return append(out, preface, preface+settings, preface+settings+strings.Repeat("\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08", 100), "PRI /login HTTP/1.1\r\nHost: a\r\n\r\n", preface+stowaway, begun("/login")+fmt.Sprintf("Content-Length: %d\r\n\r\n", len(loginBody))+loginBody+preface+settings,
		"GET /login\r\n", "GET /login\r\n\r\n", "GET /\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "PROXY TCP4 203.0.113.66 203.0.113.66 1 2\r\n"+last, "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xcb\x00\x71\x42\xcb\x00\x71\x42\x00\x01\x00\x02"+last, "*1\r\n$4\r\nPING\r\n", "EHLO x\r\n", "\x80\x2e\x01\x03\x01")
}

// hopByHop are Connection fields that name what a backend must see, or must not lose.
func hopByHop() []string {
	var out []string
	frame := fmt.Sprintf("Content-Length: %d\r\n\r\n", len(loginBody)) + loginBody + stowaway + last
	for _, name := range []string{
		"X-Forwarded-For", "x-forwarded-for", "X-Real-IP", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Request-Id", "Cookie", "Authorization", "Content-Length", "Content-Type", "Host", "Transfer-Encoding", "Connection", "close", "keep-alive", "X_Forwarded_For", "Forwarded", "Via", "*", "", ",", "x y", "Set-Cookie", "Expect", "Trailer", "TE", "Upgrade", "\"X-Forwarded-For\"",
	} {
		for _, form := range []string{"Connection: %s\r\n", "Connection: close, %s\r\n", "Connection: %s, close\r\n", "Connection: keep-alive\r\nConnection: %s\r\n", "Proxy-Connection: %s\r\n", "Keep-Alive: %s\r\n", "connection:%s\r\n", "Connection: close\t,\t%s\r\n"} {
			out = append(out, begun("/login")+fmt.Sprintf(form, name)+"Cookie: a=b\r\nX-Forwarded-For: 203.0.113.66\r\nX-Real-IP: 203.0.113.66\r\nX_Forwarded_For: 203.0.113.66\r\nX-Request-Id: 203.0.113.66\r\n"+frame)
		}
	}
	for _, name := range strings.Fields(`X-Forwarded-For x-forwarded-for X_Forwarded_For X_FORWARDED-FOR X.Forwarded.For X-Real-IP X_Real_IP X-Client-IP Client-IP True-Client-IP CF-Connecting-IP CF_Connecting_IP X-Cluster-Client-IP Forwarded X-Original-Forwarded-For
		X-Request-Id X_Request_Id X-Forwarded-Host X-Forwarded-Server X-Forwarded-By X-Original-URL X-Rewrite-URL Fastly-Client-IP X-Envoy-External-Address X-Azure-ClientIP X-ProxyUser-Ip Proxy`) {
		out = append(out, begun("/login")+name+": 203.0.113.66\r\n"+frame, begun("/open")+name+": 203.0.113.66\r\n"+name+": 203.0.113.66, 127.0.0.1\r\n"+frame, begun("/open")+"X-A: b\r\n "+name+": 203.0.113.66\r\n"+frame)
	}
	return out
}

// upgrades ask for another protocol, within which nothing would be counted.
func upgrades() []string {
	var out []string
	for _, protocol := range []string{"h2c", "H2C", "h2", "h2c, websocket", "websocket, h2c", " h2c", "h2c\r\nUpgrade: websocket", "HTTP/2.0", "HTTP/1.1", "TLS/1.0", "h2c\t", "\"h2c\"", "h2c;x", ",h2c", "x-h2c", "websocket", "foo"} {
		for _, connection := range []string{"Upgrade", "Upgrade, HTTP2-Settings", "upgrade", "HTTP2-Settings, Upgrade", "close, Upgrade", "keep-alive", ""} {
			head := "Host: login.test\r\nConnection: " + connection + "\r\nUpgrade: " + protocol + "\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"
			out = append(out, "GET /open HTTP/1.1\r\n"+head+"\r\n"+stowaway, "POST /login HTTP/1.1\r\n"+head+fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(loginBody))+loginBody+stowaway)
		}
	}
	return out
}

// trailers say after the body what should have been said before.
func trailers() []string {
	var out []string
	for _, t := range []string{
		"Content-Length: 0", "Transfer-Encoding: identity", "Host: x", "X-Forwarded-For: 203.0.113.66", "x_forwarded_for: 203.0.113.66", "Authorization: Basic dmljdGltOng=", "Cookie: a=b", "Content-Type: text/plain", "Content-Encoding: gzip", "X-Request-Id: 203.0.113.66", "Trailer: X",
		"Connection: close", "X : y", " X: y", "X: y\r\n z", "X: y\nPlain: 1", "X: y\rPlain: 1", "X: \x00", "X\x00: y", ": y", "X", "", "X-HTTP-Method-Override: POST", "X-Ok: 1", "X: " + strings.Repeat("y", 20000), strings.Repeat("X: y\r\n", 2000) + "Z: 1",
	} {
		for _, announced := range []string{"", "Trailer: " + strings.TrimSpace(strings.SplitN(t, ":", 2)[0]) + "\r\n", "Trailer: X-Ok, X\r\n", "Trailer: Content-Length\r\n"} {
			if strings.ContainsAny(announced, "\x00\n") && strings.Count(announced, "\n") > 1 || len(announced) > 1000 {
				continue
			}
			out = append(out, everywhere(func(path string) string {
				return begun(path) + "TE: trailers\r\n" + announced + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n%s\r\n\r\n", len(loginBody), loginBody, t) + last
			})...)
		}
	}
	return out
}

// injections are line ends in every field that the gateway or a backend decodes.
func injections() []string {
	var out []string
	frame := func(body string) string {
		return fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)) + body + last
	}
	for _, end := range []string{"\\r\\n", "\\u000d\\u000a", "\\n", "\\u2028", "\\u0085", "%0d%0a", "\\u0000"} {
		out = append(out, begun("/login")+frame(`{"username":"bob`+end+`Injected: 1"}`), begun("/login")+frame(`{"username":"bob","x":"`+end+end+`GET /smuggled HTTP/1.1"}`))
	}
	for _, end := range []string{"%0d%0a", "%0a", "%0d", "%00", "%e5%98%8a%e5%98%8d", "%c4%8a", "%250d%250a"} {
		for _, target := range []string{"/login%sInjected:1", "/open%sInjected:1", "/open?a=%sInjected:1", "/open;a=%sInjected:1", "http://login.test%sInjected:1/login", "/open%s%sGET /smuggled HTTP/1.1"} {
			out = append(out, "GET "+strings.ReplaceAll(target, "%s", end)+" HTTP/1.1\r\nHost: login.test\r\n\r\n"+last)
		}
		form := "POST /login HTTP/1.1\r\nHost: login.test\r\nContent-Type: application/x-www-form-urlencoded\r\n"
		out = append(out, form+frame("username=bob"+end+"Injected:1"), form+"Cookie: session=a"+end+"Injected:1\r\n"+frame("username=bob"))
	}
	for _, credentials := range []string{"Ym9iDQpJbmplY3RlZDogMTp4", "Ym9iCkluamVjdGVkOiAxOng=", "Ym9iADp4"} { // bob, a line end, and a field
		out = append(out, begun("/login")+"Authorization: Basic "+credentials+"\r\n"+frame("{}"))
	}
	return out
}
