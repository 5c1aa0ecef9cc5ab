//go:build !linux

package memstore

// enlarge does nothing: other systems are not asked for large pages, or choose them themselves.
func enlarge([]entry) {}
