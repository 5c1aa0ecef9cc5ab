// Package device knows the browsers in which a login was completed, and for whom: a stranger's failures must not lock out
// the owner of an account who comes with a browser of her own [D1] [D2].
//
// # The cookie
//
// A browser in which a login succeeded gets a cookie with a random [ID], the time, and a MAC of both and the realm. It says
// nothing of the browser or the user. [Ring] signs and verifies it: the first key signs, all verify, so that a new key can be
// put before the old ones. [Cookie.Set] writes the Set-Cookie line, [Candidates] finds the values in a request, and [Strip]
// takes them out before the request goes on. What does not verify is no device.
//
// # Whom a device is trusted for
//
// [Registry] keeps pairs: this device is trusted for this user. A user is a target as the buckets know it, together with the
// spelling that succeeded, since a backend may well hold "bob" and "Bob" for two people; an unlock link, which was mailed to
// the one mailbox, makes a pair for any spelling. A pair lives for the TTL after the last success. Of a device, the ten users
// seen last stay, of each at most four spellings. Of a spelling, 32 devices stay; the oldest makes room, but one that was
// seen only once before any that came back, since a client that keeps no cookies looks like a new device every time. Of a
// target, 128 pairs stay; the spelling with the most loses its oldest, but none is brought below four while there are some that
// came later, so that whoever makes look-alike accounts by the hundred pushes out only his own.
//
// A success that adds a user or a spelling makes a fresh id, which takes over the old one's pairs, and the old one is dead:
// a cookie that somebody planted in the browser beforehand is worth nothing once its victim has signed in. A success that adds
// nothing renews the pair. 30 failures without a success end it.
//
// # The records
//
// Three kinds of records hold this, and one atomic step changes all that belong together, provided that what was read still
// holds:
//
//	device:user:REALM:TARGET                     the pairs of a target, on list devices:REALM
//	device:id:REALM:PUBLIC                       the targets of a device, the latest first
//	device:fact:REALM:DEVICE:SPELLING:TARGET     the fact that a decision asks for; one for each pair
//
// DEVICE is a digest of the id and PUBLIC its beginning; the id itself is in no record. The facts are derived from the pairs,
// never the reverse: whatever takes a pair from the list takes the fact with it, so a revocation reaches every one. The
// record of a device gets its targets when the id is made, and no others later: one may have lost its pair by now, but no
// pair is missing from it. So a device is found by its public id without a search, and a change at one user
// need not touch the records of the user's other devices.
//
// In a step, facts come first and the lists that lead to them last: a store that drops the longest unchanged record when it
// is full drops a fact before its list.
package device
