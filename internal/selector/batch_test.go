package selector

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestMulti(t *testing.T) {
	multicall := func(calls int) string {
		one := "<value><struct><member><name>methodName</name><value>wp.getUsersBlogs</value></member></struct></value>"
		return "<?xml version=\"1.0\"?><methodCall><methodName> system.MultiCall</methodName><params><param><value><array><data>" + strings.Repeat(one, calls) + "</data></array></value></param></params></methodCall>"
	}
	graphQL := func(document string) post {
		body, err := json.Marshal(map[string]string{"query": document})
		if err != nil {
			t.Fatal(err)
		}
		return post{"application/json", "", string(body), nil}
	}
	for _, c := range []struct {
		name string
		post post
		n    int
		ok   bool
	}{
		{"plain JSON", post{"application/json", "", `{"username":"bob"}`, nil}, 0, false},
		{"JSON batch", post{"application/json", "", `[{"method":"a"},{"method":"b"},[1,2]]`, nil}, 3, true},
		{"JSON batch of one", post{"application/json", "", `[{"method":"a"}]`, nil}, 1, true},
		{"empty JSON batch", post{"application/json", "", `[]`, nil}, 0, true},
		{"JSON batch as a form", post{formType, "", `[{"method":"a"},{"method":"b"}]`, nil}, 2, true},
		{"JSON batch without a type", post{"", "", ` [{},{}]`, nil}, 2, true},
		{"broken JSON batch", post{"application/json", "", `[{},{}`, nil}, 0, false},
		{"XML-RPC call", post{"text/xml", "", "<methodCall><methodName>wp.getUsersBlogs</methodName></methodCall>", nil}, 0, false},
		{"XML-RPC multicall", post{"text/xml", "", multicall(5), nil}, 5, true},
		{"XML-RPC multicall of none", post{"", "", multicall(0), nil}, 0, true},
		{"XML-RPC with a comment in the method", post{"text/xml", "", "<methodCall><methodName>system<!-- -->.multicall</methodName></methodCall>", nil}, 0, true},
		{"GraphQL mutation", graphQL(`mutation Login($u: String!) { login(user: $u, password: "x") { token } }`), 1, false},
		{"GraphQL aliases", graphQL(`mutation { a: login(user: "x") { token } b: login(user: "y") { token } }`), 2, true},
		{"GraphQL, two ways to log in", graphQL(`mutation { login(user: "x") { token } signIn(user: "y") { token } }`), 2, true},
		{"GraphQL aliases in a group", graphQL(`mutation { login(user: "x") { token } auth { a: login(user: "y") { token } b: login(user: "z") { token } } }`), 3, true},
		{"GraphQL aliases in a group, by a fragment", graphQL(`mutation { auth { ...F } } fragment F on Auth { deep { a: login(user: "y") { token } b: login(user: "z") { token } } }`), 2, true},
		{"GraphQL with pictures in two sizes", graphQL(`mutation { login(user: "x") { user { s: avatar(size: 1) l: avatar(size: 2) } } }`), 0, false},
		{"GraphQL with pictures in a group of a query", graphQL(`{ viewer { s: avatar(size: 1) l: avatar(size: 2) } }`), 0, false},
		{"GraphQL aliases in a query", graphQL(`{ a: login(user: "x") { token } b: login(user: "y") { token } c: me { id } }`), 2, true},
		{"GraphQL dashboard", graphQL(`query Q @x(a: {b: 1}) { me { id avatar(size: 1) } projects(first: 5) { id icon(size: 1) } }`), 1, false},
		{"GraphQL inline fragment", graphQL(`mutation { ... on M @a { a: login(u: 1) } ... { b: login(u: 2) @skip(if: false) } }`), 2, true},
		{"GraphQL fragment", graphQL(`fragment F on M { a: login(u: 1) { x } ...G } mutation { ...F } fragment G on M { b: login(u: 2) ...F }`), 2, true},
		{"GraphQL fragment that is not spread", graphQL(`query { me(id: 1) { ...F } } fragment F on U { a: pic(s: 1) b: pic(s: 2) }`), 1, false},
		{"GraphQL braces in text and comments", graphQL(`mutation { login(user: "}{ a: login(", p: """ } " \""" """) { token } } # } { b: login(u: 1)`), 1, false},
		{"GraphQL calls in a text", graphQL(`mutation { login(user: ") b: login(u: 1) c: login(") { token } }`), 1, false},
		{"GraphQL calls in an escaped text", graphQL(`mutation { login(user: "\") b: login(u: 1) c: login(") { token } }`), 1, false},
		{"GraphQL calls in a block of text", graphQL("mutation { login(user: \"\"\"\n) b: login(u: 1) c: login(\n\"\"\") { token } }"), 1, false},
		{"GraphQL text that a line ends", graphQL("mutation { a: login(user: \"x\n) b: login(u: 1) }"), 2, true},
		{"GraphQL subscription first", graphQL(`subscription { a } mutation { a: login(u: 1) b: login(u: 2) }`), 2, true},
		{"GraphQL, deep inline fragments", graphQL("mutation {" + strings.Repeat("... {", 40)), maxSelections, true},
		{"GraphQL, no document", graphQL(`select * from users`), 0, false},
		{"GraphQL in the query", post{"", "query=mutation{a:login(u:1){t}b:login(u:2){t}}", "", nil}, 2, true},
		{"GraphQL in a form", post{formType, "", "query=mutation{a:login(u:1)b:login(u:2)}", nil}, 2, true},
		{"GraphQL in a form, one call", post{formType, "", "query=mutation{a:login(u:1)}", nil}, 1, false},
		{"GraphQL behind other members", post{"application/json", "", `{"id":1,"é":"x","QUERY":"mutation{a:x(b:1)c:x(b:2)}"}`, nil}, 2, true},
		{"GraphQL as its own type", post{"application/graphql", "", "mutation{a:login(u:1)b:login(u:2)}", nil}, 2, true},
		{"GraphQL as its own type, one call", post{"application/graphql", "", "mutation{a:login(u:1)}", nil}, 1, false},
		{"GraphQL batch in an upload", post{multipartType, "", part(`name="operations"`, `[{"query":"{a}"},{"query":"{b}"}]`) + lastBoundary, nil}, 2, true},
		{"no body", post{}, 0, false},
	} {
		in, err := c.post.input()
		if err != nil {
			t.Fatal(err)
		}
		n, ok := in.Multi()
		if ok != c.ok || ok && n != c.n {
			t.Errorf("%s: got %d, %v, want %d, %v", c.name, n, ok, c.n, c.ok)
		}
		if got := mustCompile(t, "json:/username").Read(in); c.ok != (got.Reason == Batch) || c.ok && got.State != Malformed {
			t.Errorf("%s: got %+v", c.name, got)
		}
		in.Body.Release()
	}
}

func TestIndexedPointerTakesOneCall(t *testing.T) {
	spec := mustCompile(t, "json:/0/params/username")
	one := post{contentType: "application/json", body: `[{"params":{"username":"bob"}}]`}
	wantReading(t, "one call", one.read(spec), Named, "", "bob")
	two := post{contentType: "application/json", body: `[{"params":{"username":"bob"}},{"params":{"username":"al"}}]`}
	wantReading(t, "two calls", two.read(spec), Malformed, Batch, "bob")
}

func FuzzGraphQL(f *testing.F) {
	for _, seed := range []string{`mutation { a: login(u: "x") @a { b } ...F } fragment F on M { c(d: 1) }`, `query Q($a: [Int!]! = {b: "}"}) { ... on X { ... { a(b: """c\"""""") } } }`, "{a(", "#\n{", `"""`, "...", "fragment"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, document string) {
		n := countRootFields([]byte(document))
		if n < 0 || n > maxSelections {
			t.Fatalf("got %d", n)
		}
		if twice := countRootFields([]byte("mutation{a:x(y:1)b:x(y:2)} " + document)); twice < 2 {
			t.Fatalf("got %d behind a document with two calls", twice)
		}
	})
}
