// Package outcome tells from a backend's answer what became of a login: it turns the ordered rules of a policy into
// one [Verdict] per answer.
//
// A [Rule] states conditions on the answer (status, header, Location, Set-Cookie, JSON, text) and on the request
// that it answers. All conditions of a rule must hold, the alternatives of one condition are or-ed, and the first rule
// that holds wins [V1]. [Compile] makes a [Classifier] of them once; it is immutable, safe for concurrent use, and free of
// allocation where the status line and the header decide.
//
// Patterns are globs: `*` stands for any run of bytes, a lone `*` for "present", and the empty text for "absent or
// empty". Comparison with the answer is exact, comparison with the request ignores case.
//
// An answer is partly written by whoever sent the request: pages show the typed name, redirects lead to `next=`.
// So text, Location, header and JSON conditions of every verdict but failure must rest on the backend's own words [V3]: if
// a request value may have supplied them, the rule is passed over, and no later rule with a kinder verdict may take
// its place. Otherwise the reflection of "/two_factor" would turn a pending login into a success, which is worse than what
// was to be prevented.
//
// The body is looked at only if the head leaves the verdict open, only as far as InspectBytes, both as received and
// decompressed, and it can be watched while it streams: see [Classifier.Watch], [Classifier.Observe], [Classifier.Hold].
package outcome
