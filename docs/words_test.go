package docs_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"authgate/internal/config"
	"authgate/internal/preset"
)

// TestMetrics holds the table of metrics against the package that registers them, labels included.
func TestMetrics(t *testing.T) {
	code := source(t, false, "internal/metrics")
	want := all(`"(gateway_[a-z_]+)"`, code)
	table := section(t, read(t, "reference.md"), "## Metrics")
	same(t, "metric", want, all("(?m)^\\| `(gateway_[a-z_]+)", map[string]string{"": table}))

	labels := regexp.MustCompile(`(?:counter|NewDesc)\("(gateway_[a-z_]+)", "[^"]*"((?:, (?:\[\]string\{)?"[a-z_]+"\}?)*)`)
	found := 0
	for _, text := range code {
		for _, m := range labels.FindAllStringSubmatch(text, -1) {
			found++
			var names []string
			for _, name := range regexp.MustCompile(`"([a-z_]+)"`).FindAllStringSubmatch(m[2], -1) {
				names = append(names, name[1])
			}
			if row := "| `" + m[1] + "{" + strings.Join(names, ",") + "}` |"; !strings.Contains(table, row) {
				t.Errorf("there is no row that begins with %s", row)
			}
		}
	}
	if found < 8 {
		t.Errorf("got the labels of %d metrics, so the test looks in the wrong place", found)
	}

	for page, text := range pages(t) {
		for _, name := range all(`\b(gateway_[a-z_]+)\b`, map[string]string{page: text}) {
			if !slices.Contains(want, name) && name != "gateway_device" && !strings.HasPrefix(name, "gateway_verdicts") && !strings.HasPrefix(name, "gateway_rejections") {
				t.Errorf("%s: %s is no metric", page, name)
			}
		}
	}
}

// TestErrorWords holds the tables of answers against the words in the code.
func TestErrorWords(t *testing.T) {
	reference := read(t, "reference.md")
	for _, side := range []struct {
		folders []string
		heading string
	}{
		{[]string{"proxy", "internal/unlock"}, "## Answers on the public listener"},
		{[]string{"admin"}, "## The admin listener"},
	} {
		code := source(t, false, side.folders...)
		want := all(`\b[cC]ode:\s*"([A-Za-z_.]+)"`, code)
		want = append(want, all(`\bfault\{[^,}"]+,\s*"([a-z_]+)"`, code)...)
		want = append(want, all(`\{"error":"([a-z_]+)"`, code)...)
		if i := slices.Index(want, "client_"); i >= 0 { // completed by the state of what was read
			want = slices.Replace(want, i, i+1, "client_ambiguous", "client_malformed")
		}
		if i := slices.Index(want, "pending_"); i >= 0 {
			want = slices.Replace(want, i, i+1, "pending_ambiguous", "pending_malformed")
		}
		slices.Sort(want)
		same(t, side.folders[0]+" error word", slices.Compact(want),
			all("(?m)^\\| [1-5][0-9][0-9] \\| `([A-Za-z_.]+)` \\|", map[string]string{"": section(t, reference, side.heading)}))
	}
}

// TestReasons holds the words of metrics and log lines that say why against the types that have them.
func TestReasons(t *testing.T) {
	reference := read(t, "reference.md")
	_, missing, _ := strings.Cut(section(t, reference, "## Metrics"), "Reasons of")
	same(t, "reason of a missing key", all(`Reason = "([a-z_]+)"`, source(t, false, "internal/selector")),
		slices.DeleteFunc(all("[`]([a-z_]+)[`][,| ]", map[string]string{"": missing}), func(s string) bool { return s == "verdict" }))
	_, client, _ := strings.Cut(section(t, reference, "## Log messages"), "\n`client_reason`:")
	same(t, "client_reason", all(`return "([a-z_]+)"`, map[string]string{"": read(t, filepath.Join(root, "clientip", "result.go"))}),
		append(slices.DeleteFunc(all("[`]([a-z_]+)[`][,| ]", map[string]string{"": client}), func(s string) bool { return s == "client_degraded" }), "invalid"))
}

// TestLogMessages holds the table of log messages against what is logged at the level of a warning or above.
func TestLogMessages(t *testing.T) {
	code := source(t, false, "admin", "cmd/gateway", "internal", "limits", "proxy")
	for path := range code {
		if strings.Contains(path, "storetest") || strings.Contains(path, "valkeytest") { // they fail tests with words of their own
			delete(code, path)
		}
	}
	loud := all(`\.(?:Warn|Error)\("([^"]+)"`, code)
	loud = append(loud, all(`slog\.Level(?:Warn|Error), "([^"]+)"`, code)...)
	every := append(all(`\.(?:Debug|Info)\("([^"]+)"`, code), all(`slog\.Level(?:Debug|Info), "([^"]+)"`, code)...)
	every = append(append(every, loud...), all(`\.Log\(x\.r\.Context\(\), level, "([^"]+)"`, code)...)
	var documented []string
	for line := range strings.Lines(section(t, read(t, "reference.md"), "## Log messages")) {
		if cells := row(line); slices.Contains([]string{"debug", "info", "warn", "error"}, cells[0]) {
			documented = append(documented, spans(cells[1])...)
		}
	}
	if len(loud) < 10 {
		t.Errorf("got %d messages of warnings and errors, so the test looks in the wrong place", len(loud))
	}
	for _, message := range loud {
		if !slices.Contains(documented, message) {
			t.Errorf("%q is not documented", message)
		}
	}
	for _, message := range documented {
		if !slices.Contains(every, message) {
			t.Errorf("%q is documented, but never logged", message)
		}
	}
}

// TestCompleteConfigurations loads every block of YAML whose first line says that it is complete. Nothing may be wrong
// with one, and nothing to be warned of.
func TestCompleteConfigurations(t *testing.T) {
	opts := config.Options{
		LookupEnv: func(name string) (string, bool) {
			if name == "HUBUUM_TRUSTED_PROXIES" {
				return "10.0.0.5, 10.0.1.0/24", true
			}
			return "0123456789abcdef0123456789abcdef", true
		},
		ReadFile: func(string) ([]byte, error) { return []byte("192.0.2.0/24\n2001:db8::/32\n"), nil },
	}
	n := 0
	for page, text := range pages(t) {
		for _, block := range fence.FindAllStringSubmatch(text, -1) {
			first, _, _ := strings.Cut(block[2], "\n")
			if block[1] != "yaml" || !strings.HasPrefix(first, "#") || !strings.HasSuffix(first, "complete") {
				continue
			}
			n++
			switch _, warnings, err := config.Parse(page, []byte(block[2]), opts); {
			case err != nil:
				t.Errorf("%s: %v\n%s", page, err, block[2])
			case len(warnings) > 0:
				t.Errorf("%s: %v\n%s", page, warnings, block[2])
			}
		}
	}
	if n < 8 {
		t.Errorf("got %d complete configurations, want at least 8", n)
	}
}

// TestLinks follows every link to a file, and to a heading in one.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	n := 0
	for page, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(prose(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			n++
			path, anchor, _ := strings.Cut(m[1], "#")
			target := filepath.Join(filepath.Dir(page), path)
			if path == "" {
				target = page
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, m[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s: %s has no heading %s", page, target, anchor)
			}
		}
	}
	if n < 20 {
		t.Errorf("got %d links, want at least 20", n)
	}
}

// anchors are the names that GitHub gives to the headings of a page.
func anchors(page string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^#{1,6} (.+)$`).FindAllStringSubmatch(prose(page), -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(name, " ", "-"))
	}
	return out
}

// TestNamedTestsExist looks for every test that a page names as proof, and for the cases of the conformance suite.
func TestNamedTestsExist(t *testing.T) {
	tests := all(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z]\w*)\(`, source(t, true, "."))
	cases := map[string]string{}
	files, err := filepath.Glob(filepath.Join(root, "limits/storetest/testdata/*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		for _, c := range all(`(?m)^case (.+)$`, map[string]string{"": read(t, path)}) {
			cases["TestConformance/"+name+"/"+strings.ReplaceAll(c, " ", "_")] = path
		}
	}
	n := 0
	for page, text := range pages(t) {
		for _, span := range spans(prose(text)) {
			if !regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z][\w]*(/.*)?$`).MatchString(span) {
				continue
			}
			n++
			name, _, sub := strings.Cut(span, "/")
			if !slices.Contains(tests, name) {
				t.Errorf("%s: there is no test %s", page, name)
			}
			if _, ok := cases[span]; sub && !ok {
				t.Errorf("%s: there is no case %s", page, span)
			}
		}
	}
	if n < 20 {
		t.Errorf("got %d named tests, want at least 20", n)
	}
}

// TestCommands looks for every command and preset that a page names, and for every one that the reference does not.
func TestCommands(t *testing.T) {
	code := map[string]string{"": read(t, filepath.Join(root, "cmd/gateway/main.go"))}
	want := all(`(?m)^\t\t\{"([a-z-]+)", "`, code)
	table := section(t, read(t, "reference.md"), "## Commands")
	same(t, "command", want, slices.DeleteFunc(all("`gateway ([a-z-]+)", map[string]string{"": table}), func(s string) bool { return s == "help" }))
	for page, text := range pages(t) {
		code := strings.Join(spans(prose(text)), "\n")
		for _, block := range fence.FindAllStringSubmatch(text, -1) {
			code += "\n" + block[2]
		}
		for _, name := range all(`(?m)(?:^|\$ |/|\| )gateway ([a-z-]+)`, map[string]string{page: code}) {
			if name != "help" && !slices.Contains(want, name) {
				t.Errorf("%s: there is no command gateway %s", page, name)
			}
		}
	}
	presets := all("(?m)^\\| `([a-z]+)` \\|", map[string]string{"": section(t, read(t, "reference.md"), "### Presets")})
	same(t, "preset", preset.Names(), presets)
}

// TestImports holds the table of packages against what they import of this module. It is the rule, not only its
// description: who wants another import has to write it down there.
func TestImports(t *testing.T) {
	want := map[string][]string{}
	for path, text := range source(t, false, "admin", "clientip", "cmd", "internal", "limits", "proxy") {
		f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		if want[folder] == nil {
			want[folder] = []string{}
		}
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if name, ok := strings.CutPrefix(name, "authgate/"); ok && !slices.Contains(want[folder], name) {
				want[folder] = append(want[folder], name)
			}
		}
	}
	var imported, packages, listed []string
	for _, names := range want {
		imported = append(imported, names...)
	}
	for line := range strings.Lines(section(t, read(t, "architecture.md"), "## Packages")) {
		cells := row(line)
		if !strings.HasPrefix(line, "| `") || len(cells) < 2 {
			continue
		}
		folder := spans(cells[0])[0]
		listed = append(listed, folder)
		slices.Sort(want[folder])
		var imports []string
		if len(cells) > 2 {
			imports = spans(cells[2])
		}
		slices.Sort(imports)
		if !slices.Equal(imports, want[folder]) {
			t.Errorf("%s imports %q, but the table says %q", folder, want[folder], imports)
		}
	}
	for folder := range want { // a package that nobody uses yet may wait
		if slices.Contains(imported, folder) || slices.Contains(listed, folder) {
			packages = append(packages, folder)
		}
	}
	same(t, "package", packages, listed)
}
