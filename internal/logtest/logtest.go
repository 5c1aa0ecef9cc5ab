// Package logtest keeps what a test has logged.
package logtest

import (
	"bytes"
	"sync"
)

// Buffer keeps what is written to it. The zero value is empty; all methods may be used by any number of goroutines.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String is all that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
