// Package mimic makes refusals that look like the backend's own answers: like a wrong password (form uniform, [R2]) or like
// a success after which nothing is sent (form silent, [R3]).
//
// What a refusal shows is configured, or learned from real answers, or, as long as there is neither, plain. A learned answer
// is shown to strangers, so nothing may be learned that one client wrote or that was meant for one client only. The rule is
// strict, and every doubt is on the side of not learning:
//
//   - Two real answers, to requests that differ in target or source, were the same in status, stable headers and body. Two
//     requests of one session and one source are one.
//   - Neither holds anything that its request carried, in whatever escaping; a cookie; a date; or what looks like a token.
//     Such an answer changes nothing: it neither is learned nor stands in the way of one that can be.
//   - A learned answer gives way only to two such answers between which it was not seen itself.
//
// What is learned is kept by realm, policy, method and [Kind] of request. A backend that words its answers by something else,
// such as the language, or that renders each one afresh, cannot be copied: [Book.Status] says so, and why.
//
// An answer is told from another by its time as well. So the book also remembers how long the latest real answers took,
// [Book.Delay] draws from that, and a [Delayer] waits.
package mimic
