//go:build amd64 || arm64

package memstore

// prefetch has the processor fetch the memory of e without waiting for it. It takes one instruction that Go has no words for.
//
//go:noescape
func prefetch(e *entry)
