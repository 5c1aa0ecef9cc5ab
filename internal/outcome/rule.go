package outcome

import "net/http"

// Rule is one outcome rule as the configuration writes it. Every field that is set must hold; alternatives within a list
// are or-ed. A field left empty asks nothing.
type Rule struct {
	// Is is the verdict word; `unknown` cannot be ruled.
	Is string `yaml:"is"`
	// Status holds codes (`302`) and classes (`2xx`).
	Status []string `yaml:"status"`
	// Header maps a header name to a glob that one of its values must match.
	Header map[string]string `yaml:"header"`
	// Location holds globs for the path of the Location header, resolved against the request's path, percent-decoded, without
	// scheme, host, query, fragment and ;parameters. A glob that starts with neither `/` nor `*` may match at any depth.
	Location []string `yaml:"location"`
	// LocationQuery maps a query parameter of the Location to a glob. The value `=` means: the same value as the request's own
	// query parameter of that name (a flow id, say), which only failures may ask for, since the request writes it.
	LocationQuery map[string]string `yaml:"location_query"`
	// CookieSet and CookieDeleted hold globs for names. A cookie is deleted by an empty value, by a Max-Age of zero or less or
	// by an Expires in the past; the last word on a cookie of the same name, path and domain counts.
	CookieSet     []string `yaml:"cookie_set"`
	CookieDeleted []string `yaml:"cookie_deleted"`
	// JSON maps a JSON pointer to a glob for the text of that member; the segment `*` stands for any member or element. `*` as value
	// means present and not null; the empty text means absent, null or "".
	JSON map[string]string `yaml:"json"`
	// Body holds texts, one of which must occur, in exactly this spelling, in the inspected part of the body.
	Body []string `yaml:"body"`
	// Request is a predicate on the request.
	Request Request `yaml:"request"`
}

// Request is a predicate on the request. Everything set must hold; values are globs and ignore case.
type Request struct {
	Method []string          `yaml:"method"`
	Path   []string          `yaml:"path"`
	Header map[string]string `yaml:"header"`
	Query  map[string]string `yaml:"query"`
	Form   map[string]string `yaml:"form"`
	JSON   map[string]string `yaml:"json"`
}

// Config is what a policy says about its backend's answers.
type Config struct {
	// Rules are tried in order.
	Rules []Rule
	// UnknownAs is what an answer without a matching rule counts as: Neutral (also for the zero value), Failure or Success.
	UnknownAs Verdict
	// InspectBytes is how much of a body is looked at, in bytes, as received and again after decompression. Zero means
	// 16 KiB [V1]; at most 1 MiB.
	InspectBytes int
	// Required says that the policy has failure rules, a device rule, `proves` or `trusts_device`, and therefore must tell
	// success from failure [V2].
	Required bool
	// PinHeaders are request headers that the backend gets in place of the client's, such as Accept-Language, so that its answers
	// are the ones the rules were written for [V3].
	PinHeaders map[string]string
}

// Problem is one thing wrong with a [Config].
type Problem struct {
	Rule    int    // index into Config.Rules, or -1: the policy as a whole
	Field   string // key inside the rule or the policy, such as `status` or `request.form`
	Message string // what is wrong, and what would be right
}

// RequestView is what a verdict may ask about the request. The names of fields and members are looked up without regard to
// case, as [I1] reads them. Implementations need not be safe for concurrent use; the package calls them in the goroutine that
// delivers the answer.
type RequestView interface {
	// Method is the method in upper case, overrides applied the way policies match.
	Method() string
	// Path is the decoded path, cleaned the way policies match.
	Path() string
	// Header is the client's header. It is only read.
	Header() http.Header
	// Query, Form and JSON are all values of that name or JSON pointer, numbers and booleans by their text; none: nil.
	Query(name string) []string
	Form(name string) []string
	JSON(pointer string) []string
	// Values yields every decoded value of the query, the body (at any depth) and the path's placeholders, and any names among
	// them that the client is free to choose. The header is read by the package itself.
	Values(yield func(string) bool)
}
