package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// offline reads nothing but what it is given.
func offline() Options {
	return Options{
		LookupEnv: func(name string) (string, bool) { return "127.0.0.1:1", name == "A" },
		ReadFile:  func(string) ([]byte, error) { return nil, os.ErrNotExist },
	}
}

// FuzzParse: no text makes Parse panic or take long, every refusal says what is wrong, and what was taken prints as a
// text that means the same.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, file := range append(files, "testdata/contract.yaml", "../../config.example.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(backend + "presets: [modgud, hubuum, generic]\npolicies: {login: {failures: {source: off, target_source: [{limit: 1, window: 1s}]}}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		began := time.Now()
		defer func() {
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %v for %d bytes", took, len(data))
			}
		}()
		for _, later := range []bool{false, true} {
			opts := offline()
			opts.later = later
			cfg, _, err := Parse("f.yaml", data, opts)
			if err != nil {
				if problems, ok := err.(Problems); !ok || len(problems) == 0 || problems[0].Line < 1 || problems[0].Message == "" {
					t.Fatalf("error %#v", err)
				}
				if cfg != nil {
					t.Fatal("a configuration and an error")
				}
				continue
			}
			var out bytes.Buffer
			if err := cfg.Print(&out); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(out.String(), secretMask) {
				continue
			}
			again, _, err := Parse("again.yaml", out.Bytes(), opts)
			if err != nil {
				t.Fatalf("%v\n%s", err, &out)
			}
			if !same(cfg, again) {
				t.Fatalf("printed configuration is another:\n%s", &out)
			}
		}
	})
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { panic("boom") }

func TestParserPanic(t *testing.T) {
	r := newReport("x.yaml")
	if n := parseYAML(r, Origin{File: "x.yaml"}, brokenReader{}); n != nil {
		t.Errorf("got a node")
	}
	if err := r.err(); err == nil || !strings.Contains(err.Error(), "x.yaml:1: is no YAML: the parser gave up on it (boom)") {
		t.Errorf("got %v", err)
	}
}

// Inputs of up to a megabyte that are made to cost time, memory or stack.
func TestLargeInputs(t *testing.T) {
	size := 1 << 20
	if testing.Short() {
		size = 1 << 16
	}
	fill := func(piece string) string { return strings.Repeat(piece, size/len(piece)) }
	items := func(piece string) string { return strings.Repeat(piece, size/4/len(piece)) } // what is decoded takes longer
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x]\n")
	for i := range 1000 {
		fmt.Fprintf(&bomb, "a%d: &a%d [*a%d, *a%d, *a%d]\n", i+1, i+1, i, i, i)
	}
	counted := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size/4; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for _, c := range []struct{ name, text string }{
		{"brackets", fill("[")},
		{"braces", fill("{a: ")},
		{"dashes", fill("- ")},
		{"question marks", fill("? ")},
		{"nested mappings", fill("{a: {b: ") + fill("}}")},
		{"anchors", fill("&a ")},
		{"alias bomb", bomb.String()},
		{"comments", fill("# a\n")},
		{"deep comments", fill(" # a\n")},
		{"blank lines", fill("\n")},
		{"blanks", fill(" ")},
		{"one long text", "mode: " + fill("x")},
		{"one long key", fill("k") + ": 1"},
		{"quotes", "mode: '" + fill("''")},
		{"escapes", "mode: \"" + fill("\\u0041")},
		{"tags", fill("!!a ")},
		{"documents", fill("---\n")},
		{"unknown keys", counted("k%d: 1\n")},
		{"one key again and again", fill("mode: x\n")},
		{"policies", backend + "policies:\n" + counted("  p%d: {}\n")},
		{"rules", backend + "policies: {a: {requests: {app: [" + items("{limit: 1, window: 1s},") + "]}}}"},
		{"selectors", backend + "policies: {a: {target: {from: [" + items("basic,") + "]}}}"},
		{"outcomes", backend + "policies: {a: {outcome: [" + items("{is: failure, status: 401},") + "]}}"},
		{"matches", backend + "policies: {a: {match: [" + items("{path: /a},") + "]}}"},
		{"predicates", backend + "policies: {a: {match: [{path: /a, form: {" + counted("k%d: x,") + "}}]}}"},
		{"addresses", backend + "allowlist: [" + items("10.0.0.1/8,") + "]"},
		{"presets", backend + "presets: [" + items("modgud,") + "]"},
		{"unknown presets", backend + "presets: [" + items("modgut,") + "]"},
		{"control characters", fill("\x00")},
		{"no UTF-8", fill("\xff")},
		{"nested keys", fill("a:\n ")},
	} {
		t.Run(c.name, func(t *testing.T) {
			const most = 20 * time.Second // a hundred times what is needed, on a machine that is busy
			began := time.Now()
			_, _, err := Parse("large.yaml", []byte(c.text), offline())
			if took := time.Since(began); took > most {
				t.Errorf("took %v", took)
			} else if testing.Verbose() {
				t.Logf("took %v", took)
			}
			if c.name == "addresses" {
				return // nothing is wrong with them
			}
			if err == nil {
				t.Error("Parse took it")
			} else if n := len(err.(Problems)); n > maxProblems+1 {
				t.Errorf("%d problems", n)
			}
		})
	}
}
