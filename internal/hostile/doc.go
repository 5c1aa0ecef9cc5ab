// Package hostile holds no code: its tests put the gateway in front of real servers (Go's, Node, Python, PHP, Ruby, nginx)
// and send it what attackers send, by raw sockets. Whatever a backend makes of a request that the gateway did not
// count, or did not charge to the name that the backend read, has evaded it.
//
// Each test tries one class of input and counts; the table at the end says how many were tried and how many
// evaded. A server that is not installed is left out, and the table says so. With HOSTILE_FUZZ=10m the
// differential fuzz test goes on for so long; without, it takes a second.
package hostile
