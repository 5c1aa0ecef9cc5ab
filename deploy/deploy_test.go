// Package deploy_test keeps what is in this folder honest: names of metrics, keys of configurations, ports, paths and times are held
// against the program and against each other. Where a tool that knows a format is installed, it is asked too.
package deploy_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"authgate/internal/config"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// decode reads every document of a YAML file into values of one type. A field that the type does not have is an error.
func decode[T any](t *testing.T, path string) []T {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(read(t, path)))
	d.KnownFields(true)
	var out []T
	for {
		var v T
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, v)
	}
}

// files are the paths below this folder with one of the endings.
func files(t *testing.T, endings ...string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains(endings, filepath.Ext(path)) {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// tool runs a tool that need not be there, from bin/ or else from PATH, and returns what it prints. The test ends here if the tool
// is missing.
func tool(t *testing.T, install, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("../bin/" + name)
	if err != nil {
		path, err = exec.LookPath(name)
	}
	if err != nil {
		t.Skipf("%s is not installed, so it is not asked; %s", name, install)
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// gatewayConfig is a configuration of the gateway, loaded as it would be in the container. References to secrets are answered by
// whatever they ask for; any other is an error.
func gatewayConfig(t *testing.T, path string) *config.Config {
	t.Helper()
	const digest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	cfg, warnings, err := config.Parse(path, []byte(read(t, path)), config.Options{
		LookupEnv: func(name string) (string, bool) { return digest, name == "AUTHGATE_ADMIN_HASH" },
		ReadFile: func(name string) ([]byte, error) {
			if !strings.HasPrefix(name, "/run/secrets/authgate/") {
				return nil, fs.ErrNotExist
			}
			return []byte(digest), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		t.Errorf("%s: %s", path, w)
	}
	return cfg
}

// serving is how long requests under way are waited for at most after the signal to stop: the program adds a second.
func serving(cfg *config.Config) time.Duration { return cfg.Server.ShutdownGrace + time.Second }

// settling is how long a stop takes at most: unlock notices then have 9 seconds (internal/unlock), audit events 2 (internal/notify).
func settling(cfg *config.Config) time.Duration { return serving(cfg) + 11*time.Second }

// pinned are images that are the same tomorrow: a full version at least.
var pinned = regexp.MustCompile(`^[a-z0-9./-]+:v?\d+\.\d+\.\d+(-[a-z0-9.]+)?(@sha256:[0-9a-f]{64})?$`)

// TestEveryFileParses reads each YAML document, with every key once.
func TestEveryFileParses(t *testing.T) {
	paths := files(t, ".yaml", ".yml")
	for _, path := range paths {
		if len(decode[map[string]any](t, path)) == 0 {
			t.Errorf("%s is empty", path)
		}
	}
	if len(paths) < 20 {
		t.Errorf("got %d files, so the test looks in the wrong place", len(paths))
	}
}

// TestImage holds the Dockerfile against what README.md says is in the image.
func TestImage(t *testing.T) {
	dockerfile := read(t, "../Dockerfile")
	from := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(dockerfile, -1)
	if len(from) != 2 || !pinned.MatchString(from[0][1]) || from[1][1] != "scratch" {
		t.Errorf("got the bases %q, want a pinned one and scratch", from)
	}
	_, final, _ := strings.Cut(dockerfile, "\nFROM scratch\n")
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^COPY (?:--\S+ )*\S+ (\S+)$`).FindAllStringSubmatch(final, -1) {
		want = append(want, strings.TrimSuffix(m[1], "/"))
	}
	_, section, _ := strings.Cut(read(t, "README.md"), "\n## The image\n")
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(/[^`]*)`").FindAllStringSubmatch(section, -1) {
		got = append(got, m[1])
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("README.md lists %q, but the image has %q", got, want)
	}
	if !strings.Contains(final, "\nUSER 65532:65532\n") {
		t.Error("the image does not run as 65532")
	}
}

// TestLinks follows every link of README.md to a file, and every path of this project that it names.
func TestLinks(t *testing.T) {
	text := read(t, "README.md")
	n := 0
	for _, m := range regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)|(?:-k|-f|install -m \d+) (deploy/\S+)`).FindAllStringSubmatch(text, -1) {
		path := m[1]
		if m[2] != "" {
			path = filepath.Join("..", m[2])
		}
		if strings.Contains(path, "://") {
			continue
		}
		n++
		if _, err := os.Stat(path); err != nil {
			t.Errorf("README.md: %s leads nowhere", path)
		}
	}
	if n < 8 {
		t.Errorf("got %d paths, so the test looks in the wrong place", n)
	}
}

// contains reports whether b has all of a's pairs.
func contains(a, b map[string]string) bool {
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return len(a) > 0
}

// lines are those of a text that are neither blank nor comments, trimmed.
func lines(text string) []string {
	var out []string
	for line := range bytes.Lines([]byte(text)) {
		if l := strings.TrimSpace(string(line)); l != "" && !strings.HasPrefix(l, "#") {
			out = append(out, l)
		}
	}
	return out
}
