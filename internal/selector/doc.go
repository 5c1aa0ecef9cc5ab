// Package selector finds out whom a request is about: it reads a name, a client or a secret out of bodies, headers, cookies,
// the query and the path, and turns it into the key of a bucket.
//
// The gateway must never read one name while the backend reads another [I3]. This package cannot know the backend's parser,
// so it does not try to be one. It collects every name that any plausible parser would find, and only where all of them
// agree is the request about that name outright:
//
//   - A body is read in the form that its Content-Type declares and, whatever that says, in the form that its first
//     characters betray: many backends never look at the header. A body without a type, or with one that no selector of
//     the list reads, is read in every form, and a selector then stands for the same name in the other forms:
//     json:/user/email, form:user[email] and xml://user/email are one name.
//   - A field of a body is looked for in the query too, since many frameworks merge the two.
//   - Names of members and fields match without regard to case, and so loosely that whatever a backend may take for
//     the name counts: user.login, user%5Blogin%5D, user_login.
//   - Two readings that differ after normalising are Ambiguous, with all of them listed. What no parser would read as a
//     plain name (an array, an object, NUL), or what parsers are known to read in their own ways (a comment in JSON, a
//     second document, a DTD, a part after the last boundary), is Malformed.
//
// A Body is read once, bounded, and shared by all policies of a request; a Spec is compiled once per policy. Nothing here
// knows a policy, a limit or a store.
package selector
