//go:build linux

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The whole measurement, short and of one proxy: what it prints has a row for each figure.
func TestRun(t *testing.T) {
	b, err := openBench(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	rep := &report{}
	i := slices.IndexFunc(b.proxies(), func(p *proxy) bool { return p.name == "memory" })
	if err := b.measure(t.Context(), b.proxies()[i], 300*time.Millisecond, true, rep); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	rep.print(&out)
	for _, row := range []string{
		"\\| memory \\| `/login` \\| [0-9.]+ \\| - \\| [0-9.]+ \\| [0-9]+ \\|\n", "\\| memory \\| `/deny` \\| [0-9.]+ \\|", "memory +/login +\\|#+ +[0-9.]+ us\n",
		`\| memory \| 20 % \| [0-9]+ \| [0-9.]+ \|`, `\| memory \| 80 % `,
	} {
		if !regexp.MustCompile(row).MatchString(out.String()) {
			t.Errorf("no row %s in:\n%s", row, out.String())
		}
	}
	for _, d := range rep.delays {
		if len(d.through) == 0 || len(d.alone) == 0 || d.through.at(0.5) <= 0 || d.through.at(0.5) > d.through.at(0.99) {
			t.Errorf("at %.0f requests a second: %d times through, %d alone, p50 %s", d.rate, len(d.through), len(d.alone), d.through.at(0.5))
		}
	}
}

func TestRunNamesWhatItDoesNotKnow(t *testing.T) {
	if err := run(t.Context(), time.Millisecond, []string{"apache"}, false); err == nil {
		t.Error("nothing was measured, and nobody told")
	}
}

// Answers that a path is not for end a measurement: its figures would be those of something else.
func TestWrongAnswers(t *testing.T) {
	for _, c := range []struct {
		path                 string
		passed, refused, err int64
		want                 int64
	}{{"/login", 9, 0, 0, 0}, {"/login", 9, 1, 2, 3}, {"/deny", 1, 9, 0, 0}, {"/deny", 3, 9, 1, 3}} {
		var n tally
		for status, times := range map[int]int64{200: c.passed, 429: c.refused, 502: c.err} {
			for range times {
				n.add(status)
			}
		}
		if got := n.wrong(c.path); got != c.want || n.total() != c.passed+c.refused+c.err {
			t.Errorf("%+v: got %d of %d", c, got, n.total())
		}
	}
}

func TestProcess(t *testing.T) {
	dir := t.TempDir()
	address := "127.0.0.1:1" // where nothing listens
	if _, err := launch(t.Context(), dir, address, filepath.Join(dir, "none")); err == nil {
		t.Error("a program that is not there was started")
	}
	if f := stat(os.Getpid()); len(f) < 22 {
		t.Errorf("got %q", f)
	}
}
