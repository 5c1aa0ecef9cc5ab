package mimic

import (
	"strings"
	"testing"
	"time"
)

func BenchmarkAnswer(b *testing.B) {
	book := learning(b, Config{})
	for i := range uint64(2) {
		book.Observe(key, login(raw(jsonFailure), 1+i, 1))
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = book.Answer(key)
	}
}

func BenchmarkDelay(b *testing.B) {
	book := learning(b, Config{})
	s := login(raw(jsonFailure), 1, 1)
	for i := range maxDelays {
		s.Took = time.Duration(i%37) * time.Millisecond
		book.Observe(key, s)
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = book.Delay(key)
	}
}

// An answer that is known already, as almost all are.
func BenchmarkObserveKnown(b *testing.B) {
	book := learning(b, Config{})
	s := login(raw(jsonFailure), 1, 1)
	s.Took = time.Millisecond
	book.Observe(key, s)
	book.Observe(key, login(raw(jsonFailure), 2, 1))
	b.ReportAllocs()
	for b.Loop() {
		book.Observe(key, s)
	}
}

// A page that must be looked into, at its longest.
func BenchmarkObserveLongPage(b *testing.B) {
	book := learning(b, Config{})
	s := login(raw("200\nContent-Type: text/html\n\n"+strings.Repeat("<p>Wrong name, or a wrong word.</p>\n", MaxBody/36)), 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		book.Observe(key, s)
	}
}
