// Package route says which routes, and so which policies, cover a request.
//
// A gateway that compares paths as strings is evaded by spelling: the backend behind it may decode once or
// twice, drop ";params", resolve ".." before or after decoding, take a backslash for a slash, stop at a zero
// byte, merge slashes, ignore case, or several of these in turn. Nobody knows which, so a request that only
// might be a protected one is treated as one [I6].
//
// # How it is decided
//
// The paths of all routes form a tree of segments. Lookup does not list the readings of a path, of which there
// can be very many; it follows all of them at once, the way a regular expression engine follows all of its
// states. A place is a node of the tree plus a number of further segments that match nothing. Each segment of
// the request moves every place in each of the ways in which some backend might take it:
//
//	push   it is a segment of that name (of one of up to three names: whole, cut at ";", cut at %00, ? or #)
//	drop   it is nothing: "", ".", "index.php"
//	pop    it is ".."
//	junk   it is a segment of a name that no route has, for it may be taken literally
//
// A separator that is written %2f, %5c or \ may also be no separator. What is reached at the end counts. Two
// systems in a row that each normalise in their own way are covered too, since every segment chooses freely.
// Clean segments have one way only, so an ordinary path is followed as in any router, without allocation.
//
// The work is linear in the length of the path, and beyond a fixed number of steps, which no path that a
// person or a program would send comes near, every route of the table counts.
//
// # What counts as the same
//
//   - Percent-encoding at any depth, %uXXXX and overlong UTF-8 are decoded; letters are folded (compatibility forms
//     and letters that only upper-case to the same one included); control and invisible characters, blanks around
//     a name and dots after it are dropped.
//   - What follows ":$" in a name (a file stream of Windows) is dropped.
//   - "/x.php/more" is /x.php, for any script extension, "/index.php/x" is /x, so is "/(S(id))/x", and "//host/x" may be /x.
//   - "/login.json" is /login, as in frameworks with a format suffix; but a GET of a style sheet, script, picture
//     or font (/login.css) is not.
//   - A method in X-HTTP-Method-Override, X-HTTP-Method, X-Method-Override or _method counts besides the real one; so
//     does a path in X-Original-URL or X-Rewrite-URL. GET and HEAD are one method here, and a method that is
//     not a standard one may be any.
//   - Host names compare without port, case and trailing dots, in their ASCII form. A request whose host is missing or is not
//     a host name may be for any host.
package route
