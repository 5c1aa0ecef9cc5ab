package hostile

import (
	"net/url"
	"strings"
)

// headList and pathList are the lists whose selectors look beside the body.
const (
	headList = 6
	pathList = 7
)

// headCases name somebody in a field or a cookie, in all ways in which those come.
func headCases() []bodyCase {
	var cases []bodyCase
	for _, fields := range [][]string{
		{"X-User: bob"},
		{"x-user: Bob"},
		{"X_User: bob"},
		{"X-USER:bob"},
		{"X-User:  bob  "},
		{"X-User:\tbob"},
		{"X-User: bob", "X-User: victim"},
		{"X-User: bob", "x-user: bob"},
		{"X-User: bob", "X_User: victim"},
		{"X_User: bob", "X-User: victim"},
		{"X-User: bob, victim"},
		{"X-User: bob,"},
		{"X-User: ", "X-User: victim"},
		{"X-User: victim", "X-User:"},
		{"X-User: bob\r\n victim"},
		{"X-User : bob"},
		{"X-User: \"bob\""},
		{"X-User: bob;x=y"},
		{"X-User: b%6fb"},
		{"X-User: =?utf-8?q?victim?="},
		{"X-User: jos\xe9"},
		{"X-User: josé"},
		{"X-User: bob\x00"},
		{"X-User: ｂob"},
		{"X.User: bob"},
		{"X-User: bob", "Connection: X-User"},
		{"X-User: bob", "Connection: close, x-user"},
		{"X-User: bob", "Connection: X_User"},
		{"X_User: bob", "Connection: X-User"},
		{"X-User: bob\x7f"},
		{"X-User: bob victim"},
		{"X-User: bob\tvictim"},
		{"X-User: \xa0bob"},
		{"X-User: bob\u00ad"},
		{"X-User: null"},
		{"X-User: 1"},
		{"X-User: -"},
		{"Cookie: who=bob"},
		{"Cookie: who=bob; who=victim"},
		{"Cookie: who=victim", "Cookie: who=bob"},
		{"Cookie: who=\"bob\""},
		{"Cookie: who=b%6fb"},
		{"Cookie: wh%6f=bob"},
		{"Cookie: Who=bob"},
		{"Cookie: who=bob,who=victim"},
		{"Cookie: a=b, who=victim"},
		{"Cookie: who=bob;who=victim"},
		{"Cookie: a=\"b; who=victim\""},
		{"Cookie: a=\"b; who=victim"},
		{"Cookie: who = bob"},
		{"Cookie:who=bob"},
		{"Cookie: ;who=bob"},
		{"Cookie: $Version=1; who=bob; $Path=/"},
		{"Cookie: who=bob=victim"},
		{"Cookie: who"},
		{"Cookie: who=; who=victim"},
		{"Cookie: who=bob+x"},
		{"Cookie: who=bob%20x"},
		{"Cookie: who[]=bob"},
		{"Cookie: who[a]=bob"},
		{"Cookie: w.ho=bob"},
		{"Cookie: who=bob\\\"x"},
		{"Cookie: who=\"b\\157b\""},
		{"Cookie: who=\"b\\\"ob\""},
		{"Cookie: who=b\xffb"},
		{"Cookie: who=jos%e9"},
		{"Cookie: who=jos%c3%a9"},
		{"Cookie: who=bob%00x"},
		{"Cookie: who=%"},
		{"Cookie: who=bob", "Connection: Cookie"},
		{"Cookie: who=bob\r\n ; who=victim"},
		{"cookie: who=bob", "COOKIE: x=y"},
		{"Cookie: x=y&who=victim"},
		{"Cookie: a=b\twho=victim"},
		{"Cookie: who=bob who=victim"},
		{"Cookie: {who=bob}"},
		{"Cookie: who=bob}"},
		{"Cookie: __Host-who=bob"},
		{"Cookie: who=bob; Who=victim"},
		{"Cookie2: who=bob"},
		{"Set-Cookie: who=bob"},
		{"Cookie: who=<bob>"},
		{"Cookie: who=bob(x)"},
		{"Cookie: who=bob@x"},
		{"Cookie: who=a:b"},
		{"Cookie: =who; who=bob"},
		{"Cookie: who==bob"},
		{"X-User: bob", "Cookie: who=bob"},
		{"X-User: bob", "Cookie: who=victim"},
	} {
		cases = append(cases, bodyCase{name: "head", contentType: "application/json", body: []byte("{}"), fields: fields})
	}
	return cases
}

// pathCases name somebody in the path.
func pathCases() []bodyCase {
	var cases []bodyCase
	for _, target := range strings.Fields(`/user/bob /user/BOB /user/b%6fb /user/b%256fb /user/bob/ /user//bob /user/./bob /user/x/../bob /user/bob;x /user/bob%3bx /user/bob%00 /user/bob%20 /user/%20bob /user/bob%2fx /user/x%2fbob /user/x%2f..%2fbob /user/bob%5cx /user/bob?x=y
		/user/bob%3fx /user/bob%23 /user/bob+x /user/bob%2bx /user/bob@example.com /user/bob%40example.com /user/jos%c3%a9 /user/jos%e9 /user/josé /user/%c0%af /user/bob%0a /user/bob%0d%0ax /user/%2e%2e /user/..;/user/bob /User/bob /%75ser/bob /user/bob%e2%80%8b /user/b%u006fb /user/bob~ /user/bob! /user/(bob)
		/user/bob.. /user/bob. /x/../user/bob /user/bob/../victim /user/bob/..;/victim /user/bob/%2e%2e/victim /user/bob/..%2fvictim /user%2fbob /user%2fbob/victim /user/bob%ff /user/bob%ef%bd%81 /user/%00bob /user/bob// /user/bob/. http://x/user/bob http://x/user/b%6fb //x/user/bob /user/bob#x /user/%62%6f%62 /user/bob:x /user/bob&x=y /user/bob#/x /user/bob#/../x /user/bob%00/x /user/bob%00.php/x /user/bob#.php/login /user/bob;/x /user/bob;.php/x /user/bob%3f/x /user/bob%23/x
		/user/{name} /user/* /user/bob,victim /user/bob%2cvictim /user/"bob" /user/%22bob%22 /user/bob%25 /user/bob%2 /user/bob% /user/1 /user/-1 /user/null /user/bob=x /user/;/bob /user/;x=y/bob /user/bob%2e /user/a%0abob /user/a%09bob /user/bob%c2%a0 /user/bob%20victim /user/bob%20%20victim`) {
		cases = append(cases, bodyCase{name: "path", target: target, contentType: "application/json", body: []byte("{}")})
	}
	return cases
}

// plainHead and plainPath are requests that name somebody in the simplest way.
func plainHead(name string) [][]byte {
	var out [][]byte
	if !strings.ContainsAny(name, "\r\n\x00") {
		out = append(out, post("/in/head", "application/json", "{}", "X-User: "+name), post("/in/head", "application/json", "{}", "Cookie: who="+name))
	}
	return append(out, post("/in/head", "application/json", "{}", "Cookie: who="+url.PathEscape(name)))
}

func plainPath(name string) []byte {
	return post("/user/"+url.PathEscape(name), "application/json", "{}")
}
