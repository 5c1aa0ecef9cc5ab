package deploy_test

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

type composeFile struct {
	Name     string
	Hardened map[string]any `yaml:"x-hardened"`
	Services map[string]service
	Networks map[string]struct{ Internal bool }
	Volumes  map[string]struct{}
}

type service struct {
	Image       string
	Build       string
	Command     []string
	User        string
	Ports       []string
	Environment map[string]string
	Volumes     []string
	Tmpfs       []string
	Networks    []string
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck struct {
		Test              []string
		Interval, Timeout string
		Start             string `yaml:"start_period"`
		Retries           int
	}
	StopGracePeriod string   `yaml:"stop_grace_period"`
	MemLimit        string   `yaml:"mem_limit"`
	ReadOnly        bool     `yaml:"read_only"`
	CapDrop         []string `yaml:"cap_drop"`
	SecurityOpt     []string `yaml:"security_opt"`
	Restart         string
}

// TestCompose holds each service to what all of them must be, and the gateway's to its configuration.
func TestCompose(t *testing.T) {
	c := decode[composeFile](t, "compose/compose.yaml")[0]
	for _, name := range []string{"gateway", "backend", "valkey", "prometheus", "grafana"} {
		s, ok := c.Services[name]
		if !ok {
			t.Fatalf("there is no service %s", name)
		}
		t.Run(name, func(t *testing.T) {
			checkHardened(t, s)
			checkWiring(t, c, s)
		})
	}

	cfg := gatewayConfig(t, "compose/config.yaml")
	g := c.Services["gateway"]
	for _, address := range append([]string{cfg.Admin.Listen}, cfg.Server.Listen...) {
		_, port, _ := net.SplitHostPort(address)
		if !slices.Contains(g.Ports, "127.0.0.1:"+port+":"+port) {
			t.Errorf("%s is not published on loopback: %q", address, g.Ports)
		}
	}
	if grace, err := time.ParseDuration(g.StopGracePeriod); err != nil || grace <= settling(cfg) {
		t.Errorf("a stop may take %s, but needs %s", g.StopGracePeriod, settling(cfg))
	}
	checkMemory(t, g.Environment["GOMEMLIMIT"], g.MemLimit)
	if got := cfg.Store.Valkey.Addresses; !slices.Equal(got, []string{"valkey:6379"}) || cfg.Upstream.URL.String() != "http://backend:9000" {
		t.Errorf("got the store %q and the backend %s", got, cfg.Upstream.URL)
	}
	if !slices.Contains(c.Services["backend"].Command, "0.0.0.0:9000") {
		t.Errorf("the backend is started by %q", c.Services["backend"].Command)
	}
	if !strings.Contains(read(t, "prometheus/prometheus.yaml"), `- targets: ["gateway:9901"]`) {
		t.Error("Prometheus scrapes something else")
	}
	for _, name := range []string{"backend", "valkey"} { // the gateway is the only way to them
		if s := c.Services[name]; len(s.Ports) > 0 || len(s.Networks) != 1 || !c.Networks[s.Networks[0]].Internal {
			t.Errorf("%s can be reached from outside", name)
		}
	}
}

func checkHardened(t *testing.T, s service) {
	t.Helper()
	if s.Build == "" && !pinned.MatchString(s.Image) {
		t.Errorf("the image %q is not pinned", s.Image)
	}
	uid, _, _ := strings.Cut(s.User, ":")
	if n, err := strconv.Atoi(uid); err != nil || n == 0 {
		t.Errorf("it runs as %q", s.User)
	}
	if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") || s.Restart == "" {
		t.Errorf("read-only is %v, it drops %q, has %q, and restarts %q", s.ReadOnly, s.CapDrop, s.SecurityOpt, s.Restart)
	}
	if len(s.Healthcheck.Test) == 0 {
		t.Error("it has no health check")
	}
	for _, p := range s.Ports {
		if !strings.HasPrefix(p, "127.0.0.1:") {
			t.Errorf("the port %s is open to everybody", p)
		}
	}
}

// checkWiring looks for the networks, volumes and files that a service names, and for files that its arguments name.
func checkWiring(t *testing.T, c composeFile, s service) {
	t.Helper()
	var mounted []string
	for _, v := range s.Volumes {
		source, rest, _ := strings.Cut(v, ":")
		target, mode, _ := strings.Cut(rest, ":")
		mounted = append(mounted, target)
		if _, named := c.Volumes[source]; named {
			continue
		}
		if _, err := os.Stat(filepath.Join("compose", source)); err != nil || mode != "ro" {
			t.Errorf("the mount %s: %v, mode %q", v, err, mode)
		}
	}
	for _, n := range s.Networks {
		if _, ok := c.Networks[n]; !ok {
			t.Errorf("there is no network %s", n)
		}
	}
	for name := range s.DependsOn {
		if s.DependsOn[name].Condition != "service_healthy" || c.Services[name].Healthcheck.Test == nil {
			t.Errorf("it does not wait until %s is well", name)
		}
	}
	if s.Build != "" {
		if _, err := os.Stat(filepath.Join("compose", s.Build, "Dockerfile")); err != nil {
			t.Error(err)
		}
	}
	arguments := append(slices.Clone(s.Command), s.Healthcheck.Test...)
	for _, value := range s.Environment {
		arguments = append(arguments, value)
	}
	for _, m := range regexp.MustCompile(`/etc/[\w./-]+|/prometheus\b`).FindAllString(strings.Join(arguments, " "), -1) {
		if !slices.Contains(mounted, m) {
			t.Errorf("%s is named, but not mounted", m)
		}
	}
}

// checkMemory wants the garbage collector's bound to be about nine tenths of the memory, as docs/operations.md says.
func checkMemory(t *testing.T, bound, memory string) {
	t.Helper()
	size := func(s string) float64 {
		m := regexp.MustCompile(`^(\d+)(?:MiB|Mi|m)$`).FindStringSubmatch(s)
		if m == nil {
			t.Fatalf("got the size %q", s)
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if share := size(bound) / size(memory); share < 0.88 || share > 0.91 {
		t.Errorf("GOMEMLIMIT=%s is %.2f of %s", bound, share, memory)
	}
}
